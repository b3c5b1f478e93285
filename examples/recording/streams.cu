// Two streams, each with copies and a kernel on its half of the data.
#include <cstdio>
#include <vector>

__global__ void axpy(float a, const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}

int main() {
    const int n = 1 << 20, half = n / 2;
    std::vector<float> x(n, 1.0f), y(n, 2.0f);
    float *dx, *dy;
    cudaMalloc(&dx, n * sizeof(float));
    cudaMalloc(&dy, n * sizeof(float));
    cudaStream_t streams[2];
    for (int s = 0; s < 2; ++s) {
        int at = s * half;
        cudaStreamCreate(&streams[s]);
        cudaMemcpyAsync(dx + at, &x[at], half * sizeof(float), cudaMemcpyHostToDevice, streams[s]);
        cudaMemcpyAsync(dy + at, &y[at], half * sizeof(float), cudaMemcpyHostToDevice, streams[s]);
        axpy<<<half / 256, 256, 0, streams[s]>>>(2.5f, dx + at, dy + at, half);
        cudaMemcpyAsync(&y[at], dy + at, half * sizeof(float), cudaMemcpyDeviceToHost, streams[s]);
    }
    for (cudaStream_t stream : streams) {
        cudaStreamSynchronize(stream);
        cudaStreamDestroy(stream);
    }
    std::printf("y[0] = %g\n", y[0]);
    cudaFree(dx);
    cudaFree(dy);
    return cudaGetLastError() == cudaSuccess ? 0 : 1;
}
