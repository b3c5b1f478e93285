// C = A Bᵀ, half precision in, single precision out, for Hopper: one warp brings tiles to shared
// memory through tensor maps, STAGES ahead; two warp groups multiply them with wgmma. A ring of
// mbarriers says which stage is full, another one which is empty. A is m x k, B is n x k, row by
// row; m and n multiples of 128, k of 64. Blocks of 384 threads: the producer's group and two
// consumers', 64 x 128 of C each. sm_90a.
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
    return (unsigned long long)(address & 0x3ffff) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

__device__ __forceinline__ void multiply(float (&d)[64], unsigned long long a, unsigned long long b)
{
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, 1, 1, 1, 0, 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
          "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
          "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
          "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
          "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
        : "l"(a), "l"(b));
}

extern "C" __global__ void __launch_bounds__(384)
gemm_wgmma_tma(const __grid_constant__ Map a, const __grid_constant__ Map b, float* __restrict__ c,
               int n, int k)
{
    extern __shared__ __align__(1024) unsigned char tiles[];
    __shared__ alignas(8) unsigned long long full[STAGES], empty[STAGES];
    const int group = threadIdx.x / 128, steps = k / TILE_K;

    if (threadIdx.x == 0)
        for (int i = 0; i < STAGES; ++i) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(full + i)));
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 2;" ::"r"(shared_address(empty + i)));
        }
    asm volatile("fence.mbarrier_init.release.cluster;");
    __syncthreads();

    int stage = 0;
    unsigned parity = 0;
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0)
            for (int step = 0; step < steps; ++step) {
                const unsigned barrier = shared_address(full + stage);
                const unsigned tile = shared_address(tiles) + stage * STAGE_BYTES;
                wait(shared_address(empty + stage), parity ^ 1);
                asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                             ::"r"(barrier), "r"(STAGE_BYTES));
                copy_box(tile, &a, barrier, step * TILE_K, blockIdx.y * TILE_M);
                copy_box(tile + TILE_M * TILE_K * 2, &b, barrier, step * TILE_K, blockIdx.x * TILE_N);
                if (++stage == STAGES) { stage = 0; parity ^= 1; }
            }
        return;
    }

    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    float sums[64] = {};
    for (int step = 0; step < steps; ++step) {
        const unsigned tile = shared_address(tiles) + stage * STAGE_BYTES;
        wait(shared_address(full + stage), parity);
        const unsigned long long left = descriptor(tile + (group - 1) * 64 * TILE_K * 2);
        const unsigned long long right = descriptor(tile + TILE_M * TILE_K * 2);
        asm volatile("wgmma.fence.sync.aligned;");
#pragma unroll
        for (int inner = 0; inner < TILE_K / 16; ++inner)
            multiply(sums, left + 2 * inner, right + 2 * inner);
        asm volatile("wgmma.commit_group.sync.aligned;");
        asm volatile("wgmma.wait_group.sync.aligned 0;");
        if (threadIdx.x % 128 == 0)
            asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(empty + stage)));
        if (++stage == STAGES) { stage = 0; parity ^= 1; }
    }

    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    c += ((size_t)blockIdx.y * TILE_M + (group - 1) * 64 + warp * 16 + lane / 4) * n +
         blockIdx.x * TILE_N + lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < 16; ++j)
#pragma unroll
        for (int upper = 0; upper < 2; ++upper)
            *(float2*)(c + (size_t)(8 * upper) * n + 8 * j) =
                make_float2(sums[4 * j + 2 * upper], sums[4 * j + 2 * upper + 1]);
}
