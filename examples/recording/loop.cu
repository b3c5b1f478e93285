// A loop of launches that swap their buffers: launches that nothing tells apart are one, counted.
#include <cstdlib>
#include <utility>

__global__ void step(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i < n - 1) out[i] = 0.5f * in[i] + 0.25f * (in[i - 1] + in[i + 1]);
}

int main(int count, char** arguments) {
    const int n = 1 << 22, iterations = count > 1 ? std::atoi(arguments[1]) : 50;
    float *in, *out;
    cudaMalloc(&in, n * sizeof(float));
    cudaMalloc(&out, n * sizeof(float));
    cudaMemset(in, 0, n * sizeof(float));
    for (int i = 0; i < iterations; ++i) {
        step<<<(n + 255) / 256, 256>>>(in, out, n);
        std::swap(in, out);
    }
    cudaFree(in);
    cudaFree(out);
    return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
}
