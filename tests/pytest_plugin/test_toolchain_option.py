"""``--perf-toolchain``: tests predict kernels as another release of the compiler makes them."""

import json

import pytest

from perfassert.frontends.cuda.kernels import from_ptx, own_toolchain, with_toolchain
from perfassert.frontends.toolchain import tools
from perfassert.kernel.description import Kernel
from perfassert.kernel.field import Field

VALUES = range(40)
BODY = [
    ".version 8.0", ".target sm_80", ".address_size 64",
    ".visible .entry wide(.param .u64 data) {",
    ".reg .b64 %rd<2>; .reg .f32 %f<40>; ld.param.u64 %rd1, [data];",
    *(f"ld.volatile.global.f32 %f{i}, [%rd1+{4 * i}];" for i in VALUES),
    *(f"st.volatile.global.f32 [%rd1+{4 * i}], %f{i};" for i in VALUES),
    "ret; }",
]  # fmt: skip
TEST = """
import perfassert as pa

def test_registers(perf):
    kernel = pa.from_ptx("wide.ptx", toolchain=TOOLCHAIN)
    prediction = perf(kernel, grid=64, block=32)
    perf.no_regression(prediction, tolerance=None, registers="100 %", spill_bytes="0 B")

def test_ranks(perf):
    kernel = pa.from_ptx("wide.ptx", toolchain=TOOLCHAIN)
    ranking = perf.rank({"one": (kernel, pa.Launch(64, 32)), "two": (kernel, pa.Launch(32, 64))})
    assert ranking.entries[0][1].resources.spill_bytes is not None
"""
needs_assemblers = pytest.mark.skipif("os.name != 'posix'", reason="the fake tools are scripts")


@pytest.fixture
def assemblers(pytester, monkeypatch):
    """Two releases of ptxas that nobody has; the newer one limits registers to 24."""
    real = tools.find("ptxas")
    if real is None or tools.find("nvdisasm") is None:
        pytest.skip("ptxas or nvdisasm is not installed")
    folders = []
    for release, option in (("12.93", ""), ("12.94", "-maxrregcount 24")):
        folder = pytester.mkdir(release)
        program = folder / "nvidia" / "cuda_nvcc" / "bin" / "ptxas"
        program.parent.mkdir(parents=True)
        program.write_text(f'#!/bin/sh\nexec "{real.path}" "$@" {option}\n')
        program.chmod(0o755)
        about = folder / f"nvidia_cuda_nvcc_cu12-{release}.1.dist-info"
        about.mkdir()
        text = f"Metadata-Version: 2.1\nName: nvidia-cuda-nvcc-cu12\nVersion: {release}.1\n"
        (about / "METADATA").write_text(text)
        folders.append(str(folder))
    monkeypatch.setenv("PERFASSERT_TOOLCHAINS", ":".join(folders))
    monkeypatch.delenv("CI", raising=False)
    pytester.path.joinpath("wide.ptx").write_text("\n".join(BODY))


def run(pytester, *options, own="None"):
    pytester.makepyfile(test_it=TEST.replace("TOOLCHAIN", own))
    return pytester.runpytest("--perf-device", "a100", *options)


def registers(path):
    tests = json.loads(path.read_text())["tests"]
    return {t["predictions"][0]["metrics"]["registers"] for t in tests}


@needs_assemblers
def test_two_runs_are_compared(assemblers, pytester):
    old, new = ("--perf-toolchain", "12.93"), ("--perf-toolchain", "12.94")
    reports = ("--perf-update", "--perf-report", "json:old.json")
    run(pytester, *old, *reports).assert_outcomes(passed=2)
    result = run(pytester, *new, "--perf-report", "json:new.json")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(
        ["perfassert: *, CUDA 12.94", "2 predictions of code compiled by CUDA 12.94"]
    )
    result.stdout.fnmatch_lines(["*spill_bytes*"])
    (before,), (after,) = (registers(pytester.path / f"{n}.json") for n in ("old", "new"))
    assert before > 24 >= after
    run(pytester, *old).assert_outcomes(passed=2)


@needs_assemblers
def test_the_ini_key_and_a_kernel_that_names_its_own(assemblers, pytester):
    pytester.makeini("[pytest]\nperf_toolchain = 12.94\nperf_update = all\n")
    result = run(pytester, "--perf-report", "json:own.json", own='"12.93"')
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        ["0 predictions of code compiled by CUDA 12.94; 2 by 12.93, which the kernel names"]
    )
    (kept,) = registers(pytester.path / "own.json")
    assert kept > 24


@needs_assemblers
def test_a_release_that_is_not_installed(assemblers, pytester):
    missing = ("--perf-toolchain", "12.92")
    result = run(pytester, *missing)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*ptxas of toolchain 12.92 is not installed*"])
    run(pytester, *missing, "--perf-no-toolchain=skip").assert_outcomes(skipped=2)


@pytest.mark.parametrize("chosen", ["12", "new"])
def test_what_is_no_release(pytester, chosen):
    result = run(pytester, "--perf-toolchain", chosen)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [f"*must be a release of the CUDA toolkit, as 12.4, not '{chosen}'"]
    )


def test_which_kernels_it_compiles(tmp_path):
    (tmp_path / "k.ptx").write_text("\n".join(BODY))
    free, pinned = (from_ptx(tmp_path / "k.ptx", toolchain=t) for t in (None, "12.4"))
    assert own_toolchain(with_toolchain(free, "13.0")) == "13.0"

    assert with_toolchain(pinned, "13.0") is pinned
    accesses = Kernel.from_accesses("set", [Field("a", shape=32)], stores=["a[x]"])
    assert with_toolchain(accesses, "13.0") is accesses
