// b = 2 a, one float at a time and four at a time.

extern "C" __global__ void scale(int n, const float* __restrict__ a, float* __restrict__ b)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        b[i] = 2 * a[i];
}

extern "C" __global__ void scale4(int n, const float4* __restrict__ a, float4* __restrict__ b)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n / 4; i += blockDim.x * gridDim.x) {
        const float4 v = a[i];
        b[i] = make_float4(2 * v.x, 2 * v.y, 2 * v.z, 2 * v.w);
    }
}
