// The 25-point star stencil of radius four on float64, one update per thread, no shared memory.
// src and dst point at the first interior element of fields with four ghost layers on each side.

#define REACH 4

extern "C" __global__ void star3d25pt(const double* __restrict__ src, double* dst,
                                      int nx, int ny, int nz)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    const int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x >= nx || y >= ny || z >= nz)
        return;

    const long long row = nx + 2 * REACH;
    const long long plane = row * (ny + 2 * REACH);
    const long long center = z * plane + y * row + x;

    double sum = src[center];
#pragma unroll
    for (int distance = 1; distance <= REACH; ++distance) {
        sum += src[center - distance] + src[center + distance];
        sum += src[center - distance * row] + src[center + distance * row];
        sum += src[center - distance * plane] + src[center + distance * plane];
    }
    dst[center] = sum * (1.0 / 25.0);
}
