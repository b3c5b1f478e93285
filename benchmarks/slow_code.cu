// A kernel and variants of it, each with one statement more, which every thread executes REPEAT
// times (loops: once). Nothing is loaded before it, so that no latency hides it. Read by
// slow_code.py, which lists them.

#define REPEAT 32

#define KERNEL(name, ...)                                                                  \
    extern "C" __global__ void name(const float* __restrict__ a, float* b, int n) {        \
        int i = blockIdx.x * blockDim.x + threadIdx.x;                                     \
        if (i < n) {                                                                       \
            float x = i;                                                                   \
            _Pragma("unroll") for (int j = 0; j < REPEAT; j++) { __VA_ARGS__; }            \
            b[i] = x;                                                                      \
        }                                                                                  \
    }

#define LOAD(how)                                                                          \
    float y;                                                                               \
    asm volatile("ld." how ".f32 %0, [%1];" : "=f"(y) : "l"(a + i + 32 * j));              \
    x += y

#define COMPARE_AND_SWAP_LOOP(word)                                                        \
    int* place = (int*)(word);                                                             \
    int seen = *place, expected;                                                           \
    do {                                                                                   \
        expected = seen;                                                                   \
        seen = atomicCAS(place, expected, __float_as_int(__int_as_float(expected) + x));   \
    } while (seen != expected)

#define SCATTERED ((unsigned)(i + 1) * 7919u + j * 104729u) % (unsigned)n
#define ALL 0xffffffffu

KERNEL(base, )
KERNEL(sleep, __nanosleep(1000))
KERNEL(fence_block, __threadfence_block())
KERNEL(store_volatile, *(volatile float*)(b + i) = x)
KERNEL(fence_device, __threadfence())
KERNEL(fence_system, __threadfence_system())
KERNEL(prefetch, asm volatile("prefetch.global.L2 [%0];" ::"l"(a + SCATTERED)))
KERNEL(load_volatile, x += ((const volatile float*)a)[i])
KERNEL(load_cv, LOAD("global.cv"))
KERNEL(load_cg, LOAD("global.cg"))
KERNEL(load_acquire, LOAD("acquire.gpu.global"))
KERNEL(load_acquire_system, LOAD("acquire.sys.global"))
KERNEL(reduce, x += __reduce_add_sync(ALL, (unsigned)x))
KERNEL(ballot, x += __ballot_sync(ALL, x > j))
KERNEL(match, x += __match_any_sync(ALL, (int)x))
KERNEL(shuffle, x += __shfl_xor_sync(ALL, x, 1))
KERNEL(block_barrier, __syncthreads())
KERNEL(clock_read, x += clock())
KERNEL(trap, if (x < j) asm volatile("trap;"))
KERNEL(add_one, atomicAdd(b, x))
KERNEL(add_one_int, atomicAdd((int*)b, i))
KERNEL(add_one_long, atomicAdd((unsigned long long*)b, (unsigned long long)i))
KERNEL(add_one_double, atomicAdd((double*)b, (double)x))
KERNEL(add_one_result, x += atomicAdd(b, x))
KERNEL(exchange_one, x += atomicExch(b, x))
KERNEL(add_near, atomicAdd(b + i, x))
KERNEL(add_scattered, atomicAdd(b + SCATTERED, x))
KERNEL(add_scattered_result, x += atomicAdd(b + SCATTERED, x))
KERNEL(loop_one, if (j == 0) { COMPARE_AND_SWAP_LOOP(b); })
KERNEL(loop_near, if (j == 0) { COMPARE_AND_SWAP_LOOP(b + i); })

__shared__ float bins[1024];
KERNEL(shared_add_one, atomicAdd((int*)bins, i))
KERNEL(shared_add_near, atomicAdd((int*)bins + threadIdx.x, i))
KERNEL(shared_loop_one, if (j == 0) atomicAdd(bins, x))

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
KERNEL(grid_wait, asm volatile("griddepcontrol.wait;" ::: "memory"))
KERNEL(grid_launch, asm volatile("griddepcontrol.launch_dependents;"))
KERNEL(cluster_barrier, asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
       asm volatile("barrier.cluster.wait.aligned;" ::: "memory"))
#endif
