// out[i] = table[index[i]]: the address of the second load is the value of the first.
// Nothing in the code says how far apart the lanes of a warp reach; a proxy has to.

extern "C" __global__ void gather(const float* __restrict__ table, const int* __restrict__ index,
                                  float* out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = table[index[i]];
}
