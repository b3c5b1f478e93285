// Kernels whose stores are integers: what the execution engine stores must be right to the bit.

extern "C" __global__ void prefix_sum(const int* in, int* out, int* sums, int n) {
    __shared__ int warp_sums[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    int value = i < n ? in[i] : 0;
    for (int d = 1; d < 32; d *= 2) {
        int below = __shfl_up_sync(0xffffffffu, value, d);
        if (lane >= d) value += below;
    }
    if (lane == 31) warp_sums[warp] = value;
    __syncthreads();
    if (warp == 0) {
        int sum = lane < (blockDim.x >> 5) ? warp_sums[lane] : 0;
        for (int d = 1; d < 32; d *= 2) {
            int below = __shfl_up_sync(0xffffffffu, sum, d);
            if (lane >= d) sum += below;
        }
        warp_sums[lane] = sum;
    }
    __syncthreads();
    if (warp > 0) value += warp_sums[warp - 1];
    if (i < n) out[i] = value;
    if (threadIdx.x == blockDim.x - 1) sums[blockIdx.x] = value;
}

extern "C" __global__ void histogram(const unsigned char* in, unsigned* bins, int n) {
    __shared__ unsigned own[256];
    for (int b = threadIdx.x; b < 256; b += blockDim.x) own[b] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&own[in[i]], 1u);
    __syncthreads();
    for (int b = threadIdx.x; b < 256; b += blockDim.x)
        if (own[b]) atomicAdd(&bins[b], own[b]);
}

extern "C" __global__ void lower_bound(const int* keys, int n, const int* wanted, int* places, int m) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= m) return;
    int low = 0, high = n;
    while (low < high) {
        int middle = (low + high) / 2;
        if (keys[middle] < wanted[i]) low = middle + 1; else high = middle;
    }
    places[i] = low;
}

extern "C" __global__ void bfs_step(const int* rows, const int* columns, const int* frontier, int count,
                                    int* level, int next, int* queue, int* queued) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    int node = frontier[i];
    for (int e = rows[node]; e < rows[node + 1]; e++) {
        int neighbour = columns[e];
        if (atomicCAS(&level[neighbour], -1, next) == -1) queue[atomicAdd(queued, 1)] = neighbour;
    }
}

extern "C" __global__ void row_pointers(const int* lengths, int* rows, int n) {  // serial tail of a CSR build
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > n) return;
    int sum = 0;
    for (int k = 0; k < i; k++) sum += lengths[k];
    rows[i] = sum;
}

extern "C" __global__ void spmv_integer(const int* rows, const int* columns, const int* values,
                                        const int* x, int* y, int n) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
    if (row >= n) return;
    int sum = 0;
    for (int e = rows[row] + lane; e < rows[row + 1]; e += 32) sum += values[e] * x[columns[e]];
    for (int d = 16; d; d >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, d);
    if (lane == 0) y[row] = sum;
}

extern "C" __global__ void bitonic_sort(int* keys) {
    extern __shared__ int s[];
    s[threadIdx.x] = keys[blockIdx.x * blockDim.x + threadIdx.x];
    __syncthreads();
    for (unsigned size = 2; size <= blockDim.x; size *= 2)
        for (unsigned stride = size / 2; stride; stride /= 2) {
            unsigned other = threadIdx.x ^ stride;
            if (other > threadIdx.x) {
                int a = s[threadIdx.x], b = s[other];
                if ((a > b) == ((threadIdx.x & size) == 0)) { s[threadIdx.x] = b; s[other] = a; }
            }
            __syncthreads();
        }
    keys[blockIdx.x * blockDim.x + threadIdx.x] = s[threadIdx.x];
}

extern "C" __global__ void compact(const int* in, int* out, int* kept, int n) {  // one block: order stays
    __shared__ int counts[33];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    if (threadIdx.x == 0) counts[32] = 0;
    __syncthreads();
    for (int start = 0; start < n; start += blockDim.x) {
        int i = start + threadIdx.x;
        bool keep = i < n && in[i] % 3 == 0;
        unsigned ballot = __ballot_sync(0xffffffffu, keep);
        if (lane == 0) counts[warp] = __popc(ballot);
        __syncthreads();
        int before = counts[32];
        for (int w = 0; w < warp; w++) before += counts[w];
        if (keep) out[before + __popc(ballot & ((1u << lane) - 1))] = in[i];
        __syncthreads();
        if (threadIdx.x == 0)
            for (int w = 0; w < warps; w++) counts[32] += counts[w];
        __syncthreads();
    }
    if (threadIdx.x == 0) *kept = counts[32];
}

extern "C" __global__ void life(const unsigned char* now, unsigned char* next, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    int neighbours = 0;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++)
            if (dx || dy)
                neighbours += now[(y + dy + height) % height * width + (x + dx + width) % width];
    next[y * width + x] = neighbours == 3 || (neighbours == 2 && now[y * width + x]);
}

extern "C" __global__ void arithmetic(const long long* a, const long long* b, long long* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    long long x = a[i], y = b[i], r = 0;
    switch (i % 16) {
        case 0: r = x + y; break;
        case 1: r = x - y; break;
        case 2: r = x * y; break;
        case 3: r = y ? x / y : 7; break;
        case 4: r = y ? x % y : 8; break;
        case 5: r = (long long)((unsigned long long)x / ((unsigned long long)y | 1)); break;
        case 6: r = x << (y & 63); break;
        case 7: r = x >> (y & 63); break;
        case 8: r = __popcll(x) + 100 * __clzll(x) + 10000 * __ffsll(y); break;
        case 9: r = (int)x / ((int)y | 1); break;
        case 10: r = (unsigned)x % ((unsigned)y | 1); break;
        case 11: r = x < y ? x : y; break;
        case 12: r = __brevll(x); break;
        case 13: r = __mulhi((int)x, (int)y) + __umul64hi(x, y); break;
        case 14: r = __byte_perm((unsigned)x, (unsigned)y, (unsigned)(x >> 32) & 0x7777) + __funnelshift_l((unsigned)x, (unsigned)y, (unsigned)y); break;
        case 15: r = llabs(x) + abs((int)y) + (x > y) + ((unsigned long long)x > (unsigned long long)y); break;
    }
    out[i] = r;
}

__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

extern "C" __global__ void recursive(const int* in, int* out) {
    int table[8];
    for (int k = 0; k < 8; k++) table[(in[threadIdx.x] + 3 * k) & 7] = k;
    out[threadIdx.x] = fibonacci(in[threadIdx.x] & 7) * 10 + table[in[threadIdx.x] >> 3 & 7];
}

extern "C" __global__ void collective(const int* in, int* out) {
    __shared__ int tallies[2];
    int v = in[threadIdx.x], r = 0;
    if (threadIdx.x < 2) tallies[threadIdx.x] = 0;
    int even = __syncthreads_count(v % 2 == 0), all = __syncthreads_and(v >= 0), any = __syncthreads_or(v > 90);
    r += even + 1000 * all + 2000 * any;
    r += 10000 * (__all_sync(0xffffffffu, v > 5) + 2 * __any_sync(0xffffffffu, v > 95));
    r ^= __shfl_xor_sync(0xffffffffu, v, 5) + __shfl_sync(0xffffffffu, v, v & 7, 8) * 256;
    if (v & 1) { atomicMax(&tallies[0], v); r += __popc(__activemask()) * 0; } else atomicMin(&tallies[1], -v);
    __syncthreads();
    int *p = v > 50 ? tallies : out + 4096;
    out[threadIdx.x] = r + tallies[0] * 3 + tallies[1] + p[0];
}

extern "C" __global__ void quotients(const float* a, const float* b, float* divided, float* roots,
                                     double* doubles, int* bounds, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    divided[i] = a[i] / b[i];
    roots[i] = sqrtf(fabsf(a[i]));
    doubles[i] = (double)a[i] / (double)b[i];
    bounds[i] = (int)ceilf(a[i] / b[i]) + (int)(a[i] * 0.5f);
}

extern "C" __global__ void sums_of_doubles(const int* in, long long* sums, int n) {
    __shared__ double own[8];
    if (threadIdx.x < 8) own[threadIdx.x] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) atomicAdd(&own[in[i] & 7], (double)in[i]);
    __syncthreads();
    if (threadIdx.x < 8) sums[threadIdx.x] = (long long)own[threadIdx.x];
}

extern "C" __global__ void place_in_rows(long long* out) {  // 32 * 0 is taken from the row: no borrow
    long long block = blockIdx.x, row = block / 10, column = row - row / 32 * 32;
    out[block] = row / 32 + column * 20;
}

extern "C" __global__ void clamped_and_dotted(const int* a, const int* b, int* out) {
    int i = threadIdx.x, x = a[i], y = b[i], *row = out + 8 * i;
    row[0] = __dp2a_lo(x, y, 5);
    row[1] = __dp2a_hi(x, y, 5);
    row[2] = __dp2a_lo((unsigned)x, (unsigned)y, 5u);
    row[3] = __dp2a_hi((unsigned)x, (unsigned)y, 5u);
    row[4] = __viaddmin_s32_relu(x >> 1, y >> 1, x);
    row[5] = __viaddmax_s32_relu(x >> 1, y >> 1, y);
    row[6] = __vimax_s32_relu(x, y) + __vimin_s32_relu(x, y);
    row[7] = __vimin3_s32_relu(x, y, x ^ y);
}

extern "C" __global__ void packed_numbers(const unsigned* a, const unsigned* b, const unsigned* c, unsigned* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned x = a[i], y = b[i], z = c[i];
    bool high, low;
    unsigned results[] = {
        __vmins2(x, y), __vmaxu2(x, y), __vmaxs4(x, y), __vminu4(x, y), __viaddmax_s16x2(x, y, z),
        __viaddmin_u16x2(x, y, z), __vimax3_s16x2(x, y, z), __vimin3_u16x2(x, y, z),
        __vimax_s16x2_relu(x, y), __viaddmax_s16x2_relu(x, y, z), __vimax3_s16x2_relu(x, y, z),
        __vabsdiffu4(x, y), __vsadu4(x, y), (unsigned)__vimin3_s32_relu(x, y, z),
        __vibmax_s16x2(x, y, &high, &low), 0};
    results[15] = high * 2 + low;
    for (int k = 0; k < 16; k++) out[k * n + i] = results[k];
}

extern "C" __global__ void rounded_doubles(const double* a, const double* b, const double* c, double* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double x = a[i], y = b[i], z = c[i];
    double results[] = {__fma_rd(x, y, z), __dmul_ru(x, y), __dadd_rz(x, y), floor(x), ceil(x), trunc(x), rint(x)};
    for (int k = 0; k < 7; k++) out[k * n + i] = results[k];
}

extern "C" __global__ void extreme_doubles(const double* a, const double* b, double* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double results[] = {fmax(a[i], b[i]), fmin(a[i], b[i]), fmax(a[i], 2.0), fmin(fabs(a[i]), -b[i])};
    for (int k = 0; k < 4; k++) out[k * n + i] = results[k];
}
