// Transpose of a square matrix, n a multiple of 32; blocks of 32 x 8 threads, 32 x 32 elements.

extern "C" __global__ void transpose_naive(const float* __restrict__ in, float* out, int n)
{
    const int x = blockIdx.x * 32 + threadIdx.x;
    const int y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        out[x * n + y + j] = in[(y + j) * n + x];
}

template <int PITCH>
__device__ void through_shared(const float* __restrict__ in, float* out, int n)
{
    __shared__ float tile[32][PITCH];
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

// A column of the tile lies in one bank.
extern "C" __global__ void transpose_conflicts(const float* __restrict__ in, float* out, int n)
{
    through_shared<32>(in, out, n);
}

extern "C" __global__ void transpose_padded(const float* __restrict__ in, float* out, int n)
{
    through_shared<33>(in, out, n);
}
