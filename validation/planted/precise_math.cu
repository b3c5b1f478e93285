// precise_math: accurate functions and divisions dominate; mended, they are approximations.

#define ANTENNAS 64

// Beam power towards each direction: phases of all antennas are summed.
extern "C" __global__ void precise_math_1(const float2* __restrict__ position,
                                          const float2* __restrict__ direction, float* power,
                                          float wave, int n)
{
    __shared__ float2 antenna[ANTENNAS];
    if (threadIdx.x < ANTENNAS)
        antenna[threadIdx.x] = position[threadIdx.x];
    __syncthreads();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const float2 d = direction[i];
    float re = 0.0f, im = 0.0f;
    for (int a = 0; a < ANTENNAS; ++a) {
        const float phase = wave * (antenna[a].x * d.x + antenna[a].y * d.y);
        re += cosf(phase);
        im += sinf(phase);
    }
    power[i] = re * re + im * im;
}

// The same with __cosf and __sinf.
extern "C" __global__ void precise_math_1_mended(const float2* __restrict__ position,
                                                 const float2* __restrict__ direction,
                                                 float* power, float wave, int n)
{
    __shared__ float2 antenna[ANTENNAS];
    if (threadIdx.x < ANTENNAS)
        antenna[threadIdx.x] = position[threadIdx.x];
    __syncthreads();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const float2 d = direction[i];
    float re = 0.0f, im = 0.0f;
    for (int a = 0; a < ANTENNAS; ++a) {
        const float phase = wave * (antenna[a].x * d.x + antenna[a].y * d.y);
        re += __cosf(phase);
        im += __sinf(phase);
    }
    power[i] = re * re + im * im;
}

// A number in (0, 1] from the next state of a linear congruential generator.
__device__ __forceinline__ float uniform(unsigned& state)
{
    state = state * 1664525u + 1013904223u;
    return ((state >> 8) + 1) * (1.0f / 16777216.0f);
}

// Mean of a price along one simulated path per thread; normal variates by Box and Muller.
extern "C" __global__ void precise_math_2(float* average, float spot, float drift,
                                          float volatility, int steps, int n)
{
    const int path = blockIdx.x * blockDim.x + threadIdx.x;
    if (path >= n)
        return;
    unsigned state = path * 747796405u + 2891336453u;
    float price = spot, sum = 0.0f;
    for (int t = 0; t < steps; ++t) {
        const float radius = sqrtf(-2.0f * logf(uniform(state)));
        const float normal = radius * cosf(6.2831853f * uniform(state));
        price *= expf(drift + volatility * normal);
        sum += price;
    }
    average[path] = sum / steps;
}

// The same with __logf, __cosf and __expf.
extern "C" __global__ void precise_math_2_mended(float* average, float spot, float drift,
                                                 float volatility, int steps, int n)
{
    const int path = blockIdx.x * blockDim.x + threadIdx.x;
    if (path >= n)
        return;
    unsigned state = path * 747796405u + 2891336453u;
    float price = spot, sum = 0.0f;
    for (int t = 0; t < steps; ++t) {
        const float radius = sqrtf(-2.0f * __logf(uniform(state)));
        const float normal = radius * __cosf(6.2831853f * uniform(state));
        price *= __expf(drift + volatility * normal);
        sum += price;
    }
    average[path] = sum / steps;
}

#define LIGHTS 12

// Blinn-Phong highlights of a normal map under several lights.
extern "C" __global__ void precise_math_3(const float* __restrict__ nx,
                                          const float* __restrict__ ny, float* shade,
                                          float shininess, int width, int height)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    const int at = y * width + x;
    const float u = nx[at], v = ny[at];
    float sum = 0.0f;
    for (int k = 0; k < LIGHTS; ++k) {
        const float lx = 0.1f * k, ly = 1.0f - 0.05f * k;
        const float cosine = (u * lx + v * ly + 1.0f) / (1.0f + lx * lx + ly * ly + u * v);
        sum += powf(cosine, shininess) / (1.0f + cosine * u);
    }
    shade[at] = sum;
}

// The same with __powf and __fdividef.
extern "C" __global__ void precise_math_3_mended(const float* __restrict__ nx,
                                                 const float* __restrict__ ny, float* shade,
                                                 float shininess, int width, int height)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    const int at = y * width + x;
    const float u = nx[at], v = ny[at];
    float sum = 0.0f;
    for (int k = 0; k < LIGHTS; ++k) {
        const float lx = 0.1f * k, ly = 1.0f - 0.05f * k;
        const float cosine = __fdividef(u * lx + v * ly + 1.0f, 1.0f + lx * lx + ly * ly + u * v);
        sum += __fdividef(__powf(cosine, shininess), 1.0f + cosine * u);
    }
    shade[at] = sum;
}
