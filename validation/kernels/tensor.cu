// C = A B, n x n, half inputs and float sums, n a multiple of 64: multiply-adds on the ordinary
// pipes, and on tensor cores by wmma and by mma.

#include <cuda_fp16.h>
#include <mma.h>

extern "C" __global__ void matmul_half(const __half* __restrict__ a, const __half* __restrict__ b,
                                       float* c, int n)
{
    __shared__ __half ta[16][16], tb[16][16];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int x = blockIdx.x * 16 + tx, y = blockIdx.y * 16 + ty;
    float sum = 0.0f;
    for (int k = 0; k < n; k += 16) {
        ta[ty][tx] = a[y * n + k + tx];
        tb[ty][tx] = b[(k + ty) * n + x];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 16; ++i)
            sum += __half2float(ta[ty][i]) * __half2float(tb[i][tx]);
        __syncthreads();
    }
    c[y * n + x] = sum;
}

// Fragments straight from global memory: a warp makes 16 x 16 elements. Blocks of 32 x 4 threads.
extern "C" __global__ void matmul_wmma(const __half* __restrict__ a, const __half* __restrict__ b,
                                       float* c, int n)
{
    using namespace nvcuda::wmma;
    const int x = blockIdx.x * 16, y = (blockIdx.y * 4 + threadIdx.y) * 16;
    fragment<matrix_a, 16, 16, 16, __half, row_major> fa;
    fragment<matrix_b, 16, 16, 16, __half, row_major> fb;
    fragment<accumulator, 16, 16, 16, float> fc;
    fill_fragment(fc, 0.0f);
    for (int k = 0; k < n; k += 16) {
        load_matrix_sync(fa, a + y * n + k, n);
        load_matrix_sync(fb, b + k * n + x, n);
        mma_sync(fc, fa, fb, fc);
    }
    store_matrix_sync(c + y * n + x, fc, n, mem_row_major);
}

// Tiles of 64 x 64 x 16 in shared memory; four warps, 32 x 32 elements each.
extern "C" __global__ void matmul_wmma_shared(const __half* __restrict__ a,
                                              const __half* __restrict__ b, float* c, int n)
{
    using namespace nvcuda::wmma;
    __shared__ __align__(32) __half ta[64][24], tb[16][72];
    const int t = threadIdx.y * 32 + threadIdx.x;
    const int wx = threadIdx.y % 2 * 32, wy = threadIdx.y / 2 * 32;
    const int x0 = blockIdx.x * 64, y0 = blockIdx.y * 64;
    fragment<accumulator, 16, 16, 16, float> fc[2][2];
#pragma unroll
    for (int p = 0; p < 2; ++p)
#pragma unroll
        for (int q = 0; q < 2; ++q)
            fill_fragment(fc[p][q], 0.0f);
    for (int k = 0; k < n; k += 16) {
        const uint4 va = *(const uint4*)(a + (y0 + t / 2) * n + k + t % 2 * 8);
        const uint4 vb = *(const uint4*)(b + (k + t / 8) * n + x0 + t % 8 * 8);
        __syncthreads();
        *(uint4*)&ta[t / 2][t % 2 * 8] = va;
        *(uint4*)&tb[t / 8][t % 8 * 8] = vb;
        __syncthreads();
        fragment<matrix_a, 16, 16, 16, __half, row_major> fa[2];
        fragment<matrix_b, 16, 16, 16, __half, row_major> fb[2];
#pragma unroll
        for (int p = 0; p < 2; ++p) {
            load_matrix_sync(fa[p], &ta[wy + 16 * p][0], 24);
            load_matrix_sync(fb[p], &tb[0][wx + 16 * p], 72);
        }
#pragma unroll
        for (int p = 0; p < 2; ++p)
#pragma unroll
            for (int q = 0; q < 2; ++q)
                mma_sync(fc[p][q], fa[p], fb[q], fc[p][q]);
    }
#pragma unroll
    for (int p = 0; p < 2; ++p)
#pragma unroll
        for (int q = 0; q < 2; ++q)
            store_matrix_sync(c + (y0 + wy + 16 * p) * n + x0 + wx + 16 * q, fc[p][q], n,
                              mem_row_major);
}

// Nothing but mma.m16n8k8: eight independent accumulators, 512 steps.
extern "C" __global__ void mma_chains(const unsigned* __restrict__ in, float* out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned a0 = in[i], a1 = a0 + 1, b0 = a0 + 2;
    float c[8][4] = {};
#pragma unroll 1
    for (int k = 0; k < 512; ++k)
#pragma unroll
        for (int j = 0; j < 8; ++j)
            asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
                         "{%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                         : "+f"(c[j][0]), "+f"(c[j][1]), "+f"(c[j][2]), "+f"(c[j][3])
                         : "r"(a0), "r"(a1), "r"(b0));
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < 8; ++j)
        sum += c[j][0] + c[j][1] + c[j][2] + c[j][3];
    out[i] = sum;
}
