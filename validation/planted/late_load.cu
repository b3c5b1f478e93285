// late_load: a value is loaded just before its use; mended, it is loaded one step earlier.

// Diode clipper by implicit Euler with three Newton iterations, one audio channel per thread.
extern "C" __global__ void late_load_1(const float* __restrict__ in, float* out, float h,
                                       int channels, int samples)
{
    const int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= channels)
        return;
    float y = 0.0f;
#pragma unroll 1
    for (int t = 0; t < samples; ++t) {
        const float u = in[t * channels + c], last = y;
        y += h * (u - y);
        for (int k = 0; k < 3; ++k) {
            const float e = expf(y), r = 1.0f / e;
            y -= (y - last - h * (u - y - 0.1f * (e - r))) / (1.0f + h * (1.0f + 0.1f * (e + r)));
        }
        out[t * channels + c] = y;
    }
}

// The same with the next sample under way during the iterations.
extern "C" __global__ void late_load_1_mended(const float* __restrict__ in, float* out, float h,
                                              int channels, int samples)
{
    const int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= channels)
        return;
    float y = 0.0f, next = in[c];
#pragma unroll 1
    for (int t = 0; t < samples; ++t) {
        const float u = next, last = y;
        if (t + 1 < samples)
            next = in[(t + 1) * channels + c];
        y += h * (u - y);
        for (int k = 0; k < 3; ++k) {
            const float e = expf(y), r = 1.0f / e;
            y -= (y - last - h * (u - y - 0.1f * (e - r))) / (1.0f + h * (1.0f + 0.1f * (e + r)));
        }
        out[t * channels + c] = y;
    }
}

#define STATES 64

// Forward algorithm of a hidden Markov model, one sequence per block and one state per thread.
extern "C" __global__ void __launch_bounds__(STATES)
    late_load_2(const float* __restrict__ emission, const float* __restrict__ transition,
                float* forward, int length)
{
    __shared__ float weighted[2][STATES];
    const int s = threadIdx.x;
    const float* likelihood = emission + (size_t)blockIdx.x * length * STATES + s;
    float column[STATES], alpha = 1.0f;
#pragma unroll
    for (int j = 0; j < STATES; ++j)
        column[j] = transition[j * STATES + s] * (4.0f / STATES);
#pragma unroll 1
    for (int t = 0; t < length; ++t) {
        weighted[t & 1][s] = alpha * likelihood[t * STATES];
        __syncthreads();
        alpha = 0.0f;
#pragma unroll
        for (int j = 0; j < STATES; ++j)
            alpha += column[j] * weighted[t & 1][j];
    }
    forward[blockIdx.x * STATES + s] = alpha;
}

// The same with the next likelihood under way during the sum over states.
extern "C" __global__ void __launch_bounds__(STATES)
    late_load_2_mended(const float* __restrict__ emission, const float* __restrict__ transition,
                       float* forward, int length)
{
    __shared__ float weighted[2][STATES];
    const int s = threadIdx.x;
    const float* likelihood = emission + (size_t)blockIdx.x * length * STATES + s;
    float column[STATES], alpha = 1.0f, next = likelihood[0];
#pragma unroll
    for (int j = 0; j < STATES; ++j)
        column[j] = transition[j * STATES + s] * (4.0f / STATES);
#pragma unroll 1
    for (int t = 0; t < length; ++t) {
        weighted[t & 1][s] = alpha * next;
        if (t + 1 < length)
            next = likelihood[(t + 1) * STATES];
        __syncthreads();
        alpha = 0.0f;
#pragma unroll
        for (int j = 0; j < STATES; ++j)
            alpha += column[j] * weighted[t & 1][j];
    }
    forward[blockIdx.x * STATES + s] = alpha;
}

// Filtered logarithm of the volatility of daily returns, one asset per thread.
extern "C" __global__ void late_load_3(const double* __restrict__ returns, double* volatility,
                                       double persistence, double noise, int assets, int days)
{
    const int a = blockIdx.x * blockDim.x + threadIdx.x;
    if (a >= assets)
        return;
    double h = 0.0, p = 1.0;
#pragma unroll 1
    for (int d = 0; d < days; ++d) {
        const double r = returns[(size_t)d * assets + a];
        h = persistence * h - 0.1 * r;
        const double surprise = r * r * exp(-h) - 1.0, gain = p / (p + 2.0 + r);
        h += gain * surprise;
        p = persistence * persistence * (1.0 - gain) * p + noise;
    }
    volatility[a] = exp(0.5 * h);
}

// The same with the return of the next day under way.
extern "C" __global__ void late_load_3_mended(const double* __restrict__ returns,
                                              double* volatility, double persistence, double noise,
                                              int assets, int days)
{
    const int a = blockIdx.x * blockDim.x + threadIdx.x;
    if (a >= assets)
        return;
    double h = 0.0, p = 1.0, next = returns[a];
#pragma unroll 1
    for (int d = 0; d < days; ++d) {
        const double r = next;
        if (d + 1 < days)
            next = returns[(size_t)(d + 1) * assets + a];
        h = persistence * h - 0.1 * r;
        const double surprise = r * r * exp(-h) - 1.0, gain = p / (p + 2.0 + r);
        h += gain * surprise;
        p = persistence * persistence * (1.0 - gain) * p + noise;
    }
    volatility[a] = exp(0.5 * h);
}
