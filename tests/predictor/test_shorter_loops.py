"""Long loops are simulated as shorter ones: as if the simulation were not cut short."""

import pytest

import perfassert as pa
from perfassert.predictor.diagnose import diagnose
from perfassert.predictor.session import launch_model
from perfassert.predictor.simulate import time
from perfassert.predictor.simulate.shortening import shorten_loops

pytestmark = pytest.mark.exhaustive(one_in=4)

pytest.importorskip("nvidia.cu13")

PHASES = """
extern "C" __global__ void phases(const float* __restrict__ a, float* out, int n)
{
    float most = a[0], sum = 0;
    #pragma unroll 4
    for (int i = 0; i < n; ++i) most = fmaxf(most, a[i]);
    #pragma unroll 4
    for (int i = 0; i < n; ++i) sum += __expf(a[i] - most) * rsqrtf(a[i] + 2.0f);
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
extern "C" __global__ void nested(const float* __restrict__ a, float* out, int n)
{
    float sum = 0;
    #pragma unroll 1
    for (int i = 0; i < n; ++i) {
        #pragma unroll 1
        for (int j = 0; j < 50; ++j) sum = sum * 1.5f + j;
        sum += a[i * 32 + threadIdx.x % 32];
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize(
    ("name", "n", "blocks"),
    [
        ("phases", 2000, 108),
        ("phases", 2000, 108 * 5),
        ("phases", 2000, 108 * 30),
        ("nested", 200, 108 * 5),
        ("nested", 200, 108 * 30),
    ],
)
def test_short_loops_take_as_long_as_the_whole_ones_would(tmp_path, monkeypatch, name, n, blocks):
    (file := tmp_path / "long.cu").write_text(PHASES)
    args = {"a": pa.Buffer(32 * n), "out": pa.Buffer(blocks * 512), "n": n}
    launch = pa.Launch(blocks, 512, args)
    model = launch_model(pa.from_cuda(file, name), launch, pa.device("a100"))
    found = time.launch_time(model)
    assert any("in shorter loops" in a.text for a in found.run.assumptions)
    monkeypatch.setattr(time, "_ISSUED_LIMIT", 1 << 30)
    monkeypatch.setattr(time, "_WAVES", 1 << 30)
    whole = time.launch_time(model)
    assert not whole.run.assumptions
    assert found.run.cycles == pytest.approx(whole.run.cycles, rel=0.03)


def test_stalls_are_those_of_all_loops(tmp_path, monkeypatch):
    (file := tmp_path / "long.cu").write_text(PHASES)
    args = {"a": pa.Buffer(32 * 2000), "out": pa.Buffer(108 * 5 * 512), "n": 2000}
    kernel, launch = pa.from_cuda(file, "phases"), pa.Launch(108 * 5, 512, args)
    found = dict(pa.predict(kernel, launch, "a100").stalls)
    monkeypatch.setattr(diagnose, "_LIMIT", 1 << 30)
    whole = dict(pa.predict(kernel, launch, pa.device("a100").replace(name="same")).stalls)
    assert found == pytest.approx(whole, abs=0.03)


def test_iterations_are_left_out_of_outer_loops_first():
    g = pa.InstructionGraph.builder()
    with g.loop(1000):
        g.op("fp32")
    with g.loop(20):
        g.op("fp32")
        with g.loop(30):
            g.op("fp32")
    with g.loop(3):
        g.op("fp32")
    graph = g.build()
    trips = [shorten_loops(graph, share).trips(i) for share in (0.5, 0.04) for i in range(4)]
    assert trips[:4] == [500, 10, 30, 3]
    assert trips[4:] == [40, 4, 6, 3]  # 4 of 20, and a fifth of 30, since a 25th is left
