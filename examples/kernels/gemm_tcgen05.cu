// C = A Bᵀ, half precision in, single precision out, for Blackwell: one thread brings tiles through
// tensor maps, another one multiplies them with tcgen05.mma into tensor memory, four warps write
// the result. A is m x k, B is n x k, row by row; m and n multiples of 128, k of 64. Blocks of 192
// threads: four warps for the result, one that copies, one that multiplies. sm_100a.

#ifndef STAGES
#define STAGES 4
#endif

constexpr int TILE_M = 128, TILE_N = 128, TILE_K = 64;
constexpr int STAGE_BYTES = (TILE_M + TILE_N) * TILE_K * 2;

struct alignas(64) Map { unsigned char opaque[128]; };  // a CUtensorMap

__device__ __forceinline__ unsigned shared_address(const void* p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

__device__ __forceinline__ void wait(unsigned barrier, unsigned parity)
{
    asm volatile("{\n.reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" ::"r"(barrier), "r"(parity));
}

__device__ __forceinline__ void copy_box(unsigned to, const Map* map, unsigned barrier, int x, int y)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];"
                 ::"r"(to), "l"(map), "r"(x), "r"(y), "r"(barrier) : "memory");
}

// Rows of 128 bytes, swizzled by 128 bytes: groups of 8 rows are 1024 bytes apart.
__device__ __forceinline__ unsigned long long descriptor(unsigned address)
{
    return (unsigned long long)(address & 0x3ffff) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 46 | 2ull << 61;
}

extern "C" __global__ void __launch_bounds__(192)
gemm_tcgen05(const __grid_constant__ Map a, const __grid_constant__ Map b, float* __restrict__ c, int n, int k)
{
    extern __shared__ __align__(1024) unsigned char tiles[];
    __shared__ alignas(8) unsigned long long full[STAGES], empty[STAGES], done;
    __shared__ unsigned memory;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, steps = k / TILE_K;

    if (warp == 0)
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 128;" ::"r"(shared_address(&memory)));
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(full + i)));
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(empty + i)));
        }
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&done)));
    }
    asm volatile("fence.mbarrier_init.release.cluster;");
    __syncthreads();
    const unsigned sums = memory;

    int stage = 0;
    unsigned parity = 0;
    if (warp == 4 && lane == 0) {
        for (int step = 0; step < steps; ++step) {
            const unsigned barrier = shared_address(full + stage), tile = shared_address(tiles) + stage * STAGE_BYTES;
            wait(shared_address(empty + stage), parity ^ 1);
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(STAGE_BYTES));
            copy_box(tile, &a, barrier, step * TILE_K, blockIdx.y * TILE_M);
            copy_box(tile + TILE_M * TILE_K * 2, &b, barrier, step * TILE_K, blockIdx.x * TILE_N);
            if (++stage == STAGES) { stage = 0; parity ^= 1; }
        }
    } else if (warp == 5 && lane == 0) {
        // D f32, A and B f16, both along k, N / 8 and M / 16
        constexpr unsigned kind = 1u << 4 | (TILE_N / 8) << 17 | (TILE_M / 16) << 24;
        for (int step = 0; step < steps; ++step) {
            const unsigned tile = shared_address(tiles) + stage * STAGE_BYTES;
            wait(shared_address(full + stage), parity);
#pragma unroll
            for (int inner = 0; inner < TILE_K / 16; ++inner) {
                const unsigned more = step + inner > 0;
                asm volatile("{\n.reg .pred add;\nsetp.ne.u32 add, %4, 0;\n"
                             "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, add;\n}"
                             ::"r"(sums), "l"(descriptor(tile) + 2 * inner),
                             "l"(descriptor(tile + TILE_M * TILE_K * 2) + 2 * inner), "r"(kind), "r"(more));
            }
            asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];"
                         ::"r"(shared_address(empty + stage)));
            if (++stage == STAGES) { stage = 0; parity ^= 1; }
        }
        asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];"
                     ::"r"(shared_address(&done)));
    }
    if (warp >= 4)
        return;

    wait(shared_address(&done), 0);
    asm volatile("tcgen05.fence::after_thread_sync;");
    float* to = c + ((size_t)blockIdx.y * TILE_M + threadIdx.x) * n + blockIdx.x * TILE_N;
#pragma unroll
    for (int j = 0; j < TILE_N; j += 16) {
        unsigned v[16];
        asm volatile("tcgen05.ld.sync.aligned.32x32b.x16.b32 "
                     "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, [%16];"
                     : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]), "=r"(v[4]), "=r"(v[5]), "=r"(v[6]), "=r"(v[7]),
                       "=r"(v[8]), "=r"(v[9]), "=r"(v[10]), "=r"(v[11]), "=r"(v[12]), "=r"(v[13]), "=r"(v[14]), "=r"(v[15])
                     : "r"(sums + (warp << 21) + j));
        asm volatile("tcgen05.wait::ld.sync.aligned;");
#pragma unroll
        for (int i = 0; i < 16; i += 4)
            *(uint4*)(to + j + i) = make_uint4(v[i], v[i + 1], v[i + 2], v[i + 3]);
    }
    asm volatile("bar.sync 1, 128;");
    if (warp == 0)
        asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 128;" ::"r"(sums));
}
