// Layer norm over rows of n floats, one warp per row: mean and variance in one reading of the row,
// which stays in registers. n is a multiple of 128, at most 128 * ROUNDS; blocks of 128 threads
// take four rows.

#ifndef ROUNDS
#define ROUNDS 8
#endif

__device__ __forceinline__ float over_warp(float value)
{
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
        value += __shfl_xor_sync(~0u, value, step);
    return value;
}

extern "C" __global__ void layer_norm(const float* __restrict__ from, const float* __restrict__ scale,
                                      const float* __restrict__ shift, float* __restrict__ to, int n)
{
    const int lane = threadIdx.x % 32;
    const size_t row = (size_t)(blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32) * n;
    float4 part[ROUNDS];
    float sum = 0, squares = 0;
#pragma unroll
    for (int i = 0; i < ROUNDS; ++i) {
        const int at = 4 * (lane + 32 * i);
        part[i] = at < n ? *(const float4*)(from + row + at) : make_float4(0, 0, 0, 0);
        sum += (part[i].x + part[i].y) + (part[i].z + part[i].w);
        squares += part[i].x * part[i].x + part[i].y * part[i].y + part[i].z * part[i].z + part[i].w * part[i].w;
    }
    const float mean = __fdividef(over_warp(sum), (float)n);
    const float spread = rsqrtf(__fdividef(over_warp(squares), (float)n) - mean * mean + 1e-5f);
#pragma unroll
    for (int i = 0; i < ROUNDS; ++i) {
        const int at = 4 * (lane + 32 * i);
        if (at < n) {
            const float4 a = *(const float4*)(scale + at), b = *(const float4*)(shift + at);
            *(float4*)(to + row + at) = make_float4(
                (part[i].x - mean) * spread * a.x + b.x, (part[i].y - mean) * spread * a.y + b.y,
                (part[i].z - mean) * spread * a.z + b.z, (part[i].w - mean) * spread * a.w + b.w);
        }
    }
}
