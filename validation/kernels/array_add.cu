// Two matrices added element by element, in blocks of threads whose x runs along the rows, or across them.

// Lanes of a half warp add 16 elements of one row.
__global__ void add_rows(const float* a, const float* b, float* c, int rows, int columns) {
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows && column < columns) {
        int i = row * columns + column;
        c[i] = a[i] + b[i];
    }
}

// The indices are swapped: lanes of a half warp add elements of 16 rows.
__global__ void add_swapped(const float* a, const float* b, float* c, int rows, int columns) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    int column = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && column < columns) {
        int i = row * columns + column;
        c[i] = a[i] + b[i];
    }
}
