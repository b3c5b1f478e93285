// C = A Bᵀ, half precision in, single precision out: mma.sync on tiles that cp.async brings to shared
// memory STAGES iterations ahead. A is m x k, B is n x k, both row by row; m, n multiples of the
// tile, k of 32. Blocks of (TILE_M / 64) x (TILE_N / 64) warps, each makes 64 x 64 of C.
// sm_80 and later.
using half = unsigned short;  // its bits

#ifndef TILE_M
#define TILE_M 128
#endif
#ifndef TILE_N
#define TILE_N 128
#endif
#ifndef STAGES
#define STAGES 3
#endif

constexpr int TILE_K = 32;
constexpr int WARPS = (TILE_M / 64) * (TILE_N / 64);
constexpr int THREADS = 32 * WARPS;

// Rows of 32 halves, of which two share the 32 banks: 16-byte chunks are exchanged by row, so that
// eight rows of a matrix load lie in different banks.
__device__ __forceinline__ int place(int row, int chunk)
{
    return row * TILE_K + ((chunk ^ (row >> 1) & 3) << 3);
}

__device__ __forceinline__ void copy16(unsigned to, const half* from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
}

__device__ __forceinline__ void load_matrices(unsigned (&r)[4], unsigned from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from));
}

__device__ __forceinline__ void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <int ROWS>
__device__ __forceinline__ void copy_tile(half* to, const half* from, int k, int at)
{
#pragma unroll
    for (int n = 0; n < ROWS * TILE_K / 8 / THREADS; ++n) {
        const int i = threadIdx.x + n * THREADS, row = i / 4, chunk = i % 4;
        copy16((unsigned)__cvta_generic_to_shared(to + place(row, chunk)),
               from + (size_t)row * k + at + chunk * 8);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
gemm_cp_async(const half* __restrict__ a, const half* __restrict__ b, float* __restrict__ c, int n, int k)
{
    extern __shared__ half tiles[];  // [STAGES][(TILE_M + TILE_N) * TILE_K]
    constexpr int STAGE = (TILE_M + TILE_N) * TILE_K;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row = warp / (TILE_N / 64) * 64, column = warp % (TILE_N / 64) * 64;
    a += (size_t)blockIdx.y * TILE_M * k;
    b += (size_t)blockIdx.x * TILE_N * k;

    const int steps = k / TILE_K;
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        copy_tile<TILE_M>(tiles + stage * STAGE, a, k, stage * TILE_K);
        copy_tile<TILE_N>(tiles + stage * STAGE + TILE_M * TILE_K, b, k, stage * TILE_K);
        asm volatile("cp.async.commit_group;");
    }

    float sums[4][8][4] = {};
    int reading = 0, writing = STAGES - 1;
    for (int step = 0; step < steps; ++step) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
        __syncthreads();
        if (step + STAGES - 1 < steps) {
            copy_tile<TILE_M>(tiles + writing * STAGE, a, k, (step + STAGES - 1) * TILE_K);
            copy_tile<TILE_N>(tiles + writing * STAGE + TILE_M * TILE_K, b, k, (step + STAGES - 1) * TILE_K);
        }
        asm volatile("cp.async.commit_group;");
        const half* tile = tiles + reading * STAGE;
#pragma unroll
        for (int inner = 0; inner < TILE_K / 16; ++inner) {
            unsigned left[4][4], right[4][4];
#pragma unroll
            for (int i = 0; i < 4; ++i)
                load_matrices(left[i], (unsigned)__cvta_generic_to_shared(
                    tile + place(row + 16 * i + lane % 16, 2 * inner + lane / 16)));
#pragma unroll
            for (int j = 0; j < 4; ++j)
                load_matrices(right[j], (unsigned)__cvta_generic_to_shared(
                    tile + TILE_M * TILE_K +
                    place(column + 16 * j + lane % 8 + lane / 16 * 8, 2 * inner + lane / 8 % 2)));
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 8; ++j)
                    multiply(sums[i][j], left[i], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]);
        }
        reading = reading + 1 == STAGES ? 0 : reading + 1;
        writing = writing + 1 == STAGES ? 0 : writing + 1;
    }

    c += ((size_t)blockIdx.y * TILE_M + row + lane / 4) * n + blockIdx.x * TILE_N + column + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j)
#pragma unroll
            for (int upper = 0; upper < 2; ++upper)
                *(float2*)(c + (size_t)(16 * i + 8 * upper) * n + 8 * j) =
                    make_float2(sums[i][j][2 * upper], sums[i][j][2 * upper + 1]);
}
