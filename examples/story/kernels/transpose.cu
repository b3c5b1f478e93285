// Transposes through a padded tile: rows and columns of it meet no bank conflict.
constexpr int TILE = 32;
constexpr int PITCH = TILE + 1;

extern "C" __global__ void transpose(float* out, const float* in, int rows, int columns) {
  __shared__ float tile[TILE * PITCH];
  int x = blockIdx.x * TILE + threadIdx.x;
  int y = blockIdx.y * TILE + threadIdx.y;
#pragma unroll
  for (int k = 0; k < TILE; k += 8)
    tile[(threadIdx.y + k) * PITCH + threadIdx.x] = in[(y + k) * columns + x];
  __syncthreads();
  x = blockIdx.y * TILE + threadIdx.x;
  y = blockIdx.x * TILE + threadIdx.y;
#pragma unroll
  for (int k = 0; k < TILE; k += 8)
    out[(y + k) * rows + x] = tile[threadIdx.x * PITCH + threadIdx.y + k];
}
