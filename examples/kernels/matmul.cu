// C = A B, n x n float32, n a multiple of TILE: square tiles of A and B in shared memory.
// Blocks of TILE x TILE threads, one element of C per thread, two barriers per pair of tiles.

#ifndef TILE
#define TILE 16
#endif

extern "C" __global__ void matmul(const float* __restrict__ a, const float* __restrict__ b,
                                  float* c, int n)
{
    __shared__ float tile_a[TILE][TILE];
    __shared__ float tile_b[TILE][TILE];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int column = blockIdx.x * TILE + tx;
    const int row = blockIdx.y * TILE + ty;

    float sum = 0.0f;
    for (int k = 0; k < n; k += TILE) {
        tile_a[ty][tx] = a[row * n + k + tx];
        tile_b[ty][tx] = b[(k + ty) * n + column];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < TILE; ++i)
            sum += tile_a[ty][i] * tile_b[i][tx];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
