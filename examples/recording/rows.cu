// A sparse matrix by rows: how often each thread's loop runs is in memory that the host copies.
#include <vector>

__global__ void multiply(const int* rows, const int* columns, const float* values, const float* x,
                         float* y, int n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n) return;
    float sum = 0;
    for (int k = rows[row]; k < rows[row + 1]; ++k) sum += values[k] * x[columns[k]];
    y[row] = sum;
}

template <class T> T* on_device(const std::vector<T>& content) {
    T* made;
    cudaMalloc(&made, content.size() * sizeof(T));
    cudaMemcpy(made, content.data(), content.size() * sizeof(T), cudaMemcpyHostToDevice);
    return made;
}

int main() {
    const int n = 1 << 14;
    std::vector<int> rows{0}, columns;
    for (int row = 0; row < n; ++row) {  // 5 and 37 entries by turns of 32 rows
        int entries = row / 32 % 2 ? 37 : 5;
        for (int k = 0; k < entries; ++k) columns.push_back((row + 3 * k) % n);
        rows.push_back(static_cast<int>(columns.size()));
    }
    std::vector<float> values(columns.size(), 1.0f), x(n, 1.0f), y(n, 0.0f);
    float* result = on_device(y);
    multiply<<<n / 256, 256>>>(on_device(rows), on_device(columns), on_device(values),
                               on_device(x), result, n);
    cudaMemcpy(y.data(), result, n * sizeof(float), cudaMemcpyDeviceToHost);
    return cudaGetLastError() == cudaSuccess ? 0 : 1;
}
