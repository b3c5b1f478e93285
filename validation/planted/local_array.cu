// local_array: an array indexed at run time lies in local memory; mended, it lies in registers.

#define NEAREST 8

// Distances of the 8 nearest candidates, one query per thread, sorted by insertion.
extern "C" __global__ void local_array_1(const float* __restrict__ queries,
                                         const float* __restrict__ points, float* nearest, int n,
                                         int candidates)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const float x = queries[i], y = queries[n + i], z = queries[2 * n + i];
    float best[NEAREST];
    for (int k = 0; k < NEAREST; ++k)
        best[k] = 3.0e38f;
    for (int j = 0; j < candidates; ++j) {
        const float dx = points[3 * j] - x, dy = points[3 * j + 1] - y, dz = points[3 * j + 2] - z;
        const float d = dx * dx + dy * dy + dz * dz;
        if (d < best[NEAREST - 1]) {
            int k = NEAREST - 1;
            while (k > 0 && best[k - 1] > d) {
                best[k] = best[k - 1];
                --k;
            }
            best[k] = d;
        }
    }
    for (int k = 0; k < NEAREST; ++k)
        nearest[k * n + i] = best[k];
}

// The same, each new distance passing along the sorted registers.
extern "C" __global__ void local_array_1_mended(const float* __restrict__ queries,
                                                const float* __restrict__ points, float* nearest,
                                                int n, int candidates)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const float x = queries[i], y = queries[n + i], z = queries[2 * n + i];
    float best[NEAREST];
#pragma unroll
    for (int k = 0; k < NEAREST; ++k)
        best[k] = 3.0e38f;
    for (int j = 0; j < candidates; ++j) {
        const float dx = points[3 * j] - x, dy = points[3 * j + 1] - y, dz = points[3 * j + 2] - z;
        float d = dx * dx + dy * dy + dz * dz;
        if (d < best[NEAREST - 1]) {
#pragma unroll
            for (int k = 0; k < NEAREST; ++k) {
                const float nearer = fminf(best[k], d);
                d = fmaxf(best[k], d);
                best[k] = nearer;
            }
        }
    }
#pragma unroll
    for (int k = 0; k < NEAREST; ++k)
        nearest[k * n + i] = best[k];
}

// Reaction rates of Robertson's three species, scaled to be mild.
__device__ __forceinline__ void rates(const double* c, double* r)
{
    const double a = 0.04 * c[0], b = 10.0 * c[1] * c[2], d = 3.0 * c[1] * c[1];
    r[0] = b - a;
    r[1] = a - b - d;
    r[2] = d;
}

// Explicit Runge-Kutta steps of one reactor per thread; the number of stages is an argument.
extern "C" __global__ void local_array_2(double* state, const double* __restrict__ tableau,
                                         double h, int stages, int steps, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    double c[3] = {state[i], state[n + i], state[2 * n + i]};
    double k[8][3];
    for (int t = 0; t < steps; ++t) {
        for (int s = 0; s < stages; ++s) {
            double at[3] = {c[0], c[1], c[2]};
            for (int j = 0; j < s; ++j)
                for (int d = 0; d < 3; ++d)
                    at[d] += h * tableau[s * stages + j] * k[j][d];
            rates(at, k[s]);
        }
        for (int s = 0; s < stages; ++s)
            for (int d = 0; d < 3; ++d)
                c[d] += h * tableau[stages * stages + s] * k[s][d];
    }
    for (int d = 0; d < 3; ++d)
        state[d * n + i] = c[d];
}

#define STAGES 4

// The same with four stages, known to the compiler.
extern "C" __global__ void local_array_2_mended(double* state, const double* __restrict__ tableau,
                                                double h, int steps, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    double c[3] = {state[i], state[n + i], state[2 * n + i]};
    double k[STAGES][3];
    for (int t = 0; t < steps; ++t) {
#pragma unroll
        for (int s = 0; s < STAGES; ++s) {
            double at[3] = {c[0], c[1], c[2]};
#pragma unroll
            for (int j = 0; j < s; ++j)
#pragma unroll
                for (int d = 0; d < 3; ++d)
                    at[d] += h * tableau[s * STAGES + j] * k[j][d];
            rates(at, k[s]);
        }
#pragma unroll
        for (int s = 0; s < STAGES; ++s)
#pragma unroll
            for (int d = 0; d < 3; ++d)
                c[d] += h * tableau[STAGES * STAGES + s] * k[s][d];
    }
#pragma unroll
    for (int d = 0; d < 3; ++d)
        state[d * n + i] = c[d];
}

#define TAPS 16

// FIR filter, one channel of interleaved 16-bit samples per thread; the delay line is a ring.
extern "C" __global__ void local_array_3(const short* __restrict__ in,
                                         const float* __restrict__ taps, float* out, int channels,
                                         int samples)
{
    const int channel = blockIdx.x * blockDim.x + threadIdx.x;
    if (channel >= channels)
        return;
    float weight[TAPS], line[TAPS];
#pragma unroll
    for (int k = 0; k < TAPS; ++k) {
        weight[k] = taps[k];
        line[k] = 0.0f;
    }
    int head = 0;
    for (int t = 0; t < samples; ++t) {
        line[head] = in[t * channels + channel];
        float sum = 0.0f;
#pragma unroll
        for (int k = 0; k < TAPS; ++k)
            sum += weight[k] * line[(head - k) & (TAPS - 1)];
        out[t * channels + channel] = sum;
        head = (head + 1) & (TAPS - 1);
    }
}

// The same with a delay line that is shifted.
extern "C" __global__ void local_array_3_mended(const short* __restrict__ in,
                                                const float* __restrict__ taps, float* out,
                                                int channels, int samples)
{
    const int channel = blockIdx.x * blockDim.x + threadIdx.x;
    if (channel >= channels)
        return;
    float weight[TAPS], line[TAPS];
#pragma unroll
    for (int k = 0; k < TAPS; ++k) {
        weight[k] = taps[k];
        line[k] = 0.0f;
    }
    for (int t = 0; t < samples; ++t) {
#pragma unroll
        for (int k = TAPS - 1; k > 0; --k)
            line[k] = line[k - 1];
        line[0] = in[t * channels + channel];
        float sum = 0.0f;
#pragma unroll
        for (int k = 0; k < TAPS; ++k)
            sum += weight[k] * line[k];
        out[t * channels + channel] = sum;
    }
}
