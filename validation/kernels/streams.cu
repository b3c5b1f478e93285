// Streams: nothing is used twice. n is a multiple of what a block handles where no guard is written.

extern "C" __global__ void copy(const float* __restrict__ in, float* out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = in[i];
}

// Lanes lie 8 elements apart: every sector is touched by eight instructions. n: threads.
extern "C" __global__ void copy_strided(const float* __restrict__ in, float* out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        for (int k = 0; k < 8; ++k)
            out[8 * i + k] = in[8 * i + k];
}

// The same work, lanes side by side.
extern "C" __global__ void copy_contiguous(const float* __restrict__ in, float* out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        for (int k = 0; k < 8; ++k)
            out[i + k * n] = in[i + k * n];
}

extern "C" __global__ void copy_vector(const float4* __restrict__ in, float4* out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = in[i];
}

extern "C" __global__ void saxpy(int n, float a, const float* __restrict__ x, float* y)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        y[i] = a * x[i] + y[i];
}

extern "C" __global__ void triad(const double* __restrict__ b, const double* __restrict__ c,
                                 double* a, double s, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        a[i] = b[i] + s * c[i];
}

// Particles as structures of 32 bytes, of which 24 are used, and as arrays.
struct Particle {
    float x, y, z, mass, vx, vy, vz, charge;
};

extern "C" __global__ void drift_structures(Particle* p, float dt, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        p[i].x += dt * p[i].vx;
        p[i].y += dt * p[i].vy;
        p[i].z += dt * p[i].vz;
    }
}

extern "C" __global__ void drift_arrays(float* x, float* y, float* z,
                                        const float* __restrict__ vx,
                                        const float* __restrict__ vy,
                                        const float* __restrict__ vz, float dt, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        x[i] += dt * vx[i];
        y[i] += dt * vy[i];
        z[i] += dt * vz[i];
    }
}
