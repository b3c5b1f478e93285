// Evaluates a polynomial for each element; COEFFICIENTS of them stay in registers.
#ifndef COEFFICIENTS
#define COEFFICIENTS 52
#endif

extern "C" __global__ void polynomial(float* out, const float* in, const float* c, int n) {
  float kept[COEFFICIENTS];
#pragma unroll
  for (int k = 0; k < COEFFICIENTS; ++k) kept[k] = c[k * 32 + threadIdx.x % 32];
  int stride = gridDim.x * blockDim.x;
#pragma unroll 1
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    float x = in[i], y = 0;
#pragma unroll
    for (int k = 0; k < COEFFICIENTS; ++k) y = y * x + kept[k];
    out[i] = y;
  }
}
