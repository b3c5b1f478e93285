// What every kernel of the calibration takes and leaves behind.
//
// Arguments: records, buffer and three whole numbers whose meaning each kernel states.
// A warp leaves its clock at start and end, the nanoseconds between, and its unit.

struct Record {
    long long start;
    long long stop;
    long long nanoseconds;
    long long unit;
};

#define KERNEL(name)                                                                        \
    extern "C" __global__ void __launch_bounds__(1024)                                      \
        name(Record *records, char *buffer, long long n, long long a, long long b)

static __device__ __forceinline__ long long read_clock() {
    long long now;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(now)::"memory");
    return now;
}

static __device__ __forceinline__ long long read_timer() {
    long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
    return now;
}

static __device__ __forceinline__ void leave(Record *records, long long start, long long timer) {
    long long stop = read_clock();
    long long ended = read_timer();
    unsigned unit;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(unit));
    if (threadIdx.x % 32 == 0) {
        unsigned warps = (blockDim.x + 31) / 32;
        Record *mine = records + (unsigned long long)blockIdx.x * warps + threadIdx.x / 32;
        mine->start = start;
        mine->stop = stop;
        mine->nanoseconds = ended - timer;
        mine->unit = unit;
    }
}
