// Histograms of n values below 256: atomics to global memory, and to shared memory first.

extern "C" __global__ void histogram_global(const unsigned* __restrict__ in, unsigned* counts,
                                            int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        atomicAdd(&counts[in[i]], 1u);
}

extern "C" __global__ void histogram_shared(const unsigned* __restrict__ in, unsigned* counts,
                                            int n)
{
    __shared__ unsigned bins[256];
    bins[threadIdx.x] = 0;  // blocks of 256 threads
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        atomicAdd(&bins[in[i]], 1u);
    __syncthreads();
    atomicAdd(&counts[threadIdx.x], bins[threadIdx.x]);
}
