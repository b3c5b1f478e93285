#include <assert.h>
#include <stdio.h>

extern "C" __global__ void checked(const float* a, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    assert(i < n);
    if (i < n) c[i] = a[i];
}

extern "C" __global__ void told(const float* a, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0) printf("%d elements\n", n);
    if (i < n) c[i] = a[i];
}

extern "C" __global__ void beside(const float* a, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i];
}
