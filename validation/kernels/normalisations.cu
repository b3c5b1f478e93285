// Softmax and layer norm over rows of `columns` elements; blocks of 256 threads, a row each.

__device__ __forceinline__ float block_sum(float value)
{
    __shared__ float partial[8];
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_xor_sync(0xffffffff, value, offset);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; ++i)
        value += partial[i];
    return value;
}

__device__ __forceinline__ float block_max(float value)
{
    __shared__ float partial[8];
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffff, value, offset));
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = value;
    __syncthreads();
    value = partial[0];
#pragma unroll
    for (int i = 1; i < 8; ++i)
        value = fmaxf(value, partial[i]);
    return value;
}

// Three passes over global memory.
extern "C" __global__ void softmax_passes(const float* __restrict__ in, float* out, int columns)
{
    const float* row = in + blockIdx.x * columns;
    float* result = out + blockIdx.x * columns;
    float top = -1e30f;
    for (int i = threadIdx.x; i < columns; i += 256)
        top = fmaxf(top, row[i]);
    top = block_max(top);
    float sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += 256)
        sum += expf(row[i] - top);
    sum = block_sum(sum);
    for (int i = threadIdx.x; i < columns; i += 256)
        result[i] = expf(row[i] - top) / sum;
}

// The row stays in registers: 8 elements per thread, 2048 columns.
extern "C" __global__ void softmax_registers(const float* __restrict__ in, float* out)
{
    const int first = blockIdx.x * 2048 + threadIdx.x;
    float v[8];
    float top = -1e30f;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        v[k] = in[first + 256 * k];
        top = fmaxf(top, v[k]);
    }
    top = block_max(top);
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        v[k] = __expf(v[k] - top);
        sum += v[k];
    }
    const float inverse = 1.0f / block_sum(sum);
#pragma unroll
    for (int k = 0; k < 8; ++k)
        out[first + 256 * k] = v[k] * inverse;
}

// Mean, then variance, then the result: three passes.
extern "C" __global__ void layernorm_passes(const float* __restrict__ in, float* out, int columns)
{
    const float* row = in + blockIdx.x * columns;
    float* result = out + blockIdx.x * columns;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += 256)
        sum += row[i];
    const float mean = block_sum(sum) / columns;
    sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += 256)
        sum += (row[i] - mean) * (row[i] - mean);
    const float scale = rsqrtf(block_sum(sum) / columns + 1e-5f);
    for (int i = threadIdx.x; i < columns; i += 256)
        result[i] = (row[i] - mean) * scale;
}

// Two vectors of four per thread, 2048 columns, one pass.
extern "C" __global__ void layernorm_vector(const float4* __restrict__ in, float4* out)
{
    const int first = blockIdx.x * 512 + threadIdx.x;
    const float4 u = in[first], v = in[first + 256];
    const float sum = block_sum(u.x + u.y + u.z + u.w + v.x + v.y + v.z + v.w);
    const float squares = block_sum(u.x * u.x + u.y * u.y + u.z * u.z + u.w * u.w + v.x * v.x +
                                    v.y * v.y + v.z * v.z + v.w * v.w);
    const float mean = sum / 2048.0f;
    const float scale = rsqrtf(squares / 2048.0f - mean * mean + 1e-5f);
    out[first] = make_float4((u.x - mean) * scale, (u.y - mean) * scale, (u.z - mean) * scale,
                             (u.w - mean) * scale);
    out[first + 256] = make_float4((v.x - mean) * scale, (v.y - mean) * scale,
                                   (v.z - mean) * scale, (v.w - mean) * scale);
}
