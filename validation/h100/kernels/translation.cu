// Loads whose lanes, or whose warps, lie in different pages of the address space. Nothing depends on
// what is loaded; buffers hold zeros.

// A matrix read by columns and written by rows: neighbouring lanes lie `stride` elements apart. Each
// sector is read by eight blocks, gridDim.x blocks after each other.
extern "C" __global__ void copy_transposed(const int* __restrict__ in, int* out, int rows, int stride)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    const int column = blockIdx.y;
    out[column * rows + row] = in[(size_t)row * stride + column];
}

// A warp reads 32 sectors in `pages_per_warp` pages, which are anywhere among `pages` (a power of two
// of pages of `page_words` words, a power of two).
extern "C" __global__ void gather_pages(const int* __restrict__ table, int* out,
                                        unsigned pages_per_warp, unsigned pages, unsigned page_words)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned page = (i / 32 * pages_per_warp + i % pages_per_warp) * 0x9e3779b1u & (pages - 1);
    const unsigned word = i * 0x85ebca6bu >> 8 & (page_words - 1) & ~7u;
    out[i] = table[(size_t)page * page_words + word];
}

// Runs of `run` words, in an order that jumps about within windows of `window` runs (powers of two).
// Each window is read completely before the next one.
extern "C" __global__ void gather_runs(const int* __restrict__ table, int* out, unsigned run,
                                       unsigned window)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned place = i / run * 0x9e3779b1u & (window - 1);
    const unsigned first = i / run & ~(window - 1);
    out[i] = table[(size_t)(first + place) * run + i % run];
}
