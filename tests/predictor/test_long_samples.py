"""Samples that cannot be executed as they are: fewer blocks to their ends, or a part of one."""

import numpy as np
import pytest

import perfassert as pa
from perfassert.engines.execution.plan import ExecutionLimits, is_sure_to_be_cut
from perfassert.engines.execution.slicing import control_slice
from perfassert.predictor.sample import executed

CODE = """
extern "C" __global__ void sum_shifted(const float* __restrict__ in,
                                       const float* __restrict__ shifts, float* out,
                                       int channels, int samples, float slope)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    for (int c = 0; c < channels; ++c)
        sum += in[c * samples + t + (int)(slope * shifts[c])];
    out[t] = sum;
}
"""
CHANNELS, SAMPLES, BLOCKS = 512, 8192, 64
EVERYTHING = ExecutionLimits(lane_instructions=10**9, instructions=10**7)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("kernel") / "shifted.cu"
    path.write_text(CODE)
    return path


def predicted(path, monkeypatch, limits, one=EVERYTHING, contents=True):
    """With so much work for the sample, and for a single block."""
    monkeypatch.setattr(executed, "_LIMITS", limits)
    monkeypatch.setattr(executed, "_LIMITS_OF_ONE", one)
    data = np.linspace(1, 0, CHANNELS, dtype=np.float32) ** 2
    shifts = pa.Buffer(data=data) if contents else pa.Buffer(CHANNELS)
    args = {
        "in": pa.Buffer(CHANNELS * SAMPLES), "shifts": shifts,
        "out": pa.Buffer(BLOCKS * 32), "channels": CHANNELS, "samples": SAMPLES, "slope": 37.5,
    }  # fmt: skip
    try:
        session = pa.Session(budget=0)  # limits are no part of a question
        return session.predict(pa.from_cuda(path), pa.Launch(BLOCKS, 32, args), "a100")
    except pa.ToolchainMissing as missing:
        pytest.skip(str(missing))


def loaded(prediction):
    volumes = prediction.volumes
    return np.array([float(volumes.l2_load.total), float(volumes.dram_load.total)])


@pytest.mark.parametrize("contents", [False, True])
def test_what_is_only_followed_would_be_executed_to_the_same_end(path, monkeypatch, contents):
    """Addresses make no difference to whether a pilot is cut, or whether blocks differ."""
    sure = []

    def is_sure(*asked):
        sure.append(is_sure_to_be_cut(*asked))
        return sure[-1]

    def never(*asked):
        return False

    limits = ExecutionLimits(200_000, 400_000)
    monkeypatch.setattr(executed, "is_sure_to_be_cut", is_sure)
    found = predicted(path, monkeypatch, limits, contents=contents)
    assert sure == [True]
    monkeypatch.setattr(executed, "is_sure_to_be_cut", never)
    monkeypatch.setattr(executed, "control_slice", lambda code, addresses=True: control_slice(code))
    assert predicted(path, monkeypatch, limits, contents=contents) == found


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize(("affordable", "error"), [(32, 0.10), (12, 0.20), (5, 0.30)])
def test_fewer_blocks_to_their_ends(path, monkeypatch, affordable, error):
    """A sample of few of 64 blocks is least accurate for sectors that neighbours share."""
    whole = predicted(path, monkeypatch, EVERYTHING)
    each = 120_000  # lanes of a block whose results are wanted, about
    sample = predicted(path, monkeypatch, ExecutionLimits(affordable * each, 400_000))
    assert whole.confidence == sample.confidence != "guessed"
    l2, dram = loaded(sample) / loaded(whole) - 1
    assert abs(l2) < 0.01
    assert abs(dram) < error
    texts = " ".join(a.text for a in sample.assumptions)
    assert "executed blocks of 64" in texts
    assert "64 executed blocks of 64" not in texts


def test_a_part_of_one_block_is_a_guess_that_says_so(path, monkeypatch):
    few = ExecutionLimits(30_000, 400_000)
    part = predicted(path, monkeypatch, few, few)
    assert part.confidence == "guessed"
    (reason, *_) = part.confidence_reasons
    assert "executed in part: later iterations are taken to be like the first" in reason.text
    assert reason.share > 0.5
