"""``perfassert diff --affected``: what a change can move, and nothing where it moves nothing."""

import json
from pathlib import Path

import pytest

from perfassert.baseline.entry import BaselineKey
from perfassert.baseline.files import Update, write
from perfassert.cli.main import main
from perfassert.errors import PerfFileError
from perfassert.frontends.toolchain import tools
from perfassert.perf_toml.affected_commands import read_commands

pytestmark = pytest.mark.exhaustive(one_in=3)

KERNEL = "__global__ void NAME(float* a) { a[threadIdx.x] *= 2; }\n"
LAUNCHES = """
schema = 1
[recorded]
device = "a100"
[kernels.scale]
cuda = "src/scale.cu"
[kernels.other]
cuda = "src/other.cu"
[[launch]]
kernel = "scale"
grid = [64]
block = [32]
[[launch]]
kernel = "other"
grid = [64]
block = [32]
"""
MAPPING = """
schema = 1
[files]
"src/scale.*" = ["make bench-scale", "./plot"]
"src/other.cu" = "make bench-other"
[kernels]
"sca*" = "touch ran"
"""


@pytest.fixture
def sides(tmp_path, monkeypatch):
    """Two folders, the second one with baselines of both kernels."""
    for name in ("nvrtc", "nvdisasm"):
        if tools.find(name) is None:
            pytest.skip(f"{name} is not installed")
    monkeypatch.chdir(tmp_path)
    for side in ("base", "head"):
        folder = tmp_path / side / "src"
        folder.mkdir(parents=True)
        (folder.parent / ".git").mkdir()
        for name in ("scale", "other"):
            (folder / f"{name}.cu").write_text(KERNEL.replace("NAME", name))
        (folder.parent / "launches.toml").write_text(LAUNCHES)
    entries = {
        BaselineKey(f"test_{name}", "default", "A100-SXM4-40GB"): {
            "kernel": name, "grid": [64], "block": [32], "time": 1e-6, "model_version": "1",
            "device_digest": "0", "kernel_digest": "0",
        }
        for name in ("scale", "other", "elsewhere")
    }  # fmt: skip
    write(tmp_path / "head" / "tests" / "__perf__" / "test_all.toml", Update(entries))
    (tmp_path / "map.toml").write_text(MAPPING)
    return tmp_path


def affected(capsys, *options):
    assert main(["diff", "base", "head", "--arch", "sm_80", "--json", *options]) in (0, 1)
    return json.loads(capsys.readouterr().out)["affected"]


def test_nothing_where_code_and_volumes_are_the_same(sides, capsys):
    (sides / "head" / "src" / "scale.cu").write_text(
        "// a remark\n" + KERNEL.replace("NAME", "scale")
    )
    launches = ("--launches", "launches.toml")
    found = affected(capsys, "--affected", "map.toml", *launches)
    assert found == {k: [] for k in ("kernels", "launches", "tests", "baselines", "commands")}
    assert main(["diff", "base", "head", "--arch", "sm_80", "--affected"]) == 0
    assert "affected: nothing; code and volumes are the same" in capsys.readouterr().out


def test_tests_launches_and_commands_of_what_has_changed(sides, capsys):
    path = sides / "head" / "src" / "scale.cu"
    path.write_text(KERNEL.replace("NAME", "scale").replace("threadIdx.x", "4 * threadIdx.x"))
    given = ("--affected", "map.toml", "--launches", "launches.toml")
    assert affected(capsys, *given) == {
        "kernels": [{"name": "scale", "file": "src/scale.cu"}],
        "launches": ["scale"],
        "tests": ["tests/test_all.py::test_scale"],
        "baselines": ["tests/__perf__/test_all.toml"],
        "commands": ["make bench-scale", "./plot", "touch ran"],
    }
    assert not Path("ran").exists()
    main(["diff", "base", "head", "--arch", "sm_80", "--affected", "map.toml"])
    printed = capsys.readouterr().out
    assert "affected: 1 kernel, 1 test, 1 file of baselines, 3 commands\n" in printed
    assert "  tests:\n    tests/test_all.py::test_scale\n" in printed


def test_a_launch_that_moves_with_the_same_code(sides, capsys):
    (sides / "head" / "launches.toml").write_text(
        LAUNCHES.replace('"other"\ngrid = [64]', '"other"\ngrid = [640]')
    )
    found = affected(capsys, "--affected", "--launches", "launches.toml")
    assert (found["launches"], found["tests"]) == (["other"], ["tests/test_all.py::test_other"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("schema = 2", ":1: schema: must be 1"),
        ("schema = 1", ":1: maps nothing; add [files] or [kernels]"),
        ("schema = 1\n[file]\na = 'b'", ":2: file: unknown key; did you mean 'files'?"),
        ("schema = 1\n[files]\na = 'b'\n'c*' = 3", ":4: files.c*: must be a command, or a list"),
        ("schema = 1\n[files]\na = ['b', '']", ":3: files.a: must be a command"),
        ("schema = 1\nfiles = 3", ":2: files: must be a table"),
        ("schema = ", "not valid TOML"),
    ],
)
def test_a_mapping_with_a_mistake(tmp_path, text, message, capsys):
    path = tmp_path / "map.toml"
    path.write_text(text)
    with pytest.raises(PerfFileError) as caught:
        read_commands(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    assert main(["diff", str(tmp_path), str(tmp_path), "--affected", str(path)]) == 2
    assert message in capsys.readouterr().err
