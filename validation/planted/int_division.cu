// int_division: divisors are arguments; mended, they are constants, or a reciprocal is given.

// Unfolds 3 x 3 patches of an NCHW image, one element of the result per thread and step.
extern "C" __global__ void int_division_1(const float* __restrict__ image, float* columns,
                                          int channels, int height, int width, int kernel, int n)
{
    const int padded = width + kernel - 1;
    for (int e = blockIdx.x * blockDim.x + threadIdx.x; e < n; e += gridDim.x * blockDim.x) {
        const int x = e % width, y = e / width % height;
        const int patch = e / (width * height);
        const int dx = patch % kernel, dy = patch / kernel % kernel;
        const int channel = patch / (kernel * kernel) % channels;
        const int batch = patch / (kernel * kernel * channels);
        const int row = (batch * channels + channel) * (height + kernel - 1) + y + dy;
        columns[e] = image[row * padded + x + dx];
    }
}

#define CHANNELS 24
#define HEIGHT 56
#define WIDTH 56
#define KERNEL 3

// The same for one shape that the compiler knows.
extern "C" __global__ void int_division_1_mended(const float* __restrict__ image, float* columns,
                                                 int n)
{
    const int padded = WIDTH + KERNEL - 1;
    for (int e = blockIdx.x * blockDim.x + threadIdx.x; e < n; e += gridDim.x * blockDim.x) {
        const int x = e % WIDTH, y = e / WIDTH % HEIGHT;
        const int patch = e / (WIDTH * HEIGHT);
        const int dx = patch % KERNEL, dy = patch / KERNEL % KERNEL;
        const int channel = patch / (KERNEL * KERNEL) % CHANNELS;
        const int batch = patch / (KERNEL * KERNEL * CHANNELS);
        const int row = (batch * CHANNELS + channel) * (HEIGHT + KERNEL - 1) + y + dy;
        columns[e] = image[row * padded + x + dx];
    }
}

// Values of a polynomial over a prime field, one point per thread, by Horner's rule.
extern "C" __global__ void int_division_2(const unsigned* __restrict__ points,
                                          const unsigned* __restrict__ coefficients,
                                          unsigned* values, int degree, unsigned prime, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const unsigned x = points[i];
    unsigned v = 0;
    for (int k = degree; k >= 0; --k)
        v = ((unsigned long long)v * x + coefficients[k]) % prime;
    values[i] = v;
}

#define PRIME 998244353u

// The same over the one field that is used.
extern "C" __global__ void int_division_2_mended(const unsigned* __restrict__ points,
                                                 const unsigned* __restrict__ coefficients,
                                                 unsigned* values, int degree, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const unsigned x = points[i];
    unsigned v = 0;
    for (int k = degree; k >= 0; --k)
        v = ((unsigned long long)v * x + coefficients[k]) % PRIME;
    values[i] = v;
}

// Random walks on a periodic lattice: how often each walker is at an even site.
extern "C" __global__ void int_division_3(unsigned short* visits, unsigned size, int steps,
                                          unsigned seed)
{
    const unsigned walker = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned random = walker * 2654435761u + seed;
    unsigned x = walker % size, y = walker / size % size, z = 0, even = 0;
    for (int t = 0; t < steps; ++t) {
        random = random * 1664525u + 1013904223u;
        x = (x + size + (random >> 30) - 1) % size;
        y = (y + size + (random >> 28 & 3) - 1) % size;
        z = (z + size + (random >> 26 & 3) - 1) % size;
        even += ~(x + y + z) & 1;
    }
    visits[walker] = even;
}

// x % size for small x; inverse is 2^32 / size, rounded up.
__device__ __forceinline__ unsigned wrap(unsigned x, unsigned size, unsigned inverse)
{
    return x - __umulhi(x, inverse) * size;
}

// The same with the reciprocal of the size as an argument.
extern "C" __global__ void int_division_3_mended(unsigned short* visits, unsigned size,
                                                 unsigned inverse, int steps, unsigned seed)
{
    const unsigned walker = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned random = walker * 2654435761u + seed;
    unsigned x = walker % size, y = walker / size % size, z = 0, even = 0;
    for (int t = 0; t < steps; ++t) {
        random = random * 1664525u + 1013904223u;
        x = wrap(x + size + (random >> 30) - 1, size, inverse);
        y = wrap(y + size + (random >> 28 & 3) - 1, size, inverse);
        z = wrap(z + size + (random >> 26 & 3) - 1, size, inverse);
        even += ~(x + y + z) & 1;
    }
    visits[walker] = even;
}
