// Inclusive scans of blocks of 512 elements; blocks of 512 threads.

// Hillis and Steele: every step reads and writes all elements, two barriers each.
extern "C" __global__ void scan_shared(const int* __restrict__ in, int* out)
{
    __shared__ int values[512];
    const int t = threadIdx.x;
    const int i = blockIdx.x * 512 + t;
    values[t] = in[i];
    __syncthreads();
    for (int offset = 1; offset < 512; offset *= 2) {
        const int left = t >= offset ? values[t - offset] : 0;
        __syncthreads();
        values[t] += left;
        __syncthreads();
    }
    out[i] = values[t];
}

__device__ __forceinline__ int warp_scan(int value, int lane)
{
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
        const int left = __shfl_up_sync(0xffffffff, value, offset);
        if (lane >= offset)
            value += left;
    }
    return value;
}

// Warps scan by shuffles; one warp scans their sums.
extern "C" __global__ void scan_shuffle(const int* __restrict__ in, int* out)
{
    __shared__ int sums[16];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    const int i = blockIdx.x * 512 + t;
    int value = warp_scan(in[i], lane);
    if (lane == 31)
        sums[warp] = value;
    __syncthreads();
    if (t < 32) {
        const int sum = warp_scan(t < 16 ? sums[t] : 0, lane);
        if (t < 16)
            sums[t] = sum;
    }
    __syncthreads();
    if (warp > 0)
        value += sums[warp - 1];
    out[i] = value;
}
