// C = A Bᵀ, half precision in, single precision out, for Hopper: one warp brings tiles to shared
// memory through tensor maps, STAGES ahead; two warp groups multiply them with wgmma. A ring of
// mbarriers says which stage is full, another one which is empty. A is m x k, B is n x k, row by
// row; m and n multiples of the tile, k of 64. Blocks of 384 threads: the producer's group and two
// consumers', 64 x TILE_N of C each; with other TILE_M one consumer's group for every 64 rows. sm_90a.
#ifndef STAGES
#define STAGES 4
#endif
#ifndef TILE_M
#define TILE_M 128
#endif
#ifndef TILE_N
#define TILE_N 128
#endif

constexpr int TILE_K = 64, GROUPS = TILE_M / 64, THREADS = 128 * (GROUPS + 1);
constexpr int REGISTERS = GROUPS <= 2 ? 232 : GROUPS == 3 ? 152 : 112;  // of a consumer's threads
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

#define FOUR(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SIXTEEN(i) FOUR(i), FOUR(i + 4), FOUR(i + 8), FOUR(i + 12)
#define THIRTY_TWO(i) SIXTEEN(i), SIXTEEN(i + 16)
#define FIRST "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
              "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define SECOND ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
               "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define THIRD ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
              "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define FOURTH ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, " \
               "%110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, " \
               "%124, %125, %126, %127"
#define MULTIPLY "wgmma.mma_async.sync.aligned.m64n"

__device__ __forceinline__ void multiply(float (&d)[TILE_N / 2], unsigned long long a, unsigned long long b)
{
#if TILE_N == 64
    asm volatile(MULTIPLY "64k16.f32.f16.f16 {" FIRST "}, %32, %33, 1, 1, 1, 0, 0;"
                 : THIRTY_TWO(0) : "l"(a), "l"(b));
#elif TILE_N == 128
    asm volatile(MULTIPLY "128k16.f32.f16.f16 {" FIRST SECOND "}, %64, %65, 1, 1, 1, 0, 0;"
                 : THIRTY_TWO(0), THIRTY_TWO(32) : "l"(a), "l"(b));
#else
    asm volatile(MULTIPLY "256k16.f32.f16.f16 {" FIRST SECOND THIRD FOURTH "}, %128, %129, 1, 1, 1, 0, 0;"
                 : THIRTY_TWO(0), THIRTY_TWO(32), THIRTY_TWO(64), THIRTY_TWO(96) : "l"(a), "l"(b));
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS)
gemm_wgmma_tma(const __grid_constant__ Map a, const __grid_constant__ Map b, float* __restrict__ c,
               int n, int k)
{
    extern __shared__ __align__(1024) unsigned char tiles[];
    __shared__ alignas(8) unsigned long long full[STAGES], empty[STAGES];
    const int group = threadIdx.x / 128, steps = k / TILE_K;

    if (threadIdx.x == 0)
        for (int i = 0; i < STAGES; ++i) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(full + i)));
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(empty + i)), "n"(GROUPS));
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

    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
    float sums[TILE_N / 2] = {};
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
    for (int j = 0; j < TILE_N / 8; ++j)
#pragma unroll
        for (int upper = 0; upper < 2; ++upper)
            *(float2*)(c + (size_t)(8 * upper) * n + 8 * j) =
                make_float2(sums[4 * j + 2 * upper], sums[4 * j + 2 * upper + 1]);
}
