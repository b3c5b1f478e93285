"""Launches belong to the source: a gate says so when the source launches its kernel otherwise."""

import pytest

from perfassert.baseline.compare import other_launches
from perfassert.baseline.text import parse_file
from perfassert.frontends.cuda.written_launches import (
    find_launches,
    find_missing_instance,
    launches_of_kernel,
)
from perfassert.frontends.toolchain.tools import find, host_compiler

SOURCE = """
#include "sizes.h"
template <int N> __global__ void scale(float* a) { a[blockIdx.x * blockDim.x + threadIdx.x] *= N; }
void go(float* a, int n) { scale<4><<<n / BLOCK, BLOCK>>>(a); }
"""
TOML = """
devices = ["a100"]
[[test]]
name = "scale"
kernel = { cuda = "k.cu", name = "scale<4>" }
launch = { domain = 1048576, block = 256 }
baseline = true
"""
pytestmark = [pytest.mark.exhaustive(one_in=4), pytest.mark.usefixtures("loaded")]
needs_compiler = pytest.mark.skipif(find("nvrtc") is None, reason="NVRTC is not installed")


@pytest.fixture
def kept(pytester, monkeypatch):
    """With a baseline of a kernel whose source writes its block in a header."""
    monkeypatch.delenv("CI", raising=False)
    (pytester.path / "k.cu").write_text(SOURCE)
    (pytester.path / "sizes.h").write_text("#define BLOCK 256\n")
    (pytester.path / "k.perf.toml").write_text(TOML)
    run(pytester, "--perf-update").assert_outcomes(passed=1)
    return pytester


def run(project, *arguments):
    return project.runpytest_inprocess("-p", "no:cacheprovider", *arguments)


@needs_compiler
def test_a_baseline_keeps_what_the_source_launches(kept):
    file = kept.path / "__perf__" / "k.perf.toml"
    (entry,) = parse_file(file.read_bytes(), "file").values()
    assert entry["source_launches"] == "scale<4><<<n / 256, 256>>>"
    result = run(kept, "--perf-strict")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*the source launches*")


HOST = """
#include <cuda_runtime.h>
template <class T> struct Traits { typedef T type; };
template <class K> __global__ void k(typename K::type* a) { a[threadIdx.x] = 1; }
void f(float* a) { auto kernel = &k<Traits<float>>; kernel<<<1, 32>>>(a); }
"""


@needs_compiler
@pytest.mark.skipif(host_compiler() is None, reason="no C++ compiler is installed")
@pytest.mark.skipif(find("nvcc") is None, reason="nvcc is not installed")
def test_an_instance_that_the_file_does_not_make_warns(pytester, monkeypatch):
    """The launch names it by a typedef, which only the compiler understands."""
    monkeypatch.delenv("CI", raising=False)
    (pytester.path / "k.cu").write_text(HOST)
    toml = TOML.replace('"scale"', '"k"')
    said = "*nothing in the source instantiates k<Traits<double>>; it has k<Traits<float>>*"
    for kind in ("float", "double"):
        (pytester.path / f"{kind}.perf.toml").write_text(
            toml.replace("scale<4>", f"k<Traits<{kind}>>")
        )
    run(pytester, "--perf-update", "float.perf.toml").stdout.no_fnmatch_line(said)
    run(pytester, "--perf-update", "double.perf.toml").stdout.fnmatch_lines([said])


@needs_compiler
def test_launches_in_an_included_header_are_read(pytester, monkeypatch):
    """The kernel and its launch lie in another folder than the source that is compiled."""
    monkeypatch.delenv("CI", raising=False)
    (pytester.path / "inner").mkdir()
    kernel = SOURCE.replace('#include "sizes.h"', "#define BLOCK 256")
    (pytester.path / "inner" / "scale.h").write_text(kernel)
    (pytester.path / "k.cu").write_text('#include "inner/scale.h"\n')
    (pytester.path / "k.perf.toml").write_text(TOML)
    run(pytester, "--perf-update").assert_outcomes(passed=1)
    changed = kernel.replace("BLOCK 256", "BLOCK 32")
    (pytester.path / "inner" / "scale.h").write_text(changed)
    said = "*the source now has scale<4><<<n / 32, 32>>>, was * (scale.h:4)"
    run(pytester).stdout.fnmatch_lines([said])


@needs_compiler
@pytest.mark.parametrize(
    ("file", "old", "new", "now"),
    [
        (
            "sizes.h",
            "256",
            "32",
            "the source now has scale<4><<<n / 32, 32>>>, was *256>>> (k.cu:4)",
        ),
        ("k.cu", "n / BLOCK", "n", "the source now has scale<4><<<n, 256>>>, was *"),
        ("k.cu", "scale<4><<<n / BLOCK, BLOCK>>>(a);", "", "the source no longer has scale<4>*"),
    ],
)
def test_other_launches_are_said_and_fail_under_strict(kept, file, old, new, now):
    path = kept.path / file
    path.write_text(path.read_text().replace(old, new))
    result = run(kept)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["the source launches other grids or blocks: *", f"*{now}"])
    run(kept, "--perf-strict").assert_outcomes(failed=1)
    run(kept, "--perf-update").assert_outcomes(passed=1)
    run(kept, "--perf-strict").assert_outcomes(passed=1)


@needs_compiler
def test_an_instance_that_nothing_launches_is_said(kept):
    path = kept.path / "k.cu"
    path.write_text(path.read_text().replace("scale<4><<<", "scale<8><<<"))
    result = run(kept)
    result.stdout.fnmatch_lines(["*nothing in the source launches scale<4>; it has scale<8><<<*"])


@pytest.mark.parametrize(
    ("name", "text", "missing"),
    [
        ("k<8>", "k<4><<<n, 64>>>(x);", True),
        ("ns::k<8>", "k<4><<<n, 64>>>(x); ns::k<8><<<n, 64>>>(x);", False),
        ("k<8>", "k<N><<<n, 64>>>(x);", False),  # N may be 8
        ("k<8>", "k<<<n, 64>>>(x);", False),  # deduced
        ("k<8>", "other<4><<<n, 64>>>(x);", False),  # a library, launched elsewhere
        ("k", "k<<<n, 64>>>(x);", False),
        ("k<float, 8>", "k<double, 8><<<n, 64>>>(x);", True),
    ],
)
def test_instances_that_are_missing(name, text, missing):
    assert bool(find_missing_instance(name, find_launches(text, "k.cu"))) is missing


def test_launches_of_a_kernel():
    text = "a<<<1, 32>>>(x); b<2><<<n, dim3(8, W)>>>(x); a<<<n, 64>>>(x);"
    launches = tuple(find_launches(text, "k.cu", {"W": "4"}))
    assert [one.expression for one in launches_of_kernel("a", launches)] == [
        "a<<<1, 32>>>", "a<<<n, 64>>>",
    ]  # fmt: skip
    assert [one.expression for one in launches_of_kernel("ns::b<7>", launches)] == [
        "b<2><<<n, 8, 4>>>"
    ]


def test_baselines_of_earlier_versions_say_nothing():
    assert other_launches({}, {"source_launches": "k<<<1, 32>>>"}) == ""


PREDICTS = """
import perfassert as pa
N = 1 << 20
FILL = pa.Kernel.from_accesses("fill", [pa.Field("a", shape=N)], stores=["a[x]"])
"""


@pytest.mark.parametrize(
    ("body", "warned"),
    [
        ("perf(FILL, domain=N, block=256)", True),
        ("perf.rank([64, 256], kernel=FILL, domain=N)", True),
        ("perf(FILL, domain=N, block=256).expect(limiter='dram')", False),
        ("perf.rank([64, 256], kernel=FILL, domain=N).expect(best_in=[64, 256])", False),
        ("assert perf(FILL, domain=N, block=256).time < 1", False),
        ("pass", False),
    ],
)
def test_a_test_that_expects_nothing_warns(pytester, body, warned):
    pytester.makepyfile(test_it=f"{PREDICTS}\ndef test_it(perf):\n    {body}\n")
    result = run(pytester, "--perf-device", "a100", "-W", "default")
    result.assert_outcomes(passed=1)
    said = "expects nothing" in result.stdout.str()
    assert said is warned


def test_fewer_threads_in_the_same_grid_ask_for_the_domain(pytester, monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    body = "    perf.no_regression(perf(FILL, grid=N // 256, block={}))\n"
    for block, option in ((256, "--perf-update"), (32, "-q")):
        test = f"{PREDICTS}\ndef test_it(perf):\n{body.format(block)}"
        (pytester.path / "test_it.py").write_text(test)
        result = run(pytester, "--perf-device", "a100", option)
        result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*blocks of 32×1×1 threads, were 256×1×1: do they still cover*"])
