// Pairs of kernels: one with a pattern that an optimizer of the advisor matches, one without.
#define N 64

extern "C" __global__ void double_constant(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < 1 || i >= n - 1) return;
  float t = in[i];
#pragma unroll 4
  for (int k = 0; k < 64; ++k) t = t + 0.3 * (in[i - 1] + in[i + 1] - 2.0 * t);
  out[i] = t;
}

extern "C" __global__ void float_constant(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < 1 || i >= n - 1) return;
  float t = in[i];
#pragma unroll 4
  for (int k = 0; k < 64; ++k) t = t + 0.3f * (in[i - 1] + in[i + 1] - 2.0f * t);
  out[i] = t;
}

extern "C" __global__ void runtime_division(int* out, const int* in, int n, int d) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int t = in[i];
#pragma unroll 1
  for (int k = 0; k < 32; ++k) t = t / d + t % d + k;
  out[i] = t;
}

extern "C" __global__ void constant_division(int* out, const int* in, int n, int d) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int t = in[i];
#pragma unroll 1
  for (int k = 0; k < 32; ++k) t = (t >> 4) + (t & 15) + k;
  out[i] = t;
}

extern "C" __global__ void many_values(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v[48];
#pragma unroll
  for (int k = 0; k < 48; ++k) v[k] = in[i + k * n];
  for (int r = 0; r < 8; ++r) {
#pragma unroll
    for (int k = 0; k < 48; ++k) v[k] = v[k] * v[(k + 7) % 48] + v[(k + 13) % 48];
  }
  float s = 0;
#pragma unroll
  for (int k = 0; k < 48; ++k) s += v[k];
  out[i] = s;
}

// Eight independent chains: they hide their own latency, and that of a load in front of them.
__device__ __forceinline__ void compute(float (&s)[8]) {
#pragma unroll 1
  for (int j = 0; j < 50; ++j) {
#pragma unroll
    for (int c = 0; c < 8; ++c) s[c] = s[c] * 0.5f + 1.25f;
#pragma unroll
    for (int c = 0; c < 8; ++c) s[c] = s[c] * 1.5f + 0.25f;
  }
}

extern "C" __global__ void gather_at_once(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float s[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  compute(s);
  float b = ((volatile const float*)in)[i];
  s[0] = b * s[0] + 0.25f;
  out[i] = s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];
}

extern "C" __global__ void gather_ahead(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float s[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  float b = ((volatile const float*)in)[i];
  compute(s);
  s[0] = b * s[0] + 0.25f;
  out[i] = s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];
}

extern "C" __global__ void rolled(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float s = 0;
#pragma unroll 1
  for (int k = 0; k < N; ++k) s = s * 0.5f + in[i + k * n];
  out[i] = s;
}

extern "C" __global__ void unrolled(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float s = 0;
#pragma unroll
  for (int k = 0; k < N; ++k) s = s * 0.5f + in[i + k * n];
  out[i] = s;
}

extern "C" __global__ void work(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float s = in[i];
#pragma unroll 8
  for (int k = 0; k < 512; ++k) s = s * 0.5f + 1.25f;
  out[i] = s;
}

extern "C" __global__ void plane(float* out, const float* in, int width) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  float s = in[y * width + x];
#pragma unroll 8
  for (int k = 0; k < 128; ++k) s = s * 0.5f + 1.25f;
  out[y * width + x] = s;
}

extern "C" __global__ void precise(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float s = in[i];
#pragma unroll 1
  for (int k = 0; k < 32; ++k) s = expf(s) / (1.0f + s);
  out[i] = s;
}

extern "C" __global__ void approximate(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float s = in[i];
#pragma unroll 1
  for (int k = 0; k < 32; ++k) s = __fdividef(__expf(s), 1.0f + s);
  out[i] = s;
}

extern "C" __global__ void imbalanced(float* out, const float* in, int n) {
  __shared__ float total;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float s = in[i];
  for (int r = 0; r < 4; ++r) {
    if (threadIdx.x < 32) {
#pragma unroll 8
      for (int k = 0; k < 256; ++k) s = s * 0.5f + 1.25f;
      if (threadIdx.x == 0) total = s;
    }
    __syncthreads();
    s += total;
    __syncthreads();
  }
  out[i] = s;
}

extern "C" __global__ void balanced(float* out, const float* in, int n) {
  __shared__ float total;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float s = in[i];
  for (int r = 0; r < 4; ++r) {
#pragma unroll 8
    for (int k = 0; k < 32; ++k) s = s * 0.5f + 1.25f;
    if (threadIdx.x == 0) total = s;
    __syncthreads();
    s += total;
    __syncthreads();
  }
  out[i] = s;
}

__device__ __noinline__ float step(float s, float b) { return s * b + 0.25f; }

extern "C" __global__ void calls(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float s = in[i];
#pragma unroll 1
  for (int k = 0; k < 64; ++k) s = step(s, 0.5f);
  out[i] = s;
}

extern "C" __global__ void inlines(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float s = in[i];
#pragma unroll 1
  for (int k = 0; k < 64; ++k) s = s * 0.5f + 0.25f;
  out[i] = s;
}

extern "C" __global__ void global_table(float* out, const float* in, const float* table, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float s = in[i];
#pragma unroll 4
  for (int k = 0; k < 64; ++k) s = s * ((volatile const float*)table)[k] + 0.25f;
  out[i] = s;
}

__constant__ float coefficients[64];

extern "C" __global__ void constant_table(float* out, const float* in, const float* table, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float s = in[i];
#pragma unroll
  for (int k = 0; k < 64; ++k) s = s * coefficients[k] + 0.25f;
  out[i] = s;
}

extern "C" __global__ void strided(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float s = 0;
#pragma unroll
  for (int k = 0; k < 8; ++k) s += in[i * 8 + k * 8 * n];
  out[i] = s;
}

extern "C" __global__ void contiguous(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float s = 0;
#pragma unroll
  for (int k = 0; k < 8; ++k) s += in[i + k * n];
  out[i] = s;
}

template <int PITCH> __device__ void columns(float* out, const float* in) {
  __shared__ float tile[32 * PITCH];
  int x = threadIdx.x % 32, y = threadIdx.x / 32, i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int k = y; k < 32; k += 8) tile[k * PITCH + x] = in[blockIdx.x * 1024 + k * 32 + x];
  __syncthreads();
  float s = 0;
#pragma unroll
  for (int r = 0; r < 4; ++r)
#pragma unroll
    for (int k = 0; k < 32; ++k) s = s * 0.5f + tile[x * PITCH + (k + y) % 32];
  out[i] = s;
}

extern "C" __global__ void conflicts(float* out, const float* in, int n) { columns<32>(out, in); }
extern "C" __global__ void padded(float* out, const float* in, int n) { columns<33>(out, in); }

extern "C" __global__ void through_registers(float* out, const float* in, int n) {
  __shared__ float tile[256];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float s = 0;
#pragma unroll 1
  for (int k = 0; k < 32; ++k) {
    tile[threadIdx.x] = in[i + k * n];
    __syncthreads();
#pragma unroll
    for (int j = 0; j < 16; ++j) s = s * 0.5f + tile[(threadIdx.x + j) % 256];
    __syncthreads();
  }
  out[i] = s;
}

extern "C" __global__ void wide(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v[32];
#pragma unroll
  for (int k = 0; k < 32; ++k) v[k] = in[i + k * n];
#pragma unroll 1
  for (int r = 0; r < 64; ++r) {
#pragma unroll
    for (int k = 0; k < 32; ++k) v[k] = v[k] * 0.5f + v[(k + 1) % 32];
  }
  float s = 0;
#pragma unroll
  for (int k = 0; k < 32; ++k) s += v[k];
  out[i] = s;
}

#ifndef STEPS
#define STEPS 6000
#endif
extern "C" __global__ void long_code(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float s = in[i], t = s;
  constexpr int steps = STEPS;
#pragma unroll steps
  for (int k = 0; k < 6000; ++k) { s = s * t + 0.25f; t = t * 0.5f + s; }
  out[i] = s + t;
}

extern "C" __global__ void smooth(float* out, const float* in, int nx, int ny) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < 1 || y < 1 || x >= nx - 1 || y >= ny - 1) return;
  out[y * nx + x] = 0.25f * (in[y * nx + x - 1] + in[y * nx + x + 1] + in[(y - 1) * nx + x] +
                             in[(y + 1) * nx + x]);
}

// Several steps of diffusion in a tile whose rim is computed twice; TYPE is that of a constant.
#define TILE 16
template <class TYPE>
__device__ __forceinline__ void diffuse(float* out, const float* heat, const float* source, int n,
                                        int steps, float rx, float ry, float rz, float scale) {
  __shared__ float now[TILE][TILE], added[TILE][TILE], next[TILE][TILE];
  const float along = 1 / rx, across = 1 / ry, away = 1 / rz;
  const int inner = TILE - 2 * steps, tx = threadIdx.x, ty = threadIdx.y;
  const int left = blockIdx.x * inner - steps, top = blockIdx.y * inner - steps;
  const int x = left + tx, y = top + ty, place = y * n + x;
  if (x >= 0 && x < n && y >= 0 && y < n) {
    now[ty][tx] = heat[place];
    added[ty][tx] = source[place];
  }
  __syncthreads();
  const int first_x = max(0, -left), last_x = min(TILE - 1, n - 1 - left);
  const int first_y = max(0, -top), last_y = min(TILE - 1, n - 1 - top);
  const int west = max(tx - 1, first_x), east = min(tx + 1, last_x);
  const int north = max(ty - 1, first_y), south = min(ty + 1, last_y);
  bool computes = false;
  for (int step = 0; step < steps; ++step) {
    computes = tx > step && tx < TILE - 1 - step && ty > step && ty < TILE - 1 - step &&
               tx >= first_x && tx <= last_x && ty >= first_y && ty <= last_y;
    if (computes)
      next[ty][tx] =
          now[ty][tx] +
          scale * (added[ty][tx] +
                   (now[south][tx] + now[north][tx] - TYPE(2.0) * now[ty][tx]) * across +
                   (now[ty][east] + now[ty][west] - TYPE(2.0) * now[ty][tx]) * along +
                   (80.0f - now[ty][tx]) * away);
    __syncthreads();
    if (step == steps - 1) break;
    if (computes) now[ty][tx] = next[ty][tx];
    __syncthreads();
  }
  if (computes) out[place] = next[ty][tx];
}

extern "C" __global__ void diffuse_double(float* out, const float* heat, const float* source, int n,
                                          int steps, float rx, float ry, float rz, float scale) {
  diffuse<double>(out, heat, source, n, steps, rx, ry, rz, scale);
}

extern "C" __global__ void diffuse_float(float* out, const float* heat, const float* source, int n,
                                         int steps, float rx, float ry, float rz, float scale) {
  diffuse<float>(out, heat, source, n, steps, rx, ry, rz, scale);
}

// A tree of sums, in which all warps come to every barrier, and one whose last warp is left alone.
extern "C" __global__ void tree_to_the_end(float* out, const float* in, int n) {
  __shared__ float part[256];
  const int t = threadIdx.x;
  part[t] = in[blockIdx.x * 256 + t];
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (t < half) part[t] += part[t + half];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = part[0];
}

extern "C" __global__ void tree_of_one_warp(float* out, const float* in, int n) {
  __shared__ float part[256];
  const int t = threadIdx.x;
  part[t] = in[blockIdx.x * 256 + t];
  __syncthreads();
  for (int half = 128; half >= 32; half /= 2) {
    if (t < half) part[t] += part[t + half];
    __syncthreads();
  }
  if (t < 32) {
    float sum = part[t];
    for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_down_sync(~0u, sum, lanes);
    if (t == 0) out[blockIdx.x] = sum;
  }
}

__device__ float decay(float s) {
#pragma unroll
  for (int j = 0; j < 48; ++j) s = s * 0.5f + 1;
  return s;
}

extern "C" __global__ void rows_at_once(float* out, const float* in, int n) {
  __shared__ float row[256], sum[256];
  const int t = threadIdx.x, x = blockIdx.x * 256 + t;
  row[t] = 0;
  __syncthreads();
#pragma unroll 1
  for (int k = 0; k < 32; ++k) {
    sum[t] = fminf(row[t], row[max(t - 1, 0)]) + in[x + k * n];
    __syncthreads();
    row[t] = decay(sum[min(t + 1, 255)]);
    __syncthreads();
  }
  out[x] = row[t];
}

extern "C" __global__ void rows_ahead(float* out, const float* in, int n) {
  __shared__ float row[256], sum[256];
  const int t = threadIdx.x, x = blockIdx.x * 256 + t;
  row[t] = 0;
  float ahead = in[x];
  __syncthreads();
#pragma unroll 1
  for (int k = 1; k <= 32; ++k) {
    sum[t] = fminf(row[t], row[max(t - 1, 0)]) + ahead;
    ahead = in[x + min(k, 31) * n];
    __syncthreads();
    row[t] = decay(sum[min(t + 1, 255)]);
    __syncthreads();
  }
  out[x] = row[t];
}

extern "C" __global__ void two_phases(float* out, const float* in, int n) {
  __shared__ float factor[8], part[256];
  const int t = threadIdx.x, x = blockIdx.x * 256 + t;
  if (t < 8) factor[t] = in[n + blockIdx.x * 8 + t];
  __syncthreads();
  part[t] = in[x] * factor[t / 32];
  __syncthreads();
  out[x] = part[255 - t];
}

extern "C" __global__ void one_phase(float* out, const float* in, int n) {
  __shared__ float factor[8], part[256];
  const int t = threadIdx.x, x = blockIdx.x * 256 + t;
  const float value = in[x];
  if (t < 8) factor[t] = in[n + blockIdx.x * 8 + t];
  __syncthreads();
  part[t] = value * factor[t / 32];
  __syncthreads();
  out[x] = part[255 - t];
}

extern "C" __global__ void spread_together(float* out, const float* in, int n) {
  __shared__ float part[256];
  const int t = threadIdx.x;
  part[t] = in[blockIdx.x * 256 + t];
  __syncthreads();
#pragma unroll 1
  for (int width = 1; width < 256; width *= 2) {
    if (t < width) part[t + width] += part[t];
    __syncthreads();
  }
  out[blockIdx.x * 256 + t] = part[t];
}

extern "C" __global__ void spread_alone(float* out, const float* in, int n) {
  __shared__ float part[256];
  const int t = threadIdx.x;
  part[t] = in[blockIdx.x * 256 + t];
  __syncthreads();
  if (t < 32)
#pragma unroll 1
    for (int width = 1; width < 64; width *= 2) {
      if (t < width) part[t + width] += part[t];
      __syncwarp();
    }
  __syncthreads();
#pragma unroll 1
  for (int width = 64; width < 256; width *= 2) {
    if (t < width) part[t + width] += part[t];
    __syncthreads();
  }
  out[blockIdx.x * 256 + t] = part[t];
}

template <bool fast>
__device__ void divide_loads(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float s = 1;
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const float value = ((volatile const float*)in)[i + k * n];
    s = fast ? __fdividef(value, s) : value / s;
  }
  out[i] = s;
}

extern "C" __global__ void divided(float* out, const float* in, int n) {
  divide_loads<false>(out, in, n);
}
extern "C" __global__ void divided_fast(float* out, const float* in, int n) {
  divide_loads<true>(out, in, n);
}

extern "C" __global__ void guarded(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float s = in[i];
  if (s > 0) {
#pragma unroll 1
    for (int k = 1; k < 4; ++k) s = s * s + in[i + k * n];
    s += in[i + 5 * n] * in[i + 6 * n];
  }
  out[i] = s + in[i + 7 * n];
}
