#define TEN(x) x x x x x x x x x x
// Code as long as a page of hundreds of statements.
extern "C" __global__ void long_code(const float* a, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = a[i];
    TEN(TEN(s = s * s + a[i + int(s)]; if (s > 3) s += a[n];))
    c[i] = s;
}

extern "C" __global__ void straight(const float* a, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = a[i];
    TEN(TEN(TEN(s = s * s + 0.5f;)))
    c[i] = s;
}

// Every register of the loop depends on all others.
extern "C" __global__ void tangled(const int* a, int* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, p = i, q = n, r = i + n;
#pragma unroll 1
    for (int k = 0; k < n; k++) {
        TEN(p = p * q + r; q = q ^ (r * p); r = r * (p + q); if (p & 64) r += q;)
        c[p & 1023] = a[q & 1023] + r;
    }
}

extern "C" __global__ void pointer_chase(const int* a, int* c, int n) {
    int p = threadIdx.x;
    TEN(TEN(p = a[p];))
    c[threadIdx.x] = p;
}

// Every pair of years over many planes, as in time series of satellite images.
extern "C" __global__ void pairs_of_years(const float* a, const float* q, float* c, int width,
                                          int height, int planes, int years) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= width || j >= height) return;
    int here = j * width + i, size = width * height;
    for (int y = 0; y < years; y++)
        for (int z = y + 1; z < years; z++) {
            float s = 0;
            for (int k = 0; k < planes; k++) {
                int one = here + (y * planes + k) * size, two = here + (z * planes + k) * size;
                if (q[one] == 1 && q[two] == 1) s += a[one] * a[two];
            }
            c[(here * years + y) * years + z] = s;
        }
}
