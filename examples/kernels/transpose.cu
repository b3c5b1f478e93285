// Matrix transpose, rows x columns float32: strided stores, a tile in shared memory whose columns
// all lie in one bank, and the same tile with rows one element longer, free of bank conflicts.

#define TILE 32

extern "C" __global__ void transpose_naive(const float* __restrict__ in, float* out,
                                           int rows, int columns)
{
    const int column = blockIdx.x * TILE + threadIdx.x;
    const int row = blockIdx.y * TILE + threadIdx.y;
    if (column >= columns)
        return;
    for (int j = 0; j < TILE && row + j < rows; j += blockDim.y)
        out[column * rows + row + j] = in[(row + j) * columns + column];
}

// Blocks of TILE x (a divisor of TILE) threads; PITCH is the length of a row of the tile.
template <int PITCH>
__device__ void transpose_tile(const float* __restrict__ in, float* out, int rows, int columns)
{
    __shared__ float tile[TILE][PITCH];
    int column = blockIdx.x * TILE + threadIdx.x;
    int row = blockIdx.y * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += blockDim.y)
        if (column < columns && row + j < rows)
            tile[threadIdx.y + j][threadIdx.x] = in[(row + j) * columns + column];
    __syncthreads();

    column = blockIdx.y * TILE + threadIdx.x;
    row = blockIdx.x * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += blockDim.y)
        if (column < rows && row + j < columns)
            out[(row + j) * rows + column] = tile[threadIdx.x][threadIdx.y + j];
}

extern "C" __global__ void transpose_tiled(const float* __restrict__ in, float* out,
                                           int rows, int columns)
{
    transpose_tile<TILE>(in, out, rows, columns);
}

extern "C" __global__ void transpose_padded(const float* __restrict__ in, float* out,
                                            int rows, int columns)
{
    transpose_tile<TILE + 1>(in, out, rows, columns);
}
