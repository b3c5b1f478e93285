// y = a x + y: one element per thread, and the grid-stride loop that does the same with any grid.
// Both stream: two loads and one store of float32 per element, nothing is used twice.

extern "C" __global__ void saxpy(int n, float a, const float* __restrict__ x, float* y)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + y[i];
}

extern "C" __global__ void saxpy_grid_stride(int n, float a, const float* __restrict__ x, float* y)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        y[i] = a * x[i] + y[i];
}
