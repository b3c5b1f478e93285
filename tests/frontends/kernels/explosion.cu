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
