"""Guards on the block index: few blocks that do all of the work, and some that do more of it."""

import pytest

import perfassert as pa

SOURCE = """
extern "C" __global__ void first(float* out, const float* in, int n, int blocks) {
    if (blockIdx.x < blocks)
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blocks * blockDim.x)
            out[i] = in[i] * 2;
}
extern "C" __global__ void longer(float* out, const float* in, int blocks) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = in[i];
    if (blockIdx.x < blocks)
        for (int j = 0; j < 400; j++) sum = sum * 1.0001f + 0.5f;
    out[i] = sum;
}
"""
N = 1 << 24


@pytest.fixture(scope="module")
def predict(tmp_path_factory):
    file = tmp_path_factory.mktemp("blocks") / "blocks.cu"
    file.write_text(SOURCE)

    def predict(kernel, grid, **args):
        try:
            return pa.predict(pa.from_cuda(file, kernel), pa.Launch(grid, 256, args), "a100")
        except pa.ToolchainMissing as missing:
            pytest.skip(str(missing))

    return predict


def test_blocks_without_work_change_nothing(predict):
    """Thirty-two blocks that do all are as slow among 65,536 others as alone."""
    alone, among = (predict("first", grid, n=N, blocks=32) for grid in (32, 65536))
    assert float(among.time) == pytest.approx(float(alone.time), rel=0.02)
    for prediction in (alone, among):
        assert float(prediction.volumes.dram_load.total) == 4 * N
        assert float(prediction.volumes.dram_store.total) == 4 * N


@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
def test_a_part_of_the_blocks_that_computes_more(predict, share):
    """The number of simulated blocks of one kind is the instructions of all over those of one."""
    none, some, every = (predict("longer", 16384, blocks=int(16384 * s)) for s in (0, share, 1))
    little, much = (float(p.resources.instructions) for p in (none, every))
    amount = (share * much + (1 - share) * little) / much
    expected = amount * float(every.bounds["compute"])
    assert float(some.bounds["compute"]) == pytest.approx(expected, rel=0.1)
