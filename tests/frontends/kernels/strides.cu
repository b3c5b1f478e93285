// Grid-stride loops with guards above, in and beside them.
#define HERE int x = blockIdx.x * blockDim.x + threadIdx.x, stride = blockDim.x * gridDim.x

extern "C" __global__ void guard_above(float* b, int n, int m) {
    HERE;
    if (x < n)
#pragma unroll 1
        for (int i = x; i < m; i += stride) b[i] = 1;
}

extern "C" __global__ void guard_in(float* b, int n, int m) {
    HERE;
#pragma unroll 1
    for (int i = x; i < m; i += stride)
        if (x < n) b[i] = 1;
}

extern "C" __global__ void guard_on_place(float* a, float* b, int n, int m) {
    HERE;
#pragma unroll 1
    for (int i = x; i < m; i += stride) {
        b[i] = 1;
        if (i < n) a[i] = 1;
    }
}

extern "C" __global__ void guard_beside(float* a, float* b, int n, int m) {
    HERE;
    if (x < n) a[x] = 1;
#pragma unroll 1
    for (int i = x; i < m; i += stride) b[i] = 1;
}

extern "C" __global__ void guard_on_both(float* a, float* b, int n, int m) {
    HERE;
#pragma unroll 1
    for (int i = x; i < m; i += stride) {
        b[i] = 1;
        if (i < n && threadIdx.x % 2) a[i] = 1;
    }
}

extern "C" __global__ void guard_on_block(float* a, float* b, int n, int m) {
    HERE;
#pragma unroll 1
    for (int i = x; i < m; i += stride) {
        b[i] = 1;
        if (blockIdx.x < n) a[i] = 1;
    }
}

extern "C" __global__ void block_in_address(float* a, float* b, int n, int m) {
    HERE;
#pragma unroll 1
    for (int i = x; i < m; i += stride) b[i + blockIdx.x * n] = 1;
    a[blockIdx.x] = 1;
}

extern "C" __global__ void row_and_column(float* b, int n, int m) {
    HERE;
#pragma unroll 1
    for (int i = x; i < m; i += stride) b[i / 32 * n + i % 32] = 1;
}

extern "C" __global__ void longer_inside(float* b, int n, int m) {
    HERE;
#pragma unroll 1
    for (int i = x; i < m; i += stride)
#pragma unroll 1
        for (int j = 0; j < x % n; j++) b[i + j * m] = 1;
}

extern "C" __global__ void rows_in_turn(float* b, int n, int m) {
    HERE;
    if (x < n)
#pragma unroll 1
        for (int y = blockIdx.y; y < m; y += gridDim.y) b[y * n + x] = 1;
}

extern "C" __global__ void left_over(float* b, int n, int m) {
    HERE;
    int i = x;
#pragma unroll 1
    for (; i + n < m; i += stride) b[i] = 1;
    if (i < m) b[i] = 1;
}

// Every thread adds up a column of its own. With as many columns as threads that is a grid-stride loop.
extern "C" __global__ void columns(float* a, const float* b, int n, int m) {
    HERE;
    if (x >= n) return;
    float sum = 0;
#pragma unroll 1
    for (int j = 0; j < m; ++j) sum += b[j * n + x];
    a[x] = sum;
}
