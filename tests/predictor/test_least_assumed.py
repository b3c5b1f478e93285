"""A guess that would not change the time is none; what would change it says by how much."""

import numpy as np
import pytest

import perfassert as pa
from perfassert.expect.metrics import metric, value_of
from perfassert.prediction.error_band import ErrorBand
from perfassert.predictor.judge.errors import GUESSED, PredictionKind, bands_of_guess, error_band

CODE = """
extern "C" __global__ void gather(const int* __restrict__ index, const float* __restrict__ in,
                                  float* out, int n, int turns)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = in[index[i]], y = x;
    for (int turn = 0; turn < turns; ++turn) { x = x * 1.5f + y; y = y * x + 0.5f; }
    out[i] = x + y;
}
extern "C" __global__ void sometimes(const int* __restrict__ flag, float* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = out[i];
    if (flag[i]) for (int turn = 0; turn < 64; ++turn) x = x * 1.5f + 2.0f;
    out[i] = x;
}
extern "C" __global__ void mixed(const int* __restrict__ a, const int* __restrict__ b,
                                 const float* __restrict__ in, float* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[(a[i] ^ b[i]) & 0xfffff];
}
extern "C" __global__ void some_rows(const int* __restrict__ flag, const float* rows, float* out,
                                     int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = 0;
    if (flag[i]) for (int k = 0; k < 16; ++k) x += rows[k * n + i];
    out[i] = x;
}
extern "C" __global__ void one_more(const int* __restrict__ flag, const float* rows, float* out,
                                    int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = rows[i];
    if (flag[i] == 7) x += rows[n + i];
    out[i] = x;
}
extern "C" __global__ void chosen_tiles(const int* __restrict__ flag, float* out, int n)
{
    float x = 0;
    for (int tile = 0; tile < 8; ++tile)
        if (flag[blockIdx.x * 8 + tile])
            for (int turn = 0; turn < n; ++turn) x = x * 1.5f + out[turn * 32 + threadIdx.x % 32];
    out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
"""
N = 1 << 20


@pytest.fixture(scope="module")
def predict(tmp_path_factory):
    path = tmp_path_factory.mktemp("least") / "least.cu"
    path.write_text(CODE)

    def one(kernel, blocks=N // 256, volumes=None, **args):
        launch = pa.Launch(blocks, 256, args)
        try:
            return pa.predict(pa.from_cuda(path, kernel), launch, "a100", volumes=volumes)
        except pa.ToolchainMissing as missing:
            pytest.skip(str(missing))

    return one


def gather(predict, turns, volumes=None):
    arrays = {name: pa.Buffer(N) for name in ("in", "out")}
    index = pa.Buffer(N, "int32")
    return predict("gather", volumes=volumes, index=index, n=N, turns=turns, **arrays)


def test_addresses_that_do_not_matter_make_no_guess(predict):
    """2,000 multiplications and additions hide any gather, none hides it."""
    assert gather(predict, 1000).confidence != "guessed"
    exposed = gather(predict, 0)
    assert exposed.confidence == "guessed"
    assert {a.stands_for for a in exposed.confidence_reasons} == {"address"}


def test_two_unknowns_make_another_one(predict):
    """They are stood in for alike, so their forms would cancel out: every thread at ``in[0]``."""
    index = pa.Buffer(N, "int32")
    p = predict("mixed", a=index, b=index, n=N, out=pa.Buffer(N), **{"in": pa.Buffer(N)})
    assert p.confidence == "guessed"
    assert float(p.volumes.l2_load.fields["in"].total) == pytest.approx(32 * N)


def test_measured_volumes_hold_for_the_least_too(predict):
    """If measured volumes decide the time, assumed addresses do not."""
    measured = gather(predict, 0, volumes={"dram_load": 100 * 2**30})
    assert measured.confidence != "guessed"


def test_what_they_rest_on_is_said_all_the_same(predict):
    reasons = gather(predict, 1000).confidence_reasons
    assert any(a.stands_for == "address" and a.share > 0.05 for a in reasons)


def test_a_branch_that_matters_is_a_guess_with_its_band(predict):
    found = predict("sometimes", flag=pa.Buffer(N, "int32"), out=pa.Buffer(N), n=N)
    never = pa.Buffer(N, fill="constant 0", dtype="int32")
    least = predict("sometimes", flag=never, out=pa.Buffer(N), n=N)
    assert found.confidence == "guessed"
    assert found.error_band("time").band >= 1 - float(least.time) / float(found.time)


def test_the_bands_of_a_guess_are_those_of_guesses():
    bands = {"time": ErrorBand(0.1, 0.1, "suite"), "registers": ErrorBand(0.0, 0.0)}
    wider = bands_of_guess(bands, apart=25.0)
    assert wider["time"].band == 25.0
    assert wider["registers"] == bands["registers"]
    assert bands_of_guess(bands, apart=0.2)["time"].band == error_band("time", GUESSED).error > 0.5


def test_unknown_errors_are_not_those_of_guesses():
    never_measured = PredictionKind("sm_120", "graph", "issue")
    assert error_band("time", never_measured).band < error_band("time", GUESSED).band


def test_loops_behind_a_condition_are_simulated_as_executed(predict):
    """In executed blocks, the tiles that their data choose are simulated, and no others."""
    args = {"out": pa.Buffer(64 * 256), "n": 200}
    executed, confidences = [], set()
    for share in (0, 2, 8):
        flags = (np.arange(8 * 64) % 8 < share).astype(np.int32)
        found = predict("chosen_tiles", 64, flag=pa.Buffer(data=flags), **args)
        executed.append(value_of(metric("instructions"), found))
        confidences.add(found.confidence)
    assert "guessed" not in confidences
    none, some, every = map(float, executed)
    assert (some - none) / (every - none) == pytest.approx(2 / 8, rel=0.01)


def test_a_clock_that_does_not_move_is_not_mentioned():
    assert ErrorBand(None, 0.43, below=-2.22e-16).describe() == "error unknown"
    assert ErrorBand(None, 0.43, above=0.19, below=0.04).describe_clock() == ", clock -4/+19 %"


@pytest.mark.parametrize(("kernel", "most", "least"), [("some_rows", 68, 4), ("one_more", 12, 8)])
def test_bytes_behind_a_condition_are_not_in_the_least(predict, kernel, most, least):
    """The bracket is as wide as what data decides: it was 0 where instructions alone were left."""
    n = 1 << 22
    rows, flag, out = pa.Buffer(16 * n), pa.Buffer(n, "int32"), pa.Buffer(n)
    p = predict(kernel, blocks=n // 256, flag=flag, rows=rows, out=out, n=n)
    assert p.confidence == "guessed"
    assert float(p.volumes.dram_load.per_thread) == pytest.approx(most, rel=0.01)
    assert p.error_bands["time"].band >= 0.9 * (1 - (least + 4) / (most + 4))
