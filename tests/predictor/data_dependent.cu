// Kernels whose addresses, trips and branches are decided by data.

extern "C" __global__ void csr_scalar(const int* rows, const int* columns, const float* values,
                                      const float* x, float* y, int n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n) return;
    float sum = 0;
    for (int e = rows[row]; e < rows[row + 1]; e++) sum += values[e] * x[columns[e]];
    y[row] = sum;
}

extern "C" __global__ void csr_vector(const int* rows, const int* columns, const float* values,
                                      const float* x, float* y, int n) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= n) return;
    float sum = 0;
    for (int e = rows[row] + lane; e < rows[row + 1]; e += 32) sum += values[e] * x[columns[e]];
    for (int d = 16; d; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
    if (lane == 0) y[row] = sum;
}

extern "C" __global__ void bfs(const int* frontier, const int* rows, const int* edges,
                               const int* distance, int* next, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int v = frontier[i];
    for (int e = rows[v]; e < rows[v + 1]; e++) {
        int u = edges[e];
        if (distance[u] < 0) next[u] = 1;
    }
}

extern "C" __global__ void histogram(const int* data, int* bins, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&bins[data[i]], 1);
}

extern "C" __global__ void hash_insert(const unsigned* keys, unsigned* table, int mask, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned key = keys[i], slot = (key * 2654435769u >> 7) & mask;
    while (atomicCAS(&table[slot], 0u, key) != 0u) slot = (slot + 1) & mask;
}

extern "C" __global__ void search(const int* keys, const int* wanted, int* places, int size,
                                  int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int low = 0, high = size;
    while (low < high) {
        int middle = (low + high) / 2;
        if (keys[middle] < wanted[i]) low = middle + 1; else high = middle;
    }
    places[i] = low;
}

extern "C" __global__ void radix_pass(const unsigned* keys, const int* offsets, unsigned* sorted,
                                      int shift, int n) {
    __shared__ int taken[256];
    for (int d = threadIdx.x; d < 256; d += blockDim.x) taken[d] = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned key = keys[i], digit = key >> shift & 255;
    sorted[offsets[blockIdx.x * 256 + digit] + atomicAdd(&taken[digit], 1)] = key;
}

extern "C" __global__ void smith_waterman(const int* a, const int* b, const int* score, int* h,
                                          int width, int diagonal, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int row = i + 1, column = diagonal - i, at = row * width + column;
    int match = h[at - width - 1] + score[a[i] * 256 + b[column]];
    h[at] = max(max(match, 0), max(h[at - width] - 2, h[at - 1] - 2));
}

extern "C" __global__ void causal(const float* q, const float* k, const int* lengths, float* out,
                                  int n) {
    int row = blockIdx.x, lane = threadIdx.x, last = min(row, lengths[row / 64]);
    float best = -1e30f, query = q[row * 64 + lane];
    for (int j = 0; j <= last; j++) best = fmaxf(best, query * k[j * 64 + lane]);
    out[row * 64 + lane] = best;
}
