// few_blocks: grid-stride kernels are launched with few blocks; mended, with enough for all SMs.
#include <cuda_fp16.h>

// One step of Adam with half-precision gradients.
extern "C" __global__ void few_blocks_1(float* weight, float* first, float* second,
                                        const __half* __restrict__ gradient, float rate, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const float g = __half2float(gradient[i]);
        const float m = 0.9f * first[i] + 0.1f * g, v = 0.999f * second[i] + 0.001f * g * g;
        first[i] = m;
        second[i] = v;
        weight[i] -= rate * m * rsqrtf(v + 1e-8f);
    }
}

// Potential of a grid of points in the field of charges on a line.
extern "C" __global__ void few_blocks_2(const double2* __restrict__ points, double* potential,
                                        int charges, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const double2 p = points[i];
        double sum = 0.0;
        for (int c = 0; c < charges; ++c) {
            const double dx = p.x - 0.01 * c;
            sum += rsqrt(dx * dx + p.y * p.y + 1e-6);
        }
        potential[i] = sum;
    }
}

// Tone curve of an 8-bit image by a table in shared memory; strides over rows and columns.
extern "C" __global__ void few_blocks_3(const unsigned char* __restrict__ in, unsigned char* out,
                                        float gain, int width, int height)
{
    __shared__ unsigned char curve[256];
    const int t = threadIdx.y * blockDim.x + threadIdx.x;
    for (int k = t; k < 256; k += blockDim.x * blockDim.y)
        curve[k] = (int)(255.0f * (1.0f - __expf(-gain * k)));
    __syncthreads();
    for (int y = blockIdx.y * blockDim.y + threadIdx.y; y < height; y += gridDim.y * blockDim.y)
        for (int x = blockIdx.x * blockDim.x + threadIdx.x; x < width; x += gridDim.x * blockDim.x)
            out[y * width + x] = curve[in[y * width + x]];
}
