// A structure by value, with pointers and sizes in it.
#include <vector>

struct Grid {
    const double* source;
    double* target;
    int columns, rows;
    double weight;
};

__global__ void relax(Grid grid) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= grid.columns - 1 || y >= grid.rows - 1) return;
    const double* at = grid.source + y * grid.columns + x;
    double around = at[-1] + at[1] + at[-grid.columns] + at[grid.columns];
    grid.target[y * grid.columns + x] = grid.weight * around + (1 - 4 * grid.weight) * *at;
}

int main() {
    const int columns = 1024, rows = 768;
    const size_t bytes = sizeof(double) * columns * rows;
    std::vector<double> values(columns * rows, 1.0);
    double *source, *target;
    cudaMalloc(&source, bytes);
    cudaMalloc(&target, bytes);
    cudaMemcpy(source, values.data(), bytes, cudaMemcpyHostToDevice);
    dim3 block(32, 8);
    relax<<<dim3(columns / block.x, rows / block.y), block>>>({source, target, columns, rows, 0.1});
    cudaFree(source);
    cudaFree(target);
    return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
}
