// Convolution of a padded image with a 9 x 9 window; the weights are in constant memory.
// The input has 8 more rows and columns than the output; width and height multiples of the block.

#define SIZE 9
__constant__ float weights[SIZE * SIZE];

extern "C" __global__ void convolve_global(const float* __restrict__ in, float* out, int width)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    const int pitch = width + SIZE - 1;
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < SIZE; ++i)
#pragma unroll
        for (int j = 0; j < SIZE; ++j)
            sum += in[(y + i) * pitch + x + j] * weights[i * SIZE + j];
    out[y * width + x] = sum;
}

// Four pixels of a column per thread: what they share stays in registers. Blocks of 32 x 8.
extern "C" __global__ void convolve_registers(const float* __restrict__ in, float* out, int width)
{
    const int x = blockIdx.x * 32 + threadIdx.x;
    const int y = (blockIdx.y * 8 + threadIdx.y) * 4;
    const int pitch = width + SIZE - 1;
    float sum[4] = {};
#pragma unroll
    for (int j = 0; j < SIZE; ++j) {
        float column[SIZE + 3];
#pragma unroll
        for (int i = 0; i < SIZE + 3; ++i)
            column[i] = in[(y + i) * pitch + x + j];
#pragma unroll
        for (int p = 0; p < 4; ++p)
#pragma unroll
            for (int i = 0; i < SIZE; ++i)
                sum[p] += column[p + i] * weights[i * SIZE + j];
    }
#pragma unroll
    for (int p = 0; p < 4; ++p)
        out[(y + p) * width + x] = sum[p];
}

// Blocks of 32 x 8 threads, an element each; the tile with its rim is in shared memory.
extern "C" __global__ void convolve_shared(const float* __restrict__ in, float* out, int width)
{
    __shared__ float tile[8 + SIZE - 1][32 + SIZE - 1];
    const int pitch = width + SIZE - 1;
    for (int i = threadIdx.y; i < 8 + SIZE - 1; i += 8)
        for (int j = threadIdx.x; j < 32 + SIZE - 1; j += 32)
            tile[i][j] = in[(blockIdx.y * 8 + i) * pitch + blockIdx.x * 32 + j];
    __syncthreads();
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < SIZE; ++i)
#pragma unroll
        for (int j = 0; j < SIZE; ++j)
            sum += tile[threadIdx.y + i][threadIdx.x + j] * weights[i * SIZE + j];
    out[(blockIdx.y * 8 + threadIdx.y) * width + blockIdx.x * 32 + threadIdx.x] = sum;
}
