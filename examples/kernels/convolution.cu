// 15 x 15 convolution of a float32 image: input tile in shared memory, weights in constant memory.
// Tunable: block, pixels per thread (tile), padding of shared rows, read-only loads, image size.

#ifndef block_size_x
#define block_size_x 32
#endif
#ifndef block_size_y
#define block_size_y 4
#endif
#ifndef tile_size_x
#define tile_size_x 2
#endif
#ifndef tile_size_y
#define tile_size_y 2
#endif
#ifndef use_padding
#define use_padding 0
#endif
#ifndef read_only
#define read_only 0
#endif
#ifndef image_width
#define image_width 4096
#endif
#ifndef image_height
#define image_height 4096
#endif
#ifndef half_filter_size
#define half_filter_size 7
#endif

#define FILTER (2 * half_filter_size + 1)
#define BORDER (2 * half_filter_size)
#define INPUT_WIDTH (image_width + BORDER)
#define INPUT_HEIGHT (image_height + BORDER)

// What a block computes, and what it needs for it.
#define OUT_X (block_size_x * tile_size_x)
#define OUT_Y (block_size_y * tile_size_y)
#define IN_X (OUT_X + BORDER)
#define IN_Y (OUT_Y + BORDER)

#if use_padding && block_size_x % 32 != 0 && (IN_X - block_size_x) % 32 != 0
#define PADDING ((32 - (IN_X - block_size_x) % 32) % 32)
#else
#define PADDING 0
#endif

#define FULL_BLOCKS (image_width % OUT_X == 0 && image_height % OUT_Y == 0)

#if read_only
#define LOAD(y, x) __ldg(input + (y) * INPUT_WIDTH + (x))
#else
#define LOAD(y, x) input[(y) * INPUT_WIDTH + (x)]
#endif

// Order and unrolling of the filter decide how many inputs, shared by the pixels of a thread, wait
// in registers. The thresholds are fitted: with them NVRTC 13.5 for sm_75 comes to the instruction
// counts that were measured on an RTX 2080 Ti (with an older compiler).
#define PIXELS (tile_size_x * tile_size_y)
#define COLUMNS_FIRST \
    (PIXELS > 16 && PIXELS <= 21 && block_size_x >= FILTER && block_size_y < FILTER)
constexpr int unrolled = PIXELS > 21 ? 3 : FILTER;  // nvcc expands no macro in a pragma

__constant__ float weights[FILTER * FILTER];

extern "C" __global__ void convolution(float* output, const float* input)
{
    __shared__ float tile[IN_Y][IN_X + PADDING];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int left = blockIdx.x * OUT_X, top = blockIdx.y * OUT_Y;

#pragma unroll
    for (int i = ty; i < IN_Y; i += block_size_y) {
#pragma unroll
        for (int j = tx; j < IN_X; j += block_size_x) {
            if (FULL_BLOCKS || (top + i < INPUT_HEIGHT && left + j < INPUT_WIDTH))
                tile[i][j] = LOAD(top + i, left + j);
        }
    }
    __syncthreads();

    float sum[tile_size_y][tile_size_x] = {};
#pragma unroll unrolled
    for (int outer = 0; outer < FILTER; ++outer) {
#pragma unroll
        for (int inner = 0; inner < FILTER; ++inner) {
            const int i = COLUMNS_FIRST ? inner : outer, j = COLUMNS_FIRST ? outer : inner;
#pragma unroll
            for (int v = 0; v < tile_size_y; ++v) {
#pragma unroll
                for (int u = 0; u < tile_size_x; ++u)
                    sum[v][u] += tile[ty + v * block_size_y + i][tx + u * block_size_x + j]
                                 * weights[i * FILTER + j];
            }
        }
    }

#pragma unroll
    for (int v = 0; v < tile_size_y; ++v) {
#pragma unroll
        for (int u = 0; u < tile_size_x; ++u) {
            const int x = left + tx + u * block_size_x, y = top + ty + v * block_size_y;
            if (FULL_BLOCKS || (x < image_width && y < image_height))
                output[y * image_width + x] = sum[v][u];
        }
    }
}
