// Sums of n float32; blocks of 256 threads, each leaves one partial sum.

// Neighbours are added first: active threads are spread over all warps until the end.
extern "C" __global__ void sum_divergent(const float* __restrict__ in, float* sums, int n)
{
    __shared__ float partial[256];
    const int t = threadIdx.x;
    const int i = blockIdx.x * 256 + t;
    partial[t] = i < n ? in[i] : 0.0f;
    __syncthreads();
    for (int stride = 1; stride < 256; stride *= 2) {
        if (t % (2 * stride) == 0)
            partial[t] += partial[t + stride];
        __syncthreads();
    }
    if (t == 0)
        sums[blockIdx.x] = partial[0];
}

// The halves are added first: warps retire one after the other.
extern "C" __global__ void sum_tree(const float* __restrict__ in, float* sums, int n)
{
    __shared__ float partial[256];
    const int t = threadIdx.x;
    const int i = blockIdx.x * 256 + t;
    partial[t] = i < n ? in[i] : 0.0f;
    __syncthreads();
    for (int stride = 128; stride > 0; stride /= 2) {
        if (t < stride)
            partial[t] += partial[t + stride];
        __syncthreads();
    }
    if (t == 0)
        sums[blockIdx.x] = partial[0];
}

__device__ __forceinline__ float warp_sum(float value)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_down_sync(0xffffffff, value, offset);
    return value;
}

// A grid-stride loop over vectors, then shuffles. n counts vectors of four.
extern "C" __global__ void sum_shuffle(const float4* __restrict__ in, float* sums, int n)
{
    __shared__ float partial[8];
    const int t = threadIdx.x;
    float sum = 0.0f;
    for (int i = blockIdx.x * 256 + t; i < n; i += 256 * gridDim.x) {
        const float4 v = in[i];
        sum += v.x + v.y + v.z + v.w;
    }
    sum = warp_sum(sum);
    if (t % 32 == 0)
        partial[t / 32] = sum;
    __syncthreads();
    if (t < 32) {
        sum = warp_sum(t < 8 ? partial[t] : 0.0f);
        if (t == 0)
            sums[blockIdx.x] = sum;
    }
}
