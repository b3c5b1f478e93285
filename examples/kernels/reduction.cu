// Sum of n float32: a grid-stride load, then a tree in shared memory with a barrier per level.
// Blocks of BLOCK threads (a power of two); each leaves one partial sum.

#ifndef BLOCK
#define BLOCK 256
#endif

extern "C" __global__ void block_sums(const float* __restrict__ in, float* sums, int n)
{
    __shared__ float partial[BLOCK];
    const int t = threadIdx.x;

    float sum = 0.0f;
    for (int i = blockIdx.x * BLOCK + t; i < n; i += BLOCK * gridDim.x)
        sum += in[i];
    partial[t] = sum;
    __syncthreads();

    for (int stride = BLOCK / 2; stride > 0; stride /= 2) {
        if (t < stride)
            partial[t] += partial[t + stride];
        __syncthreads();
    }
    if (t == 0)
        sums[blockIdx.x] = partial[0];
}
