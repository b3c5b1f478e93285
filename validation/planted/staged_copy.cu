// staged_copy: tiles are copied through registers; mended, asynchronously and a step ahead.
#include <cuda_fp16.h>
#include <cuda_pipeline.h>

#define TILE 64
#define DEPTH 16
#define PITCH (DEPTH + 4)

// The products of one tile, 4 x 4 results per thread.
__device__ __forceinline__ void accumulate(float (&sum)[4][4], const float (*as)[PITCH],
                                           const float (*bs)[TILE], int tx, int ty)
{
#pragma unroll
    for (int d = 0; d < DEPTH; ++d) {
        float x[4], y[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            x[i] = as[ty * 4 + i][d];
            y[i] = bs[d][tx * 4 + i];
        }
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j)
                sum[i][j] += x[i] * y[j];
    }
}

// Product of two square matrices in tiles of 64 x 64.
extern "C" __global__ void __launch_bounds__(256)
    staged_copy_1(const float* __restrict__ a, const float* __restrict__ b, float* c, int n)
{
    __shared__ __align__(16) float as[TILE][PITCH], bs[DEPTH][TILE];
    const int t = threadIdx.x, tx = t % 16, ty = t / 16;
    const int row = blockIdx.y * TILE, column = blockIdx.x * TILE;
    const float* from_a = a + (row + t / 4) * n + t % 4 * 4;
    const float* from_b = b + t / 16 * n + column + t % 16 * 4;
    float sum[4][4] = {};
    for (int k = 0; k < n; k += DEPTH) {
        *(float4*)&as[t / 4][t % 4 * 4] = *(const float4*)(from_a + k);
        *(float4*)&bs[t / 16][t % 16 * 4] = *(const float4*)(from_b + k * n);
        __syncthreads();
        accumulate(sum, as, bs, tx, ty);
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
            c[(row + ty * 4 + i) * n + column + tx * 4 + j] = sum[i][j];
}

// The same with two tiles, one of which is filled while the other is used.
extern "C" __global__ void __launch_bounds__(256)
    staged_copy_1_mended(const float* __restrict__ a, const float* __restrict__ b, float* c, int n)
{
    __shared__ __align__(16) float as[2][TILE][PITCH], bs[2][DEPTH][TILE];
    const int t = threadIdx.x, tx = t % 16, ty = t / 16;
    const int row = blockIdx.y * TILE, column = blockIdx.x * TILE;
    const float* from_a = a + (row + t / 4) * n + t % 4 * 4;
    const float* from_b = b + t / 16 * n + column + t % 16 * 4;
    float sum[4][4] = {};
    __pipeline_memcpy_async(&as[0][t / 4][t % 4 * 4], from_a, 16);
    __pipeline_memcpy_async(&bs[0][t / 16][t % 16 * 4], from_b, 16);
    __pipeline_commit();
    for (int k = 0; k < n; k += DEPTH) {
        const int now = k / DEPTH % 2;
        if (k + DEPTH < n) {
            __pipeline_memcpy_async(&as[1 - now][t / 4][t % 4 * 4], from_a + k + DEPTH, 16);
            __pipeline_memcpy_async(&bs[1 - now][t / 16][t % 16 * 4], from_b + (k + DEPTH) * n, 16);
        }
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        accumulate(sum, as[now], bs[now], tx, ty);
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
            c[(row + ty * 4 + i) * n + column + tx * 4 + j] = sum[i][j];
}

#define TAPS 16
#define RANGES 256

// Power of one compressed pulse at the thread's range.
__device__ __forceinline__ float compress(const float2* echo, const float2* reference)
{
    float re = 0.0f, im = 0.0f;
#pragma unroll
    for (int k = 0; k < TAPS; ++k) {
        const float2 s = echo[threadIdx.x + k], w = reference[k];
        re += s.x * w.x - s.y * w.y;
        im += s.x * w.y + s.y * w.x;
    }
    return re * re + im * im;
}

// Pulse compression: power at 256 ranges per block, summed over pulses.
extern "C" __global__ void __launch_bounds__(RANGES)
    staged_copy_2(const float2* __restrict__ echoes, const float2* __restrict__ reference,
                  float* power, int pitch, int pulses)
{
    __shared__ float2 echo[RANGES + TAPS], chirp[TAPS];
    const int t = threadIdx.x;
    const float2* line = echoes + blockIdx.x * RANGES;
    if (t < TAPS)
        chirp[t] = reference[t];
    float sum = 0.0f;
    for (int p = 0; p < pulses; ++p) {
        const float2* from = line + (size_t)p * pitch + t;
        echo[t] = from[0];
        if (t < TAPS)
            echo[RANGES + t] = from[RANGES];
        __syncthreads();
        sum += compress(echo, chirp);
        __syncthreads();
    }
    power[blockIdx.x * RANGES + t] = sum;
}

// Starts to copy the thread's share of one line.
__device__ __forceinline__ void stage(float2* echo, const float2* from)
{
    __pipeline_memcpy_async(echo, from, 8);
    if (threadIdx.x < TAPS)
        __pipeline_memcpy_async(echo + RANGES, from + RANGES, 8);
    __pipeline_commit();
}

// The same with the next pulse under way.
extern "C" __global__ void __launch_bounds__(RANGES)
    staged_copy_2_mended(const float2* __restrict__ echoes, const float2* __restrict__ reference,
                         float* power, int pitch, int pulses)
{
    __shared__ float2 echo[2][RANGES + TAPS], chirp[TAPS];
    const int t = threadIdx.x;
    const float2* line = echoes + blockIdx.x * RANGES;
    if (t < TAPS)
        chirp[t] = reference[t];
    stage(echo[0] + t, line + t);
    float sum = 0.0f;
    for (int p = 0; p < pulses; ++p) {
        if (p + 1 < pulses)
            stage(echo[(p + 1) % 2] + t, line + (size_t)(p + 1) * pitch + t);
        else
            __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        sum += compress(echo[p % 2], chirp);
        __syncthreads();
    }
    power[blockIdx.x * RANGES + t] = sum;
}

#define KEYS 64
#define WIDTH 64
#define STRIDE (WIDTH + 8)

// The score of the thread's key.
__device__ __forceinline__ float score(const __half* key, const __half2 (&query)[WIDTH / 2])
{
    float sum = 0.0f;
#pragma unroll
    for (int d = 0; d < WIDTH; d += 8) {
        const uint4 words = *(const uint4*)(key + d);
        const __half2* k = (const __half2*)&words;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float2 x = __half22float2(k[j]), y = __half22float2(query[d / 2 + j]);
            sum += x.x * y.x + x.y * y.y;
        }
    }
    return sum;
}

// Sums of exponentials of attention scores, one head per block and 64 keys at a time.
extern "C" __global__ void __launch_bounds__(KEYS)
    staged_copy_3(const __half2* __restrict__ queries, const __half* __restrict__ keys, float* sums,
                  int length)
{
    __shared__ __align__(16) __half tile[KEYS * STRIDE];
    const int t = threadIdx.x;
    const __half* from = keys + ((size_t)blockIdx.x * length + t / 8) * WIDTH + t % 8 * 8;
    __half* to = tile + t / 8 * STRIDE + t % 8 * 8;
    __half2 query[WIDTH / 2];
#pragma unroll
    for (int d = 0; d < WIDTH / 2; ++d)
        query[d] = queries[blockIdx.x * (WIDTH / 2) + d];
    float sum = 0.0f;
    for (int first = 0; first < length; first += KEYS) {
#pragma unroll
        for (int k = 0; k < KEYS; k += 8)
            *(uint4*)(to + k * STRIDE) = *(const uint4*)(from + (first + k) * WIDTH);
        __syncthreads();
        sum += __expf(0.125f * score(tile + t * STRIDE, query));
        __syncthreads();
    }
    sums[blockIdx.x * KEYS + t] = sum;
}

// The same with the next keys under way.
extern "C" __global__ void __launch_bounds__(KEYS)
    staged_copy_3_mended(const __half2* __restrict__ queries, const __half* __restrict__ keys,
                         float* sums, int length)
{
    __shared__ __align__(16) __half tile[2][KEYS * STRIDE];
    const int t = threadIdx.x;
    const __half* from = keys + ((size_t)blockIdx.x * length + t / 8) * WIDTH + t % 8 * 8;
    const int to = t / 8 * STRIDE + t % 8 * 8;
    __half2 query[WIDTH / 2];
#pragma unroll
    for (int d = 0; d < WIDTH / 2; ++d)
        query[d] = queries[blockIdx.x * (WIDTH / 2) + d];
#pragma unroll
    for (int k = 0; k < KEYS; k += 8)
        __pipeline_memcpy_async(tile[0] + to + k * STRIDE, from + k * WIDTH, 16);
    __pipeline_commit();
    float sum = 0.0f;
    for (int first = 0; first < length; first += KEYS) {
        const int now = first / KEYS % 2;
        if (first + KEYS < length)
#pragma unroll
            for (int k = 0; k < KEYS; k += 8)
                __pipeline_memcpy_async(tile[1 - now] + to + k * STRIDE,
                                        from + (first + KEYS + k) * WIDTH, 16);
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        sum += __expf(0.125f * score(tile[now] + t * STRIDE, query));
        __syncthreads();
    }
    sums[blockIdx.x * KEYS + t] = sum;
}
