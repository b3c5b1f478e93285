// Barriers and copies that are not the block's own, for sm_90 and later.

struct alignas(64) Map { unsigned char opaque[128]; };

__device__ unsigned shared_address(const void* p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

__device__ void wait(unsigned barrier, unsigned parity)
{
    asm volatile("{\n.reg .pred done;\nagain:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra again;\n}"
                 ::"r"(barrier), "r"(parity));
}

// Of a block that one thread arrives at.
__device__ unsigned initialize(unsigned long long* barrier)
{
    const unsigned address = shared_address(barrier);
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address));
    __syncthreads();
    return address;
}

__device__ void copy_row(const float* row, const float* from, unsigned barrier)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1024;" ::"r"(barrier));
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 1024, [%2];"
                 ::"r"(shared_address(row)), "l"(from), "r"(barrier) : "memory");
}

// Two warps fill, two read what the others have left, by turns.
extern "C" __global__ void by_turns(float* to, int n)
{
    __shared__ float held[64];
    if (threadIdx.x < 64) {
        for (int i = 0; i < n; ++i) {
            asm volatile("bar.sync 1, 128;");
            held[threadIdx.x] = i;
            asm volatile("bar.arrive 2, 128;");
        }
    } else {
        for (int i = 0; i < n; ++i) {
            asm volatile("bar.arrive 1, 128;");
            asm volatile("bar.sync 2, 128;");
            to[i * 64 + threadIdx.x - 64] = held[threadIdx.x - 64];
        }
    }
}

// Each block copies n rows of 1024 bytes, one after the other.
extern "C" __global__ void rows(const float* from, float* to, int n)
{
    __shared__ __align__(128) float row[256];
    __shared__ unsigned long long barrier;
    const unsigned full = initialize(&barrier);
    float sum = 0;
    for (int i = 0; i < n; ++i) {
        if (threadIdx.x == 0)
            copy_row(row, from + (blockIdx.x * n + i) * 256, full);
        wait(full, i & 1);
        sum += row[threadIdx.x];
        __syncthreads();
    }
    to[blockIdx.x * 256 + threadIdx.x] = sum;
}

// A box at the edge of a tensor: what lies outside is filled in, not read.
extern "C" __global__ void edge(const __grid_constant__ Map from, float* to)
{
    __shared__ __align__(128) float box[32 * 32];
    __shared__ unsigned long long barrier;
    const unsigned full = shared_address(&barrier);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full));
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 4096;" ::"r"(full));
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                     ::"r"(shared_address(box)), "l"(&from), "r"(blockIdx.x * 32), "r"(blockIdx.y * 32), "r"(full) : "memory");
    }
    __syncthreads();
    wait(full, 0);
    to[threadIdx.x] = box[threadIdx.x];
}

// Blocks of a cluster bring a part of each row of boxes for all of them: PARTS of 32 x 32.
#ifndef PARTS
#define PARTS 2
#endif
extern "C" __global__ void together(const __grid_constant__ Map from, float* to, int n)
{
    __shared__ __align__(128) float box[32 * 32 * PARTS];
    __shared__ unsigned long long barrier;
    const unsigned full = shared_address(&barrier), mine = blockIdx.x % PARTS;
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full));
    asm volatile("barrier.cluster.arrive.release.aligned;");
    asm volatile("barrier.cluster.wait.acquire.aligned;");
    for (int i = 0; i < n; ++i) {
        if (threadIdx.x == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full), "n"(4096 * PARTS));
            asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
#if PARTS > 1
                         ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
#else
                         " [%0], [%1, {%2, %3}], [%4];"
#endif
                         ::"r"(shared_address(box + 1024 * mine)), "l"(&from), "r"(blockIdx.x * 32), "r"(i * 32),
                           "r"(full), "h"((unsigned short)((1 << PARTS) - 1)) : "memory");
        }
        wait(full, i & 1);
        to[threadIdx.x] = box[threadIdx.x];
        __syncthreads();
    }
}

// All blocks of a cluster wait for one another, between dependent launches.
extern "C" __global__ void clustered(const float* from, float* to)
{
    asm volatile("griddepcontrol.wait;");
    const float value = from[blockIdx.x * blockDim.x + threadIdx.x];
    asm volatile("barrier.cluster.arrive.release.aligned;");
    asm volatile("barrier.cluster.wait.acquire.aligned;");
    asm volatile("griddepcontrol.launch_dependents;");
    to[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

// Pairs of warps meet at one barrier by turns.
extern "C" __global__ void pairs(float* to, int n)
{
    float value = threadIdx.x;
    for (int turn = 0; turn < 2; ++turn) {
        if (threadIdx.x / 64 == turn)
            for (int i = 0; i < n; ++i) {
                asm volatile("bar.sync 1, 64;");
                value *= value;
            }
        __syncthreads();
    }
    to[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

// Pairs of consumers meet at one barrier by turns, where their producer never comes.
extern "C" __global__ void pairs_of_consumers(float* to, int n)
{
    __shared__ unsigned long long barriers[2];
    const unsigned full = shared_address(barriers), empty = shared_address(barriers + 1);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full));
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 128;" ::"r"(empty));
    }
    __syncthreads();
    float value = threadIdx.x;
    if (threadIdx.x < 128) {
        for (int i = 0; i < n; ++i) {
            wait(full, i & 1);
            if (threadIdx.x < 64) asm volatile("bar.sync 1, 64;");
            value *= value;
            if (threadIdx.x >= 64) asm volatile("bar.sync 1, 64;");
            asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(empty));
        }
    } else if (threadIdx.x == 128) {
        for (int i = 0; i < n; ++i) {
            wait(empty, i & 1 ^ 1);
            asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(full));
        }
    }
    to[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

// As many rows as data say, each awaited by warps that were granted registers.
extern "C" __global__ void __launch_bounds__(256, 1) counted_rows(const float* from, const int* ends, float* to)
{
    __shared__ __align__(128) float row[256];
    __shared__ unsigned long long barrier;
    const unsigned full = initialize(&barrier);
    float sum = 0;
    if (threadIdx.x >= 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 32;");
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 160;");
    for (int i = 0; i < ends[blockIdx.x]; ++i) {
        if (threadIdx.x == 0)
            copy_row(row, from + (blockIdx.x * 8 + i) * 256, full);
        wait(full, i & 1);
        sum += row[threadIdx.x];
        asm volatile("bar.sync 1, 128;");
    }
    to[blockIdx.x * 128 + threadIdx.x] = sum;
}

// Each thread's own copies arrive when they are complete.
extern "C" __global__ void copies_that_arrive(const float* from, float* to, int n)
{
    __shared__ float row[256];
    __shared__ unsigned long long barrier;
    const unsigned full = shared_address(&barrier);
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 256;" ::"r"(full));
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < n; ++i) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
                     ::"r"(shared_address(row + threadIdx.x)), "l"(from + (blockIdx.x * n + i) * 256 + threadIdx.x));
        asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(full));
        wait(full, i & 1);
        sum += row[255 - threadIdx.x];
        __syncthreads();
    }
    to[blockIdx.x * 256 + threadIdx.x] = sum;
}

// Boxes of 64 rows of WIDE bytes.
#ifndef WIDE
#define WIDE 16
#endif
extern "C" __global__ void narrow(const __grid_constant__ Map from, float* to, int n)
{
    __shared__ __align__(128) unsigned char box[64 * WIDE];
    __shared__ unsigned long long barrier;
    const unsigned full = initialize(&barrier);
    for (int i = 0; i < n; ++i) {
        if (threadIdx.x == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full), "n"(64 * WIDE));
            asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                         ::"r"(shared_address(box)), "l"(&from), "r"(i * WIDE), "r"(blockIdx.x * 64), "r"(full) : "memory");
        }
        wait(full, i & 1);
        to[threadIdx.x] = box[threadIdx.x];
        __syncthreads();
    }
}

// A thread that copies, in an unrolled loop, each time before the arrival that expects it; a warp that waits.
extern "C" __global__ void copies_first(const __grid_constant__ Map from, float* to)
{
    __shared__ __align__(128) float box[4][32 * 32];
    __shared__ unsigned long long barriers[4];
    const unsigned full = shared_address(barriers);
    if (threadIdx.x == 0)
        for (int i = 0; i < 4; ++i)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full + 8 * i));
    __syncthreads();
    if (threadIdx.x == 0) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                         ::"r"(shared_address(box[i])), "l"(&from), "r"(0), "r"(i * 32), "r"(full + 8 * i) : "memory");
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 4096;" ::"r"(full + 8 * i));
        }
    }
    if (threadIdx.x / 32 == 1) {
#pragma unroll 1
        for (int i = 0; i < 4; ++i) {
            wait(full + 8 * i, 0);
            to[threadIdx.x] += box[i][threadIdx.x];
        }
    }
}
