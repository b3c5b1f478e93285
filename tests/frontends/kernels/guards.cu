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

// The 57th byte of the parameters decides (offset 0x198 on sm_70 to sm_89).
extern "C" __global__ void eighth_decides(const float* a, const float* b, const float* c,
                                          const float* d, const float* e, const float* f,
                                          float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + b[i] + c[i] + d[i] + e[i] + f[i];
}

extern "C" __global__ void eighth_points(const float* a, const float* b, const float* c,
                                         const float* d, const float* e, const float* f,
                                         int n, float* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + b[i] + c[i] + d[i] + e[i] + f[i];
}

// As a table of temperatures is relaxed: bounds of the block from an argument, borders beside it,
// constants that divide one another.
extern "C" __global__ void relaxed(int steps, const float* power, const float* from, float* to,
                                   int columns, int rows, int left, int top, float capacity,
                                   float rx, float ry, float rz, float step) {
    __shared__ float old[16][16], now[16][16];
    int tx = threadIdx.x, ty = threadIdx.y, inner = 16 - 2 * steps;
    int x = inner * blockIdx.x - left + tx, y = inner * blockIdx.y - top + ty;
    bool inside = x >= 0 && x < columns && y >= 0 && y < rows;
    float heat = inside ? power[y * columns + x] : 0.0f;
    old[ty][tx] = inside ? from[y * columns + x] : 0.0f;
    __syncthreads();
    for (int i = 0; i < steps; i++) {
        bool used = tx > i && tx < 15 - i && ty > i && ty < 15 - i && inside;
        if (used) {
            float t = old[ty][tx];
            now[ty][tx] = t + step / capacity * (heat + (old[ty][tx - 1] + old[ty][tx + 1] - 2 * t) / rx +
                                                 (old[ty - 1][tx] + old[ty + 1][tx] - 2 * t) / ry +
                                                 (80.0f - t) / rz);
        }
        __syncthreads();
        if (used) old[ty][tx] = now[ty][tx];
        __syncthreads();
    }
    if (inside) to[y * columns + x] = old[ty][tx];
}

// Where an array lies is known only at run time, and decides here.
__device__ float table[1024];
extern "C" __global__ void behind_the_table(const float* p, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (p + i > table + n) out[i] = p[i];
}
