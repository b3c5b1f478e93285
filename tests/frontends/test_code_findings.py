"""Findings of machine code alone, against brute force and against predictions with a launch."""

from __future__ import annotations

import random

import numpy as np
import pytest

import perfassert as pa
from perfassert.engines.volume.warps import wavefronts
from perfassert.frontends.cuda.code_findings import conflicts, find_in_code, sectors
from perfassert.frontends.cuda.inventory import Detail, list_kernels
from perfassert.frontends.machine.lane_values import LANES

SOURCE = """
struct Point { float x, y, z; };
extern "C" __global__ void dense(float* a, const float* b) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    a[i] = 2 * b[i];
}
extern "C" __global__ void one_member(float* a, const Point* b) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    a[i] = b[i].y;
}
extern "C" __global__ void all_members(Point* a, const Point* b) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    Point p = b[i]; p.x += 1; a[i] = p;
}
extern "C" __global__ void column(float* a, const float* b, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    a[i * columns] = b[i];
}
extern "C" __global__ void four_loads(float* a, const float* b) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < 4; ++k) sum += b[4 * i + k];
    a[i] = sum;
}
extern "C" __global__ void bytes(unsigned char* a, const unsigned char* b) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    a[i] = b[i] + 1;
}
extern "C" __global__ void literal(float* a) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    a[i] = a[i] * 1.5 + 0.25;
}
extern "C" __global__ void picked(float* a, const float* b, int n) {
    float kept[24];
    for (int i = 0; i < 24; ++i) kept[i] = b[i * n + threadIdx.x];
    for (int k = 0; k < n; ++k) a[k * 32 + threadIdx.x] = kept[(k * 7) % 24];
}
extern "C" __global__ void own_trips(int* a, const int* starts) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
    for (int k = starts[i]; k < starts[i + 1]; ++k) sum += a[k] * sum + k;
    a[i] = sum;
}
extern "C" __global__ void strided(float* a, float v, long long n) {
    for (long long i = blockDim.x * blockIdx.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        a[i] = v;
}
__device__ __noinline__ float twice(float x) { return x * 2 + 1; }
extern "C" __global__ void calling(float* a) { a[threadIdx.x] = twice(a[threadIdx.x]); }
extern "C" __global__ void tile(float* a) {
    __shared__ float t[32][32];
    t[threadIdx.y][threadIdx.x] = a[threadIdx.y * 32 + threadIdx.x];
    __syncthreads();
    a[threadIdx.y * 32 + threadIdx.x] = t[threadIdx.x][threadIdx.y];
}
extern "C" __global__ void padded(float* a) {
    __shared__ float t[32][33];
    t[threadIdx.y][threadIdx.x] = a[threadIdx.y * 32 + threadIdx.x];
    __syncthreads();
    a[threadIdx.y * 32 + threadIdx.x] = t[threadIdx.x][threadIdx.y];
}
"""
EXPECTED = {
    "dense": set(),
    "one_member": {"uncoalesced"},
    "all_members": set(),
    "column": {"uncoalesced"},
    "four_loads": {"narrow"},
    "bytes": {"narrow"},
    "literal": {"double-arithmetic"},
    "picked": {"local-array"},
    "own_trips": {"divergence"},
    "strided": set(),
    "calling": {"calls"},
    "tile": {"bank-conflicts"},
    "padded": set(),
}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("findings") / "findings.cu"
    path.write_text(SOURCE)
    return path


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_120"])
def test_each_kernel_has_its_finding_and_no_other(source, arch):
    found = {
        info.name: {f.kind for f in info.findings if f.cost > 0.01 or not f.cost} - {"spills"}
        for info in list_kernels(source, arch, detail=Detail(findings=True))
    }
    assert found == EXPECTED


def test_messages_have_numbers_that_a_prediction_confirms(source):
    infos = {
        info.name: info for info in list_kernels(source, "sm_80", detail=Detail(findings=True))
    }
    (conflict,) = infos["tile"].findings
    assert conflict.message == "32 times the wavefronts of shared memory"
    launch = pa.Launch(1, (32, 32))
    shared = pa.predict(pa.from_cuda(source, "tile"), launch, "a100").diagnostics["bank_conflicts"]
    assert shared == pytest.approx((32 + 1) / 2)
    assert infos["one_member"].findings[0].message == (
        "neighbouring threads load 4 B, 12 B apart: a warp touches 12 sectors where 4 would do"
    )
    assert "as far apart as a parameter says" in infos["column"].findings[0].message
    assert infos["four_loads"].findings[0].message == (
        "4 loads of 4 B each, side by side: one of 16 B would do"
    )
    assert infos["calling"].findings[0].message == "calls twice, which is not inlined"


def test_conflicts_are_those_of_the_volume_engine():
    device, draw = pa.device("a100"), random.Random(1)
    for _ in range(300):
        width = draw.choice([4, 8, 16])
        step = width * draw.choice([0, 1, 2, 3, 4, 5, 8, 16, 17, 32, 33])
        start = width * draw.randrange(8)
        lanes = tuple(start + step * n % 65536 for n in range(LANES))
        passes = wavefronts(np.array([lanes]), np.ones((1, LANES), dtype=bool), width, device)[0]
        assert conflicts(lanes, width) * (width // 4) == passes, (lanes, width)


def test_sectors_are_counted_by_brute_force():
    draw = random.Random(2)
    for _ in range(300):
        width, step = draw.choice([1, 2, 4, 8, 16]), draw.randrange(200)
        lanes = tuple(step * n * width for n in range(LANES))
        touched = {(lane + byte) // 32 for lane in lanes for byte in range(width)}
        assert sectors(lanes, {0: width}) == len(touched)


LISTING = """
        /*0000*/                   S2R R0, SR_TID.X ;
        /*0010*/                   MOV R2, c[0x0][0x160] ;
        /*0020*/               @P0 BRA `(.L_x_0) ;
        /*0030*/                   IMAD R2, R0, c[0x0][0x170], RZ ;
        /*0040*/                   EXIT ;
.L_x_0:
        /*0050*/                   IMAD R4, R0, 0x4, R2 ;
        /*0060*/                   STG.E [R4.64], R0 ;
        /*0070*/                   EXIT ;
"""


def test_a_path_does_not_see_what_another_one_writes():
    assert find_in_code(LISTING, 0) == ()
    fallen_through = LISTING.replace("EXIT ;\n.L_x_0", "NOP ;\n.L_x_0")
    assert find_in_code(fallen_through, 0) == (), "two paths meet, so nothing is known"
    only_one = fallen_through.replace("@P0 BRA `(.L_x_0)", "NOP")
    assert [f.kind for f in find_in_code(only_one, 0)] == ["uncoalesced"]


def test_a_text_that_is_no_listing_has_no_findings():
    assert find_in_code("", 0) == ()
    assert find_in_code("/*0000*/ FOO [,, `(", 4) == ()
