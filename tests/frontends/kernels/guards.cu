// Guards that cut the grid unevenly.

extern "C" __global__ void rows_of_36(const float* a, float* c, unsigned n) {
    unsigned id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id / 36 < n) c[id] = a[id];
}

extern "C" __global__ void rows_of_36_signed(const float* a, float* c, int n) {
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id / 36 < n) c[id] = a[id];
}

extern "C" __global__ void copy_or_zero(const float* a, float* c, int n) {
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id < n) c[id] = a[id];
    else c[id] = 0;
}

extern "C" __global__ void border(const float* a, float* c, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    if (x == 0 || y == 0 || x == width - 1 || y == height - 1) c[y * width + x] = a[y * width + x];
}

extern "C" __global__ void upper_half(const float* a, float* c, int n) {
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (blockIdx.x >= gridDim.x / 4 * 3) {
        float s = 0;
#pragma unroll 1
        for (int i = 0; i < n; i++) s += a[id * n + i];
        c[id] = s;
    }
}

extern "C" __global__ void predicated(const float* x, float* sums, int n) {
    __shared__ float s[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x, t = threadIdx.x;
    s[t] = i < n ? x[i] : 0.0f;
    for (int d = 128; d; d /= 2) {
        __syncthreads();
        if (t < d) s[t] += s[t + d];
    }
    if (t == 0) sums[blockIdx.x] = s[0];
}

// Few enough instructions that the compiler predicates them, addresses and all.
extern "C" __global__ void predicated_chain(const float* x, const float* y, float* sums, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? x[i] : 0.0f;
    float w = y[i];
    for (int d = 16; d; d /= 2) v += __shfl_down_sync(~0u, v, d);
    sums[i] = v * w;
}

extern "C" __global__ void predicated_two(const float* x, const int* p, float* sums, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = 0, w = 0;
    if (i < n) v = x[i];
    if (p[i]) w = x[i + n];
    sums[i] = v + w;
}

// Sizes that are powers of two: compilers ask for the bits above of several coordinates at once.
extern "C" __global__ void cube(const float* a, float* c) {
    const long long z = (long long)blockIdx.z * (long long)blockDim.z + (long long)threadIdx.z;
    const long long y = (long long)blockIdx.y * (long long)blockDim.y + (long long)threadIdx.y;
    const long long x = (long long)blockIdx.x * (long long)blockDim.x + (long long)threadIdx.x;
    if (z < 64 && y < 64 && x < 64) c[(z * 64 + y) * 64 + x] = a[(z * 64 + y) * 64 + x];
}

// Groups of rows of tiles, the last one cut off, as in matrix products.
extern "C" __global__ void grouped(const float* a, float* c, int m, int n) {
    int rows = (m + 63) / 64, columns = (n + 63) / 64;
    int group = blockIdx.x / (8 * columns), height = min(rows - group * 8, 8);
    int row = group * 8 + blockIdx.x % (8 * columns) % height;
    int column = blockIdx.x % (8 * columns) / height;
    int i = (row * 64 + threadIdx.x) % m, j = (column * 64 + threadIdx.x) % n;
    c[j * m + i] = a[i * n + j];
}
