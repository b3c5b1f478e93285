// double_literals: literals and functions make float code compute in double; mended, all is float.
#include <cuda_fp16.h>

// Lennard-Jones forces of a solute on each atom of a solvent, in a periodic box of length 1.
extern "C" __global__ void double_literals_1(const float4* __restrict__ solvent,
                                             const float4* __restrict__ solute, float4* forces,
                                             int atoms, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const float4 a = solvent[i];
    float fx = 0, fy = 0, fz = 0;
    for (int j = 0; j < atoms; ++j) {
        const float4 b = solute[j];
        float dx = a.x - b.x, dy = a.y - b.y, dz = a.z - b.z;
        dx -= floor(dx + 0.5);
        dy -= floor(dy + 0.5);
        dz -= floor(dz + 0.5);
        const float s2 = 1.0 / (dx * dx + dy * dy + dz * dz + 0.01), s6 = s2 * s2 * s2;
        const float f = 24.0 * s2 * s6 * (2.0 * s6 - 1.0);
        fx += f * dx;
        fy += f * dy;
        fz += f * dz;
    }
    forces[i] = make_float4(fx, fy, fz, 0);
}

// The same in float.
extern "C" __global__ void double_literals_1_mended(const float4* __restrict__ solvent,
                                                    const float4* __restrict__ solute,
                                                    float4* forces, int atoms, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const float4 a = solvent[i];
    float fx = 0, fy = 0, fz = 0;
    for (int j = 0; j < atoms; ++j) {
        const float4 b = solute[j];
        float dx = a.x - b.x, dy = a.y - b.y, dz = a.z - b.z;
        dx -= floorf(dx + 0.5f);
        dy -= floorf(dy + 0.5f);
        dz -= floorf(dz + 0.5f);
        const float s2 = 1.0f / (dx * dx + dy * dy + dz * dz + 0.01f), s6 = s2 * s2 * s2;
        const float f = 24.0f * s2 * s6 * (2.0f * s6 - 1.0f);
        fx += f * dx;
        fy += f * dy;
        fz += f * dz;
    }
    forces[i] = make_float4(fx, fy, fz, 0);
}

// Linear light from 8-bit sRGB, by its power law, with an exposure, one channel value per thread.
extern "C" __global__ void double_literals_2(const unsigned char* __restrict__ in, float* out,
                                             float exposure, int width, int height)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    const float c = (in[y * width + x] + 0.5) / 256.0;
    const float linear = pow((c + 0.055) / 1.055, 2.4);
    out[y * width + x] = 1.0 - exp(-exposure * (double)linear);
}

// The same in float.
extern "C" __global__ void double_literals_2_mended(const unsigned char* __restrict__ in,
                                                    float* out, float exposure, int width,
                                                    int height)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    const float c = (in[y * width + x] + 0.5f) / 256.0f;
    const float linear = powf((c + 0.055f) / 1.055f, 2.4f);
    out[y * width + x] = 1.0f - expf(-exposure * linear);
}

// GELU of a dense layer's output after its bias is added, in half precision.
extern "C" __global__ void double_literals_3(__half* activations, const __half* __restrict__ bias,
                                             int features, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const float x = __half2float(activations[i]) + __half2float(bias[i & (features - 1)]);
        const float y = 0.5 * x * (1.0 + erf(x * 0.70710678));
        activations[i] = __float2half(y);
    }
}

// The same in float.
extern "C" __global__ void double_literals_3_mended(__half* activations,
                                                    const __half* __restrict__ bias, int features,
                                                    int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const float x = __half2float(activations[i]) + __half2float(bias[i & (features - 1)]);
        const float y = 0.5f * x * (1.0f + erff(x * 0.70710678f));
        activations[i] = __float2half(y);
    }
}
