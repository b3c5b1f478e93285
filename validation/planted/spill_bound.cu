// spill_bound: __launch_bounds__ leaves too few registers; mended, there are enough.

#define ORDER 8

// Solves one symmetric positive definite 8 x 8 system per thread; systems are interleaved.
__device__ __forceinline__ void solve(const double* __restrict__ matrices,
                                      const double* __restrict__ right, double* x, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    double l[ORDER][ORDER], b[ORDER];
#pragma unroll
    for (int r = 0; r < ORDER; ++r)
#pragma unroll
        for (int c = 0; c <= r; ++c)
            l[r][c] = matrices[(r * (r + 1) / 2 + c) * n + i] + (r == c ? ORDER : 0.0);
#pragma unroll
    for (int r = 0; r < ORDER; ++r)
        b[r] = right[r * n + i];
#pragma unroll
    for (int k = 0; k < ORDER; ++k) {
        l[k][k] = rsqrt(l[k][k]);
#pragma unroll
        for (int r = k + 1; r < ORDER; ++r)
            l[r][k] *= l[k][k];
#pragma unroll
        for (int c = k + 1; c < ORDER; ++c)
#pragma unroll
            for (int r = c; r < ORDER; ++r)
                l[r][c] -= l[r][k] * l[c][k];
    }
#pragma unroll
    for (int r = 0; r < ORDER; ++r) {
#pragma unroll
        for (int c = 0; c < r; ++c)
            b[r] -= l[r][c] * b[c];
        b[r] *= l[r][r];
    }
#pragma unroll
    for (int r = ORDER - 1; r >= 0; --r) {
#pragma unroll
        for (int c = r + 1; c < ORDER; ++c)
            b[r] -= l[c][r] * b[c];
        b[r] *= l[r][r];
        x[r * n + i] = b[r];
    }
}

// Batched Cholesky solve, 32 registers per thread.
extern "C" __global__ void __launch_bounds__(256, 8)
    spill_bound_1(const double* __restrict__ matrices, const double* __restrict__ right, double* x,
                  int n)
{
    solve(matrices, right, x, n);
}

// Batched Cholesky solve, as many registers as it takes.
extern "C" __global__ void __launch_bounds__(256)
    spill_bound_1_mended(const double* __restrict__ matrices, const double* __restrict__ right,
                         double* x, int n)
{
    solve(matrices, right, x, n);
}

#define TILE 128
#define DEPTH 8

// C = A^T B with 8 x 8 results per thread; a is K x M, b is K x N.
__device__ __forceinline__ void multiply(const float* __restrict__ a, const float* __restrict__ b,
                                         float* __restrict__ c, int m, int n, int k)
{
    __shared__ float as[DEPTH][TILE], bs[DEPTH][TILE];
    const int row = blockIdx.y * TILE, column = blockIdx.x * TILE;
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    float sum[8][8] = {};
    for (int k0 = 0; k0 < k; k0 += DEPTH) {
#pragma unroll
        for (int d = 0; d < DEPTH; d += 2) {
            const int r = d + threadIdx.x / TILE, t = threadIdx.x % TILE;
            as[r][t] = a[(k0 + r) * m + row + t];
            bs[r][t] = b[(k0 + r) * n + column + t];
        }
        __syncthreads();
#pragma unroll
        for (int d = 0; d < DEPTH; ++d) {
            float x[8], y[8];
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                x[i] = as[d][ty * 8 + i];
                y[i] = bs[d][tx + 16 * i];
            }
#pragma unroll
            for (int i = 0; i < 8; ++i)
#pragma unroll
                for (int j = 0; j < 8; ++j)
                    sum[i][j] += x[i] * y[j];
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j)
            c[(row + ty * 8 + i) * n + column + tx + 16 * j] = sum[i][j];
}

// Matrix product for four blocks per SM.
extern "C" __global__ void __launch_bounds__(256, 4)
    spill_bound_2(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c,
                  int m, int n, int k)
{
    multiply(a, b, c, m, n, k);
}

// Matrix product for two blocks per SM.
extern "C" __global__ void __launch_bounds__(256, 2)
    spill_bound_2_mended(const float* __restrict__ a, const float* __restrict__ b,
                         float* __restrict__ c, int m, int n, int k)
{
    multiply(a, b, c, m, n, k);
}

#define POINTS 32

// One butterfly of a decimation in frequency, with the twiddle (wr, wi).
__device__ __forceinline__ void butterfly(float2& a, float2& b, float wr, float wi)
{
    const float2 d = make_float2(a.x - b.x, a.y - b.y);
    a = make_float2(a.x + b.x, a.y + b.y);
    b = make_float2(d.x * wr - d.y * wi, d.x * wi + d.y * wr);
}

// Mean power spectrum of one channel per thread: 32-point transforms, summed over frames.
__device__ __forceinline__ void spectrum(const char2* __restrict__ samples, float* power,
                                         int channels, int frames)
{
    constexpr float re[16] = {
        1.0f, 0.9807853f, 0.9238795f, 0.8314696f, 0.7071068f, 0.5555702f,
        0.3826834f, 0.1950903f, 0.0f, -0.1950903f, -0.3826834f, -0.5555702f,
        -0.7071068f, -0.8314696f, -0.9238795f, -0.9807853f};
    constexpr float im[16] = {
        0.0f, -0.1950903f, -0.3826834f, -0.5555702f, -0.7071068f, -0.8314696f,
        -0.9238795f, -0.9807853f, -1.0f, -0.9807853f, -0.9238795f, -0.8314696f,
        -0.7071068f, -0.5555702f, -0.3826834f, -0.1950903f};
    const int channel = blockIdx.x * blockDim.x + threadIdx.x;
    if (channel >= channels)
        return;
    const float scale = 1.0f / frames;
    float sum[POINTS] = {};
    for (int f = 0; f < frames; ++f) {
        float2 v[POINTS];
#pragma unroll
        for (int k = 0; k < POINTS; ++k) {
            const char2 s = samples[(f * POINTS + k) * channels + channel];
            v[k] = make_float2(s.x, s.y);
        }
#pragma unroll
        for (int half = POINTS / 2; half > 0; half /= 2)
#pragma unroll
            for (int k = 0; k < POINTS / 2; ++k) {
                const int j = k % half, first = k / half * 2 * half + j;
                butterfly(v[first], v[first + half], re[j * (16 / half)], im[j * (16 / half)]);
            }
#pragma unroll
        for (int k = 0; k < POINTS; ++k)
            sum[k] += v[k].x * v[k].x + v[k].y * v[k].y;
    }
#pragma unroll
    for (int k = 0; k < POINTS; ++k)
        power[k * channels + channel] = sum[k] * scale;
}

// Power spectra, compiled for blocks of 1024 threads, two per SM.
extern "C" __global__ void __launch_bounds__(1024, 2)
    spill_bound_3(const char2* __restrict__ samples, float* power, int channels, int frames)
{
    spectrum(samples, power, channels, frames);
}

// Power spectra, compiled for the blocks of 128 threads that are launched.
extern "C" __global__ void __launch_bounds__(128)
    spill_bound_3_mended(const char2* __restrict__ samples, float* power, int channels, int frames)
{
    spectrum(samples, power, channels, frames);
}
