// y = A x with A in compressed rows: a thread for each row, or a warp for each row.

extern "C" __global__ void spmv_by_threads(int n, const int* rows, const int* columns,
                                           const float* values, const float* x, float* y) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n) return;
    float sum = 0;
    for (int e = rows[row]; e < rows[row + 1]; e++) sum += values[e] * x[columns[e]];
    y[row] = sum;
}

extern "C" __global__ void spmv_by_warps(int n, const int* rows, const int* columns,
                                         const float* values, const float* x, float* y) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= n) return;
    float sum = 0;
    for (int e = rows[row] + lane; e < rows[row + 1]; e += 32) sum += values[e] * x[columns[e]];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
    if (lane == 0) y[row] = sum;
}
