extern "C" __global__ void fetched(cudaTextureObject_t t, float* y) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    y[x + gridDim.x * blockDim.x * row] = tex2D<float>(t, x + .5f, row + .5f);
}
