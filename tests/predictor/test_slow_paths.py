"""Functions whose slow paths no ordinary number takes, and branches that a program takes itself.

Oracle: the same kernel with contents, whose blocks are executed; then data decides.
"""

import numpy as np
import pytest

import perfassert as pa

pytestmark = pytest.mark.exhaustive(one_in=4)

FUNCTIONS = {
    "division": "1.5f / x", "root": "sqrtf(x)", "sine": "sinf(x)", "cosine": "cosf(x)",
    "tangent": "tanf(x)", "both": "sinf(x) + cosf(x)", "exponential": "expf(x)",
    "logarithm": "logf(x)", "power": "powf(x, 2.3f)",
    "double_division": "1.5 / x", "double_root": "sqrt(x)", "double_sine": "sin(x)",
    "double_exponential": "exp(x)", "double_logarithm": "log(x)",
    "whole_division": "1000 / (long long)(i + 1 + (x > 0))",
}  # fmt: skip
HEAD = """
extern "C" __global__ void {name}(const {type}* a, {type}* b, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {{ {type} x = a[i]; {body} }}
}}
"""
OWN = {
    "sign": "if (x > 0) b[i] = sinf(x) * x;",
    "half": "if (x > .5f) { for (int k = 0; k < 9; k++) x = x * x + 1; } b[i] = x;",
    "mask": "if (x == 1) b[i] = a[i + n];",
    "infinite": "if (x == -1.f / 0.f) b[i] = a[i + n];",
    "wanted": "b[i] = x; if (x < 0) { float s = sinf(x); b[i + n] = s; }",
    "nearest": "float d[32]; int m = n / 16384; for (int k = 0; k < m; k++) d[k] = 1e30f;"
               "for (int j = 0; j < 512; j++) { float e = (x - a[j]) * (x - a[j]);"
               "if (e < d[m - 1]) { d[m - 1] = e; for (int k = m - 1; k > 0 && d[k] < d[k - 1];"
               "k--) { float t = d[k]; d[k] = d[k - 1]; d[k - 1] = t; } } }"
               "for (int k = 0; k < m; k++) x += d[k]; b[i] = x;",
}  # fmt: skip
N = 1 << 18
DEVICES = ["RTX-2080-Ti", "A100-SXM4-40GB", "H100-SXM5-80GB", "RTX-5090"]
SLOW = "slow paths of division and special functions are taken never to be executed"


@pytest.fixture(scope="module")
def predicted(tmp_path_factory):
    file = tmp_path_factory.mktemp("functions") / "functions.cu"
    bodies = {name: f"b[i] = {function};" for name, function in FUNCTIONS.items()} | OWN
    file.write_text(
        "".join(
            HEAD.format(name=n, body=b, type="double" if n.startswith("double") else "float")
            for n, b in bodies.items()
        )
    )

    def predict(name, device, **args):
        launch = pa.Launch(N // 256, 256, {"n": N, **args})
        return pa.predict(pa.from_cuda(file, name), launch, device)

    return predict


CASES = [(name, DEVICES[i % len(DEVICES)]) for i, name in enumerate(FUNCTIONS)]


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize(("name", "device"), CASES)
def test_a_function_of_ordinary_numbers_is_no_guess(predicted, name, device):
    found = predicted(name, device)
    said = [a.text for a in found.assumptions]
    assert found.confidence != "guessed", said
    assert not [a for a in found.assumptions if a.stands_for and name != "power"], said
    assert sum(SLOW in text for text in said) <= 1
    dtype = "float64" if name.startswith("double") else "float32"
    numbers = np.random.default_rng(1).uniform(0.5, 2, N).astype(dtype)
    executed = predicted(name, device, a=numbers)
    assert float(found.time) == pytest.approx(float(executed.time), rel=0.05)
    volumes = [float(p.volumes.dram_load.total) for p in (found, executed)]
    assert volumes[0] == pytest.approx(volumes[1], rel=0.01)


@pytest.mark.parametrize("name", ["sine", "root", "double_sine"])
def test_the_share_of_the_slow_path_is_said_once(predicted, name):
    (said,) = [a.text for a in predicted(name, "A100-SXM4-40GB").assumptions if SLOW in a.text]
    assert 20 < int(said.rpartition(": ")[2].partition("%")[0]) < 80


@pytest.mark.parametrize("name", OWN)
def test_what_the_program_decides_stays_open(predicted, name):
    found = predicted(name, "A100-SXM4-40GB")
    loops = {"trip count"} if name == "nearest" else set()
    assert {a.stands_for for a in found.assumptions if a.stands_for} == {"branch", *loops}


def test_data_that_needs_the_slow_path_executes_it(predicted):
    ordinary = predicted("sine", "A100-SXM4-40GB")
    large = predicted("sine", "A100-SXM4-40GB", a=np.full(N, 1e6, np.float32))
    assert not [a.text for a in large.assumptions if SLOW in a.text]
    assert large.confidence != "guessed"
    assert float(large.time) > 1.2 * float(ordinary.time)


LOOPS = """
__global__ void phases(const float2* p, const float2* d, float* power, float wave, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float re = 0, im = 0;
    for (int k = 0; k < 64; ++k) {
        float phase = wave * (p[k].x * d[i].x + p[k].y * d[i].y);
        re += cosf(phase), im += sinf(phase);
    }
    power[i] = re * re + im * im;
}
__global__ void iterated(const float* a, float* o, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = a[i];
#pragma unroll 1
    for (int k = 0; k < n; ++k) x = sinf(x + 1.f) / 3.7f;
    o[i] = x;
}
"""


@pytest.mark.parametrize("device", ["A100-SXM4-40GB", "H100-SXM5-80GB"])
@pytest.mark.parametrize(("kernel", "n"), [("phases", N), ("iterated", 1000)])
def test_in_loops_as_with_contents(tmp_path, kernel, n, device):
    """Arguments that are products of ordinary numbers, which few lanes have too large; and more
    iterations than are executed. Oracle: contents."""
    (file := tmp_path / "loops.cu").write_text(LOOPS)

    def predicted(**args):
        more = {"wave": 20.0} if kernel == "phases" else {}
        launch = pa.Launch(N // 256, 256, {"n": n, **more, **args})
        return pa.predict(pa.from_cuda(file, kernel), launch, device)

    numbers = np.linspace(-2, 2, 2 * N, dtype=np.float32)
    given = {"phases": {"p": numbers[:128], "d": numbers}, "iterated": {"a": numbers[:N]}}[kernel]
    found, known = predicted(), predicted(**given)
    assert found.confidence != "guessed"
    assert any(a.text.startswith(SLOW) for a in found.assumptions)
    assert float(found.time) == pytest.approx(float(known.time), rel=0.05)
