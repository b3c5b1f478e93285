"""``perfassert diff --toolchain BASE..HEAD``: one source under two compilers."""

import json

import pytest

from perfassert.cli.main import main
from perfassert.frontends.toolchain import toolchains, tools

SOURCE = """
__global__ void joined(float* a) { __syncthreads(); a[threadIdx.x] *= 2; }
__global__ void summed(float* a, int n) {
  float sum = 0;
  for (int i = 0; i < n; ++i) sum += a[i * 32 + threadIdx.x];
  a[threadIdx.x] = sum;
}
"""
LAUNCHES = """
schema = 1
[recorded]
device = "a100"
[kernels.summed]
cuda = "k.cu"
[[launch]]
kernel = "summed"
grid = [64]
block = [32]
args = { n = 16 }
"""
PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry nothing() { REGISTERS ret; }
"""


def wheel(folder, release, file, text):
    """A tool of CUDA 12 in a folder of wheels, and what pip leaves beside it."""
    place = folder / "nvidia" / file
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    place.chmod(0o755)
    about = folder / f"nvidia_cuda_nvcc_cu12-{release}.1.dist-info"
    about.mkdir(exist_ok=True)
    (about / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: nvidia-cuda-nvcc-cu12\nVersion: {release}.1\n"
    )


@pytest.fixture
def assemblers(tmp_path, monkeypatch):
    """Two releases of ptxas that nobody has; the newer one limits registers to 24."""
    real = tools.find("ptxas")
    if real is None or tools.find("nvdisasm") is None:
        pytest.skip("ptxas or nvdisasm is not installed")
    folders = [tmp_path / "old", tmp_path / "new"]
    for folder, release, option in zip(
        folders, ("12.93", "12.94"), ("", "-maxrregcount 24"), strict=True
    ):
        run = f'#!/bin/sh\nexec "{real.path}" "$@" {option}\n'
        wheel(folder, release, "cuda_nvcc/bin/ptxas", run)
    monkeypatch.setenv("PERFASSERT_TOOLCHAINS", ":".join(map(str, folders)))


@pytest.fixture
def releases():
    """Two that compile CUDA sources, the older one first."""
    if tools.find("nvdisasm") is None:
        pytest.skip("nvdisasm is not installed")
    have_host = tools.host_compiler() is not None
    able = sorted(
        release
        for release, names in toolchains.installed_toolchains().items()
        if "nvrtc" in names or ("nvcc" in names and have_host)
    )
    if len(able) < 2:
        pytest.skip("only one release of the CUDA toolkit is installed")
    old, new = able[0], able[-1]
    return f"{old[0]}.{old[1]}..{new[0]}.{new[1]}"


@pytest.fixture
def source(tmp_path, monkeypatch):
    (tmp_path / "k.cu").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    return "k.cu"


def wide_ptx():
    """A kernel that has 40 values at once."""
    names = [f"%f{i}" for i in range(40)]
    loads = "".join(f"ld.volatile.global.f32 {n}, [%rd1+{4 * i}];" for i, n in enumerate(names))
    stores = "".join(f"st.volatile.global.f32 [%rd1+{4 * i}], {n};" for i, n in enumerate(names))
    declared = ".reg .b64 %rd<2>; .reg .f32 %f<40>; ld.param.u64 %rd1, [data];"
    entry = "wide(.param .u64 data)"
    return PTX.replace("nothing()", entry).replace("REGISTERS", declared + loads + stores)


def compared(capsys, *arguments):
    code = main(["diff", *arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.skipif("os.name != 'posix'", reason="the fake tools are shell scripts")
def test_registers_and_spills_of_two_assemblers(assemblers, tmp_path, capsys):
    (tmp_path / "wide.ptx").write_text(wide_ptx())
    path = str(tmp_path / "wide.ptx")
    code, document = compared(capsys, path, "--toolchain", "12.93..12.94", "--device", "a100")
    (kernel,) = document["kernels"]
    registers, spills = kernel["metrics"]["registers"], kernel["metrics"]["spill_bytes"]
    assert registers["base"] > 24 >= registers["head"]
    assert spills["base"] == 0 < spills["head"]
    assert code == 1
    assert document["base"].endswith("wide.ptx (CUDA 12.93)")
    assert document["head"].endswith("wide.ptx (CUDA 12.94)")


@pytest.mark.skipif("os.name != 'posix'", reason="the fake tools are shell scripts")
def test_one_toolchain_assembles_both_sides(assemblers, tmp_path, capsys):
    """The option ``--toolchain`` also applies to PTX."""
    (tmp_path / "wide.ptx").write_text(wide_ptx())
    path = str(tmp_path / "wide.ptx")
    code, document = compared(capsys, path, path, "--toolchain", "12.94")
    assert (code, document["counts"]) == (0, {"same": 1})
    assert main(["diff", path, path, "--toolchain", "12.92"]) == 2
    assert "toolchain 12.92 is not installed" in capsys.readouterr().err


def test_a_source_a_folder_and_a_build(source, releases, tmp_path, capsys):
    command = {"directory": str(tmp_path), "file": "k.cu", "command": "nvcc -arch=sm_80 -c k.cu"}
    (tmp_path / "compile_commands.json").write_text(json.dumps([command]))
    (tmp_path / "launches.toml").write_text(LAUNCHES)
    given = ["--toolchain", releases, "--arch", "sm_80"]
    for path in (source, ".", "compile_commands.json"):
        code, document = compared(capsys, path, *given, "--launches", "launches.toml")
        assert code in (0, 1)
        kernels = {k["base"]: k for k in document["kernels"]}
        assert set(kernels) == {"joined", "summed"}
        assert {k["file"] for k in kernels.values()} == {"k.cu"}
        assert "barriers" not in kernels["joined"]["metrics"]
        (launch,) = document["launches"]["predictions"]
        assert launch["time"]["base"] > 0 < launch["time"]["head"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["k.cu"], "HEAD is missing; give it, or --toolchain BASE..HEAD"),
        (["k.cu", "--toolchain", "13.0"], "HEAD is missing"),
        (["k.cu", "k.cu", "--toolchain", "12.4..13.0"], "leave out k.cu"),
        (["k.cu", "--toolchain", "12..13.0"], "'12' is no release of the CUDA toolkit"),
        (["k.cu", "--toolchain", "12.4.."], "is no release of the CUDA toolkit"),
        (["k.cu", "--toolchain", "11.94..11.95"], "a compiler of toolchain 11.94 is not installed"),
    ],
)
def test_what_cannot_be_compared(source, arguments, message, capsys):
    assert main(["diff", *arguments, "--arch", "sm_80"]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["k.cubin"], "a toolchain needs a source that is compiled"),
        (["built"], "there is no .cu or .ptx file for toolchain"),
        (["k.cu", "--build", "make"], "only sources can be compiled by both"),
        (["builds.json", "-D", "N=1"], "a compilation database has options of its own"),
    ],
)
def test_what_no_compiler_compiles(source, releases, arguments, message, tmp_path, capsys):
    (tmp_path / "built").mkdir()
    for name in ("k.cubin", "built/k.o"):
        (tmp_path / name).write_bytes(b"\x7fELF")
    (tmp_path / "builds.json").write_text('[{"directory": ".", "file": "k.cu", "command": ""}]')
    assert main(["diff", *arguments, "--arch", "sm_80", "--toolchain", releases]) == 2
    assert message in capsys.readouterr().err
