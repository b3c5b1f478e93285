// c = a · b of n × n floats, from the plainest kernel up: every step is a structure of its own that
// tutorials publish the throughput of. n is a multiple of all tiles.

// One element per thread; the threads of a warp lie along a column of c.
extern "C" __global__ void matmul_columns(const float* a, const float* b, float* c, int n)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    const int column = blockIdx.y * blockDim.y + threadIdx.y;
    float sum = 0;
    for (int k = 0; k < n; ++k)
        sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}

// The same along a row of c: loads of b and stores are contiguous. Blocks of 32 × 32 threads in line.
extern "C" __global__ void matmul_rows(const float* a, const float* b, float* c, int n)
{
    const int row = blockIdx.x * 32 + threadIdx.x / 32;
    const int column = blockIdx.y * 32 + threadIdx.x % 32;
    float sum = 0;
    for (int k = 0; k < n; ++k)
        sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}

// Tiles of 32 × 32 pass through shared memory.
extern "C" __global__ void matmul_shared(const float* a, const float* b, float* c, int n)
{
    __shared__ float as[32 * 32], bs[32 * 32];
    const int x = threadIdx.x % 32, y = threadIdx.x / 32;
    const int row = blockIdx.x * 32 + y, column = blockIdx.y * 32 + x;
    float sum = 0;
    for (int tile = 0; tile < n; tile += 32) {
        as[y * 32 + x] = a[row * n + tile + x];
        bs[y * 32 + x] = b[(tile + y) * n + column];
        __syncthreads();
        for (int k = 0; k < 32; ++k)
            sum += as[y * 32 + k] * bs[k * 32 + x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

// 64 × 64 per block of 512 threads, depth 8: eight elements of a column per thread.
extern "C" __global__ void matmul_strips(const float* a, const float* b, float* c, int n)
{
    __shared__ float as[64 * 8], bs[8 * 64];
    const int x = threadIdx.x % 64, y = threadIdx.x / 64;
    const int top = blockIdx.y * 64, left = blockIdx.x * 64;
    const int ax = threadIdx.x % 8, ay = threadIdx.x / 8;
    float sums[8] = {};
    for (int tile = 0; tile < n; tile += 8) {
        as[ay * 8 + ax] = a[(top + ay) * n + tile + ax];
        bs[y * 64 + x] = b[(tile + y) * n + left + x];
        __syncthreads();
        for (int k = 0; k < 8; ++k) {
            const float right = bs[k * 64 + x];
            for (int i = 0; i < 8; ++i)
                sums[i] += as[(y * 8 + i) * 8 + k] * right;
        }
        __syncthreads();
    }
    for (int i = 0; i < 8; ++i)
        c[(top + y * 8 + i) * n + left + x] = sums[i];
}

// 128 × 128 per block of 256 threads, depth 8: 8 × 8 elements per thread.
extern "C" __global__ void matmul_squares(const float* a, const float* b, float* c, int n)
{
    __shared__ float as[128 * 8], bs[8 * 128];
    const int x = threadIdx.x % 16, y = threadIdx.x / 16;
    const int top = blockIdx.y * 128, left = blockIdx.x * 128;
    float sums[8][8] = {}, down[8], along[8];
    for (int tile = 0; tile < n; tile += 8) {
        for (int i = threadIdx.x; i < 128 * 8; i += 256) {
            as[i] = a[(top + i / 8) * n + tile + i % 8];
            bs[i] = b[(tile + i / 128) * n + left + i % 128];
        }
        __syncthreads();
        for (int k = 0; k < 8; ++k) {
            for (int i = 0; i < 8; ++i)
                down[i] = as[(y * 8 + i) * 8 + k];
            for (int j = 0; j < 8; ++j)
                along[j] = bs[k * 128 + x * 8 + j];
            for (int i = 0; i < 8; ++i)
                for (int j = 0; j < 8; ++j)
                    sums[i][j] += down[i] * along[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 8; ++j)
            c[(top + y * 8 + i) * n + left + x * 8 + j] = sums[i][j];
}

// The same with four floats at a time; a is transposed on its way into shared memory.
extern "C" __global__ void matmul_vectors(const float* a, const float* b, float* c, int n)
{
    __shared__ float as[8 * 128];
    __shared__ float4 bs[8 * 32];
    const int x = threadIdx.x % 16, y = threadIdx.x / 16;
    const int top = blockIdx.y * 128, left = blockIdx.x * 128;
    const int ax = threadIdx.x % 2, ay = threadIdx.x / 2;
    const int bx = threadIdx.x % 32, by = threadIdx.x / 32;
    float sums[8][8] = {}, down[8], along[8];
    for (int tile = 0; tile < n; tile += 8) {
        const float4 four = *(const float4*)(a + (top + ay) * n + tile + 4 * ax);
        as[(4 * ax + 0) * 128 + ay] = four.x;
        as[(4 * ax + 1) * 128 + ay] = four.y;
        as[(4 * ax + 2) * 128 + ay] = four.z;
        as[(4 * ax + 3) * 128 + ay] = four.w;
        bs[by * 32 + bx] = *(const float4*)(b + (tile + by) * n + left + 4 * bx);
        __syncthreads();
        for (int k = 0; k < 8; ++k) {
            for (int i = 0; i < 8; ++i)
                down[i] = as[k * 128 + y * 8 + i];
            for (int j = 0; j < 8; ++j)
                along[j] = ((const float*)bs)[k * 128 + x * 8 + j];
            for (int i = 0; i < 8; ++i)
                for (int j = 0; j < 8; ++j)
                    sums[i][j] += down[i] * along[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 8; j += 4) {
            float4 four = {sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]};
            *(float4*)(c + (top + y * 8 + i) * n + left + x * 8 + j) = four;
        }
}
