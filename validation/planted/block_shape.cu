// block_shape: blocks are narrow in x; mended, the same kernels are launched with wide blocks.
#include <cuda_fp16.h>

// Sharpens an 8-bit image by a 5 x 5 neighbourhood; in is padded by 2 on each side.
extern "C" __global__ void block_shape_1(const unsigned char* __restrict__ in, unsigned char* out,
                                         int width, int height)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    const int pitch = width + 4;
    int sum = 0;
    for (int dy = 0; dy < 5; ++dy)
        for (int dx = 0; dx < 5; ++dx)
            sum += in[(y + dy) * pitch + x + dx];
    const int centre = in[(y + 2) * pitch + x + 2];
    out[y * width + x] = min(max(2 * centre - sum / 25, 0), 255);
}

// One explicit step of the heat equation in three dimensions; the faces are kept.
extern "C" __global__ void block_shape_2(const double* __restrict__ t, double* next,
                                         double diffusion, int nx, int ny, int nz)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    const int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x < 1 || y < 1 || z < 1 || x >= nx - 1 || y >= ny - 1 || z >= nz - 1)
        return;
    const int plane = nx * ny, at = z * plane + y * nx + x;
    next[at] = t[at] + diffusion * (t[at - 1] + t[at + 1] + t[at - nx] + t[at + nx]
                                    + t[at - plane] + t[at + plane] - 6.0 * t[at]);
}

// Average pooling of 2 x 2 in half precision; z counts images and channels.
extern "C" __global__ void block_shape_3(const __half* __restrict__ in, __half* out, int width,
                                         int height, int planes)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    const int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x >= width || y >= height || z >= planes)
        return;
    const __half* at = in + (z * 2 * height + 2 * y) * 2 * width + 2 * x;
    const float sum = __half2float(at[0]) + __half2float(at[1]) + __half2float(at[2 * width])
                      + __half2float(at[2 * width + 1]);
    out[(z * height + y) * width + x] = __float2half(0.25f * sum);
}
