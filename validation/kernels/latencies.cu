// Latency decides: few blocks, few warps, loads that wait for loads.

// The grid is what the launch says; the work of a thread is fixed.
extern "C" __global__ void small_grid(const float* __restrict__ in, float* out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = in[i];
#pragma unroll 8
    for (int k = 0; k < 2048; ++k)
        s = s * 0.5f + 1.25f;
    out[i] = s;
}

// 64 loads, each of which waits for the one before. The suite fills `zeros` with zeros: what is
// loaded decides nothing but when the next load may start.
extern "C" __global__ void chase(const int* __restrict__ zeros, int* out, int stride)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    int at = i;
#pragma unroll
    for (int k = 0; k < 64; ++k)
        at = i + k * stride + zeros[at];
    out[i] = at;
}

// One load in flight per thread, and eight.
extern "C" __global__ void sum_rolled(const float* __restrict__ in, float* out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0.0f;
#pragma unroll 1
    for (int k = 0; k < 64; ++k)
        s = s * 0.5f + in[i + k * n];
    out[i] = s;
}

extern "C" __global__ void sum_unrolled(const float* __restrict__ in, float* out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0.0f;
#pragma unroll 8
    for (int k = 0; k < 64; ++k)
        s = s * 0.5f + in[i + k * n];
    out[i] = s;
}

// One warp works while seven wait at the barrier; and all share the work.
extern "C" __global__ void barrier_imbalanced(const float* __restrict__ in, float* out)
{
    __shared__ float total;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = in[i];
#pragma unroll 1
    for (int r = 0; r < 8; ++r) {
        if (threadIdx.x < 32) {
#pragma unroll 8
            for (int k = 0; k < 256; ++k)
                s = s * 0.5f + 1.25f;
            if (threadIdx.x == 0)
                total = s;
        }
        __syncthreads();
        s += total;
        __syncthreads();
    }
    out[i] = s;
}

extern "C" __global__ void barrier_balanced(const float* __restrict__ in, float* out)
{
    __shared__ float total;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = in[i];
#pragma unroll 1
    for (int r = 0; r < 8; ++r) {
#pragma unroll 8
        for (int k = 0; k < 32; ++k)
            s = s * 0.5f + 1.25f;
        if (threadIdx.x == 0)
            total = s;
        __syncthreads();
        s += total;
        __syncthreads();
    }
    out[i] = s;
}
