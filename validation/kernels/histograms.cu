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

// The same with bins that the kernel clears itself: in global memory, and in shared memory first.
extern "C" __global__ void bins_global(const unsigned* in, unsigned* bins, unsigned n,
                                       unsigned count)
{
    unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    for (unsigned b = thread; b < count; b += blockDim.x * gridDim.x) bins[b] = 0;
    __syncthreads();
    for (unsigned i = thread; i < n; i += blockDim.x * gridDim.x) atomicAdd(&bins[in[i]], 1);
}

extern "C" __global__ void bins_shared(const unsigned* in, unsigned* bins, unsigned n,
                                       unsigned count)
{
    extern __shared__ unsigned own[];
    for (unsigned b = threadIdx.x; b < count; b += blockDim.x) own[b] = 0;
    __syncthreads();
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        atomicAdd(&own[in[i]], 1);
    __syncthreads();
    for (unsigned b = threadIdx.x; b < count; b += blockDim.x) atomicAdd(&bins[b], own[b]);
}
