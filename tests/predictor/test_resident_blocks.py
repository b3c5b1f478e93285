"""Launches whose blocks all start at once, and stores in lines of their own, in closed forms."""

from pathlib import Path

import pytest

import perfassert as pa

KERNELS = Path(__file__).parents[2] / "validation" / "kernels"
LANES_APART = """
extern "C" __global__ void lanes_apart(float *out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < n; ++k)
        out[32 * ((i + k * gridDim.x * blockDim.x) % (1 << 17))] = 1.0f;
}
"""


@pytest.fixture(scope="module")
def chain():
    kernel = pa.from_cuda(KERNELS / "arithmetic.cu", "chain_dependent")
    try:
        pa.predict(kernel, launch(8, 32), "a100")
    except pa.ToolchainMissing as missing:
        pytest.skip(str(missing))
    return kernel


def launch(blocks, threads):
    return pa.Launch(blocks, threads, {name: pa.Buffer(blocks * threads) for name in ("in", "out")})


@pytest.mark.parametrize("device", ["a100", "H200", "RTX-3090"])
def test_blocks_that_are_all_resident_take_as_long_as_one(chain, device):
    """They wait for their own results, not for each other: four of one warp are as fast as one.

    An H200 takes 11.6 µs for either (measured).
    """
    units = pa.device(device).compute_units
    one, four = (float(pa.predict(chain, launch(k * units, 32), device).time) for k in (1, 4))
    assert four == pytest.approx(one, rel=0.03)


def test_sets_of_blocks_one_after_the_other(chain):
    """Three sets of resident blocks take three times as long as one, but for what starts them."""
    device = pa.device("H200")
    resident = pa.predict(chain, launch(132, 64), device).occupancy.resident_blocks * 132
    one, three = (float(pa.predict(chain, launch(k * resident, 64), device).time) for k in (1, 3))
    once = device.launch_overhead
    assert (three - once) / (one - once) == pytest.approx(3, rel=0.05)


def test_stores_in_lines_of_their_own_take_two_packets(chain, tmp_path):
    """The L2 holds them: only its packets count, 3.5 cycles per store of an SM (measured)."""
    source = tmp_path / "lanes_apart.cu"
    source.write_text(LANES_APART)
    kernel = pa.from_cuda(source, "lanes_apart")
    device = pa.device("H200")
    stores = 512
    args = {"out": pa.Buffer(32 << 17), "n": stores}
    prediction = pa.predict(kernel, pa.Launch(132, 1024, args), device)
    lines = 132 * 1024 * stores
    expected = 2 * lines * device.l2_packet_cycles / device.clock_hz
    assert float(prediction.time) == pytest.approx(expected, rel=0.1)
    assert prediction.limiter == "l2"
    free = device.replace(l2_packet_cycles=0, l2_port_packet_cycles=0)
    assert float(pa.predict(kernel, pa.Launch(132, 1024, args), free).time) < 0.7 * expected
