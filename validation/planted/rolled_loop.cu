// rolled_loop: each iteration waits for its own loads; mended, the loop is unrolled.

// Mean and variance of each column of a table, one column per thread.
extern "C" __global__ void rolled_loop_1(const float* __restrict__ table, float* mean,
                                         float* variance, int rows, int columns)
{
    const int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= columns)
        return;
    float sum = 0.0f, squares = 0.0f;
#pragma unroll 1
    for (int r = 0; r < rows; ++r) {
        const float v = table[(size_t)r * columns + c];
        sum += v;
        squares += v * v;
    }
    mean[c] = sum / rows;
    variance[c] = squares / rows - sum / rows * (sum / rows);
}

// The same with eight rows at a time.
extern "C" __global__ void rolled_loop_1_mended(const float* __restrict__ table, float* mean,
                                                float* variance, int rows, int columns)
{
    const int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= columns)
        return;
    float sum = 0.0f, squares = 0.0f;
#pragma unroll 8
    for (int r = 0; r < rows; ++r) {
        const float v = table[(size_t)r * columns + c];
        sum += v;
        squares += v * v;
    }
    mean[c] = sum / rows;
    variance[c] = squares / rows - sum / rows * (sum / rows);
}

// Sparse matrix times vector in double, ELLPACK, one row per thread.
extern "C" __global__ void rolled_loop_2(const double* __restrict__ values,
                                         const int* __restrict__ columns,
                                         const double* __restrict__ x, double* y, int rows,
                                         int width)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    double sum = 0.0;
#pragma unroll 1
    for (int k = 0; k < width; ++k)
        sum += values[k * rows + row] * x[columns[k * rows + row]];
    y[row] = sum;
}

// The same with eight elements of a row at a time.
extern "C" __global__ void rolled_loop_2_mended(const double* __restrict__ values,
                                                const int* __restrict__ columns,
                                                const double* __restrict__ x, double* y, int rows,
                                                int width)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    double sum = 0.0;
#pragma unroll 8
    for (int k = 0; k < width; ++k)
        sum += values[k * rows + row] * x[columns[k * rows + row]];
    y[row] = sum;
}

// Delay-and-sum beamforming of 16-bit samples: y steers the beam, x counts samples.
extern "C" __global__ void rolled_loop_3(const short* __restrict__ samples, float* beams,
                                         int channels, int pitch, int length)
{
    const int t = blockIdx.x * blockDim.x + threadIdx.x, beam = blockIdx.y;
    if (t >= length)
        return;
    float sum = 0.0f;
#pragma unroll 1
    for (int c = 0; c < channels; ++c)
        sum += samples[c * pitch + t + c * beam] * (1.0f / 32768.0f);
    beams[beam * length + t] = sum;
}

// The same with sixteen channels at a time.
extern "C" __global__ void rolled_loop_3_mended(const short* __restrict__ samples, float* beams,
                                                int channels, int pitch, int length)
{
    const int t = blockIdx.x * blockDim.x + threadIdx.x, beam = blockIdx.y;
    if (t >= length)
        return;
    float sum = 0.0f;
#pragma unroll 16
    for (int c = 0; c < channels; ++c)
        sum += samples[c * pitch + t + c * beam] * (1.0f / 32768.0f);
    beams[beam * length + t] = sum;
}
