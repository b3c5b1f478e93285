#ifndef EACH
#define EACH 1
#endif

__constant__ float table[1024];

extern "C" __global__ void spread(float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;
    for (int k = 0; k < n; ++k) s += table[(k + threadIdx.x / EACH) & 1023];
    y[i] = s;
}

extern "C" __global__ void looked_up(const int* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = table[x[i] & 1023];
}
