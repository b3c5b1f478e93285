// struct_stride: lanes access members of structures; mended, each member is an array.

struct Atom {
    float x, y, z, charge;
    float fx, fy, fz, radius;
    float vx, vy, vz, mass;
    int type, molecule, residue, flags;
};

// Kinetic energy of each atom.
extern "C" __global__ void struct_stride_1(const Atom* __restrict__ atoms, float* energy, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const float vx = atoms[i].vx, vy = atoms[i].vy, vz = atoms[i].vz;
    energy[i] = 0.5f * atoms[i].mass * (vx * vx + vy * vy + vz * vz);
}

// The same from four arrays.
extern "C" __global__ void struct_stride_1_mended(const float* __restrict__ x,
                                                  const float* __restrict__ y,
                                                  const float* __restrict__ z,
                                                  const float* __restrict__ mass, float* energy,
                                                  int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const float vx = x[i], vy = y[i], vz = z[i];
    energy[i] = 0.5f * mass[i] * (vx * vx + vy * vy + vz * vz);
}

#define BANDS 8

// Vegetation index of a satellite image whose eight bands are interleaved by pixel.
extern "C" __global__ void struct_stride_2(const unsigned short* __restrict__ image, float* index,
                                           int width, int height)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    const int pixel = y * width + x;
    const float red = image[pixel * BANDS + 2], infrared = image[pixel * BANDS + 6];
    index[pixel] = (infrared - red) / (infrared + red + 1.0f);
}

// The same for an image stored band by band.
extern "C" __global__ void struct_stride_2_mended(const unsigned short* __restrict__ image,
                                                  float* index, int width, int height)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    const int pixel = y * width + x, plane = width * height;
    const float red = image[2 * plane + pixel], infrared = image[6 * plane + pixel];
    index[pixel] = (infrared - red) / (infrared + red + 1.0f);
}

// Inverts a 3 x 3 matrix whose elements lie `stride` apart.
__device__ __forceinline__ void invert(const double* __restrict__ m, double* out, int stride)
{
    double a[9];
#pragma unroll
    for (int k = 0; k < 9; ++k)
        a[k] = m[k * stride];
    const double c0 = a[4] * a[8] - a[5] * a[7], c1 = a[5] * a[6] - a[3] * a[8];
    const double c2 = a[3] * a[7] - a[4] * a[6];
    const double r = 1.0 / (a[0] * c0 + a[1] * c1 + a[2] * c2);
    out[0] = r * c0;
    out[stride] = r * (a[2] * a[7] - a[1] * a[8]);
    out[2 * stride] = r * (a[1] * a[5] - a[2] * a[4]);
    out[3 * stride] = r * c1;
    out[4 * stride] = r * (a[0] * a[8] - a[2] * a[6]);
    out[5 * stride] = r * (a[2] * a[3] - a[0] * a[5]);
    out[6 * stride] = r * c2;
    out[7 * stride] = r * (a[1] * a[6] - a[0] * a[7]);
    out[8 * stride] = r * (a[0] * a[4] - a[1] * a[3]);
}

// Inverses of 3 x 3 matrices, one after the other in memory, one per thread.
extern "C" __global__ void struct_stride_3(const double* __restrict__ matrices, double* inverses,
                                           int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        invert(matrices + 9 * i, inverses + 9 * i, 1);
}

// The same with equal elements of all matrices side by side.
extern "C" __global__ void struct_stride_3_mended(const double* __restrict__ matrices,
                                                  double* inverses, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        invert(matrices + i, inverses + i, n);
}
