// O = softmax(Q Kᵀ / sqrt(d)) V, half precision, d = 64, one pass: each warp keeps 16 rows of Q and
// of O in registers and goes through K and V in tiles of 64 rows, which cp.async brings one tile
// ahead. Sequences are multiples of 64; blocks of 128 threads take 64 rows of one head.
// q, k, v and o are [heads][length][64]. sm_80 and later.
#include "tiles.cuh"

constexpr int D = 64, ROWS = 64, THREADS = 128;

__device__ __forceinline__ int place(int row, int chunk)
{
    return row * D + ((chunk ^ row & 7) << 3);
}

__device__ __forceinline__ void copy_tile(half* to, const half* from)
{
#pragma unroll
    for (int n = 0; n < ROWS * D / 8 / THREADS; ++n) {
        const int i = threadIdx.x + n * THREADS;
        copy16(to + place(i / 8, i % 8), from + i * 8);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
flash_attention(const half* __restrict__ q, const half* __restrict__ k, const half* __restrict__ v,
                half* __restrict__ o, int length, float scale)
{
    __shared__ __align__(128) half keys[2][ROWS * D], values[2][ROWS * D];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const size_t head = (size_t)blockIdx.y * length * D;
    k += head;
    v += head;

    copy_tile(values[1], q + head + (size_t)blockIdx.x * ROWS * D);  // Q, until the loop needs its place
    commit();
    copy_tile(keys[0], k);
    copy_tile(values[0], v);
    commit();
    wait_for_copies<1>();
    __syncthreads();
    unsigned rows[D / 16][4];
#pragma unroll
    for (int i = 0; i < D / 16; ++i)
        load_matrices(rows[i], values[1] + place(warp * 16 + lane % 16, 2 * i + lane / 16));
    __syncthreads();

    float out[D / 8][4] = {}, most[2] = {-1e30f, -1e30f}, sum[2] = {};
    const int tiles = length / ROWS;
    for (int tile = 0; tile < tiles; ++tile) {
        const int now = tile & 1;
        if (tile + 1 < tiles) {
            copy_tile(keys[now ^ 1], k + (size_t)(tile + 1) * ROWS * D);
            copy_tile(values[now ^ 1], v + (size_t)(tile + 1) * ROWS * D);
        }
        commit();
        wait_for_copies<1>();
        __syncthreads();

        float scores[ROWS / 8][4] = {};
#pragma unroll
        for (int i = 0; i < D / 16; ++i)
#pragma unroll
            for (int j = 0; j < ROWS / 16; ++j) {
                unsigned columns[4];
                load_matrices(columns, keys[now] + place(16 * j + lane % 8 + lane / 16 * 8, 2 * i + lane / 8 % 2));
                multiply(scores[2 * j], rows[i], columns[0], columns[1]);
                multiply(scores[2 * j + 1], rows[i], columns[2], columns[3]);
            }

#pragma unroll
        for (int half_row = 0; half_row < 2; ++half_row) {
            float best = most[half_row];
#pragma unroll
            for (int j = 0; j < ROWS / 8; ++j)
                best = fmaxf(best, scale * fmaxf(scores[j][2 * half_row], scores[j][2 * half_row + 1]));
            best = fmaxf(best, __shfl_xor_sync(~0u, best, 1));
            best = fmaxf(best, __shfl_xor_sync(~0u, best, 2));
            const float shrink = exp2f(most[half_row] - best);
            most[half_row] = best;
            sum[half_row] *= shrink;
#pragma unroll
            for (int j = 0; j < ROWS / 8; ++j)
#pragma unroll
                for (int i = 2 * half_row; i < 2 * half_row + 2; ++i)
                    sum[half_row] += scores[j][i] = exp2f(scale * scores[j][i] - best);
#pragma unroll
            for (int j = 0; j < D / 8; ++j) {
                out[j][2 * half_row] *= shrink;
                out[j][2 * half_row + 1] *= shrink;
            }
        }

#pragma unroll
        for (int i = 0; i < ROWS / 16; ++i) {
            const unsigned weights[4] = {
                pair(scores[2 * i][0], scores[2 * i][1]), pair(scores[2 * i][2], scores[2 * i][3]),
                pair(scores[2 * i + 1][0], scores[2 * i + 1][1]), pair(scores[2 * i + 1][2], scores[2 * i + 1][3])};
#pragma unroll
            for (int j = 0; j < D / 16; ++j) {
                unsigned columns[4];
                load_transposed(columns, values[now] + place(16 * i + lane % 16, 2 * j + lane / 16));
                multiply(out[2 * j], weights, columns[0], columns[1]);
                multiply(out[2 * j + 1], weights, columns[2], columns[3]);
            }
        }
        __syncthreads();
    }

#pragma unroll
    for (int half_row = 0; half_row < 2; ++half_row) {
        float total = sum[half_row];
        total += __shfl_xor_sync(~0u, total, 1);
        total += __shfl_xor_sync(~0u, total, 2);
        const float inverse = __fdividef(1.0f, total);
        const size_t row = (size_t)blockIdx.x * ROWS + warp * 16 + half_row * 8 + lane / 4;
        half* to = o + head + row * D + lane % 4 * 2;
#pragma unroll
        for (int j = 0; j < D / 8; ++j)
            *(unsigned*)(to + 8 * j) = pair(out[j][2 * half_row] * inverse, out[j][2 * half_row + 1] * inverse);
    }
}
