"""A bulk copy that one thread of a block issues is one copy, however the thread is chosen."""

import pytest

import perfassert as pa

WAYS = {
    "first": "threadIdx.x == 0",
    "other": "threadIdx.x == 37",
    "warp_and_lane": "threadIdx.x / 32 == 2 && threadIdx.x % 32 == 0",
    "elected": "threadIdx.x / 32 == 0 && elect()",
    "elected_of_shuffled": "__shfl_sync(~0u, threadIdx.x / 32, 0) == 0 && elect()",
    "elected_of_third": "__shfl_sync(~0u, threadIdx.x / 32, 0) == 3 && elect()",
}
KERNEL = r"""
extern "C" __global__ void NAME(const __grid_constant__ CUtensorMap a, float* o, int iters) {
    extern __shared__ __align__(1024) char s[];
    int base = (int)__cvta_generic_to_shared(s), bar = base + 16384;
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(bar));
    __syncthreads();
    for (int i = 0; i < iters; i++) {
        if (CHOSEN) {
            copy(base, &a, i * 32, blockIdx.x * 128, bar);
            asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;"
                         :: "r"(bar), "r"(16384) : "memory");
        }
        wait(bar, i & 1);
        __syncthreads();
    }
    o[blockIdx.x * blockDim.x + threadIdx.x] = ((float*)s)[threadIdx.x];
}
"""
SOURCE = r"""
#include <cuda.h>
__device__ int elect() { int p = 0; asm volatile(
    "{ .reg .pred P; elect.sync _|P, %1; @P mov.s32 %0, 1; }" : "+r"(p) : "r"(~0)); return p; }
__device__ void copy(int to, const void* map, int x, int y, int bar) { asm volatile(
    "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes "
    "[%0], [%1, {%2, %3}], [%4];" :: "r"(to), "l"(map), "r"(x), "r"(y), "r"(bar) : "memory"); }
__device__ void wait(int bar, int phase) { asm volatile(
    "{ .reg .pred P; L: mbarrier.try_wait.parity.shared::cta.b64 P, [%0], %1; @P bra D; bra L; D: }"
    :: "r"(bar), "r"(phase)); }
""" + "".join(
    KERNEL.replace("NAME", name).replace("CHOSEN", chosen) for name, chosen in WAYS.items()
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    place = tmp_path_factory.mktemp("elect") / "elect.cu"
    place.write_text(SOURCE)
    return place


@pytest.mark.parametrize("device", ["h100", "b200", "rtx-5090"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.exhaustive(one_in=3)
def test_one_copy_for_each_block_and_iteration(way, device, path):
    tensor = pa.TensorMap((32768, 4096), box=(128, 32), dtype="float32")
    args = {"a": tensor, "o": pa.Buffer(65536, "float32"), "iters": 128}
    launch = pa.Launch(256, 256, args, shared_bytes=16384 + 64)
    try:
        p = pa.predict(pa.from_cuda(path, way), launch, device)
    except pa.ToolchainMissing as missing:
        pytest.skip(str(missing))
    assert float(p.volumes.l2_load.total) == 256 * 128 * 128 * 32 * 4
    assert float(p.volumes.dram_load.total) == pytest.approx(256 * 128 * 128 * 32 * 4, rel=0.01)
