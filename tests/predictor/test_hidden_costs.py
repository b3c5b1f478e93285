"""Instructions that give nothing back and take time, and loads that the L1 does not answer.

Closed forms: a sleep takes what it says, on the device's clock; a fence a round trip to the L2; a
strong load asks the L2 for all of its sectors, a prefetch for one sector of every lane.
"""

import pytest

import perfassert as pa

pytestmark = pytest.mark.exhaustive(one_in=8)

SOURCE = """
__device__ float vol(const float* p) { return *(const volatile float*)p; }
__device__ float relaxed(const float* p) {
    float v; asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(v) : "l"(p)); return v;
}
extern "C" __global__ void plain(float* a, const float* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    a[i] = b[i];
}
extern "C" __global__ void sleeps(float* a, const float* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < TIMES; k++) __nanosleep(SLEEP);
    a[i] = b[i];
}
extern "C" __global__ void fences(float* a, const float* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    #pragma unroll 1
    for (int k = 0; k < TIMES; k++) FENCE();
    a[i] = b[i];
}
extern "C" __global__ void loads(float* a, const float* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;
    for (int k = 0; k < TIMES; k++) { s += LOAD(b + i); __syncthreads(); }
    a[i] = s;
}
extern "C" __global__ void mixed(float* a, const float* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = b[i];
    for (int k = 0; k < TIMES; k++) { s += LOAD(b + i); __syncthreads(); }
    a[i] = s;
}
extern "C" __global__ void prefetches(float* a, const float* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    asm volatile("prefetch.global." LEVEL " [%0];" :: "l"(b + i * 8ll));
    a[i] = 1;
}
extern "C" __global__ void gathers(float* a, const int* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    asm volatile("prefetch.global.L2 [%0];" :: "l"(a + b[i]));
}
"""
DEVICES = ["V100-PCIE-32GB", "A100-SXM4-40GB", "H100-SXM5-80GB"]
BLOCK, SECTOR, TIMES = 256, 32, 10


@pytest.fixture(scope="module")
def predicted(tmp_path_factory):
    file = tmp_path_factory.mktemp("hidden") / "hidden.cu"
    file.write_text(SOURCE)

    def predict(kernel, device="a100", blocks=64, sizes=(1, 1), data=None, **defines):
        given = {"TIMES": TIMES, "SLEEP": 1000, "FENCE": "__threadfence", "LOAD": "__ldg"}
        made = pa.from_cuda(file, kernel=kernel, defines={**given, "LEVEL": '"L2"', **defines})
        threads = blocks * BLOCK
        b = data or pa.Buffer((threads * sizes[1],), "float32")
        args = {"a": pa.Buffer((threads * sizes[0],), "float32"), "b": b, "n": threads}
        return pa.predict(made, pa.Launch(blocks, BLOCK, args=args), device)

    return predict


class TestSleep:
    @pytest.mark.exhaustive(one_in=3)
    @pytest.mark.parametrize("device", DEVICES)
    @pytest.mark.parametrize("nanoseconds", [1000, 100_000])
    def test_a_sleep_takes_what_it_says(self, predicted, device, nanoseconds):
        """There are as many block slots as blocks, so that all blocks sleep at the same time."""
        slow, fast = (predicted(k, device, SLEEP=nanoseconds) for k in ("sleeps", "plain"))
        assert float(slow.time - fast.time) == pytest.approx(TIMES * nanoseconds * 1e-9, rel=0.02)
        assert slow.stalls["sleeping"] > 0.7
        assert "sleeping" not in fast.stalls

    def test_the_duration_may_be_an_argument(self, predicted):
        slow, long = (predicted("sleeps", SLEEP=s) for s in ("(n / 16)", "(2 * n / 16)"))
        assert float(long.time - slow.time) == pytest.approx(TIMES * 1024e-9, rel=0.02)
        assert not slow.assumptions

    def test_no_sleep_is_longer_than_the_longest(self, predicted):
        """A millisecond, says the manual of PTX."""
        assert float(predicted("sleeps", TIMES=1, SLEEP="-1").time) == pytest.approx(1e-3, rel=0.02)

    def test_a_duration_that_depends_on_data_is_a_guess(self, predicted):
        found = predicted("sleeps", SLEEP="__float_as_uint(b[i])")
        assert any("how long NANOSLEEP sleeps is not known" in a.text for a in found.assumptions)


class TestFences:
    @pytest.mark.exhaustive(one_in=3)
    @pytest.mark.parametrize("device", DEVICES)
    @pytest.mark.parametrize("fence", ["__threadfence", "__threadfence_system"])
    def test_a_fence_takes_a_round_trip_to_the_l2(self, predicted, device, fence):
        slow, fast = (predicted("fences", device, TIMES=t, FENCE=fence) for t in (110, 10))
        trip = pa.device(device).l2_latency / pa.device(device).clock_hz
        assert float(slow.time - fast.time) >= 0.99 * 100 * trip
        assert any("what MEMBAR takes is not known" in a.text for a in slow.assumptions)
        assert slow.stalls["synchronization"] > 0.5

    def test_one_of_the_block_does_not(self, predicted):
        slow = predicted("fences", FENCE="__threadfence_block")
        assert not slow.assumptions


class TestStrongLoads:
    @pytest.mark.exhaustive(one_in=4)
    @pytest.mark.parametrize("device", DEVICES)
    @pytest.mark.parametrize("load", ["vol", "relaxed", "__ldcg", "__ldcv"])
    def test_the_l2_is_asked_for_every_sector(self, predicted, device, load):
        found = predicted("loads", device, LOAD=load)
        data = 64 * BLOCK * 4
        assert float(found.volumes.l2_load.fields["b"].total) == TIMES * data
        assert float(found.volumes.l1_wavefronts.fields["b"].total) == TIMES * data / 128
        assert float(found.volumes.dram_load.fields["b"].total) == pytest.approx(data, rel=0.02)

    def test_weak_loads_beside_them_stay_in_the_l1(self, predicted):
        data = 64 * BLOCK * 4
        found = predicted("mixed", LOAD="vol")
        assert float(found.volumes.l2_load.fields["b"].total) == (TIMES + 1) * data
        weak = predicted("mixed", LOAD="*")
        assert float(weak.volumes.l2_load.fields["b"].total) < 1.1 * data

    def test_they_take_longer(self, predicted):
        slow, fast = (predicted("loads", blocks=4096, LOAD=x) for x in ("vol", "*"))
        assert slow.time > 1.2 * fast.time


class TestPrefetches:
    @pytest.mark.exhaustive(one_in=2)
    @pytest.mark.parametrize("level", ["L1", "L2"])
    @pytest.mark.parametrize("device", DEVICES)
    def test_each_lane_brings_a_sector(self, predicted, device, level):
        """Eight floats apart: a sector for each of them, of which nothing is read."""
        blocks = 4096
        found = predicted("prefetches", device, blocks, sizes=(1, 8), LEVEL=f'"{level}"')
        moved = blocks * BLOCK * SECTOR
        assert float(found.volumes.l2_load.fields["b"].total) == moved
        assert float(found.volumes.dram_load.fields["b"].total) == pytest.approx(moved, rel=0.02)
        assert found.time > moved / pa.device(device).dram_bandwidth

    def test_of_addresses_that_are_data(self, predicted):
        threads = 64 * BLOCK
        data = pa.Buffer((threads,), "int32", fill="permutation")
        found = predicted("gathers", data=data)
        assert float(found.volumes.l2_load.fields["a"].total) == pytest.approx(
            threads * SECTOR, rel=0.02
        )
