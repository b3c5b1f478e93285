// Loops whose trip counts follow from the launch, though not at first sight.

extern "C" __global__ void lanes(const float* b, float* c, int columns) {
    int row = blockIdx.x * (blockDim.x / warpSize) + threadIdx.x / warpSize;
    float s = 0;
    for (int i = threadIdx.x % warpSize; i < columns; i += warpSize) s += b[row * columns + i];
    c[blockIdx.x * blockDim.x + threadIdx.x] = s;
}

extern "C" __global__ void left_by_break(const float* b, float* c, int m, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;
#pragma unroll 1
    for (int y = 0; y < m; y++) {
        if (blockIdx.x + y >= n) break;
        s += b[i + y * 1048576];
    }
    c[i] = s;
}

extern "C" __global__ void left_by_break_unrolled(const float* b, float* c, int m, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;
    for (int y = 0; y < m; y++) {
        if (blockIdx.x + y >= n) break;
        s += b[i + y * 1048576];
    }
    c[i] = s;
}

extern "C" __global__ void nested_break(const float* b, float* c, int m, int n, int outer) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;
#pragma unroll 1
    for (int z = 0; z < outer; z++) {
#pragma unroll 1
        for (int y = 0; y < m; y++) {
            if (blockIdx.x + y >= n) break;
            s += b[i + (z * m + y) * 4096];
        }
    }
    c[i] = s;
}

extern "C" __global__ void halving_block(const float* a, float* c) {
    __shared__ float s[1024];
    int t = threadIdx.x;
    s[t] = a[blockIdx.x * blockDim.x + t];
#pragma unroll 1
    for (int d = blockDim.x >> 1; d; d >>= 1) {
        __syncthreads();
        if (t < d) s[t] += s[t + d];
    }
    if (t == 0) c[blockIdx.x] = s[0];
}

extern "C" __global__ void halving_argument(const float* a, float* c, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;
#pragma unroll 1
    for (int i = n; i > 0; i /= 2) s += a[t + i * 1024];
    c[t] = s;
}

extern "C" __global__ void halving_unsigned(const float* a, float* c, unsigned n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;
#pragma unroll 1
    for (unsigned i = n / 2; i > 0; i >>= 1) s += a[t + i * 1024];
    c[t] = s;
}

extern "C" __global__ void doubling(const float* a, float* c, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;
#pragma unroll 1
    for (int i = 1; i < n; i *= 2) s += a[t + i * 1024];
    c[t] = s;
}

extern "C" __global__ void doubling_plain(const float* a, float* c, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;
    for (int i = 1; i < n; i *= 2) s += a[t + i * 1024];
    c[t] = s;
}

extern "C" __global__ void doubling_barriers(float* c, const float* a) {
    __shared__ float s[1024];
    int t = threadIdx.x;
    s[t] = a[blockIdx.x * blockDim.x + t];
    for (int i = 1; i < blockDim.x; i *= 2) {
        __syncthreads();
        if (t % (2 * i) == 0) s[t] += s[t + i];
    }
    if (t == 0) c[blockIdx.x] = s[0];
}

extern "C" __global__ void with_remainder(const float* a, float* c, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;
    for (int i = 0; i < n; i++) s += a[t + i * 4096];
    c[t] = s;
}

extern "C" __global__ void grid_stride(const float* d, float* c, int n) {
    int tid = blockIdx.x * blockDim.x + threadIdx.x;
    int threads = blockDim.x * gridDim.x;
    float sum = 0;
    for (int pos = tid; pos < n; pos += threads) sum += d[pos];
    c[tid] = sum;
}

extern "C" __global__ void block_stride(const float* d, float* c, int n) {
    float sum = 0;
    for (int pos = threadIdx.x; pos < n; pos += blockDim.x) sum += d[blockIdx.x * n + pos];
    c[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

extern "C" __global__ void strided_rows(const float4* a, float* c, int rows) {
    __shared__ float4 tile[128 * 8];
    int two_rows = threadIdx.x / 8, column = threadIdx.x % 8;
    for (int y = 2 * threadIdx.y + two_rows % 2; y < 128; y += 32)
        tile[y * 8 + column] = a[(blockIdx.x * 128 + y) * 8 + column];
    __syncthreads();
    c[(blockIdx.x * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x] =
        tile[threadIdx.y * blockDim.x + threadIdx.x].x;
}

// The last iteration of an outer loop of one trip leaves before nothing hot.
extern "C" __global__ void hot_inside(const float* a, float* c, int n, int m) {
    __shared__ float s[256];
    int t = threadIdx.x;
    float sum = 0;
#pragma unroll 1
    for (int k = 0; ; k += 256) {
        s[t] = a[(blockIdx.x * n + k) + t];
        __syncthreads();
#pragma unroll 1
        for (int j = 0; j < m; j++) sum += s[(t + j) & 255];
        if (k + 256 >= n) break;
        __syncthreads();
    }
    c[blockIdx.x * 256 + t] = sum;
}

extern "C" __global__ void hot_before_test(const float* a, float* c, int n, int m) {
    __shared__ float s[256];
    int t = threadIdx.x;
    float sum = 0;
    int k = 0;
#pragma unroll 1
    while (true) {
        s[t] = a[(blockIdx.x * n + k) + t];
        __syncthreads();
#pragma unroll 1
        for (int j = 0; j < m; j++) {
#pragma unroll 1
            for (int l = 0; l < m; l++) sum += s[(t + j * l) & 255];
        }
        k += 256;
        if (k >= n) break;
        __syncthreads();
        c[blockIdx.x * 256 + t] = sum;
    }
    c[blockIdx.x * 256 + t] = sum;
}

extern "C" __global__ void several_exits(const float* a, float* c, int n, int m, int first) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;
#pragma unroll 1
    for (int i = first; i < n; i++) {
        s += a[t + i * 1024];
        if (i * 3 >= m) break;
        s *= a[t + i * 1024 + 524288];
        if (s == 3.0f) break;
    }
    c[t] = s;
}

extern "C" __global__ void rounding_up(const float* a, float* c, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;
#pragma unroll 1
    for (int i = n; i > 1; i = (i + 1) / 2) s += a[t + i * 1024];
    c[t] = s;
}

extern "C" __global__ void rounding_down(const float* a, float* c, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;
#pragma unroll 1
    for (int i = n; i > 0; i = (i - 1) / 2) s += a[t + i * 1024];
    c[t] = s;
}

extern "C" __global__ void rounding_down_shifted(const float* a, float* c, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;
#pragma unroll 1
    for (int i = n; i >= 1; i = (i - 1) >> 1) s += a[t + i * 1024];
    c[t] = s;
}

extern "C" __global__ void twice_and_one(const float* a, float* c, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;
#pragma unroll 1
    for (int i = 0; i < n; i = i * 2 + 1) s += a[t + i * 1024];
    c[t] = s;
}

extern "C" __global__ void four_times_and_three(const float* a, float* c, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;
#pragma unroll 1
    for (int i = 1; i < n; i = i * 4 + 3) s += a[t + i * 1024];
    c[t] = s;
}

extern "C" __global__ void thirds(const float* a, float* c, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;
#pragma unroll 1
    for (int i = n; i > 0; i /= 3) s += a[t + i * 1024];
    c[t] = s;
}

extern "C" __global__ void threefold(const float* a, float* c, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;
#pragma unroll 1
    for (int i = 1; i < n; i *= 3) s += a[t + i * 1024];
    c[t] = s;
}

extern "C" __global__ void lowest_bits(const float* a, float* c, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;
#pragma unroll 1
    for (int i = n; i > 0; i -= i & -i) s += a[t + i * 1024];
    c[t] = s;
}

extern "C" __global__ void fenwick(const float* a, float* c, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;
#pragma unroll 1
    for (int i = 1; i < n; i += i & -i) s += a[t + i * 1024];
    c[t] = s;
}

extern "C" __global__ void squares(const float* a, float* c, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;
#pragma unroll 1
    for (int i = 1; i * i <= n; i++) s += a[t + i * 1024];
    c[t] = s;
}
