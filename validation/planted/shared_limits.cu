// shared_limits: shared memory leaves room for few blocks; mended, blocks take less.

#define LARGEST_TABLE 11264

// Weighted sums along random flights, one per warp and one group of energies per lane.
extern "C" __global__ void shared_limits_1(const float* __restrict__ field,
                                           const float* __restrict__ weights, float* score,
                                           int steps, unsigned cells)
{
    __shared__ float table[LARGEST_TABLE];
    for (int k = threadIdx.x; k < 512; k += blockDim.x)
        table[k] = weights[k];
    __syncthreads();
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned state = i / 32 * 747796405u + 2891336453u;
    float sum = 0.0f;
    for (int s = 0; s < steps; ++s) {
        state = state * 1664525u + 1013904223u;
        sum = 0.5f * sum + table[state >> 23] * field[__umulhi(state, cells) * 32 + i % 32];
    }
    score[i] = sum;
}

#define TABLE 512

// The same with a table of the size that is used, not of the largest.
extern "C" __global__ void shared_limits_1_mended(const float* __restrict__ field,
                                                  const float* __restrict__ weights, float* score,
                                                  int steps, unsigned cells)
{
    __shared__ float table[TABLE];
    for (int k = threadIdx.x; k < 512; k += blockDim.x)
        table[k] = weights[k];
    __syncthreads();
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned state = i / 32 * 747796405u + 2891336453u;
    float sum = 0.0f;
    for (int s = 0; s < steps; ++s) {
        state = state * 1664525u + 1013904223u;
        sum = 0.5f * sum + table[state >> 23] * field[__umulhi(state, cells) * 32 + i % 32];
    }
    score[i] = sum;
}

#define COLUMNS 64

// Smooths columns of a height field by five taps in strips of ROWS rows; in has 4 more rows.
template <int ROWS>
__device__ __forceinline__ void smooth(const float* __restrict__ in, float* out, int width)
{
    __shared__ float strip[ROWS + 4][COLUMNS];
    const int t = threadIdx.x, y0 = blockIdx.y * ROWS;
    const size_t at = (size_t)y0 * width + blockIdx.x * COLUMNS + t;
#pragma unroll 4
    for (int y = 0; y < ROWS + 4; ++y)
        strip[y][t] = in[at + y * width];
    __syncthreads();
#pragma unroll 4
    for (int y = 0; y < ROWS; ++y)
        out[at + y * width] = 0.0625f * (strip[y][t] + strip[y + 4][t])
                              + 0.25f * (strip[y + 1][t] + strip[y + 3][t])
                              + 0.375f * strip[y + 2][t];
}

// Vertical smoothing in strips of 160 rows.
extern "C" __global__ void shared_limits_2(const float* __restrict__ in, float* out, int width)
{
    smooth<160>(in, out, width);
}

// Vertical smoothing in strips of 20 rows.
extern "C" __global__ void shared_limits_2_mended(const float* __restrict__ in, float* out,
                                                  int width)
{
    smooth<20>(in, out, width);
}

#define STEPS 180
#define WINDOW 16
#define PATHS 64

// Largest rise of a simulated price above its mean of 16 steps; the whole path is kept.
extern "C" __global__ void shared_limits_3(const float* __restrict__ shocks, float* rise,
                                           float volatility, int paths)
{
    __shared__ float path[STEPS][PATHS];
    const int t = threadIdx.x, i = blockIdx.x * PATHS + t;
    float price = 1.0f, sum = 0.0f, best = 0.0f;
    for (int s = 0; s < STEPS; ++s) {
        price *= __expf(volatility * (shocks[s * paths + i] - 0.5f));
        path[s][t] = price;
        sum += price;
        if (s >= WINDOW) {
            sum -= path[s - WINDOW][t];
            best = fmaxf(best, price - sum * (1.0f / WINDOW));
        }
    }
    rise[i] = best;
}

// The same, only the last 16 steps are kept.
extern "C" __global__ void shared_limits_3_mended(const float* __restrict__ shocks, float* rise,
                                                  float volatility, int paths)
{
    __shared__ float path[WINDOW][PATHS];
    const int t = threadIdx.x, i = blockIdx.x * PATHS + t;
    float price = 1.0f, sum = 0.0f, best = 0.0f;
    for (int s = 0; s < STEPS; ++s) {
        price *= __expf(volatility * (shocks[s * paths + i] - 0.5f));
        sum += price;
        if (s >= WINDOW) {
            sum -= path[s % WINDOW][t];
            best = fmaxf(best, price - sum * (1.0f / WINDOW));
        }
        path[s % WINDOW][t] = price;
    }
    rise[i] = best;
}
