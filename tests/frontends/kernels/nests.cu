// Eight nested loops of unknown length.
extern "C" __global__ void nest(const int* n, const float* a, float* c) {
    float s = 0;
#pragma unroll 1
    for (int i0 = 0; i0 < n[0]; i0++)
#pragma unroll 1
        for (int i1 = 0; i1 < n[i0 + 1]; i1++)
#pragma unroll 1
            for (int i2 = 0; i2 < n[i1 + 2]; i2++)
#pragma unroll 1
                for (int i3 = 0; i3 < n[i2 + 3]; i3++)
#pragma unroll 1
                    for (int i4 = 0; i4 < n[i3 + 4]; i4++)
#pragma unroll 1
                        for (int i5 = 0; i5 < n[i4 + 5]; i5++)
#pragma unroll 1
                            for (int i6 = 0; i6 < n[i5 + 6]; i6++)
#pragma unroll 1
                                for (int i7 = 0; i7 < n[i6 + 7]; i7++)
                                    s += a[i7 * 32 + threadIdx.x];
    c[blockIdx.x * blockDim.x + threadIdx.x] = s;
}

// Three nested loops whose lengths are known.
extern "C" __global__ void known(const float* a, float* c, int n) {
    float s = 0;
#pragma unroll 1
    for (int i = 0; i < n; i++)
#pragma unroll 1
        for (int j = 0; j < n; j++)
#pragma unroll 1
            for (int k = 0; k < n; k++) s += a[(i ^ j ^ k) * 32 + threadIdx.x];
    c[blockIdx.x * blockDim.x + threadIdx.x] = s;
}
