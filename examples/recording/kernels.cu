// Several kernels that hand on their results: a filter from constant memory, a sum in dynamic shared
// memory, whose size depends on the device.
#include <cstdio>
#include <vector>

constexpr int radius = 4;
__constant__ float weights[2 * radius + 1];
__constant__ int steps;

__global__ void filter(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < radius || i >= n - radius) return;
    float sum = 0;
    for (int s = 0; s < steps; ++s)
        for (int k = -radius; k <= radius; ++k) sum += weights[k + radius] * in[i + k];
    out[i] = sum;
}

__global__ void total(const float* in, float* sums, int n) {
    extern __shared__ float part[];
    float sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += in[i];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int width = blockDim.x / 2; width > 0; width /= 2) {
        if (threadIdx.x < width) part[threadIdx.x] += part[threadIdx.x + width];
        __syncthreads();
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
}

int main() {
    cudaDeviceProp device;
    cudaGetDeviceProperties(&device, 0);
    const int n = 1 << 18, blocks = 2 * device.multiProcessorCount, repeats = 3;
    std::vector<float> values(n, 1.0f), filters(2 * radius + 1, 1.0f / (2 * radius + 1));
    cudaMemcpyToSymbol(weights, filters.data(), filters.size() * sizeof(float));
    cudaMemcpyToSymbol(steps, &repeats, sizeof repeats);
    float *in, *out, *sums;
    cudaMalloc(&in, n * sizeof(float));
    cudaMalloc(&out, n * sizeof(float));
    cudaMalloc(&sums, blocks * sizeof(float));
    cudaMemcpy(in, values.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemset(out, 0, n * sizeof(float));
    filter<<<n / 128, 128>>>(in, out, n);
    total<<<blocks, 256, 256 * sizeof(float)>>>(out, sums, n);
    std::vector<float> found(blocks);
    cudaMemcpy(found.data(), sums, blocks * sizeof(float), cudaMemcpyDeviceToHost);
    std::printf("%s: %d sums\n", device.name, blocks);
    return cudaGetLastError() == cudaSuccess ? 0 : 1;
}
