// Softmax over rows of n floats, one block per row: read once, kept in registers, written once.
// n is at most 4 * ROUNDS * blockDim.x, and a multiple of 4; blocks are multiples of a warp.

#ifndef ROUNDS
#define ROUNDS 4
#endif

template <bool LARGEST> __device__ float over_block(float value, float* held)
{
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        const float other = __shfl_xor_sync(~0u, value, step);
        value = LARGEST ? fmaxf(value, other) : value + other;
    }
    if (threadIdx.x % 32 == 0)
        held[threadIdx.x / 32] = value;
    __syncthreads();
    value = held[0];
    for (int warp = 1; warp < blockDim.x / 32; ++warp)
        value = LARGEST ? fmaxf(value, held[warp]) : value + held[warp];
    __syncthreads();
    return value;
}

extern "C" __global__ void softmax(const float* __restrict__ from, float* __restrict__ to, int n)
{
    __shared__ float held[32];
    from += (size_t)blockIdx.x * n;
    to += (size_t)blockIdx.x * n;
    float4 part[ROUNDS];
    float most = -1e30f, sum = 0;
#pragma unroll
    for (int i = 0; i < ROUNDS; ++i) {
        const int at = 4 * (threadIdx.x + i * blockDim.x);
        part[i] = at < n ? *(const float4*)(from + at) : make_float4(-1e30f, -1e30f, -1e30f, -1e30f);
        most = fmaxf(most, fmaxf(fmaxf(part[i].x, part[i].y), fmaxf(part[i].z, part[i].w)));
    }
    most = over_block<true>(most, held);
#pragma unroll
    for (int i = 0; i < ROUNDS; ++i) {
        part[i] = make_float4(__expf(part[i].x - most), __expf(part[i].y - most),
                              __expf(part[i].z - most), __expf(part[i].w - most));
        sum += (part[i].x + part[i].y) + (part[i].z + part[i].w);
    }
    const float inverse = __fdividef(1.0f, over_block<false>(sum, held));
#pragma unroll
    for (int i = 0; i < ROUNDS; ++i) {
        const int at = 4 * (threadIdx.x + i * blockDim.x);
        if (at < n)
            *(float4*)(to + at) = make_float4(part[i].x * inverse, part[i].y * inverse,
                                              part[i].z * inverse, part[i].w * inverse);
    }
}
