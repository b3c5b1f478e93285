// Products of a matrix and a vector, one row by each thread: lanes read elements that lie a row apart.

extern "C" __global__ void matvec_rows(unsigned* out, const unsigned* matrix, const unsigned* vector,
                                       int rows, int columns)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    unsigned sum = 0;
    for (int k = 0; k < columns; ++k) sum += matrix[row * columns + k] * vector[k];
    out[row] = sum;
}

// The vector is copied into shared memory, as many elements at a time as the block has threads.
extern "C" __global__ void matvec_rows_tiled(unsigned* out, const unsigned* matrix,
                                             const unsigned* vector, int rows, int columns)
{
    extern __shared__ unsigned part[];
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    int parts = (columns + blockDim.x - 1) / blockDim.x;
    unsigned sum = 0;
    for (int p = 0; p < parts; ++p) {
        int i = p * blockDim.x + threadIdx.x;
        part[threadIdx.x] = i < columns ? vector[i] : 0;
        __syncthreads();
        if (row < rows)
            for (int k = 0; k < blockDim.x && p * blockDim.x + k < columns; ++k)
                sum += matrix[row * columns + p * blockDim.x + k] * part[k];
        __syncthreads();
    }
    out[row] = sum;
}
