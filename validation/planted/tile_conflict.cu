// tile_conflict: lanes read a column of a shared tile; mended, it is padded or swizzled.

// Corner turn of complex radar samples.
extern "C" __global__ void tile_conflict_1(const float2* __restrict__ in, float2* out, int rows,
                                           int columns)
{
    __shared__ float2 tile[32][32];
    const int x = blockIdx.x * 32, y = blockIdx.y * 32;
#pragma unroll
    for (int k = threadIdx.y; k < 32; k += 8)
        tile[k][threadIdx.x] = in[(y + k) * columns + x + threadIdx.x];
    __syncthreads();
#pragma unroll
    for (int k = threadIdx.y; k < 32; k += 8)
        out[(x + k) * rows + y + threadIdx.x] = tile[threadIdx.x][k];
}

// The same with one element of padding per row.
extern "C" __global__ void tile_conflict_1_mended(const float2* __restrict__ in, float2* out,
                                                  int rows, int columns)
{
    __shared__ float2 tile[32][33];
    const int x = blockIdx.x * 32, y = blockIdx.y * 32;
#pragma unroll
    for (int k = threadIdx.y; k < 32; k += 8)
        tile[k][threadIdx.x] = in[(y + k) * columns + x + threadIdx.x];
    __syncthreads();
#pragma unroll
    for (int k = threadIdx.y; k < 32; k += 8)
        out[(x + k) * rows + y + threadIdx.x] = tile[threadIdx.x][k];
}

// Attention scores Q K^T of one head per z; lanes hold neighbouring keys.
extern "C" __global__ void tile_conflict_2(const float* __restrict__ q, const float* __restrict__ k,
                                           float* scores, int length, int depth, float scale)
{
    __shared__ float qs[32][32], ks[32][32];
    const int tx = threadIdx.x, ty = threadIdx.y, key = blockIdx.x * 32, query = blockIdx.y * 32;
    q += (size_t)blockIdx.z * length * depth;
    k += (size_t)blockIdx.z * length * depth;
    float sum[4] = {};
    for (int d0 = 0; d0 < depth; d0 += 32) {
#pragma unroll
        for (int r = ty; r < 32; r += 8) {
            qs[r][tx] = q[(query + r) * depth + d0 + tx];
            ks[r][tx] = k[(key + r) * depth + d0 + tx];
        }
        __syncthreads();
#pragma unroll
        for (int d = 0; d < 32; ++d)
#pragma unroll
            for (int r = 0; r < 4; ++r)
                sum[r] += qs[ty + 8 * r][d] * ks[tx][d];
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < 4; ++r)
        scores[((size_t)blockIdx.z * length + query + ty + 8 * r) * length + key + tx] =
            scale * sum[r];
}

// The same with the tile of keys padded.
extern "C" __global__ void tile_conflict_2_mended(const float* __restrict__ q,
                                                  const float* __restrict__ k, float* scores,
                                                  int length, int depth, float scale)
{
    __shared__ float qs[32][32], ks[32][33];
    const int tx = threadIdx.x, ty = threadIdx.y, key = blockIdx.x * 32, query = blockIdx.y * 32;
    q += (size_t)blockIdx.z * length * depth;
    k += (size_t)blockIdx.z * length * depth;
    float sum[4] = {};
    for (int d0 = 0; d0 < depth; d0 += 32) {
#pragma unroll
        for (int r = ty; r < 32; r += 8) {
            qs[r][tx] = q[(query + r) * depth + d0 + tx];
            ks[r][tx] = k[(key + r) * depth + d0 + tx];
        }
        __syncthreads();
#pragma unroll
        for (int d = 0; d < 32; ++d)
#pragma unroll
            for (int r = 0; r < 4; ++r)
                sum[r] += qs[ty + 8 * r][d] * ks[tx][d];
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < 4; ++r)
        scores[((size_t)blockIdx.z * length + query + ty + 8 * r) * length + key + tx] =
            scale * sum[r];
}

// Integral images of 32 x 32 windows of 16-bit pixels, one window per warp.
extern "C" __global__ void tile_conflict_3(const unsigned short* __restrict__ in, int* out,
                                           int width)
{
    __shared__ int tiles[4][32][32];
    const int lane = threadIdx.x, x = (blockIdx.x * 4 + threadIdx.y) * 32, y = blockIdx.y * 32;
    int(*tile)[32] = tiles[threadIdx.y];
    int sum = 0;
#pragma unroll
    for (int r = 0; r < 32; ++r) {
        sum += in[(y + r) * width + x + lane];
        tile[r][lane] = sum;
    }
    __syncwarp();
    sum = 0;
#pragma unroll
    for (int c = 0; c < 32; ++c) {
        sum += tile[lane][c];
        tile[lane][c] = sum;
    }
    __syncwarp();
#pragma unroll
    for (int r = 0; r < 32; ++r)
        out[(y + r) * width + x + lane] = tile[r][lane];
}

// The same with each row of the tile rotated by an exclusive or.
extern "C" __global__ void tile_conflict_3_mended(const unsigned short* __restrict__ in, int* out,
                                                  int width)
{
    __shared__ int tiles[4][32][32];
    const int lane = threadIdx.x, x = (blockIdx.x * 4 + threadIdx.y) * 32, y = blockIdx.y * 32;
    int(*tile)[32] = tiles[threadIdx.y];
    int sum = 0;
#pragma unroll
    for (int r = 0; r < 32; ++r) {
        sum += in[(y + r) * width + x + lane];
        tile[r][lane ^ r] = sum;
    }
    __syncwarp();
    sum = 0;
#pragma unroll
    for (int c = 0; c < 32; ++c) {
        sum += tile[lane][c ^ lane];
        tile[lane][c ^ lane] = sum;
    }
    __syncwarp();
#pragma unroll
    for (int r = 0; r < 32; ++r)
        out[(y + r) * width + x + lane] = tile[r][lane ^ r];
}
