// C = A B, n x n float32, n a multiple of 64; and y = A x.

extern "C" __global__ void matmul_naive(const float* __restrict__ a, const float* __restrict__ b,
                                        float* c, int n)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    float sum = 0.0f;
    for (int k = 0; k < n; ++k)
        sum += a[y * n + k] * b[k * n + x];
    c[y * n + x] = sum;
}

// Blocks of 16 x 16 threads, one element each.
extern "C" __global__ void matmul_tiled(const float* __restrict__ a, const float* __restrict__ b,
                                        float* c, int n)
{
    __shared__ float ta[16][16], tb[16][16];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int x = blockIdx.x * 16 + tx, y = blockIdx.y * 16 + ty;
    float sum = 0.0f;
    for (int k = 0; k < n; k += 16) {
        ta[ty][tx] = a[y * n + k + tx];
        tb[ty][tx] = b[(k + ty) * n + x];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 16; ++i)
            sum += ta[ty][i] * tb[i][tx];
        __syncthreads();
    }
    c[y * n + x] = sum;
}

// Blocks of 16 x 16 threads, 64 x 64 elements: 4 x 4 sums in the registers of each thread.
extern "C" __global__ void matmul_registers(const float* __restrict__ a,
                                            const float* __restrict__ b, float* c, int n)
{
    __shared__ float ta[16][64], tb[16][64];
    const int tx = threadIdx.x, ty = threadIdx.y, t = ty * 16 + tx;
    const int x0 = blockIdx.x * 64, y0 = blockIdx.y * 64;
    float sum[4][4] = {};
    for (int k = 0; k < n; k += 16) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            ta[tx][ty + 16 * j] = a[(y0 + ty + 16 * j) * n + k + tx];
            tb[t / 64 + 4 * j][t % 64] = b[(k + t / 64 + 4 * j) * n + x0 + t % 64];
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            float u[4], v[4];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                u[j] = ta[i][ty * 4 + j];
                v[j] = tb[i][tx * 4 + j];
            }
#pragma unroll
            for (int p = 0; p < 4; ++p)
#pragma unroll
                for (int q = 0; q < 4; ++q)
                    sum[p][q] += u[p] * v[q];
        }
        __syncthreads();
    }
#pragma unroll
    for (int p = 0; p < 4; ++p)
#pragma unroll
        for (int q = 0; q < 4; ++q)
            c[(y0 + ty * 4 + p) * n + x0 + tx * 4 + q] = sum[p][q];
}

// A row per thread: lanes lie a row apart.
extern "C" __global__ void matvec_thread(const float* __restrict__ a, const float* __restrict__ x,
                                         float* y, int rows, int columns)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    float sum = 0.0f;
    for (int k = 0; k < columns; ++k)
        sum += a[row * columns + k] * x[k];
    y[row] = sum;
}

// A row per warp; blocks of 32 x (rows) threads, columns a multiple of 32.
extern "C" __global__ void matvec_warp(const float* __restrict__ a, const float* __restrict__ x,
                                       float* y, int rows, int columns)
{
    const int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows)
        return;
    float sum = 0.0f;
    for (int k = threadIdx.x; k < columns; k += 32)
        sum += a[row * columns + k] * x[k];
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, offset);
    if (threadIdx.x == 0)
        y[row] = sum;
}
