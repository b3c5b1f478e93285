// shared_stride: lanes access shared memory with a power-of-two stride; mended, they do not.

#define VALUES 1024

// Matrix times vector, summed in double, one row per block; the tree's index is strided.
extern "C" __global__ void shared_stride_1(const float* __restrict__ matrix,
                                           const float* __restrict__ vector, double* products)
{
    __shared__ double part[VALUES];
    const int t = threadIdx.x;
    const float* row = matrix + blockIdx.x * VALUES;
    part[t] = (double)row[t] * vector[t];
    part[t + VALUES / 2] = (double)row[t + VALUES / 2] * vector[t + VALUES / 2];
    __syncthreads();
    for (int s = 1; s < VALUES; s *= 2) {
        const int k = 2 * s * t;
        if (k < VALUES)
            part[k] += part[k + s];
        __syncthreads();
    }
    if (t == 0)
        products[blockIdx.x] = part[0];
}

// The same, halving the part that is summed.
extern "C" __global__ void shared_stride_1_mended(const float* __restrict__ matrix,
                                                  const float* __restrict__ vector,
                                                  double* products)
{
    __shared__ double part[VALUES];
    const int t = threadIdx.x;
    const float* row = matrix + blockIdx.x * VALUES;
    part[t] = (double)row[t] * vector[t];
    part[t + VALUES / 2] = (double)row[t + VALUES / 2] * vector[t + VALUES / 2];
    __syncthreads();
    for (int s = VALUES / 2; s > 0; s /= 2) {
        if (t < s)
            part[t] += part[t + s];
        __syncthreads();
    }
    if (t == 0)
        products[blockIdx.x] = part[0];
}

#define BODIES 256

struct Charge {
    float x, fx, y, fy, z, fz, q, potential;
};

// Potential of each charge of a cell in the field of the others, which are shared structures.
extern "C" __global__ void shared_stride_2(const float4* __restrict__ charges, float* potential)
{
    __shared__ Charge cell[BODIES];
    const int t = threadIdx.x;
    const float4 own = charges[blockIdx.x * BODIES + t];
    cell[t].x = own.x;
    cell[t].y = own.y;
    cell[t].z = own.z;
    cell[t].q = own.w;
    __syncthreads();
    float sum = 0.0f;
    for (int k = 1; k < BODIES; ++k) {
        const Charge& other = cell[(t + k) % BODIES];
        const float dx = other.x - own.x, dy = other.y - own.y, dz = other.z - own.z;
        sum += other.q * rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
    }
    potential[blockIdx.x * BODIES + t] = sum;
}

// The same with an array for each member.
extern "C" __global__ void shared_stride_2_mended(const float4* __restrict__ charges,
                                                  float* potential)
{
    __shared__ float x[BODIES], y[BODIES], z[BODIES], q[BODIES];
    const int t = threadIdx.x;
    const float4 own = charges[blockIdx.x * BODIES + t];
    x[t] = own.x;
    y[t] = own.y;
    z[t] = own.z;
    q[t] = own.w;
    __syncthreads();
    float sum = 0.0f;
    for (int k = 1; k < BODIES; ++k) {
        const int other = (t + k) % BODIES;
        const float dx = x[other] - own.x, dy = y[other] - own.y, dz = z[other] - own.z;
        sum += q[other] * rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
    }
    potential[blockIdx.x * BODIES + t] = sum;
}

#define CHUNK 32
#define THREADS 128

// Prefix sums of 4096 counts per block; each thread scans 32 neighbours in shared memory.
extern "C" __global__ void shared_stride_3(const int* __restrict__ counts, int* offsets)
{
    __shared__ int data[CHUNK * THREADS], totals[THREADS];
    const int t = threadIdx.x, start = blockIdx.x * CHUNK * THREADS;
    for (int k = t; k < CHUNK * THREADS; k += THREADS)
        data[k] = counts[start + k];
    __syncthreads();
    int sum = 0;
    for (int k = 0; k < CHUNK; ++k) {
        sum += data[t * CHUNK + k];
        data[t * CHUNK + k] = sum;
    }
    totals[t] = sum;
    __syncthreads();
    for (int d = 1; d < THREADS; d *= 2) {
        const int left = t >= d ? totals[t - d] : 0;
        __syncthreads();
        totals[t] += left;
        __syncthreads();
    }
    for (int k = t; k < CHUNK * THREADS; k += THREADS)
        offsets[start + k] = data[k] + (k >= CHUNK ? totals[k / CHUNK - 1] : 0);
}

// Where element k lies if every 32 elements are followed by one that is not used.
__device__ __forceinline__ int padded(int k)
{
    return k + k / 32;
}

// The same with a gap after each chunk.
extern "C" __global__ void shared_stride_3_mended(const int* __restrict__ counts, int* offsets)
{
    __shared__ int data[CHUNK * THREADS + THREADS], totals[THREADS];
    const int t = threadIdx.x, start = blockIdx.x * CHUNK * THREADS;
    for (int k = t; k < CHUNK * THREADS; k += THREADS)
        data[padded(k)] = counts[start + k];
    __syncthreads();
    int sum = 0;
    for (int k = 0; k < CHUNK; ++k) {
        sum += data[padded(t * CHUNK + k)];
        data[padded(t * CHUNK + k)] = sum;
    }
    totals[t] = sum;
    __syncthreads();
    for (int d = 1; d < THREADS; d *= 2) {
        const int left = t >= d ? totals[t - d] : 0;
        __syncthreads();
        totals[t] += left;
        __syncthreads();
    }
    for (int k = t; k < CHUNK * THREADS; k += THREADS)
        offsets[start + k] = data[padded(k)] + (k >= CHUNK ? totals[k / CHUNK - 1] : 0);
}
