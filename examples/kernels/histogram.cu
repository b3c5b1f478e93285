// Histogram of n bytes (one per 32-bit word): atomics in shared memory, then one global per bin.
// Which bins collide depends on the data; the address of each shared atomic is a loaded value.

#define BINS 256

extern "C" __global__ void histogram(const unsigned* __restrict__ in, unsigned* counts, int n)
{
    __shared__ unsigned bins[BINS];
    for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x)
        bins[bin] = 0;
    __syncthreads();

    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        atomicAdd(&bins[in[i] % BINS], 1u);
    __syncthreads();

    for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x)
        atomicAdd(&counts[bin], bins[bin]);
}
