// Dependent instructions of one class, n of them per warp (a multiple of UNROLLED).
//
// The macro OP_<class> picks the class. LINK is one link of the chain; its result is an operand
// of the next. Operands come from `a` and `b`, which the compiler cannot know. Where three are read,
// all are the result: three registers lie in two banks, and a bank is read once in a cycle.

#include "records.cuh"

#define UNROLLED 256

#if defined(OP_int32)
#define STATE int x = threadIdx.x, y = (int)a, z = (int)b
#define LINK asm volatile("lop3.b32 %0, %0, %1, %2, 0xe8;" : "+r"(x) : "r"(y), "r"(z)) // majority
#elif defined(OP_imad)
#define STATE int x = threadIdx.x + (int)a
#define LINK asm volatile("mad.lo.s32 %0, %0, %0, %0;" : "+r"(x))
#elif defined(OP_fp32)
#define STATE float x = threadIdx.x + a
#define LINK asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(x))
#elif defined(OP_fp64)
#define STATE double x = threadIdx.x + a
#define LINK asm volatile("fma.rn.f64 %0, %0, %0, %0;" : "+d"(x))
#elif defined(OP_fp16)
#define STATE unsigned x = threadIdx.x + (unsigned)a
#define LINK asm volatile("fma.rn.f16x2 %0, %0, %0, %0;" : "+r"(x))
#elif defined(OP_sfu)
#define STATE float x = threadIdx.x
#define LINK asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x))
#elif defined(OP_convert)
#define STATE float x = threadIdx.x
#define LINK                                                                                \
    {                                                                                       \
        int whole;                                                                          \
        asm volatile("cvt.rzi.s32.f32 %0, %1;" : "=r"(whole) : "f"(x));                     \
        x = __int_as_float(whole);                                                          \
    }
#elif defined(OP_compare)
#define STATE int x = threadIdx.x, y = (int)a, z = (int)b
#define LINK                                                                                \
    asm volatile("{ .reg .pred p;\n\tsetp.lt.s32 p, %0, %1;\n\tselp.s32 %0, %2, %3, p; }"   \
                 : "+r"(x)                                                                  \
                 : "r"(y), "r"(z), "r"(y))
#elif defined(OP_shuffle)
#define STATE int x = threadIdx.x
#define LINK asm volatile("shfl.sync.bfly.b32 %0, %0, 1, 31, 0xffffffff;" : "+r"(x))
#elif defined(OP_tensor)
#define STATE                                                                               \
    float x = 0, x1 = 0, x2 = 0, x3 = 0;                                                    \
    unsigned y = (unsigned)a, z = (unsigned)b
#if __CUDA_ARCH__ >= 800
#define LINK                                                                                \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "                       \
                 "{%0, %1, %2, %3}, {%4, %4, %4, %4}, {%5, %5}, {%0, %1, %2, %3};"          \
                 : "+f"(x), "+f"(x1), "+f"(x2), "+f"(x3)                                    \
                 : "r"(y), "r"(z))
#else
#define LINK                                                                                \
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "                        \
                 "{%0, %1, %2, %3}, {%4, %4}, {%5}, {%0, %1, %2, %3};"                      \
                 : "+f"(x), "+f"(x1), "+f"(x2), "+f"(x3)                                    \
                 : "r"(y), "r"(z))
#endif
#define ALSO (x1 + x2 + x3)
#elif defined(OP_tensor_fp64)
#define STATE double x = 0, x1 = 0, y = a, z = b
#define LINK                                                                                \
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 "                         \
                 "{%0, %1}, {%2}, {%3}, {%0, %1};"                                          \
                 : "+d"(x), "+d"(x1)                                                        \
                 : "d"(y), "d"(z))
#define ALSO x1
#elif defined(OP_barrier)
#define STATE int x = (int)a
#define LINK asm volatile("bar.sync 0;" ::: "memory")
#elif defined(OP_shared_load) || defined(OP_shared_store) || defined(OP_atomic_shared)
// Each word of shared memory holds its own address.
#define STATE                                                                               \
    __shared__ unsigned words[1024];                                                        \
    unsigned x = (unsigned)__cvta_generic_to_shared(words + threadIdx.x), y = (unsigned)a;  \
    words[threadIdx.x] = x
#if defined(OP_shared_load)
#define LINK asm volatile("ld.volatile.shared.u32 %0, [%0];" : "+r"(x)::"memory")
#elif defined(OP_shared_store) // and a load of what was stored
#define LINK                                                                                \
    asm volatile("st.volatile.shared.u32 [%0], %0;\n\tld.volatile.shared.u32 %0, [%0];"     \
                 : "+r"(x)::"memory")
#else
#define LINK asm volatile("atom.shared.or.b32 %0, [%0], %1;" : "+r"(x) : "r"(y) : "memory")
#endif
#elif defined(OP_atomic_global) // words of the buffer hold 0; a 64-bit addition makes the address
#define STATE                                                                               \
    unsigned x, y = (unsigned)a;                                                            \
    char *p = buffer + 4 * (blockIdx.x * blockDim.x + threadIdx.x)
#define LINK                                                                                \
    asm volatile("atom.global.or.b32 %0, [%1], %2;" : "=r"(x) : "l"(p), "r"(y) : "memory"); \
    p += x
#elif defined(OP_constant_load) // words of the table hold 0, and so does a
__constant__ unsigned table[256];
#define STATE unsigned x = (unsigned)a * threadIdx.x
#define LINK x = *(const unsigned *)((const char *)table + x)
#else
#error "no operation class is picked"
#endif

#ifndef ALSO
#define ALSO 0
#endif

KERNEL(chain) {
    STATE;
    __syncthreads();
    long long timer = read_timer();
    long long start = read_clock();
#pragma unroll 1
    for (long long i = 0; i < n; i += UNROLLED) {
#pragma unroll
        for (int j = 0; j < UNROLLED; ++j) {
            LINK;
        }
    }
    leave(records, start, timer);
    if (n < 0) {
        *(double *)buffer = x + ALSO; // never; without it the chain has no use
    }
}
