// Histograms whose bins the kernel clears itself: in global memory, and in shared memory first.
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
