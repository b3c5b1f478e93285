// Atomic operations on words that are 4 bytes or more apart: `words` is a power of two, `spacing` in words.

template <typename T>
__device__ void add_spread(T* sums, unsigned words, unsigned spacing, int times)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    T* own = sums + (size_t)(i & (words - 1)) * spacing;
    for (int k = 0; k < times; ++k)
        atomicAdd(own, (T)(k + 1));
}

// Neighbouring lanes add to neighbouring words.
extern "C" __global__ void add_floats_spread(float* sums, unsigned words, unsigned spacing, int times)
{
    add_spread(sums, words, spacing, times);
}

extern "C" __global__ void add_doubles_spread(double* sums, unsigned words, unsigned spacing, int times)
{
    add_spread(sums, words, spacing, times);
}

extern "C" __global__ void add_integers_spread(unsigned* sums, unsigned words, unsigned spacing,
                                               int times)
{
    add_spread(sums, words, spacing, times);
}

// The lanes of a warp add to one word.
extern "C" __global__ void add_floats_by_warp(float* sums, unsigned words, unsigned spacing, int times)
{
    const unsigned warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    float* own = sums + (size_t)(warp & (words - 1)) * spacing;
    for (int k = 0; k < times; ++k)
        atomicAdd(own, (float)(k + 1));
}

// 64 additions of each thread in shared memory, to `words` words.
template <typename T>
__device__ void add_in_block(T* out, unsigned words, unsigned spacing)
{
    __shared__ T sums[4096];
    for (unsigned i = threadIdx.x; i < 4096; i += blockDim.x)
        sums[i] = 0;
    __syncthreads();
    T* own = &sums[(threadIdx.x & (words - 1)) * spacing];
#pragma unroll 8
    for (unsigned k = 0; k < 64; ++k)
        atomicAdd(own, (T)(k + threadIdx.x));
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = sums[threadIdx.x];
}

extern "C" __global__ void add_integers_in_block(unsigned* out, unsigned words, unsigned spacing)
{
    add_in_block(out, words, spacing);
}

extern "C" __global__ void add_floats_in_block(float* out, unsigned words, unsigned spacing)
{
    add_in_block(out, words, spacing);
}

// An addition by compare and swap, 16 times: who loses tries again. `words` words for all threads,
// 32 bytes apart.
extern "C" __global__ void add_by_swaps(unsigned* sums, unsigned words)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned* own = sums + 8 * (i & (words - 1));
    for (int k = 0; k < 16; ++k) {
        unsigned seen = *(volatile unsigned*)own, before;
        do {
            before = seen;
            seen = atomicCAS(own, before, before + i + 1);
        } while (seen != before);
    }
}

extern "C" __global__ void add_by_swaps_in_block(unsigned* out, unsigned words)
{
    __shared__ unsigned sums[1024];
    sums[threadIdx.x] = 0;
    __syncthreads();
    unsigned* own = &sums[threadIdx.x & (words - 1)];
    for (int k = 0; k < 16; ++k) {
        unsigned seen = *(volatile unsigned*)own, before;
        do {
            before = seen;
            seen = atomicCAS(own, before, before + threadIdx.x + 1);
        } while (seen != before);
    }
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = sums[threadIdx.x];
}
