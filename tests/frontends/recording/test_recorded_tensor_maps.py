"""Tensor maps that a program has a driver encode, as parameters and inside of structures."""

import struct

import pytest
from test_recorded_programs import read_back

import perfassert as pa
from perfassert.frontends.recording.arguments import tensor_map

TILES = r"""
#include <cuda.h>
#include <cuda_runtime.h>
#include <cstdint>

struct Parameters { int tiles; CUtensorMap source; float* out; };
constexpr int rows = 64, columns = 32;

__device__ void take(const CUtensorMap* map, float* tile, std::uint64_t* full, int tiles) {
    unsigned at = (unsigned) __cvta_generic_to_shared(tile);
    unsigned bar = (unsigned) __cvta_generic_to_shared(full);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(bar));
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                     :: "r"(bar), "r"(rows * columns * 4) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global"
                     ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                     :: "r"(at), "l"(map), "r"(0), "r"((int) blockIdx.x * rows), "r"(bar)
                     : "memory");
    }
    __syncthreads();
    asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;"
                 " @!p bra W; }" :: "r"(bar) : "memory");
}

__global__ void alone(const __grid_constant__ CUtensorMap map, float* out) {
    __shared__ alignas(128) float tile[rows * columns];
    __shared__ std::uint64_t full;
    take(&map, tile, &full, 0);
    out[blockIdx.x * 128 + threadIdx.x] = tile[threadIdx.x];
}

__global__ void inside(const __grid_constant__ Parameters given) {
    __shared__ alignas(128) float tile[rows * columns];
    __shared__ std::uint64_t full;
    if (blockIdx.x >= given.tiles) return;
    take(&given.source, tile, &full, given.tiles);
    given.out[blockIdx.x * 128 + threadIdx.x] = tile[threadIdx.x];
}

int main() {
    using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*,
        const cuuint64_t*, const cuuint64_t*, const cuuint32_t*, const cuuint32_t*,
        CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
    void* found = nullptr;
    cudaDriverEntryPointQueryResult state;
    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, 0, &state)
        || state != cudaDriverEntryPointSuccess) return 2;
    const int tiles = 512;
    float *source, *out;
    cudaMalloc(&source, sizeof(float) * rows * tiles * columns);
    cudaMalloc(&out, sizeof(float) * 128 * tiles);
    cuuint64_t extents[] = {columns, rows * tiles}, strides[] = {columns * sizeof(float)};
    cuuint32_t box[] = {columns, rows}, steps[] = {1, 1};
    Parameters given{tiles, {}, out};
    if (((Encode) found)(&given.source, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, source, extents,
            strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
            CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)) return 3;
    alone<<<tiles, 128>>>(given.source, out);
    inside<<<tiles, 128>>>(given);
    return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
}
"""
WANTED = pa.TensorMap((64 * 512, 32), (64, 32), "float32", swizzle=128)


def test_maps_are_encoded_without_a_driver_and_recorded(build, recorded, tmp_path):
    program = build("tiles.cu", TILES, "-arch=sm_90a", "-lineinfo")
    recording = recorded(program, gpu="H100-SXM5-80GB")
    assert recording.status == 0
    assert not recording.findings.refused
    alone, inside = read_back(recording, tmp_path)
    assert alone.launch.args["map"] == WANTED
    words = inside.launch.args["given"].items()
    assert [word for at, word in words if at in (64, 128) and word] == [WANTED]  # by release
    for entry in (alone, inside):
        p = pa.predict(entry.kernel, entry.launch, entry.device)
        assert not [a for a in p.assumptions if "tensor map" in a.text]
        assert float(p.volumes.dram_load.total) == pytest.approx(64 * 512 * 32 * 4, rel=0.01)


def test_other_bytes_are_no_map():
    """Nor is one whose numbers no copy could use, whoever wrote it."""
    form = "<8sQ5Q4Q5H5BBBB22x"
    made = struct.pack(
        form, b"tensor\0\1", 4096, 32, 64, 0, 0, 0, 128, 0, 0, 0, 32, 8, 0, 0, 0, 1, 1, 0, 0, 0,
        7, 2, 3,
    )  # fmt: skip
    assert tensor_map(made) == pa.TensorMap((64, 32), (8, 32), "float32", swizzle=128)
    repeated = bytearray(made)
    repeated[56:64] = bytes(8)  # the stride of an axis along which nothing moves
    same = pa.TensorMap((64, 32), (8, 32), "float32", strides=(0,), swizzle=128)
    assert tensor_map(bytes(repeated)) == same
    assert tensor_map(b"\0" * 128) is None
    assert tensor_map(made[:64]) is None
    for place, value in ((-25, 99), (-24, 0), (-24, 6), (-23, 9), (88, 0)):
        damaged = bytearray(made)
        damaged[place] = value
        if place == 88:
            damaged[89] = 0
        assert tensor_map(bytes(damaged)) is None, place
