// What starting blocks and kernels costs. No records: they would be stores.

#include "records.cuh"

KERNEL(empty) {}

// Each thread of a block is busy for n cycles; with `a` it stores at the end.
KERNEL(spin) {
    long long start = read_clock();
    while (read_clock() - start < n) {
    }
    if (a) {
        *(unsigned *)(buffer + 4 * ((long long)blockIdx.x * blockDim.x + threadIdx.x)) = 1;
    }
}
