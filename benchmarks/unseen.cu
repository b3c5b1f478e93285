// Reductions of kernels that stopped or misled version 0.1.0; benchmarks/unseen.py predicts them.
#define X (blockIdx.x * blockDim.x + threadIdx.x)
#define K(name) extern "C" __global__ void name

K(warp_size)(const float* b, float* out, int columns) {
    int row = blockIdx.x * (blockDim.x / warpSize) + threadIdx.x / warpSize;
    float s = 0;
    for (int i = threadIdx.x % warpSize; i < columns; i += warpSize) s += b[row * columns + i];
    out[X] = s;
}

K(left_by_break)(const float* b, float* out, int m, int n) {
    float s = 0;
    for (int y = 0; y < m; y++) {
        if ((int)blockIdx.x + y >= n) break;
        s += b[X + y * 1048576];
    }
    out[X] = s;
}

K(nested_break)(const float* b, float* out, int m, int n, int outer) {
    float s = 0;
#pragma unroll 1
    for (int z = 0; z < outer; z++)
#pragma unroll 1
        for (int y = 0; y < m; y++) {
            if ((int)blockIdx.x + y >= n) break;
            s += b[X + (z * m + y) * 1048576];
        }
    out[X] = s;
}

// 128 × 128 of C for a block of 16 × 16 threads, 8 × 8 for a thread, 32 of the inner dimension a time.
__device__ float4 four(const float* p) { return *reinterpret_cast<const float4*>(p); }

K(matrix_product)(const float* a, const float* b, float* c, int inner, int columns) {
    __shared__ float lhs[128][32], rhs[128][32];
    a += 128 * blockIdx.x * inner;
    b += 128 * blockIdx.y * inner;
    float sums[8][8] = {};
    int far = 4 * (threadIdx.x % 8);
    for (int k = 0; k < inner; k += 32) {
        __syncthreads();
        for (int y = 2 * threadIdx.y + threadIdx.x / 8; y < 128; y += 32) {
            *reinterpret_cast<float4*>(&lhs[y][far]) = four(a + y * inner + k + far);
            *reinterpret_cast<float4*>(&rhs[y][far]) = four(b + y * inner + k + far);
        }
        __syncthreads();
        for (int q = 0; q < 32; q += 4) {
            float4 right[8];
            for (int u = 0; u < 8; u++) right[u] = four(&rhs[u + 8 * threadIdx.y][(q + far) % 32]);
            for (int i = 0; i < 8; i++) {
                float4 left = four(&lhs[i + 8 * threadIdx.x][(q + far) % 32]);
                for (int j = 0; j < 8; j++)
                    sums[i][j] += left.x * right[j].x + left.y * right[j].y +
                                  left.z * right[j].z + left.w * right[j].w;
            }
        }
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++)
            c[(128 * blockIdx.x + 8 * threadIdx.x + i) * columns + 128 * blockIdx.y +
              8 * threadIdx.y + j] = sums[i][j];
}

K(predicated_address)(const float* x, float* sums, int n) {
    __shared__ float s[256];
    int t = threadIdx.x;
    s[t] = X < n ? x[X] : 0.0f;
    for (int d = 128; d; d /= 2) {
        __syncthreads();
        if (t < d) s[t] += s[t + d];
    }
    if (t == 0) sums[blockIdx.x] = s[0];
}

__constant__ int length;
K(constant_length)(const float* a, float* out) {
    float s = 0;
#pragma unroll 1
    for (int j = 0; j < length; j++) s += a[X + j * 65536];
    out[X] = s;
}

K(block_rows)(const float* in, const int* row, float* out) {
    out[X] = in[row[blockIdx.x] * 1024 + threadIdx.x];
}

K(left_early)(const float* a, float* out, int n, int m) {
    __shared__ float s[256];
    float sum = 0;
#pragma unroll 1
    for (int k = threadIdx.x;; k += 256) {
        if (k >= n) break;
        s[threadIdx.x] = a[k];
#pragma unroll 1
        for (int j = 0; j < m; j++) sum += s[(threadIdx.x + j) % 256];
    }
    out[X] = sum;
}

K(halving)(const float* a, float* out, int n) {
    float s = 0;
#pragma unroll 1
    for (int d = n; d; d >>= 1) s += a[X + d * 65536];
    out[X] = s;
}

K(doubling)(const float* a, float* out, int n) {
    float s = 0;
    for (int i = 1; i < n; i *= 2) s += a[X + i * 65536];
    out[X] = s;
}

K(rounding_up)(const float* a, float* out, int n) {
    float s = 0;
#pragma unroll 1
    for (int i = n; i > 1; i = (i + 1) / 2) s += a[X + i * 65536];
    out[X] = s;
}

K(with_remainder)(const float* a, float* out, int n) {
    float s = 0;
    for (int i = 0; i < n; i++) s += a[X + i * 65536];
    out[X] = s;
}

K(reciprocal)(const float* a, float* out, float ry) { out[X] = a[X] / ry; }

K(nest)(const int* n, float* out) {
    float s = 0;
    for (int a = 0; a < n[0]; a++)
        for (int b = 0; b < n[a]; b++)
            for (int c = 0; c < n[b]; c++)
                for (int d = 0; d < n[c]; d++)
                    for (int e = 0; e < n[d]; e++)
                        for (int f = 0; f < n[e]; f++)
                            for (int g = 0; g < n[f]; g++)
                                for (int h = 0; h < n[g]; h++) s += h;
    out[X] = s;
}

K(quotient)(const float* a, float* c, unsigned n) {
    unsigned id = X;
    if (id / 36 < n) c[id] = a[id];
}

K(quotient_signed)(const float* a, float* c, int n) {
    int id = X;
    if (id / 36 < n) c[id] = a[id];
}

K(copy_or_zero)(const float* a, float* c, int n) {
    int id = X;
    if (id < n) c[id] = a[id];
    else c[id] = 0;
}

K(border)(const float* a, float* c, int width, int height) {
    int x = X, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    if (x == 0 || y == 0 || x == width - 1 || y == height - 1) c[y * width + x] = a[y * width + x];
}

K(stride)(const float* d, float* out, int n) {
    int threads = gridDim.x * blockDim.x;
    float s = 0;
    for (int at = X; at < n; at += threads) s += d[at];
    out[X] = s;
}

K(guarded_stride)(const float* a, float* b, int n, int m) {
    int x = X;
    if (x < n)
        for (int i = x; i < m; i += blockDim.x * gridDim.x) b[i] = a[i];
}

K(float_bound)(const float* a, float* out, float width, float step) {
    int n = (int)ceilf(width / step);
    float s = 0;
#pragma unroll 1
    for (int i = 0; i < n; i++) s += a[X + i * 65536];
    out[X] = s;
}

K(float_guard)(const float* a, float* out, float step, float end) {
    if (X * step < end) out[X] = a[X];
}

K(double_sine)(const double* a, double* out) { out[X] = sin(a[X]); }

K(scattered)(const float* in, const int* at, float* out) { out[X] = in[at[X]]; }

#include <cassert>
K(asserting)(const float* a, float* out, int n) {
    assert(n > 0);
    if (X < n) out[X] = a[X];
}

K(optional_bias)(const float* a, const float* bias, float* out) {
    out[X] = a[X] + (bias != nullptr ? bias[threadIdx.x] : 0.0f);
}

#define KERNEL(name, type) K(name)(const type* values, type* out, int count)
KERNEL(made_by_macro, float) {
    if (X < count) out[X] = values[X];
}

// As HeCBench was measured: long blocks, contended atomics, rows that threads read across iterations.
K(long_blocks)(const float* a, float* out, int n) {
    float s[8], x = a[X];
    for (int k = 0; k < 8; k++) s[k] = k;
#pragma unroll 1
    for (int i = 0; i < n; i++)
#pragma unroll
        for (int k = 0; k < 32; k++) s[k % 8] = s[k % 8] * x + x;
    float sum = 0;
    for (int k = 0; k < 8; k++) sum += s[k];
    out[X] = sum;
}

K(long_chain)(const float* a, float* out, int n) {
    float s = 0, x = a[X];
#pragma unroll 1
    for (int i = 0; i < n; i++)
#pragma unroll
        for (int k = 0; k < 32; k++) s = s * x + x;
    out[X] = s;
}

K(one_address)(const float* a, float* sum) { atomicAdd(sum, a[X]); }

K(own_addresses)(const float* a, float* sum) { atomicAdd(sum + X, a[X]); }

K(shared_float)(const float* a, float* out) {
    __shared__ float sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    atomicAdd(&sum, a[X]);
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

struct Matrix {
    const float* data;
    long long sizes[2], strides[2];
};
K(accessor)(Matrix m, const float* v, float* r) {
    long long i = X;
    if (i >= m.sizes[0]) return;
    float s = 0;
    for (long long j = 0; j < m.sizes[1]; j++) s += m.data[i * m.strides[0] + j * m.strides[1]] * v[j];
    r[i] = s;
}

K(eight_rows)(const float* a, float* out, int columns) {
    float s = 0;
#pragma unroll 1
    for (int j = 0; j < columns; j++)
#pragma unroll
        for (int k = 0; k < 8; k++) s += a[(X + k * gridDim.x * blockDim.x) * columns + j];
    out[X] = s;
}
