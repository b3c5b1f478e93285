"""A second session on unchanged kernels compiles, disassembles and computes nothing."""

import pytest

from perfassert.frontends.toolchain import tools

SOURCE = """
__global__ void add(float* a, float* b) { int i = blockIdx.x * 256 + threadIdx.x; a[i] += b[i]; }
__global__ void twice(float* a) { int i = blockIdx.x * 256 + threadIdx.x; a[i] *= 2; }
"""
TESTS = """
import pathlib
import pytest
import perfassert as pa

@pytest.mark.parametrize("kernel", ["add", "twice"])
def test_kernel(perf, kernel):
    source = pathlib.Path(__file__).with_name("k.cu")
    perf(pa.from_cuda(source, kernel), pa.Launch(4096, 256)).expect(spill_bytes=0)
"""
RECORD = """
import pathlib
from perfassert.frontends.toolchain import tools

real = tools.run_tool

def recorded(name, *args, **kwargs):
    with open(pathlib.Path(__file__).with_name("runs"), "a") as file:
        if name not in ("nvcc", "gcc"):
            file.write(name + "\\\\n")
    return real(name, *args, **kwargs)

tools.run_tool = recorded
""".replace("\\\\", "\\")


def test_a_warm_session_starts_no_tool(pytester, monkeypatch):
    if not (tools.find("nvrtc") and tools.find("nvdisasm")):
        pytest.skip("nvrtc or nvdisasm is not installed")
    monkeypatch.setenv("PERFASSERT_CACHE_DIR", str(pytester.path / "cache"))
    pytester.path.joinpath("k.cu").write_text(SOURCE)
    pytester.makepyfile(TESTS)
    pytester.makeconftest(RECORD)
    devices = ("--perf-device=a100", "--perf-device=L40", "--perf-device=H200")
    runs = pytester.path / "runs"
    pytester.runpytest_subprocess(*devices).assert_outcomes(passed=6)
    # one of each for each architecture
    assert sorted(runs.read_text().split()) == ["NVRTC"] * 3 + ["nvdisasm"] * 3
    runs.unlink()
    pytester.runpytest_subprocess(*devices).assert_outcomes(passed=6)
    assert not runs.exists()


DESCRIBED = """
import perfassert as pa

def test_time(perf):
    fill = pa.Kernel.from_accesses("fill", [pa.Field("a", shape=4096)], stores=["a[x]"])
    perf(fill, pa.Launch(16, 256)).expect(time="< 1 ms")

def test_rank(perf):
    fill = pa.Kernel.from_accesses("fill", [pa.Field("a", shape=4096)], stores=["a[x]"])
    assert perf.rank([64, 128], kernel=fill, domain=4096).best
"""
COUNTED = """
import pathlib
from perfassert.predictor.judge import judge

real = judge.judge

def counted(*args):
    with open(pathlib.Path(__file__).with_name("runs"), "a") as file:
        file.write("judge ")
    return real(*args)

judge.judge = counted
"""


def test_a_warm_session_computes_nothing_and_says_the_same(pytester, monkeypatch):
    monkeypatch.setenv("PERFASSERT_CACHE_DIR", str(pytester.path / "cache"))
    pytester.makepyfile(DESCRIBED)
    pytester.makeconftest(COUNTED)
    runs, tables = pytester.path / "runs", []
    for number in range(2):
        result = pytester.runpytest_subprocess("-v", "--perf-device=a100")
        result.assert_outcomes(passed=2)
        start = next(i for i, line in enumerate(result.outlines) if "predicted performance" in line)
        tables.append(result.outlines[start:-1])  # the last line says how long it took
        assert runs.read_text().split() == ["judge"] * 3, number
    assert tables[0] == tables[1]
    assert len(tables[0]) > 3
