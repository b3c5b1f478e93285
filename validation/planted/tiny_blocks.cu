// tiny_blocks: blocks have so few threads that occupancy is low; mended, blocks are larger.

// RGB from planar YUV video, one pixel per thread.
extern "C" __global__ void tiny_blocks_1(const unsigned char* __restrict__ yuv, uchar4* rgb, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const float y = yuv[i], u = yuv[n + i] - 128.0f, v = yuv[2 * n + i] - 128.0f;
    const float r = y + 1.402f * v, g = y - 0.344f * u - 0.714f * v, b = y + 1.772f * u;
    rgb[i] = make_uchar4(fminf(fmaxf(r, 0.0f), 255.0f), fminf(fmaxf(g, 0.0f), 255.0f),
                         fminf(fmaxf(b, 0.0f), 255.0f), 255);
}

// Yield of each bond from its price, by Newton's method on the sum of its discounted coupons.
extern "C" __global__ void tiny_blocks_2(const double* __restrict__ price, double* yield,
                                         double coupon, int years, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const double target = 0.5 + price[i];
    double x = 0.95;
    for (int k = 0; k < 5; ++k) {
        double value = 1.0 + coupon, slope = 0.0;
        for (int t = 1; t < years; ++t) {
            slope = slope * x + value;
            value = value * x + coupon;
        }
        slope = slope * x + value;
        x -= (value * x - target) / slope;
    }
    yield[i] = 1.0 / x - 1.0;
}

// Trilinear interpolation in a grid of n^3 values at the cells of particles.
extern "C" __global__ void tiny_blocks_3(const float* __restrict__ grid,
                                         const int* __restrict__ cell,
                                         const float* __restrict__ offset, float* value, int n,
                                         int particles)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= particles)
        return;
    const float* g = grid + cell[i];
    const float u = offset[i], v = offset[particles + i], w = offset[2 * particles + i];
    float plane[2];
#pragma unroll
    for (int z = 0; z < 2; ++z) {
        const float* p = g + z * n * n;
        const float low = p[0] + u * (p[1] - p[0]), high = p[n] + u * (p[n + 1] - p[n]);
        plane[z] = low + v * (high - low);
    }
    value[i] = plane[0] + w * (plane[1] - plane[0]);
}
