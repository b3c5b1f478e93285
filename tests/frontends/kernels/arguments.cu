// Kernels whose arguments decide what happens.

struct Box {
    int low[2];
    double scale;
    const float* source;
    short count;
};

extern "C" __global__ void guarded(const float* x, const float* bias, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    if (bias != nullptr) v += bias[i];
    y[i] = v;
}

extern "C" __global__ void bits(float* y, float f, double d) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < (__float_as_int(f) >> 20) && i < (int)(__double_as_longlong(d) >> 52)) y[i] = 1.0f;
}

extern "C" __global__ void boxed(Box box, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < box.low[1] && i < box.count) y[i] = box.source[i + box.low[0]] * (float)box.scale;
}

extern "C" __global__ void counted(const int* x, int* y, int n) {
    int s = 0;
    #pragma unroll 1
    for (int k = 0; k < x[threadIdx.x]; k++) s += x[k * n];
    y[threadIdx.x] = s;
}

__constant__ int limit;
__constant__ double factors[4];
__constant__ long long reach;
__constant__ Box inside;

extern "C" __global__ void limited(float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= reach || i >= inside.low[1]) return;
    float s = 0.0f;
    for (int k = 0; k < limit; k++) s += y[i + k * 1048576];
    y[i] = s * (float)factors[1];
}
