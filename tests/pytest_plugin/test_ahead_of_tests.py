"""Kernels of later tests are compiled while earlier ones run; what is reported stays as it was."""

import pytest

from perfassert.frontends.toolchain import tools

pytestmark = pytest.mark.exhaustive(one_in=4)

SOURCE = "__global__ void k(int* a) { a[threadIdx.x + 256 * blockIdx.x] = %s; }"
RECORD = """
import pathlib
import threading
from perfassert.frontends.toolchain import tools

real = tools.run_tool

def recorded(name, *args, **kwargs):
    with open(pathlib.Path(__file__).with_name("runs"), "a") as file:
        if name not in ("nvcc", "gcc"):
            print(name, threading.current_thread().name.partition("_")[0], file=file)
    return real(name, *args, **kwargs)

tools.run_tool = recorded
"""
TOML = """
[[test]]
name = "{0}"
kernel = {{ cuda = "{0}.cu", name = "k" }}
launch = {{ grid = 64, block = 256 }}
expect = {{ spill_bytes = 0 }}
"""
ON_DEVICES = """
import pathlib
import perfassert as pa

def test_kernel(perf):
    source = pathlib.Path(__file__).with_name("good.cu")
    perf(pa.from_cuda(source, "k"), pa.Launch(64, 256)).expect(spill_bytes=0)
"""
DEVICES = ("--perf-device=a100", "--perf-device=L40", "--perf-device=H200")


@pytest.fixture
def folder(pytester, monkeypatch):
    if not (tools.find("nvrtc") and tools.find("nvdisasm")):
        pytest.skip("nvrtc or nvdisasm is not installed")
    monkeypatch.setenv("PERFASSERT_CACHE_DIR", str(pytester.path / "cache"))
    pytester.makeconftest(RECORD)
    for name, value in (("good", "1"), ("broken", "nothing"), ("other", "3")):
        pytester.path.joinpath(f"{name}.cu").write_text(SOURCE % value)
    return pytester.path


def runs(folder):
    return (folder / "runs").read_text().splitlines()


def test_a_test_is_compiled_for_its_later_devices(pytester, folder):
    pytester.makepyfile(ON_DEVICES)
    pytester.runpytest_subprocess(*DEVICES).assert_outcomes(passed=3)
    lines = runs(folder)
    assert sorted(line.split()[0] for line in lines) == ["NVRTC"] * 3 + ["nvdisasm"] * 3
    assert any(line.endswith("perfassert-ahead") for line in lines)


def test_errors_stay_with_their_tests(pytester, folder):
    text = "".join(TOML.format(name) for name in ("good", "broken", "other"))
    folder.joinpath("all.perf.toml").write_text(text)
    result = pytester.runpytest_subprocess("--perf-device=a100")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(['*broken.cu:1*"nothing" is undefined*'])
    assert any(line.endswith("perfassert-ahead") for line in runs(folder))


def test_workers_leave_cores_to_each_other(pytester, folder):
    pytest.importorskip("xdist")
    pytester.makepyfile(ON_DEVICES)
    pytester.runpytest_subprocess("-n1", *DEVICES).assert_outcomes(passed=3)
    assert set(runs(folder)) == {"NVRTC MainThread", "nvdisasm MainThread"}


def test_deselected_tests_compile_nothing(pytester, folder):
    pytester.makepyfile(ON_DEVICES)
    pytester.runpytest_subprocess("-k", "A100", *DEVICES).assert_outcomes(passed=1)
    assert runs(folder) == ["NVRTC MainThread", "nvdisasm MainThread"]
