// Arithmetic decides: FP32, FP64, integers, special functions, registers that spill, divergence.

// Four independent chains of 1024 multiply-adds per thread.
template <typename T> __device__ void chains(const T* __restrict__ in, T* out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    T a = in[i], b = a + T(1), c = a + T(2), d = a + T(3);
#pragma unroll 16
    for (int k = 0; k < 1024; ++k) {
        a = a * T(0.5) + T(1.25);
        b = b * T(0.5) + T(1.25);
        c = c * T(0.5) + T(1.25);
        d = d * T(0.5) + T(1.25);
    }
    out[i] = a + b + c + d;
}

extern "C" __global__ void chains_float(const float* __restrict__ in, float* out)
{
    chains<float>(in, out);
}

extern "C" __global__ void chains_double(const double* __restrict__ in, double* out)
{
    chains<double>(in, out);
}

// One chain: every operation waits for the one before.
extern "C" __global__ void chain_dependent(const float* __restrict__ in, float* out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float a = in[i];
#pragma unroll 16
    for (int k = 0; k < 4096; ++k)
        a = a * 0.5f + 1.25f;
    out[i] = a;
}

// A double constant takes a float kernel to FP64 and back.
extern "C" __global__ void smooth_double(const float* __restrict__ in, float* out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float t = in[i];
#pragma unroll 4
    for (int k = 0; k < 128; ++k)
        t = t + 0.3 * (1.0 - t);
    out[i] = t;
}

extern "C" __global__ void smooth_float(const float* __restrict__ in, float* out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float t = in[i];
#pragma unroll 4
    for (int k = 0; k < 128; ++k)
        t = t + 0.3f * (1.0f - t);
    out[i] = t;
}

extern "C" __global__ void special_precise(const float* __restrict__ in, float* out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = in[i];
#pragma unroll 1
    for (int k = 0; k < 64; ++k)
        s = expf(-s) / (1.0f + logf(1.5f + s * s));
    out[i] = s;
}

extern "C" __global__ void special_fast(const float* __restrict__ in, float* out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = in[i];
#pragma unroll 1
    for (int k = 0; k < 64; ++k)
        s = __fdividef(__expf(-s), 1.0f + __logf(1.5f + s * s));
    out[i] = s;
}

// Price of European options; five arrays.
__device__ __forceinline__ float normal(float d)
{
    const float k = 1.0f / (1.0f + 0.2316419f * fabsf(d));
    const float p = 0.39894228f * __expf(-0.5f * d * d) * k *
                    (0.31938153f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f +
                                                                       k * 1.330274429f))));
    return d > 0.0f ? 1.0f - p : p;
}

extern "C" __global__ void black_scholes(const float* __restrict__ price,
                                         const float* __restrict__ strike,
                                         const float* __restrict__ years, float* call, float* put,
                                         int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const float s = price[i], x = strike[i], t = years[i];
    const float root = 0.3f * sqrtf(t);
    const float d1 = (__logf(s / x) + (0.02f + 0.045f) * t) / root;
    const float d2 = d1 - root;
    const float discount = __expf(-0.02f * t);
    call[i] = s * normal(d1) - x * discount * normal(d2);
    put[i] = x * discount * normal(-d2) - s * normal(-d1);
}

extern "C" __global__ void hash(const unsigned* __restrict__ in, unsigned* out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned h = in[i];
#pragma unroll 8
    for (int k = 0; k < 256; ++k) {
        h ^= h >> 16;
        h *= 0x85ebca6bu;
        h ^= h >> 13;
        h += 0x9e3779b9u;
    }
    out[i] = h;
}

// Division by a number known at run time, and by the same power of two known to the compiler.
extern "C" __global__ void divide_runtime(const int* __restrict__ in, int* out, int divisor)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    int t = in[i];
#pragma unroll 1
    for (int k = 0; k < 64; ++k)
        t = t / divisor + t % divisor + k;
    out[i] = t;
}

extern "C" __global__ void divide_constant(const int* __restrict__ in, int* out, int divisor)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    int t = in[i];
#pragma unroll 1
    for (int k = 0; k < 64; ++k)
        t = t / 16 + t % 16 + k;
    out[i] = t;
}

// 48 live values: with 32 registers they spill, with 80 they do not.
extern "C" __global__ void many_values(const float* __restrict__ in, float* out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v[48];
#pragma unroll
    for (int k = 0; k < 48; ++k)
        v[k] = in[i + k * n];
#pragma unroll 1
    for (int r = 0; r < 8; ++r) {
#pragma unroll
        for (int k = 0; k < 48; ++k)
            v[k] = v[k] * v[(k + 7) % 48] + v[(k + 13) % 48];
    }
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 48; ++k)
        sum += v[k];
    out[i] = sum;
}

// Lanes take turns in four branches; and warps, where lanes agree. Blocks of 128 threads.
__device__ __forceinline__ float branch(float s, int which)
{
    if (which == 0) {
#pragma unroll 8
        for (int k = 0; k < 256; ++k)
            s = s * 0.5f + 1.25f;
    } else if (which == 1) {
#pragma unroll 8
        for (int k = 0; k < 256; ++k)
            s = s * 0.25f - 1.5f;
    } else if (which == 2) {
#pragma unroll 8
        for (int k = 0; k < 256; ++k)
            s = s * 0.75f + 0.5f;
    } else {
#pragma unroll 8
        for (int k = 0; k < 256; ++k)
            s = s * 0.625f - 0.75f;
    }
    return s;
}

extern "C" __global__ void branch_lanes(const float* __restrict__ in, float* out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = branch(in[i], threadIdx.x % 4);
}

extern "C" __global__ void branch_warps(const float* __restrict__ in, float* out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = branch(in[i], threadIdx.x / 32 % 4);
}
