// 2D convolution of a single-precision image with a FILTER × FILTER window, written for the
// validation suites after the description of the measured kernels (convolution_*.toml).
//
// A block of BLOCK_X × BLOCK_Y threads makes TILE_X · BLOCK_X by TILE_Y · BLOCK_Y pixels; the
// pixels of a thread lie a block apart. PAD floats lengthen a row of shared memory, READ_ONLY
// loads through the read-only path.

constexpr int FILTER = 15;
constexpr int BORDER = FILTER - 1;
constexpr int WIDTH = 4096, HEIGHT = 4096;
constexpr int INPUT_WIDTH = WIDTH + BORDER, INPUT_HEIGHT = HEIGHT + BORDER;
constexpr int TILE_WIDTH = BLOCK_X * TILE_X, TILE_HEIGHT = BLOCK_Y * TILE_Y;
constexpr int SHARED_WIDTH = TILE_WIDTH + BORDER, SHARED_HEIGHT = TILE_HEIGHT + BORDER;
constexpr int PITCH = SHARED_WIDTH + PAD;
constexpr bool WHOLE = WIDTH % TILE_WIDTH == 0 && HEIGHT % TILE_HEIGHT == 0;

__constant__ float filter[FILTER * FILTER];

__device__ __forceinline__ float fetch(const float *address) {
#if READ_ONLY
  return __ldg(address);
#else
  return *address;
#endif
}

extern "C" __global__ void convolution(float *output, const float *input) {
  __shared__ float tile[SHARED_HEIGHT * PITCH];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int left = blockIdx.x * TILE_WIDTH, top = blockIdx.y * TILE_HEIGHT;

#pragma unroll
  for (int i = ty; i < SHARED_HEIGHT; i += BLOCK_Y) {
#pragma unroll
    for (int j = tx; j < SHARED_WIDTH; j += BLOCK_X) {
      if (WHOLE || (top + i < INPUT_HEIGHT && left + j < INPUT_WIDTH)) {
        tile[i * PITCH + j] = fetch(&input[(top + i) * INPUT_WIDTH + left + j]);
      }
    }
  }
  __syncthreads();

  float sums[TILE_Y][TILE_X] = {};
#pragma unroll
  for (int i = 0; i < FILTER; i++) {
#pragma unroll
    for (int j = 0; j < FILTER; j++) {
#pragma unroll
      for (int y = 0; y < TILE_Y; y++) {
#pragma unroll
        for (int x = 0; x < TILE_X; x++) {
          sums[y][x] += tile[(ty + y * BLOCK_Y + i) * PITCH + tx + x * BLOCK_X + j] *
                        filter[i * FILTER + j];
        }
      }
    }
  }

#pragma unroll
  for (int y = 0; y < TILE_Y; y++) {
#pragma unroll
    for (int x = 0; x < TILE_X; x++) {
      const int row = top + ty + y * BLOCK_Y, column = left + tx + x * BLOCK_X;
      if (WHOLE || (row < HEIGHT && column < WIDTH)) {
        output[row * WIDTH + column] = sums[y][x];
      }
    }
  }
}
