"""Two consumers take turns at the matrix unit by named barriers: the longer of their parts."""

import pytest

import perfassert as pa

PRODUCTS, TRIPS = 32, 100
SOURCE = """
#define PRODUCT(c) asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 " \\
    "{%0, %1, %2, %3}, {%4, %4, %4, %4}, {%4, %4}, {%0, %1, %2, %3};" \\
    : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(seed))

template <int OWN, int OTHER> __device__ float consume(unsigned seed)
{
    __shared__ volatile float seen[64];  // what is stored before a barrier stays before it
    float c[4] = {}, sum = 0;
    if (OTHER == 1) asm volatile("bar.arrive 1, 64;");  // the first turn is the other's
    #pragma unroll 1
    for (int n = 0; n < TRIPS; n++) {
        asm volatile("bar.sync %0, 64;" :: "n"(OWN));
        #pragma unroll
        for (int i = 0; i < PRODUCTS; i++) PRODUCT(c);
        seen[threadIdx.x] = c[0];
        asm volatile("bar.arrive %0, 64;" :: "n"(OTHER) : "memory");
        sum += seen[threadIdx.x];
        #pragma unroll
        for (int i = 0; i < AFTER; i++) sum = sum * 1.5f + 0.25f;
    }
    if (OWN == 1) asm volatile("bar.sync 1, 64;");  // the last turn that it was given
    return sum + c[1];
}

extern "C" __global__ void ping_pong(float* out, unsigned seed)
{
    out[threadIdx.x] = threadIdx.x < 32 ? consume<1, 2>(seed) : consume<2, 1>(seed);
}
"""


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("after", [32, 160, 320])
def test_turns_take_the_longer_of_both_parts(tmp_path, after):
    """A product waits for the one before (Λ), and so do the sums after it; each consumer's own
    round is the products and the sums, and both share the products' time."""
    pytest.importorskip("nvidia.cu13")
    (file := tmp_path / "ping_pong.cu").write_text(SOURCE)
    kernel = pa.from_cuda(file, defines={"AFTER": after, "PRODUCTS": PRODUCTS, "TRIPS": TRIPS})
    device = pa.device("h100")
    found = pa.predict(kernel, pa.Launch(device.compute_units, 64, {"seed": 1}), device)
    products = PRODUCTS * device.operation("tensor").completion
    sums = after * device.operation("fp32").completion
    assert float(found.cycles) / TRIPS == pytest.approx(
        max(2 * products, products + sums), rel=0.06
    )
    assert not any("keep no warp waiting" in a.text for a in found.assumptions)
