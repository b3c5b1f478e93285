// What the L2 keeps: of data that is read again, and of data that is written.

// All `vectors` vectors are read `passes` times, past the L1; in each pass, each of them by a thread
// that is `shift` further. passes * shift is less than `vectors`.
extern "C" __global__ void read_again(const int4* __restrict__ in, int* out, int vectors, int passes,
                                      int shift)
{
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    int sum = 0;
    for (int pass = 0; pass < passes; ++pass)
#pragma unroll 4
        for (int i = thread; i < vectors; i += gridDim.x * blockDim.x) {
            const int at = i + pass * shift;
            const int4 x = __ldcg(&in[at < vectors ? at : at - vectors]);
            sum += x.x + x.y + x.z + x.w;
        }
    out[thread] = sum;
}

// Four vectors of a thread.
extern "C" __global__ void fill_vectors(int4* out)
{
    const int first = blockIdx.x * 1024 + threadIdx.x;
#pragma unroll
    for (int k = 0; k < 4; ++k)
        out[first + 256 * k] = make_int4(first, k, 0, 0);
}

extern "C" __global__ void copy_vectors(const int4* __restrict__ in, int4* out)
{
    const int first = blockIdx.x * 1024 + threadIdx.x;
    int4 x[4];
#pragma unroll
    for (int k = 0; k < 4; ++k)
        x[k] = in[first + 256 * k];
#pragma unroll
    for (int k = 0; k < 4; ++k)
        out[first + 256 * k] = x[k];
}
