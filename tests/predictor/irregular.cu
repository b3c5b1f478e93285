// Kernels whose trip counts and addresses no closed form has.

extern "C" __global__ void thirds(const float* __restrict__ in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int d = n; d; d /= 3) sum += in[i + d * 32];
    out[i] = sum;
}

extern "C" __global__ void rows_of_csr(const int* rows, const int* columns, const float* values,
                                       const float* x, float* y, int n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n) return;
    float sum = 0;
#pragma unroll 1
    for (int e = rows[row]; e < rows[row + 1]; e++) sum += values[e] * x[columns[e]];
    y[row] = sum;
}

extern "C" __global__ void gather(const float* in, const int* index, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[index[i]];
}

extern "C" __global__ void spins(const int* flag, int* out) {
    while (atomicAdd(out, 0) != 12345) {}
    out[1] = flag[0];
}

__constant__ int count;

extern "C" __global__ void counted_by_a_constant(const float* in, float* out) {
    float sum = 0;
    for (int k = count; k; k /= 3) sum += in[threadIdx.x + k];
    out[threadIdx.x] = sum;
}

extern "C" __global__ void gather_by_few(const float* in, const int* index, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i % 8 == 0) out[i / 8] = in[index[i / 8]];
}

extern "C" __global__ void steps_to_a_barrier(const int* steps, const float* in, float* out) {
    __shared__ float first;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = in[i];
#pragma unroll 1
    for (int k = steps[i / 32]; k > 0; k--) sum = sum * 0.5f + 1.25f;
    if (threadIdx.x == 0) first = sum;
    __syncthreads();
    out[i] = sum + first;
}

#ifndef ROUNDS
#define ROUNDS 1
#endif
// Two buffers in turn, as in products of matrices: neither where they lie nor how often the loop
// runs has a closed form. Two steps of `in` in each iteration, 8 ways of conflict in every load.
extern "C" __global__ void in_turn(const float *in, float *out, int n) {
    __shared__ float tile[2][2048];
    unsigned at = threadIdx.x % 32 * 8;
    const float *next = in + blockIdx.x * n, *end = next + n * ROUNDS;
    float sum = 0;
#pragma unroll 1
    while (next < end) {
        tile[0][at] = next[threadIdx.x];
        next += 128;
        __syncthreads();
        at ^= 2048;
        if (next < end) {
            tile[0][at] = next[threadIdx.x];
            next += 128;
            at ^= 1024;
        }
        __syncthreads();
        sum += tile[0][at];
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// A transpose, and what is looked up for sin and exp.
extern "C" __global__ void transposed_waves(double* out, const double* in, int n) {
  __shared__ double tile[32][33];
  int x = threadIdx.x, y = threadIdx.y, across = blockIdx.x * 32, down = blockIdx.y * 32;
  for (int k = 0; k < 32; k += 8) tile[y + k][x] = in[(down + y + k) * n + across + x];
  __syncthreads();
  for (int k = 0; k < 32; k += 8) {
    double value = tile[x][y + k];
    out[(across + y + k) * n + down + x] = sin(value) * exp(value);
  }
}

extern "C" __global__ void few_blocks_work(float* out, const float* in, const unsigned char* mask,
                                           const int* first, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (!mask[i]) return;
    float s = 0;
    for (int k = 0; k < first[i]; ++k) s += in[first[i + k]];
    out[i] = s;
}
