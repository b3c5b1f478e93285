// C = alpha * A * transpose(B) + beta * C, tiled as CLBlast's Xgemm (kernel 0): a block computes
// MWG x NWG elements, a thread MWI x NWI of them in vectors of VWM x VWN; KWG rows of A and B at a
// time, through shared memory where SA or SB is set, which MDIMA and NDIMB threads side by side fill.
// A is k x m, B k x n, C n x m, rows one after the other.

#ifndef MWG
#define MWG 64
#define NWG 64
#define KWG 32
#define MDIMC 8
#define NDIMC 8
#define MDIMA 8
#define NDIMB 8
#define KWI 2
#define VWM 4
#define VWN 4
#define SA 1
#define SB 1
#endif

#define THREADS (MDIMC * NDIMC)
#define COLUMNS_A (MWG / VWM)         // vectors in a row of a block's tile
#define COLUMNS_B (NWG / VWN)
#define VECTORS_M (MWG / MDIMC / VWM) // vectors of a thread
#define VECTORS_N (NWG / NDIMC / VWN)

template <int Size> struct __align__(4 * Size) Vector {
    float at[Size];
};
typedef Vector<VWM> VectorM;
typedef Vector<VWN> VectorN;

__device__ inline void load_shared(unsigned from, Vector<1>& to)
{
    asm volatile("ld.volatile.shared.f32 %0, [%1];" : "=f"(to.at[0]) : "r"(from));
}

__device__ inline void load_shared(unsigned from, Vector<2>& to)
{
    asm volatile("ld.volatile.shared.v2.f32 {%0, %1}, [%2];" : "=f"(to.at[0]), "=f"(to.at[1]) : "r"(from));
}

__device__ inline void load_four(unsigned from, float* to)
{
    asm volatile("ld.volatile.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
                 : "r"(from));
}

__device__ inline void load_shared(unsigned from, Vector<4>& to)
{
    load_four(from, to.at);
}

__device__ inline void load_shared(unsigned from, Vector<8>& to)
{
    load_four(from, to.at);
    load_four(from + 16, to.at + 4);
}

// Each access of the measured program is one instruction: volatile ones are not merged.
template <int Size>
__device__ inline Vector<Size> load_vector(const Vector<Size>* tile)
{
    Vector<Size> loaded;
    load_shared((unsigned)__cvta_generic_to_shared(tile), loaded);
    return loaded;
}

template <int Width, int Columns, int Size>
__device__ inline void fill_tile(
    Vector<Size>* tile, const Vector<Size>* __restrict__ matrix, int row, int column, int pitch, int thread)
{
    constexpr int rows = KWG / (THREADS / Width), count = Columns / Width;
    const int first = thread % Width * count, top = thread / Width * rows;
#pragma unroll
    for (int y = 0; y < rows; ++y) {
#pragma unroll
        for (int x = 0; x < count; ++x)
            tile[(top + y) * Columns + first + x] = matrix[(row + top + y) * pitch + column + first + x];
    }
}

extern "C" __launch_bounds__(THREADS)
__global__ void xgemm(int m, int n, int k, float alpha, float beta, const VectorM* __restrict__ a,
                      const VectorN* __restrict__ b, VectorM* c)
{
#if SA
    __shared__ VectorM tile_a[KWG * COLUMNS_A];
#endif
#if SB
    __shared__ VectorN tile_b[KWG * COLUMNS_B];
#endif
#if SA || SB
    volatile int thread = threadIdx.x + MDIMC * threadIdx.y; // volatile, as in the measured program
#endif
    const int pitch_a = m / VWM, pitch_b = n / VWN;
    const int first_a = threadIdx.x * VECTORS_M, first_b = threadIdx.y * VECTORS_N;
    const int block_a = blockIdx.x * COLUMNS_A, block_b = blockIdx.y * COLUMNS_B;
    float sum[VECTORS_N * VWN][VECTORS_M * VWM] = {};

    for (int row = 0; row < k; row += KWG) {
#if SA
        fill_tile<MDIMA, COLUMNS_A>(tile_a, a, row, block_a, pitch_a, thread);
#endif
#if SB
        fill_tile<NDIMB, COLUMNS_B>(tile_b, b, row, block_b, pitch_b, thread);
#endif
#if SA || SB
        __syncthreads();
#endif
        for (int outer = 0; outer < KWG; outer += KWI) {
#pragma unroll
            for (int inner = 0; inner < KWI; ++inner) {
                const int y = outer + inner;
                VectorM left[VECTORS_M];
                VectorN right[VECTORS_N];
#pragma unroll
                for (int i = 0; i < VECTORS_M; ++i)
#if SA
                    left[i] = load_vector(tile_a + y * COLUMNS_A + first_a + i);
#else
                    left[i] = a[(row + y) * pitch_a + block_a + first_a + i];
#endif
#pragma unroll
                for (int j = 0; j < VECTORS_N; ++j)
#if SB
                    right[j] = load_vector(tile_b + y * COLUMNS_B + first_b + j);
#else
                    right[j] = b[(row + y) * pitch_b + block_b + first_b + j];
#endif
#pragma unroll
                for (int j = 0; j < VECTORS_N * VWN; ++j) {
#pragma unroll
                    for (int i = 0; i < VECTORS_M * VWM; ++i)
                        sum[j][i] += left[i / VWM].at[i % VWM] * right[j / VWN].at[j % VWN];
                }
            }
        }
#if SA || SB
        __syncthreads();
#endif
    }

#pragma unroll
    for (int j = 0; j < VECTORS_N * VWN; ++j) {
        const int y = blockIdx.y * NWG + first_b * VWN + j;
#pragma unroll
        for (int i = 0; i < VECTORS_M; ++i) {
            VectorM* to = c + y * pitch_a + block_a + first_a + i;
            VectorM result = beta == 0.0f ? VectorM{} : *to;
#pragma unroll
            for (int v = 0; v < VWM; ++v)
                result.at[v] = alpha * sum[j][i * VWM + v] + beta * result.at[v];
            *to = result;
        }
    }
}
