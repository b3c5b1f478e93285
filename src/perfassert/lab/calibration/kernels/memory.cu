// Latency by pointer chase, granularities by pairs of loads, bandwidth by streams.

#include "records.cuh"

static __device__ __forceinline__ char *next(char *place) {
    char *found;
    asm volatile("ld.global.ca.u64 %0, [%1];" : "=l"(found) : "l"(place) : "memory");
    return found;
}

static __device__ __forceinline__ long long thread() {
    return (long long)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ __forceinline__ long long threads() {
    return (long long)gridDim.x * blockDim.x;
}

// n pointers, `b` bytes apart; each points `a` places further on, cyclically. One cycle where a
// and n have no common divisor.
KERNEL(link) {
    for (long long i = thread(); i < n; i += threads()) {
        *(char **)(buffer + i * b) = buffer + (i + a) % n * b;
    }
}

// One thread follows `n` pointers from the start of the buffer, after `a` others.
KERNEL(chase) {
    char *place = buffer;
    for (long long i = 0; i < a; ++i) {
        place = next(place);
    }
    long long timer = read_timer();
    long long start = read_clock();
#pragma unroll 1
    for (long long i = 0; i < n; i += 32) {
#pragma unroll
        for (int j = 0; j < 32; ++j) {
            place = next(place);
        }
    }
    leave(records, start, timer);
    if (place == nullptr) {
        *(long long *)buffer = 0; // never
    }
}

// n times: a load, and one that waits for it `a` bytes further on; `b` bytes from pair to pair.
// The buffer holds 0.
KERNEL(pairs) {
    char *place = buffer;
    long long timer = read_timer();
    long long start = read_clock();
#pragma unroll 1
    for (long long i = 0; i < n; ++i) {
        unsigned x;
        asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(x) : "l"(place) : "memory");
        char *second = place + a + x;
        asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(x) : "l"(second) : "memory");
        place += b + x;
    }
    leave(records, start, timer);
    if (place == nullptr) {
        *(long long *)buffer = 0; // never
    }
}

// Each warp makes n loads of 128 bytes (a multiple of 16); its 16 lines stay in the L1. The buffer
// holds 0; the addresses depend on what is loaded, or the compiler would load once.
KERNEL(hits) {
    char *place = buffer + 4 * threadIdx.x;
    __syncthreads();
    long long timer = read_timer();
    long long start = read_clock();
#pragma unroll 1
    for (long long i = 0; i < n; i += 16) {
        unsigned x[16], sum = 0;
#pragma unroll
        for (int j = 0; j < 16; ++j) {
            asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(x[j]) : "l"(place + 4096 * j) : "memory");
        }
#pragma unroll
        for (int j = 0; j < 16; ++j) {
            sum ^= x[j];
        }
        place += sum;
    }
    leave(records, start, timer);
    if (place == nullptr) {
        *(unsigned *)buffer = 0; // never
    }
}

// Reads n bytes from byte `b` on, `a` times over, past the L1.
KERNEL(read) {
    unsigned sum = 0;
    long long timer = read_timer();
    long long start = read_clock();
    for (long long pass = 0; pass < a; ++pass) {
        for (long long i = 16 * thread(); i < n; i += 64 * threads()) {
            uint4 x[4];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                long long at = i + j * 16 * threads();
                char *place = buffer + b + (at < n ? at : i);
                asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                             : "=r"(x[j].x), "=r"(x[j].y), "=r"(x[j].z), "=r"(x[j].w)
                             : "l"(place)
                             : "memory");
            }
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                sum ^= x[j].x ^ x[j].y ^ x[j].z ^ x[j].w;
            }
        }
    }
    leave(records, start, timer);
    if (sum == 0x5eed) {
        *(unsigned *)buffer = sum;
    }
}

// Writes `b` to n bytes, `a` times over; 0 leaves zeros.
KERNEL(write) {
    for (long long pass = 0; pass < a; ++pass) {
        for (long long i = 16 * thread(); i < n; i += 16 * threads()) {
            *(double2 *)(buffer + i) = double2{(double)b, (double)b};
        }
    }
}

// Reads the first n bytes and writes as many after them, `a` times over.
KERNEL(scale) {
    for (long long pass = 0; pass < a; ++pass) {
        for (long long i = 16 * thread(); i < n; i += 64 * threads()) {
            double2 x[4];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                long long at = i + j * 16 * threads();
                x[j] = *(const double2 *)(buffer + (at < n ? at : i));
            }
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                long long at = i + j * 16 * threads();
                *(double2 *)(buffer + n + (at < n ? at : i)) = double2{b * x[j].x, b * x[j].y};
            }
        }
    }
}

// Each thread stores 4 bytes n times, each time in another line; the lines of all threads lie side by
// side in `a` bytes.
KERNEL(store_lines) {
    long long timer = read_timer();
    long long start = read_clock();
    for (long long i = thread(); i < n * threads(); i += threads()) {
        asm volatile("st.global.u32 [%0], %1;" ::"l"(buffer + i * 128 % a), "r"((unsigned)b) : "memory");
    }
    leave(records, start, timer);
}

// Each thread adds to its word n times; words lie `a` bytes apart, all of them are one where it is 0.
template <typename T>
static __device__ __forceinline__ void add(char *buffer, long long n, long long a, T value) {
    for (long long i = 0; i < n; ++i) {
        atomicAdd((T *)(buffer + a * thread()), value);
    }
}

KERNEL(add_integers) { add<unsigned>(buffer, n, a, threadIdx.x + 1); }

KERNEL(add_floats) { add<float>(buffer, n, a, threadIdx.x + 1); }
