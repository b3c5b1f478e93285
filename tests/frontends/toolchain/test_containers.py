"""Objects, libraries, programs and fat binaries of several architectures."""

import shutil
import subprocess
from pathlib import Path

import pytest

import perfassert as pa
from perfassert.cli.main import main
from perfassert.errors import KernelSourceError, ToolchainMissing
from perfassert.frontends.toolchain import tools
from perfassert.frontends.toolchain.build import Source, build
from perfassert.perf_toml.descriptions import DescriptionReader

pytestmark = pytest.mark.exhaustive(one_in=4)

SCALE = """\
template <class T> __global__ void scale(T* values, T factor) {
  values[threadIdx.x] *= factor + 1; }
template __global__ void scale<float>(float*, float);
"""
REVERSE = """\
__global__ void reverse(float* a) { __shared__ float s[128];
  s[threadIdx.x] = a[threadIdx.x]; __syncthreads(); a[threadIdx.x] = s[127 - threadIdx.x]; }
"""
CALL = "int main() { return 0; }\n"
WITH_PTX = (
    "-gencode=arch=compute_80,code=sm_80",
    "-gencode=arch=compute_90,code=[sm_90,compute_90]",
)
TWO = ("-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_86,code=sm_86")


def run(*command, where):
    subprocess.run([str(c) for c in command], check=True, cwd=where, capture_output=True)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """A folder of everything that holds compiled code."""
    nvcc, host = tools.find("nvcc"), shutil.which("g++")
    if not (nvcc and host and tools.find("cuobjdump") and tools.find("nvdisasm")):
        pytest.skip("nvcc, cuobjdump, nvdisasm or g++ is not installed")
    folder = tmp_path_factory.mktemp("shelf")
    (folder / "scale.cu").write_text(SCALE)
    (folder / "reverse.cu").write_text(REVERSE)
    (folder / "main.cpp").write_text(CALL)
    pic = ("-Xcompiler", "-fPIC", "-c")
    run(nvcc.path, *WITH_PTX, *pic, "scale.cu", where=folder)
    run(nvcc.path, *TWO, *pic, "reverse.cu", where=folder)
    run(nvcc.path, *WITH_PTX, "-fatbin", "scale.cu", where=folder)
    run("ar", "rcs", "both.a", "scale.o", "reverse.o", where=folder)
    undefined = "-Wl,--unresolved-symbols=ignore-all"
    run(host, "-shared", undefined, "scale.o", "reverse.o", "-o", "both.so.1", where=folder)
    run(host, undefined, "main.cpp", "scale.o", "reverse.o", "-o", "program", where=folder)
    return folder


def built(path, kernel=None, arch="sm_80", wanted=None):
    return build(Source(path, "cubin", kernel, arch=wanted), arch)


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize("name", ["both.a", "both.so.1", "program", "scale.o", "scale.fatbin"])
def test_every_container(shelf, name):
    binary = built(shelf / name, "scale")
    assert (binary.kernel, binary.arch) == ("scale<float>", "sm_80")
    assert "cuobjdump" in binary.tools
    assert "LDG" in binary.listing
    assert [p.size for p in binary.parameters] == [8, 4]
    if name.startswith(("both", "program")):
        assert built(shelf / name, "reverse").shared_bytes == 512


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("kernel", "device", "taken"),
    [
        ("scale", "sm_80", "sm_80"),
        ("scale", "sm_89", "sm_80"),  # the highest of its major version
        ("scale", "sm_90", "sm_90"),
        ("scale", "sm_120", "sm_120"),  # its PTX
        ("reverse", "sm_86", "sm_86"),
        ("reverse", "sm_87", "sm_86"),
    ],
)
def test_what_a_driver_would_take(shelf, kernel, device, taken):
    binary = built(shelf / "both.a", kernel, device)
    assert binary.arch == taken
    assert ("ptxas" in binary.tools) == (taken == "sm_120")


def test_an_architecture_can_be_chosen(shelf):
    assert built(shelf / "both.a", "reverse", "sm_86", "sm_80").arch == "sm_80"
    with pytest.raises(KernelSourceError, match=r"both\.a has no code for sm_75: it has sm_80, sm"):
        built(shelf / "both.a", "reverse", "sm_80", "sm_75")
    with pytest.raises(KernelSourceError, match="is compiled for sm_90, PTX sm_90; none"):
        built(shelf / "both.a", "scale", "sm_80", "sm_90")
    with pytest.raises(KernelSourceError, match="'ampere' is no architecture"):
        pa.from_cubin(shelf / "both.a", arch="ampere")


def test_what_runs_nowhere_and_what_is_not_there(shelf):
    with pytest.raises(KernelSourceError, match="reverse is compiled for sm_80, sm_86; none"):
        built(shelf / "both.a", "reverse", "sm_90")
    with pytest.raises(KernelSourceError, match=r"'scalar': .*both\.a has: reverse, scale<"):
        built(shelf / "both.a", "scalar")
    with pytest.raises(KernelSourceError, match=r"name the kernel: .*both\.a has: rev"):
        built(shelf / "both.a")


def test_modules_that_differ_under_one_name(shelf, tmp_path):
    (tmp_path / "other.cu").write_text(SCALE.replace("+", "-"))
    run(tools.need("nvcc").path, *WITH_PTX, "-c", "other.cu", where=tmp_path)
    run("ar", "rcs", "twice.a", shelf / "scale.o", "other.o", where=tmp_path)
    run("ar", "rcs", "same.a", shelf / "scale.o", shelf / "scale.o", where=tmp_path)
    binary = built(tmp_path / "twice.a", "scale")
    assert "2 modules have code of this name that differs" in str(binary.assumptions[0])
    assert built(tmp_path / "same.a", "scale").assumptions == ()


def test_no_device_code(tmp_path, shelf):
    with pytest.raises(KernelSourceError, match="has no compiled kernel that cuobjdump finds"):
        built(Path(shutil.which("true") or "/bin/true"))
    (tmp_path / "empty.a").write_bytes(b"!<arch>\n")
    with pytest.raises(KernelSourceError, match=r"empty\.a has no compiled kernel"):
        built(tmp_path / "empty.a")


def test_without_the_tool(shelf, monkeypatch):
    real = tools.candidates
    monkeypatch.setattr(tools, "candidates", lambda n: () if n == "cuobjdump" else real(n))
    with pytest.raises(ToolchainMissing, match="package nvidia-cuda-cuobjdump"):
        built(shelf / "both.a", "scale")


def test_a_second_build_runs_nothing(shelf, runs):
    first = built(shelf / "both.so.1", "reverse")
    assert runs == ["cuobjdump", "nvdisasm"]
    assert built(shelf / "both.so.1", "reverse") == first
    assert len(runs) == 2


def test_predictions_are_those_of_the_source(shelf):
    launch = pa.Launch(64, 128)
    one = pa.predict(pa.from_cubin(shelf / "both.so.1", "reverse"), launch, "a100")
    other = pa.predict(pa.from_cuda(shelf / "reverse.cu"), launch, "a100")
    assert one.time == other.time
    assert one.volumes.dram_load.total == other.volumes.dram_load.total


def test_on_the_command_line_and_in_a_table(shelf, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    launch = ["--device", "a100", "--grid", "64", "--block", "128"]
    assert main(["predict", str(shelf / "program"), "--kernel", "reverse", *launch]) == 0
    assert "reverse on A100" in capsys.readouterr().out
    assert main(["explain", str(shelf / "both.a"), "--kernel", "scale", "--device", "a100"]) == 0
    assert "scale on sm_80: " in capsys.readouterr().out
    reader_file = tmp_path / "k.perf.toml"
    reader_file.write_text("")
    table = {"cubin": str(shelf / "both.a"), "name": "reverse", "arch": "sm_80"}
    made = DescriptionReader(reader_file, "k.perf.toml").kernel("kernel", table, "k")
    assert pa.predict(made, pa.Launch(64, 128), "a100").resources.shared_bytes == 512
    bad = ["predict", str(shelf / "scale.cu"), "--arch", "sm_80", *launch]
    assert main(bad) == 2
    assert "--arch: the front end of .cu files takes none" in capsys.readouterr().err
