// column_access: lanes lie a row of a matrix apart; mended, lanes lie side by side in a row.

// Euclidean norm of each row of an embedding table, one row per thread.
extern "C" __global__ void column_access_1(const float* __restrict__ table, float* norms, int rows,
                                           int columns)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    float sum = 0.0f;
    for (int c = 0; c < columns; ++c) {
        const float v = table[(size_t)row * columns + c];
        sum += v * v;
    }
    norms[row] = sqrtf(sum);
}

// The same with one row per warp.
extern "C" __global__ void column_access_1_mended(const float* __restrict__ table, float* norms,
                                                  int rows, int columns)
{
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    float sum = 0.0f;
    for (int c = lane; c < columns; c += 32) {
        const float v = table[(size_t)row * columns + c];
        sum += v * v;
    }
    for (int d = 16; d > 0; d /= 2)
        sum += __shfl_xor_sync(~0u, sum, d);
    if (lane == 0)
        norms[row] = sqrtf(sum);
}

// Prefix sums along the rows of an 8-bit image, one row per thread.
extern "C" __global__ void column_access_2(const unsigned char* __restrict__ image,
                                           unsigned* integral, int width, int height)
{
    const int y = blockIdx.x * blockDim.x + threadIdx.x;
    if (y >= height)
        return;
    unsigned sum = 0;
    for (int x = 0; x < width; ++x) {
        sum += image[y * width + x];
        integral[y * width + x] = sum;
    }
}

// The same with one row per warp; width is a multiple of 32.
extern "C" __global__ void column_access_2_mended(const unsigned char* __restrict__ image,
                                                  unsigned* integral, int width, int height)
{
    const int y = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (y >= height)
        return;
    unsigned before = 0;
    for (int x = lane; x < width; x += 32) {
        unsigned sum = image[y * width + x];
        for (int d = 1; d < 32; d *= 2) {
            const unsigned left = __shfl_up_sync(~0u, sum, d);
            if (lane >= d)
                sum += left;
        }
        integral[y * width + x] = before + sum;
        before += __shfl_sync(~0u, sum, 31);
    }
}

// Correlations from covariances: each element is divided by two deviations; x runs along columns.
extern "C" __global__ void column_access_3(const double* __restrict__ covariance,
                                           const double* __restrict__ deviation,
                                           double* correlation, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < n && j < n)
        correlation[i * n + j] = covariance[i * n + j] / (deviation[i] * deviation[j] + 1.0);
}

// The same, x running along rows.
extern "C" __global__ void column_access_3_mended(const double* __restrict__ covariance,
                                                  const double* __restrict__ deviation,
                                                  double* correlation, int n)
{
    const int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && j < n)
        correlation[i * n + j] = covariance[i * n + j] / (deviation[i] * deviation[j] + 1.0);
}
