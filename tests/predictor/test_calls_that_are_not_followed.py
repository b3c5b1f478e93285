"""A call that may run and is not followed makes a guess; one that cannot run makes none."""

import pytest

import perfassert as pa

pytestmark = pytest.mark.exhaustive(one_in=4)

N = 1 << 16
SOURCE = r"""
#include <cassert>
#include <cstdio>
#define KERNEL extern "C" __global__ void
#define I int i = blockIdx.x * blockDim.x + threadIdx.x
typedef float (*Function)(float);
KERNEL prints(const float* x, float* y, int n) { I; y[i] = x[i]; if (n < 0) printf("%d", i); }
KERNEL prints_some(const float* x, float* y, int n) {
    I; y[i] = x[i]; if (x[i] > 1e30f) printf("%d", i); }
KERNEL asserts(const float* x, float* y, int n) { I; assert(i < n); y[i] = x[i]; }
KERNEL asserts_of_data(const float* x, float* y, int n) { I; assert(x[i] > 0.f); y[i] = x[i]; }
KERNEL by_pointer(const float* x, float* y, int n, Function* f) { I; y[i] = f[n](x[i]); }
"""
TABLES = r"""
#define KERNEL extern "C" __global__ void
#define I int i = blockIdx.x * blockDim.x + threadIdx.x
typedef float (*Function)(float);
__device__ __noinline__ float short_way(float x) { return x + 1.f; }
__device__ __noinline__ float long_way(float x) {
    for (int i = 0; i < 1000; i++) x = x * 1.0001f + .5f;
    return x;
}
__constant__ Function fixed_table[] = {short_way, long_way};
__device__ Function free_table[] = {short_way, long_way};
KERNEL by_constant_table(const float* x, float* y, int n) { I; y[i] = fixed_table[n](x[i]); }
KERNEL by_global_table(const float* x, float* y, int n) { I; y[i] = free_table[n](x[i]); }
KERNEL directly(const float* x, float* y, int n) { I; y[i] = n ? long_way(x[i]) : short_way(x[i]); }
"""


@pytest.fixture(scope="module")
def predict(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calls")
    paths = {text: folder / f"calls{n}.cu" for n, text in enumerate((SOURCE, TABLES))}
    for text, path in paths.items():
        path.write_text(text)

    def ask(name, n, device):
        path = next(p for text, p in paths.items() if f" {name}(" in text)
        args = {"x": pa.Buffer((N,)), "y": pa.Buffer((N,)), "n": n}
        if name == "by_pointer":
            args["f"] = pa.Buffer((1,), "int64")
        try:
            return pa.predict(pa.from_cuda(path, name), pa.Launch(N // 256, 256, args), device)
        except pa.ToolchainMissing as missing:
            pytest.skip(str(missing))

    return ask


def calls(prediction):
    return [a for a in prediction.confidence_reasons if a.stands_for == "call"]


@pytest.mark.parametrize("device", ["t4", "a100", "h100"])
@pytest.mark.parametrize(
    ("name", "n", "callee"),
    [
        ("prints", -1, "vprintf()"),
        ("prints_some", 1, "vprintf()"),
        ("by_pointer", 0, "a function that the code does not name"),
    ],
)
@pytest.mark.exhaustive(one_in=3)
def test_a_call_that_may_run(predict, name, n, callee, device):
    p = predict(name, n, device)
    assert p.confidence == "guessed"
    (reason,) = calls(p)
    assert reason.share == 1
    assert reason.text.startswith(f"a call of {callee} is not followed")


@pytest.mark.parametrize("device", ["t4", "a100", "h100"])
@pytest.mark.parametrize(("name", "n"), [("prints", 1), ("asserts", N), ("asserts_of_data", 1)])
@pytest.mark.exhaustive(one_in=3)
def test_a_call_that_cannot_run_or_stops_a_wrong_program(predict, name, n, device):
    p = predict(name, n, device)
    assert p.confidence != "guessed"
    assert not calls(p)
    assert not any("not followed" in a.text for a in p.assumptions)


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("device", ["t4", "a100", "h100", "rtx-5090"])
@pytest.mark.parametrize("n", [0, 1])
def test_a_table_of_functions_in_constant_memory_is_followed(predict, n, device):
    p = predict("by_constant_table", n, device)
    assert p.confidence != "guessed"
    assert not calls(p)
    more = instructions(p) - instructions(predict("directly", n, device))
    assert abs(more) <= 4 * N / 32  # of each warp: what looks up the table


@pytest.mark.parametrize("device", ["a100", "rtx-5090"])
def test_a_table_that_the_program_may_have_changed_leaves_all_its_functions(predict, device):
    """The contents of global memory are unknown, so that any function of the code may be called."""
    p = predict("by_global_table", 0, device)
    assert p.confidence == "guessed"
    assert not calls(p)
    assert p.time >= predict("directly", 1, device).time * 0.9


def instructions(prediction):
    return prediction.resources.instructions


RECURSIVE = r"""
typedef float (*Function)(float, int);
extern __constant__ Function table[2];
__device__ __noinline__ float ends(float x, int n) { return x + n; }
__device__ __noinline__ float goes_on(float x, int n) { return table[n & 1](x * 2.f, n - 1); }
__constant__ Function table[2] = {ends, goes_on};
extern "C" __global__ void starts(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = table[n & 1](x[i], n);
}
"""


def test_a_function_that_a_table_may_call_again_is_not_followed_twice(tmp_path):
    """The first call is followed; the prediction says that it is open whether calls go on."""
    (tmp_path / "calls.cu").write_text(RECURSIVE)
    kernel = pa.from_cuda(tmp_path / "calls.cu", "starts")
    args = {"x": pa.Buffer((N,)), "y": pa.Buffer((N,)), "n": 1}
    try:
        prediction = pa.predict(kernel, pa.Launch(N // 256, 256, args), "a100")
    except pa.ToolchainMissing as missing:
        pytest.skip(str(missing))
    assert [r.share for r in calls(prediction)] == [1]
