"""``perfassert record``: what it says, writes and refuses; recording itself is tested elsewhere."""

import json
from pathlib import Path

import pytest
from host_programs import built, need_nvcc

import perfassert as pa
from perfassert.cli.main import main
from perfassert.cli.record import size
from perfassert.perf_toml.read import read_perf_file

EXAMPLE = Path(__file__).parents[2] / "examples/recording/loop.cu"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    need_nvcc()
    made = tmp_path_factory.mktemp("program") / "loop"
    return str(built(EXAMPLE, made, "-arch=sm_80", "-lineinfo"))


def record(*options):
    return main(["record", "--device", "a100", *map(str, options)])


def test_what_is_written_is_predicted(program, tmp_path, capsys):
    out = tmp_path / "step.toml"
    assert record("-o", out, "--", program, 4) == 0
    assert f"4 launches of 1 kernel, 1 distinct: {out}" in capsys.readouterr().out
    assert {p.suffix for p in tmp_path.iterdir()} == {".toml", ".fatbin"}
    (case,) = read_perf_file(tmp_path / "step.perf.toml")  # which pytest collects
    assert case.baseline == {"tolerance": "2 %"}
    assert main(["predict", "--launches", str(out)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("step on A100-SXM4-40GB: grid 16384×1×1, block 256×1×1")
    assert main(["advise", "--launches", str(out)]) == 0


def test_nothing_is_replaced_unasked(program, tmp_path, capsys):
    out = tmp_path / "launches.toml"
    out.write_text("mine")
    assert record("-o", out, "--", program, 1) == 2
    assert "is there already; --force replaces it" in capsys.readouterr().err
    assert out.read_text() == "mine"
    (tmp_path / "launches.perf.toml").write_text("# mine, too")
    assert record("-o", out, "--force", "--json", "--", program, 1) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["launches"], said["distinct"], said["refused"]) == (1, 1, {})
    assert len(pa.launches(out)) == 1
    assert (tmp_path / "launches.perf.toml").read_text() == "# mine, too"


def test_endless_programs(program, tmp_path, capsys):
    out = tmp_path / "launches.toml"
    assert record("-o", out, "--max-launches", 5, "--", program, 1 << 30) == 0
    shown = capsys.readouterr().out
    assert "5 launches of 1 kernel" in shown
    assert "the program was ended: --max-launches" in shown
    (entry,) = pa.launches(out)
    assert entry.count == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "give the program behind --"),
        (("--", "/nowhere/app"), "/nowhere/app cannot be started"),
        (("--", "/bin/true"), "it never called the CUDA runtime"),
        (("--memory", "much", "--", "/bin/true"), "--memory: 'much' is no size"),
        (("--source", "/nowhere/a.cu", "--", "/bin/true"), "--source /nowhere/a.cu: cannot be"),
        (("--max-launches", "0", "--", "/bin/true"), "--max-launches: 0 is below 1"),
        *(
            ((f"--timeout={text}", "--", "/bin/true"), f"--timeout: {text} is not above 0 and at")
            for text in ("nan", "inf", "-1", "0", "1e300")
        ),
        (("--memory", "²G", "--", "/bin/true"), "--memory: '²G' is no size"),
    ],
)
def test_what_is_refused(options, message, tmp_path, capsys):
    assert record("-o", tmp_path / "launches.toml", *options) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "expected"), [("512", 512), ("16G", 16 << 30), ("64MiB", 64 << 20), ("3kb", 3072)]
)
def test_sizes(text, expected):
    assert size(text, "--memory") == expected
