// Loads whose address is a loaded value. The suite fills the indices by the same formula that its
// proxy declares, so that the prediction and the measurement mean the same accesses.

extern "C" __global__ void gather(const float* __restrict__ table, const int* __restrict__ index,
                                  float* out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = table[index[i]];
}

extern "C" __global__ void scatter(const float* __restrict__ in, const int* __restrict__ index,
                                   float* table, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        table[index[i]] = in[i];
}

// Sparse matrix times vector, ELLPACK: WIDTH entries per row, the k-th entries of all rows together.
#define WIDTH 16

extern "C" __global__ void spmv_ellpack(const float* __restrict__ values,
                                        const int* __restrict__ columns,
                                        const float* __restrict__ vector, float* y, int rows)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    float sum = 0.0f;
#pragma unroll 4
    for (int k = 0; k < WIDTH; ++k)
        sum += values[k * rows + row] * vector[columns[k * rows + row]];
    y[row] = sum;
}

// The same matrix row by row: lanes lie WIDTH entries apart.
extern "C" __global__ void spmv_rows(const float* __restrict__ values,
                                     const int* __restrict__ columns,
                                     const float* __restrict__ vector, float* y, int rows)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    float sum = 0.0f;
#pragma unroll 4
    for (int k = 0; k < WIDTH; ++k)
        sum += values[row * WIDTH + k] * vector[columns[row * WIDTH + k]];
    y[row] = sum;
}
