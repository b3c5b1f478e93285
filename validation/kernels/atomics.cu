// Atomic operations that share out `addresses` words among all threads, or among those of a block.

extern "C" __global__ void add_global(unsigned* counts, int addresses, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(&counts[i % addresses], (unsigned)i);
}

extern "C" __global__ void add_doubles(double* sums, int addresses, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(&sums[i % addresses], 0.5);
}

// 64 additions per thread in shared memory; the words lie side by side, in banks of their own.
extern "C" __global__ void add_shared(unsigned* out, int addresses)
{
    __shared__ unsigned counts[1024];
    counts[threadIdx.x] = 0;
    __syncthreads();
    unsigned* own = &counts[threadIdx.x % addresses];
#pragma unroll
    for (unsigned k = 0; k < 64; ++k)
        atomicAdd(own, k + threadIdx.x);
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = counts[threadIdx.x];
}
