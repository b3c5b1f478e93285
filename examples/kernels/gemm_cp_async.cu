// C = A Bᵀ, half precision in, single precision out: mma.sync on tiles that cp.async brings to shared
// memory STAGES iterations ahead. A is m x k, B is n x k, both row by row; m, n multiples of the
// tile, k of 32. Blocks of (TILE_M / 64) x (TILE_N / 64) warps, each makes 64 x 64 of C.
// With SPLIT > 1 blocks along z take parts of k and add to C atomically. sm_80 and later; FP8, where A
// and B hold 8-bit floats (e4m3) and k counts pairs of them, needs sm_89.
#include "tiles.cuh"

#ifndef TILE_M
#define TILE_M 128
#endif
#ifndef TILE_N
#define TILE_N 128
#endif
#ifndef STAGES
#define STAGES 3
#endif

#ifndef SPLIT
#define SPLIT 1
#endif
#ifdef FP8
#define MULTIPLY multiply_fp8
#else
#define MULTIPLY multiply
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

template <int ROWS>
__device__ __forceinline__ void copy_tile(half* to, const half* from, int k, int at)
{
#pragma unroll
    for (int n = 0; n < ROWS * TILE_K / 8 / THREADS; ++n) {
        const int i = threadIdx.x + n * THREADS, row = i / 4, chunk = i % 4;
        copy16(to + place(row, chunk), from + (size_t)row * k + at + chunk * 8);
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

    const int steps = k / TILE_K / SPLIT;
    if (SPLIT > 1) {
        a += (size_t)blockIdx.z * steps * TILE_K;
        b += (size_t)blockIdx.z * steps * TILE_K;
    }
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        copy_tile<TILE_M>(tiles + stage * STAGE, a, k, stage * TILE_K);
        copy_tile<TILE_N>(tiles + stage * STAGE + TILE_M * TILE_K, b, k, stage * TILE_K);
        commit();
    }

    float sums[4][8][4] = {};
    int reading = 0, writing = STAGES - 1;
    for (int step = 0; step < steps; ++step) {
        wait_for_copies<STAGES - 2>();
        __syncthreads();
        if (step + STAGES - 1 < steps) {
            copy_tile<TILE_M>(tiles + writing * STAGE, a, k, (step + STAGES - 1) * TILE_K);
            copy_tile<TILE_N>(tiles + writing * STAGE + TILE_M * TILE_K, b, k, (step + STAGES - 1) * TILE_K);
        }
        commit();
        const half* tile = tiles + reading * STAGE;
#pragma unroll
        for (int inner = 0; inner < TILE_K / 16; ++inner) {
            unsigned left[4][4], right[4][4];
#pragma unroll
            for (int i = 0; i < 4; ++i)
                load_matrices(left[i], tile + place(row + 16 * i + lane % 16, 2 * inner + lane / 16));
#pragma unroll
            for (int j = 0; j < 4; ++j)
                load_matrices(right[j], tile + TILE_M * TILE_K + place(
                    column + 16 * j + lane % 8 + lane / 16 * 8, 2 * inner + lane / 8 % 2));
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 8; ++j)
                    MULTIPLY(sums[i][j], left[i], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]);
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
            for (int upper = 0; upper < 2; ++upper) {
                float* to = c + (size_t)(16 * i + 8 * upper) * n + 8 * j;
                const float x = sums[i][j][2 * upper], y = sums[i][j][2 * upper + 1];
                if (SPLIT > 1) {
                    atomicAdd(to, x);
                    atomicAdd(to + 1, y);
                } else {
                    *(float2*)to = make_float2(x, y);
                }
            }
}
