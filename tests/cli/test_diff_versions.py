"""``perfassert diff --with NAME==BASE..HEAD``, with a generator of our own in two versions."""

import json
import zipfile

import pytest

from perfassert.cli.main import main
from perfassert.comparison.environments import VersionPair, version_pair
from perfassert.errors import KernelSourceError
from perfassert.frontends.toolchain import tools

pytestmark = pytest.mark.exhaustive(one_in=4)

PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry moves(.param .u64 a) {{
    .reg .b64 %rd<2>;
    .reg .b32 %r<5>;
    ld.param.u64 %rd1, [a];
    {body}
    ret;
}}
"""
WORDS = "{%r1, %r2, %r3, %r4}"
WIDE = f"ld.global.v4.u32 {WORDS}, [%rd1]; st.global.v4.u32 [%rd1+16], {WORDS};"
NARROW = "\n    ".join(
    f"ld.global.u32 %r{i + 1}, [%rd1+{4 * i}]; st.global.u32 [%rd1+{4 * i + 16}], %r{i + 1};"
    for i in range(4)
)
TEST = """
import generator
import perfassert as pa

N = 1 << 20
KERNEL = pa.Kernel.from_accesses(
    name="copy",
    fields=[pa.Field("values", dtype="float32", shape=(8 * N,))],
    loads=[f"values[{generator.STRIDE} * x]"],
)

def test_copy(perf):
    perf(KERNEL, pa.Launch(grid=4096, block=256))
"""
MODULE = """
import os, pathlib
import generator
folder = pathlib.Path(os.environ["TRITON_CACHE_DIR"], generator.HASH)
folder.mkdir()
(folder / "moves.ptx").write_text(generator.PTX)
"""


def write_wheel(folder, version, source):
    """A distribution named ``generator`` of one module."""
    about = f"generator-{version}.dist-info"
    with zipfile.ZipFile(folder / f"generator-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("generator.py", source)
        head = f"Metadata-Version: 2.1\nName: generator\nVersion: {version}\n"
        wheel.writestr(f"{about}/METADATA", head)
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """1.0 and 2.0, whose code moves less at a time."""
    folder = tmp_path_factory.mktemp("wheels")
    for version, stride, body in (("1.0", 1, WIDE), ("2.0", 8, NARROW)):
        ptx = PTX.format(body=body)
        write_wheel(folder, version, f"HASH, STRIDE, PTX = {version!r}, {stride}, {ptx!r}\n")
    return folder


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def project(tmp_path, monkeypatch, wheels, cache):
    """A folder with a test and a module, and no index but the wheels."""
    for name in ("PIP", "UV"):
        monkeypatch.setenv(f"{name}_NO_INDEX", "1")
        monkeypatch.setenv(f"{name}_FIND_LINKS", str(wheels))
    monkeypatch.setenv("PERFASSERT_CACHE_DIR", str(cache))
    (tmp_path / "test_copy.py").write_text(TEST)
    (tmp_path / "moves.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["a-b.c", "a[cu13]", "a[cu13,more]"])
def test_two_versions_are_read(name):
    assert version_pair(f"{name}==1.0..2.0rc1") == VersionPair(name, "1.0", "2.0rc1")


@pytest.mark.parametrize(
    "text",
    [
        "triton",
        "triton==3.6",
        "triton==3.6..",
        "==1..2",
        "a==1..2..3",
        "-a==1..2",
        "a==-e..2",
        "a[]==1..2",
        "a[-r]==1..2",
    ],
)
def test_malformed_versions_are_named(text):
    with pytest.raises(KernelSourceError, match="write a distribution and two of its versions"):
        version_pair(text)


def test_predictions_of_two_versions(project, capsys):
    words = ["diff", "--with", "generator==1.0..2.0", "test_copy.py", "--device", "a100"]
    assert main([*words, "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["versions"] == {"name": "generator", "base": "1.0", "head": "2.0"}
    (item,) = data["predictions"]["predictions"]
    assert item["status"] == "slower"
    assert "dram_load" in json.dumps(item)
    assert (
        main(
            ["diff", "--with", "generator==1.0..1.0", "test_copy.py::test_copy", "--device", "a100"]
        )
        == 0
    )
    assert "1 same" in capsys.readouterr().out


def test_code_of_two_versions(project, capsys):
    if tools.find("ptxas") is None or tools.find("nvdisasm") is None:
        pytest.skip("ptxas or nvdisasm is not installed")
    assert main(["diff", "--with", "generator==1.0..2.0", "moves.py"]) == 1
    out = capsys.readouterr().out
    assert "worse: moves (sm_80) in moves.ptx" in out
    assert "global_store 16 B 1 → 0" in out


def test_what_cannot_be_compared_is_said(project, capsys):
    def refuse(*words):
        assert main(["diff", "--with", *words]) == 2
        return capsys.readouterr().err

    assert "generator==3.0 cannot be installed" in refuse("generator==1.0..3.0", "moves.py")
    assert "there is no such test" in refuse("generator==1.0..2.0", "gone.py")
    assert "leave it out" in refuse("generator==1.0..2.0", "moves.py", "--build", "make")
    (project / "empty.py").write_text("")
    assert "no kernel was compiled" in refuse("generator==1.0..2.0", "empty.py")
    (project / "wrong.py").write_text("import gone_module\n")
    assert "No module named 'gone_module'" in refuse("generator==1.0..2.0", "wrong.py")
    (project / "test_wrong.py").write_text("import gone_module\n")
    assert "No module named 'gone_module'" in refuse("generator==1.0..2.0", "test_wrong.py")


def test_cuda_is_the_toolchain(project, capsys):
    (project / "k.cu").write_text("__global__ void k() {}\n")
    assert main(["diff", "k.cu", "--with", "cuda==1.0..1.1"]) == 2
    by_with = capsys.readouterr().err
    assert main(["diff", "k.cu", "--toolchain", "1.0..1.1"]) == 2
    assert capsys.readouterr().err == by_with
