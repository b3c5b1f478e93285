// noinline_call: the inner loop calls a function that is kept out of line; mended, it is inlined.

__device__ __noinline__ float2 multiply_called(float2 a, float2 b)
{
    return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

__device__ __forceinline__ float2 multiply(float2 a, float2 b)
{
    return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

// Distance that each point of the plane has reached after z -> z^3 + c, capped to stay finite.
extern "C" __global__ void noinline_call_1(float* distance, float scale, int width, int height,
                                           int iterations)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    const float2 c = make_float2(scale * (x - width / 2), scale * (y - height / 2));
    float2 z = c;
    for (int k = 0; k < iterations; ++k) {
        z = multiply_called(multiply_called(z, z), z);
        z.x = fminf(fmaxf(z.x + c.x, -2.0f), 2.0f);
        z.y = fminf(fmaxf(z.y + c.y, -2.0f), 2.0f);
    }
    distance[y * width + x] = z.x * z.x + z.y * z.y;
}

// The same with the product inlined.
extern "C" __global__ void noinline_call_1_mended(float* distance, float scale, int width,
                                                  int height, int iterations)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    const float2 c = make_float2(scale * (x - width / 2), scale * (y - height / 2));
    float2 z = c;
    for (int k = 0; k < iterations; ++k) {
        z = multiply(multiply(z, z), z);
        z.x = fminf(fmaxf(z.x + c.x, -2.0f), 2.0f);
        z.y = fminf(fmaxf(z.y + c.y, -2.0f), 2.0f);
    }
    distance[y * width + x] = z.x * z.x + z.y * z.y;
}

struct Generator {
    unsigned a, b, c, d;
};

__device__ __noinline__ float draw_called(Generator* g)
{
    const unsigned t = g->d ^ (g->d << 11);
    g->d = g->c;
    g->c = g->b;
    g->b = g->a;
    g->a ^= (g->a >> 19) ^ t ^ (t >> 8);
    return (g->a >> 8) * (1.0f / 16777216.0f);
}

__device__ __forceinline__ float draw(Generator* g)
{
    const unsigned t = g->d ^ (g->d << 11);
    g->d = g->c;
    g->c = g->b;
    g->b = g->a;
    g->a ^= (g->a >> 19) ^ t ^ (t >> 8);
    return (g->a >> 8) * (1.0f / 16777216.0f);
}

// Volume of the four-dimensional ball by random points.
extern "C" __global__ void noinline_call_2(unsigned* hits, int points)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    Generator g = {i * 2654435761u + 1, i ^ 362436069u, 521288629u, 88675123u};
    unsigned inside = 0;
    for (int k = 0; k < points; ++k) {
        float r2 = 0.0f;
#pragma unroll
        for (int d = 0; d < 4; ++d) {
            const float x = draw_called(&g);
            r2 += x * x;
        }
        inside += r2 < 1.0f;
    }
    hits[i] = inside;
}

// The same with the generator inlined and its state in registers.
extern "C" __global__ void noinline_call_2_mended(unsigned* hits, int points)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    Generator g = {i * 2654435761u + 1, i ^ 362436069u, 521288629u, 88675123u};
    unsigned inside = 0;
    for (int k = 0; k < points; ++k) {
        float r2 = 0.0f;
#pragma unroll
        for (int d = 0; d < 4; ++d) {
            const float x = draw(&g);
            r2 += x * x;
        }
        inside += r2 < 1.0f;
    }
    hits[i] = inside;
}

__device__ __noinline__ unsigned long long mix_called(unsigned long long h)
{
    h ^= h >> 33;
    h *= 0xff51afd7ed558ccdull;
    return h ^ h >> 33;
}

__device__ __forceinline__ unsigned long long mix(unsigned long long h)
{
    h ^= h >> 33;
    h *= 0xff51afd7ed558ccdull;
    return h ^ h >> 33;
}

// Smallest hash of each 64-bit word of a genome under many seeds.
extern "C" __global__ void noinline_call_3(const unsigned long long* __restrict__ words,
                                           unsigned long long* smallest, int seeds, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const unsigned long long word = words[i];
    unsigned long long least = ~0ull;
    for (int s = 0; s < seeds; ++s)
        least = min(least, mix_called(word ^ s * 0x9e3779b97f4a7c15ull));
    smallest[i] = least;
}

// The same with the hash inlined.
extern "C" __global__ void noinline_call_3_mended(const unsigned long long* __restrict__ words,
                                                  unsigned long long* smallest, int seeds, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const unsigned long long word = words[i];
    unsigned long long least = ~0ull;
    for (int s = 0; s < seeds; ++s)
        least = min(least, mix(word ^ s * 0x9e3779b97f4a7c15ull));
    smallest[i] = least;
}
