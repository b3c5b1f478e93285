// Addresses of which a part is data that all threads of a block share.

extern "C" __global__ void block_rows(const int* row, const float* in, float* out) {
    out[blockIdx.x * 1024 + threadIdx.x] = in[row[blockIdx.x] * 1024 + threadIdx.x];
}

extern "C" __global__ void scattered(const int* index, const float* in, float* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[index[i]];
}

__constant__ int length;
__constant__ float weights[8] = {1, 2, 3, 4, 5, 6, 7, 8};

extern "C" __global__ void length_in_memory(const float* a, float* c) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;
#pragma unroll 1
    for (int j = 0; j < length; j++) s += a[t + j * 1024] * weights[j & 7];
    c[t] = s;
}

struct Fields {
    const float* a;
    float* b;
    int n;
};
__constant__ Fields fields;

extern "C" __global__ void pointers_in_constants() {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < fields.n) fields.b[t] = fields.a[t];
}

__constant__ int given = 12;

extern "C" __global__ void length_in_the_binary(const float* a, float* c) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;
#pragma unroll 1
    for (int j = 0; j < given; j++) s += a[t + j * 1024];
    c[t] = s;
}

// A row for each iteration, the same for all threads.
extern "C" __global__ void rows_in_turn(const int* row, const float* in, float* out, int n) {
    float s = 0;
#pragma unroll 1
    for (int j = 0; j < n; j++) s += in[row[blockIdx.x * n + j] * 256 + threadIdx.x];
    out[blockIdx.x * 256 + threadIdx.x] = s;
}

// The first index is counted down to the largest number.
extern "C" __global__ void clamped_below_zero(const float* in, float* out, unsigned n) {
    unsigned i = blockIdx.x * 256 + threadIdx.x;
    out[i] = in[min(i - 1, n)] + in[n + 2 + max(i - 1, 5u) % 1024];
}

// Factors of quotients that are small enough for steps of an index: 2**33 / 9, 2**33 / 5.
extern "C" __global__ void remainders_of_threads(const float* in, float* out) {
    out[threadIdx.x] = in[threadIdx.x % 9 + 16 * (threadIdx.x % 5)];
}

// A warp that says that it is uniform, and what another lane would address.
extern "C" __global__ void said_by_a_lane(const float* in, float* out)
{
    int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
    int fifth = __shfl_sync(0xffffffff, 3 * threadIdx.x, 5);
    out[warp * 1024 + threadIdx.x] = in[fifth * 8 + threadIdx.x % 2];
}
