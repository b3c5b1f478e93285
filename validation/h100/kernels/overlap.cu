// Work of an SM beside DRAM, which limits these kernels: shared memory with conflicts, barriers, blocks
// that are small. n is a multiple of 32.

#ifndef PAD
#define PAD 0
#endif

// 32 x 32 elements by blocks of 32 x 8 threads; a column of the tile is read with conflicts of 32 lanes
// (PAD 0), 16, 8, 4, 2 (PAD 16, 8, 4, 2) or none (PAD 1).
extern "C" __global__ void transpose_tiles(const float* __restrict__ in, float* out, int n)
{
    __shared__ float tile[32][32 + PAD];
    int x = blockIdx.x * 32 + threadIdx.x;
    int y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}

// The same, but each tile stays where it is: DRAM sees a copy.
extern "C" __global__ void transpose_in_tiles(const float* __restrict__ in, float* out, int n)
{
    __shared__ float tile[32][32 + PAD];
    const int x = blockIdx.x * 32 + threadIdx.x;
    const int y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
    __syncthreads();
    for (int j = 0; j < 32; j += 8)
        out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}

// Row minus its mean, a block per row, with two barriers.
extern "C" __global__ void centre_rows_by_block(const float* __restrict__ in, float* out, int columns)
{
    __shared__ float partial[32];
    const float* row = in + (size_t)blockIdx.x * columns;
    float* result = out + (size_t)blockIdx.x * columns;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        sum += row[i];
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, offset);
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0.0f;
#pragma unroll
        for (int offset = 16; offset > 0; offset /= 2)
            sum += __shfl_xor_sync(0xffffffff, sum, offset);
        if (threadIdx.x == 0)
            partial[0] = sum;
    }
    __syncthreads();
    const float mean = partial[0] / columns;
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        result[i] = row[i] - mean;
}

// The same, a warp per row.
extern "C" __global__ void centre_rows_by_warp(const float* __restrict__ in, float* out, int columns)
{
    const size_t first = (size_t)(blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32) * columns;
    float sum = 0.0f;
    for (int i = threadIdx.x % 32; i < columns; i += 32)
        sum += in[first + i];
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, offset);
    const float mean = sum / columns;
    for (int i = threadIdx.x % 32; i < columns; i += 32)
        out[first + i] = in[first + i] - mean;
}

#ifndef ITEMS
#define ITEMS 1
#endif

// ITEMS loads of a thread in flight, a block's elements side by side.
extern "C" __global__ void copy_items(const float* __restrict__ in, float* out)
{
    const int first = blockIdx.x * blockDim.x * ITEMS + threadIdx.x;
    float items[ITEMS];
#pragma unroll
    for (int k = 0; k < ITEMS; ++k)
        items[k] = in[first + k * blockDim.x];
#pragma unroll
    for (int k = 0; k < ITEMS; ++k)
        out[first + k * blockDim.x] = items[k];
}
