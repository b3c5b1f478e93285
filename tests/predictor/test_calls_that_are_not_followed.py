"""A call that may run and is not followed makes a guess; one that cannot run makes none."""

import pytest

import perfassert as pa

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


@pytest.fixture(scope="module")
def predict(tmp_path_factory):
    path = tmp_path_factory.mktemp("calls") / "calls.cu"
    path.write_text(SOURCE)

    def ask(name, n, device):
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
