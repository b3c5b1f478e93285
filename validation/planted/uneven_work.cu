// uneven_work: one warp works while the others wait; mended, all share the work.
#include <cuda_fp16.h>

#define ROW 8192

// Softmax of half-precision logits, one row per block; the first warp finds maximum and sum.
extern "C" __global__ void __launch_bounds__(1024)
    uneven_work_1(const __half* __restrict__ logits, __half* out)
{
    __shared__ float row[ROW], shift, scale;
    const size_t start = (size_t)blockIdx.x * ROW;
    for (int c = threadIdx.x; c < ROW; c += 1024)
        row[c] = __half2float(logits[start + c]);
    __syncthreads();
    if (threadIdx.x < 32) {
        float largest = -1e30f, sum = 0.0f;
        for (int c = threadIdx.x; c < ROW; c += 32)
            largest = fmaxf(largest, row[c]);
        for (int d = 16; d > 0; d /= 2)
            largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, d));
        for (int c = threadIdx.x; c < ROW; c += 32)
            sum += __expf(row[c] - largest);
        for (int d = 16; d > 0; d /= 2)
            sum += __shfl_xor_sync(~0u, sum, d);
        if (threadIdx.x == 0) {
            shift = largest;
            scale = 1.0f / sum;
        }
    }
    __syncthreads();
    for (int c = threadIdx.x; c < ROW; c += 1024)
        out[start + c] = __float2half(__expf(row[c] - shift) * scale);
}

// The same with both found by all 32 warps.
extern "C" __global__ void __launch_bounds__(1024)
    uneven_work_1_mended(const __half* __restrict__ logits, __half* out)
{
    __shared__ float row[ROW], maxima[32], sums[32];
    const size_t start = (size_t)blockIdx.x * ROW;
    for (int c = threadIdx.x; c < ROW; c += 1024)
        row[c] = __half2float(logits[start + c]);
    __syncthreads();
    float largest = -1e30f, sum = 0.0f;
    for (int c = threadIdx.x; c < ROW; c += 1024)
        largest = fmaxf(largest, row[c]);
    for (int d = 16; d > 0; d /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, d));
    if (threadIdx.x % 32 == 0)
        maxima[threadIdx.x / 32] = largest;
    __syncthreads();
    largest = maxima[threadIdx.x % 32];
    for (int d = 16; d > 0; d /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, d));
    for (int c = threadIdx.x; c < ROW; c += 1024)
        sum += __expf(row[c] - largest);
    for (int d = 16; d > 0; d /= 2)
        sum += __shfl_xor_sync(~0u, sum, d);
    if (threadIdx.x % 32 == 0)
        sums[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = sums[threadIdx.x % 32];
    for (int d = 16; d > 0; d /= 2)
        sum += __shfl_xor_sync(~0u, sum, d);
    const float scale = 1.0f / sum;
    for (int c = threadIdx.x; c < ROW; c += 1024)
        out[start + c] = __float2half(__expf(row[c] - largest) * scale);
}

#define SIDE 32
#define RADIUS 1
#define WINDOW (SIDE + 2 * RADIUS)

// Variance of 3 x 3 pixels, in is padded by 1 on each side; the first warp stages the window.
extern "C" __global__ void uneven_work_2(const unsigned short* __restrict__ in, float* out,
                                         int width)
{
    __shared__ float window[WINDOW][WINDOW];
    const int x0 = blockIdx.x * SIDE, y0 = blockIdx.y * SIDE, pitch = width + 2 * RADIUS;
    if (threadIdx.y == 0)
        for (int e = threadIdx.x; e < WINDOW * WINDOW; e += 32)
            window[e / WINDOW][e % WINDOW] = in[(y0 + e / WINDOW) * pitch + x0 + e % WINDOW];
    __syncthreads();
    for (int y = threadIdx.y; y < SIDE; y += 8) {
        float sum = 0.0f, squares = 0.0f;
#pragma unroll
        for (int dy = 0; dy <= 2 * RADIUS; ++dy)
#pragma unroll
            for (int dx = 0; dx <= 2 * RADIUS; ++dx) {
                const float v = window[y + dy][threadIdx.x + dx];
                sum += v;
                squares += v * v;
            }
        const float mean = sum * (1.0f / 9.0f);
        out[(y0 + y) * width + x0 + threadIdx.x] = squares * (1.0f / 9.0f) - mean * mean;
    }
}

// The same, staged by all eight warps.
extern "C" __global__ void uneven_work_2_mended(const unsigned short* __restrict__ in, float* out,
                                                int width)
{
    __shared__ float window[WINDOW][WINDOW];
    const int x0 = blockIdx.x * SIDE, y0 = blockIdx.y * SIDE, pitch = width + 2 * RADIUS;
    for (int e = threadIdx.y * 32 + threadIdx.x; e < WINDOW * WINDOW; e += 256)
        window[e / WINDOW][e % WINDOW] = in[(y0 + e / WINDOW) * pitch + x0 + e % WINDOW];
    __syncthreads();
    for (int y = threadIdx.y; y < SIDE; y += 8) {
        float sum = 0.0f, squares = 0.0f;
#pragma unroll
        for (int dy = 0; dy <= 2 * RADIUS; ++dy)
#pragma unroll
            for (int dx = 0; dx <= 2 * RADIUS; ++dx) {
                const float v = window[y + dy][threadIdx.x + dx];
                sum += v;
                squares += v * v;
            }
        const float mean = sum * (1.0f / 9.0f);
        out[(y0 + y) * width + x0 + threadIdx.x] = squares * (1.0f / 9.0f) - mean * mean;
    }
}

#define LEVELS 8
#define LONGEST 8192

// The sum of a warp's values.
__device__ __forceinline__ double warp_sum(double v)
{
    for (int d = 16; d > 0; d /= 2)
        v += __shfl_xor_sync(~0u, v, d);
    return v;
}

// Energy of wavelet coefficients by level, one signal per block; each warp sums one level.
extern "C" __global__ void uneven_work_3(const double* __restrict__ coefficients, double* share)
{
    __shared__ double energy[LEVELS];
    const double* signal = coefficients + (size_t)blockIdx.x * 2 * LONGEST;
    const int level = threadIdx.x / 32, length = LONGEST >> level;
    double sum = 0.0;
    for (int k = threadIdx.x % 32; k < length; k += 32)
        sum += signal[length + k] * signal[length + k];
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0)
        energy[level] = sum;
    __syncthreads();
    double total = 0.0;
    for (int k = 0; k < LEVELS; ++k)
        total += energy[k];
    if (threadIdx.x < LEVELS)
        share[blockIdx.x * LEVELS + threadIdx.x] = energy[threadIdx.x] / total;
}

// The same, all warps summing each level.
extern "C" __global__ void uneven_work_3_mended(const double* __restrict__ coefficients,
                                                double* share)
{
    __shared__ double part[LEVELS][LEVELS];
    const double* signal = coefficients + (size_t)blockIdx.x * 2 * LONGEST;
    for (int level = 0; level < LEVELS; ++level) {
        const int length = LONGEST >> level;
        double sum = 0.0;
        for (int k = threadIdx.x; k < length; k += 32 * LEVELS)
            sum += signal[length + k] * signal[length + k];
        sum = warp_sum(sum);
        if (threadIdx.x % 32 == 0)
            part[level][threadIdx.x / 32] = sum;
    }
    __syncthreads();
    const int level = threadIdx.x % LEVELS;
    double energy = 0.0;
    for (int w = 0; w < LEVELS; ++w)
        energy += part[level][w];
    double total = energy;
    for (int d = LEVELS / 2; d > 0; d /= 2)
        total += __shfl_xor_sync(~0u, total, d);
    if (threadIdx.x < LEVELS)
        share[blockIdx.x * LEVELS + level] = energy / total;
}
