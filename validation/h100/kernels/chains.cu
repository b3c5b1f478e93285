// CHAINS chains of dependent FP32 instructions, interleaved, 8,192 instructions in each. Each reads one
// register, so that banks of registers do not matter.

#ifndef CHAINS
#define CHAINS 1
#endif

extern "C" __global__ void __launch_bounds__(1024) chains(const float* __restrict__ in, float* out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x[CHAINS];
#pragma unroll
    for (int c = 0; c < CHAINS; ++c)
        x[c] = in[i] + c;
#pragma unroll 1
    for (int k = 0; k < 8192; k += 128) {
#pragma unroll
        for (int j = 0; j < 128; ++j)
#pragma unroll
            for (int c = 0; c < CHAINS; ++c)
                x[c] = fmaf(x[c], x[c], x[c]);
    }
    float sum = 0.0f;
#pragma unroll
    for (int c = 0; c < CHAINS; ++c)
        sum += x[c];
    out[i] = sum;
}
