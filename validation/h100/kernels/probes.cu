// What h100_probes.py times: cycles of single warps, which a suite cannot express. Buffers hold zeros:
// addresses depend on what is loaded, so that loads wait for each other, but not on its value.

typedef unsigned long long u64;

static __device__ __forceinline__ long long read_clock()
{
    long long now;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(now)::"memory");
    return now;
}

static __device__ __forceinline__ unsigned unit()
{
    unsigned id;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
    return id;
}

// Past the L1.
static __device__ __forceinline__ unsigned load(const char* place)
{
    unsigned x;
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(x) : "l"(place) : "memory");
    return x;
}

// What follows is not issued before x is there.
static __device__ __forceinline__ void wait_for(unsigned x)
{
    asm volatile("{ .reg .pred p;\n\tsetp.eq.u32 p, %0, 0x5eed;\n\t@p trap; }" ::"r"(x) : "memory");
}

static __device__ __forceinline__ unsigned warp_number()
{
    return (blockIdx.x * blockDim.x + threadIdx.x) / 32;
}

// Per warp: start, stop, unit, one number more.
static __device__ __forceinline__ void record(long long* out, long long start, long long stop, long long more)
{
    if (threadIdx.x % 32 == 0) {
        long long* row = out + 4 * (u64)warp_number();
        row[0] = start;
        row[1] = stop;
        row[2] = unit();
        row[3] = more;
    }
}

// Cycles that the GPU counts while `nanoseconds` go by.
extern "C" __global__ void count_cycles(long long* out, long long nanoseconds)
{
    long long first, now, start = read_clock();
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(first)::"memory");
    do
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
    while (now - first < nanoseconds);
    record(out, start, read_clock(), now - first);
}

// One thread goes round `places`, `step` at a time, in each of which it loads one line.
extern "C" __global__ void chase(const char* base, long long* out, unsigned places, unsigned step,
                                 u64 spacing, unsigned lines, unsigned warm, unsigned hops)
{
    unsigned place = 0, x = 0;
    long long start = 0;
#pragma unroll 1
    for (unsigned k = 0; k < warm + hops; ++k) {
        if (k == warm)
            start = read_clock();
        x = load(base + place * spacing + 128 * (place * 37 & (lines - 1)) + x);
        place += step;
        place -= place >= places ? places : 0;
    }
    wait_for(x);
    record(out, start, read_clock(), 0);
}

// Each warp loads one word in each of `distinct` places, `hops` times one after the other. The places
// lie `spacing` apart, and the order is what `factor` (odd) makes of it. Only SMs with a mark take part.
template <bool BY_L1>
static __device__ __forceinline__ void visit(const char* base, long long* out, const char* marks,
                                             unsigned places, u64 spacing, unsigned lines,
                                             unsigned distinct, unsigned factor, unsigned seed,
                                             unsigned hops)
{
    const unsigned first = seed + warp_number() * hops * distinct + threadIdx.x % distinct;
    unsigned x = 0;
    if (!marks[unit()])
        return;
    __syncthreads();
    const long long start = read_clock();
#pragma unroll 1
    for (unsigned k = 0; k < hops; ++k) {
        const unsigned place = (first + k * distinct) * factor & (places - 1);
        const char* address = base + place * spacing + 128 * (place * 37 & (lines - 1)) + x;
        if (BY_L1)
            asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(x) : "l"(address) : "memory");
        else
            x = load(address);
    }
    wait_for(x);
    record(out, start, read_clock(), 1);
}

#define VISITS(name, by_l1)                                                                        \
    extern "C" __global__ void name(const char* base, long long* out, const char* marks,           \
                                    unsigned places, u64 spacing, unsigned lines,                  \
                                    unsigned distinct, unsigned factor, unsigned seed,             \
                                    unsigned hops)                                                 \
    {                                                                                              \
        visit<by_l1>(base, out, marks, places, spacing, lines, distinct, factor, seed, hops);      \
    }

VISITS(visit_places, false)
VISITS(visit_places_by_l1, true)

// Which SMs the blocks of a cluster run on: those of a GPC.
#define CLUSTERS(size)                                                                             \
    extern "C" __global__ void __cluster_dims__(size, 1, 1) clusters_##size(long long* out)        \
    {                                                                                              \
        const long long start = read_clock();                                                      \
        while (read_clock() - start < 100000)                                                      \
            ;                                                                                      \
        record(out, start, blockIdx.x / size, 0);                                                  \
    }

CLUSTERS(2)
CLUSTERS(5)
CLUSTERS(6)
CLUSTERS(7)
CLUSTERS(8)
CLUSTERS(16)

// Runs of `run` words, anywhere in a table of `groups` runs (powers of two), read or written once.
template <bool READS>
static __device__ __forceinline__ void use_runs(char* base, unsigned run, unsigned groups, unsigned times)
{
    const unsigned threads = gridDim.x * blockDim.x;
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned sum = 0;
    for (unsigned k = 0; k < times; ++k) {
        unsigned x[8];
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            const unsigned i = (k * 8 + j) * threads + thread;
            char* place = base + 4 * ((u64)(i / run * 0x9e3779b1u & (groups - 1)) * run + i % run);
            if (READS)
                x[j] = load(place);
            else
                *(unsigned*)place = 0;
        }
#pragma unroll
        for (int j = 0; j < 8; ++j)
            sum += READS ? x[j] : 0;
    }
    wait_for(sum);
}

extern "C" __global__ void read_runs(char* base, unsigned run, unsigned groups, unsigned times)
{
    use_runs<true>(base, run, groups, times);
}

extern "C" __global__ void write_runs(char* base, unsigned run, unsigned groups, unsigned times)
{
    use_runs<false>(base, run, groups, times);
}

// Additions to global memory: word i of neighbouring threads (by_warp 0) or of neighbouring warps (1).
template <typename T>
static __device__ __forceinline__ void add(char* base, unsigned words, u64 spacing, unsigned times,
                                           unsigned by_warp)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    T* own = (T*)(base + ((by_warp ? i / 32 : i) & (words - 1)) * spacing);
    for (unsigned k = 0; k < times; ++k)
        atomicAdd(own, (T)(k + i));
}

#define ADDS(name, T)                                                                              \
    extern "C" __global__ void name(char* base, unsigned words, u64 spacing, unsigned times,       \
                                    unsigned by_warp)                                              \
    {                                                                                              \
        add<T>(base, words, spacing, times, by_warp);                                              \
    }

ADDS(add_float, float)
ADDS(add_double, double)
ADDS(add_integer, unsigned)
ADDS(add_long, u64)

// The same, waiting for what was there before.
extern "C" __global__ void add_and_wait(char* base, unsigned words, u64 spacing, unsigned times,
                                        unsigned by_warp)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned* own = (unsigned*)(base + ((by_warp ? i / 32 : i) & (words - 1)) * spacing);
    unsigned x = 1;
    for (unsigned k = 0; k < times; ++k)
        x = atomicAdd(own, x | 1);
    if (x == 0)
        *own = 0;
}

// Shared memory: lanes use `words` words, `spacing` words apart. 0: addition of integers, 1: of floats,
// 2: of integers, waiting for the old value, 3: compare and swap, tried once, 4: exchange, 5: of doubles.
template <int KIND>
static __device__ __forceinline__ void use_shared(long long* out, unsigned words, unsigned spacing,
                                                  unsigned times)
{
    __shared__ __align__(16) unsigned memory[8192];
    for (unsigned i = threadIdx.x; i < 8192; i += blockDim.x)
        memory[i] = 0;
    unsigned* own = memory + (threadIdx.x & (words - 1)) * spacing;
    unsigned x = threadIdx.x;
    __syncthreads();
    const long long start = read_clock();
#pragma unroll 8
    for (unsigned k = 0; k < times; ++k) {
        if (KIND == 0)
            atomicAdd(own, k + threadIdx.x);
        if (KIND == 1)
            atomicAdd((float*)own, (float)(k + threadIdx.x));
        if (KIND == 2)
            x = atomicAdd(own, x);
        if (KIND == 3)
            x += atomicCAS(own, k, threadIdx.x);
        if (KIND == 4)
            x += atomicExch(own, k + threadIdx.x);
        if (KIND == 5)
            atomicAdd((double*)own, (double)(k + threadIdx.x));
    }
    wait_for(x);
    __syncwarp();
    const long long stop = read_clock();
    __syncthreads();
    record(out, start, stop, memory[threadIdx.x]);
}

#define SHARED(kind)                                                                               \
    extern "C" __global__ void use_shared_##kind(long long* out, unsigned words, unsigned spacing, \
                                                 unsigned times)                                   \
    {                                                                                              \
        use_shared<kind>(out, words, spacing, times);                                              \
    }

SHARED(0)
SHARED(1)
SHARED(2)
SHARED(3)
SHARED(4)
SHARED(5)

// Additions by compare and swap until it succeeds; counts the tries of each whole warp.
static __device__ __forceinline__ void swap_until(unsigned* own, long long* out, unsigned times)
{
    unsigned tries = 0;
    __syncthreads();
    const long long start = read_clock();
    for (unsigned k = 0; k < times; ++k) {
        unsigned seen = *(volatile unsigned*)own, before;
        do {
            before = seen;
            seen = atomicCAS(own, before, before + threadIdx.x + 1);
            ++tries;
        } while (seen != before);
    }
    const unsigned lanes = blockDim.x < 32 ? (1u << blockDim.x) - 1 : 0xffffffffu;
    __syncwarp(lanes);
    const long long stop = read_clock();
    for (unsigned lane = 16; lane > 0 && lanes == 0xffffffffu; lane /= 2)
        tries += __shfl_xor_sync(0xffffffffu, tries, lane);
    record(out, start, stop, tries);
}

extern "C" __global__ void swap_in_global(char* base, long long* out, unsigned words, unsigned times)
{
    swap_until((unsigned*)base + 8 * ((blockIdx.x * blockDim.x + threadIdx.x) & (words - 1)), out, times);
}

extern "C" __global__ void swap_in_shared(char* base, long long* out, unsigned words, unsigned times)
{
    __shared__ unsigned memory[1024];
    for (unsigned i = threadIdx.x; i < 1024; i += blockDim.x)
        memory[i] = 0;
    swap_until(memory + (threadIdx.x & (words - 1)), out, times);
}

// Chains of dependent instructions; the clock at the start and after each eighth of them.
template <int CHAINS, int KIND>
static __device__ __forceinline__ void run_chains(long long* out, unsigned links)
{
    float x[CHAINS];
    int y[CHAINS];
    long long at[9];
#pragma unroll
    for (int c = 0; c < CHAINS; ++c)
        x[c] = y[c] = threadIdx.x + c;
    __syncthreads();
    at[0] = read_clock();
#pragma unroll
    for (int part = 0; part < 8; ++part) {
#pragma unroll 1
        for (unsigned k = 0; k < links / 8; k += 64) {
#pragma unroll
            for (int j = 0; j < 64; ++j)
#pragma unroll
                for (int c = 0; c < CHAINS; ++c) {
                    if (KIND == 0)
                        asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(x[c]));
                    else
                        asm volatile("mad.lo.s32 %0, %0, %0, %0;" : "+r"(y[c]));
                }
        }
        at[part + 1] = read_clock();
    }
    float sum = 0;
#pragma unroll
    for (int c = 0; c < CHAINS; ++c)
        sum += x[c] + y[c];
    if (threadIdx.x % 32 == 0) {
        long long* row = out + 10 * (u64)warp_number();
        for (int part = 0; part < 9; ++part)
            row[part] = at[part];
        row[9] = unit();
    }
    if (sum == 0x5eed)
        out[0] = 0;
}

#define RUN(name, chains, kind)                                                                    \
    extern "C" __global__ void name(long long* out, unsigned links)                                \
    {                                                                                              \
        run_chains<chains, kind>(out, links);                                                      \
    }

RUN(float_chains_1, 1, 0)
RUN(float_chains_2, 2, 0)
RUN(float_chains_4, 4, 0)
RUN(integer_chains_1, 1, 1)
RUN(integer_chains_2, 2, 1)

// Loads of WORDS words that hit the L1, lanes `spacing` bytes apart; eight loads STEP bytes apart.
template <int WORDS, int STEP>
static __device__ __forceinline__ void hit(const char* base, long long* out, unsigned spacing, unsigned times)
{
    const char* place = base + threadIdx.x % 32 * spacing;
    unsigned sum = 0;
    long long start = 0;
#pragma unroll 1
    for (int pass = 0; pass < 2; ++pass) {
        __syncthreads();
        start = read_clock();
#pragma unroll 1
        for (unsigned k = 0; k < times; k += 8) {
            unsigned x[8][4] = {};
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                if (WORDS == 1)
                    asm volatile("ld.global.ca.u32 %0, [%1];"
                                 : "=r"(x[j][0])
                                 : "l"(place + j * STEP)
                                 : "memory");
                if (WORDS == 2)
                    asm volatile("ld.global.ca.v2.u32 {%0, %1}, [%2];"
                                 : "=r"(x[j][0]), "=r"(x[j][1])
                                 : "l"(place + j * STEP)
                                 : "memory");
                if (WORDS == 4)
                    asm volatile("ld.global.ca.v4.u32 {%0, %1, %2, %3}, [%4];"
                                 : "=r"(x[j][0]), "=r"(x[j][1]), "=r"(x[j][2]), "=r"(x[j][3])
                                 : "l"(place + j * STEP)
                                 : "memory");
            }
#pragma unroll
            for (int j = 0; j < 8; ++j)
                sum ^= x[j][0] ^ x[j][1] ^ x[j][2] ^ x[j][3];
            place += sum;
        }
    }
    wait_for(sum);
    record(out, start, read_clock(), 0);
}

#define HITS(name, words, step)                                                                    \
    extern "C" __global__ void name(const char* base, long long* out, unsigned spacing,            \
                                    unsigned times)                                                \
    {                                                                                              \
        hit<words, step>(base, out, spacing, times);                                               \
    }

HITS(hit_1, 1, 4096)
HITS(hit_2, 2, 4096)
HITS(hit_4, 4, 4096)
HITS(hit_near_1, 1, 128)
HITS(hit_near_2, 2, 128)
HITS(hit_near_4, 4, 128)
