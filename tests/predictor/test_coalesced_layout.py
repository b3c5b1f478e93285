"""Coalescing: members of structures laid out one after the other, against a kernel so written."""

import pytest

import perfassert as pa
from perfassert.frontends.toolchain import tools

pytestmark = pytest.mark.skipif(tools.find("nvrtc") is None, reason="NVRTC is not installed")
CODE = """
#define STRUCTURES(place, member) f[(place) * 9 + member]
#define ARRAYS(place, member) f[(place) + member * nx * ny]
#define KERNEL(name, AT) extern "C" __global__ void name(float* f, int nx, int ny) { \
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y, here = nx * y + x; \
    int left = x > 0 ? x - 1 : -1, below = y > 0 ? y - 1 : -1; \
    float v[9]; \
    for (int a = 0; a < 9; ++a) v[a] = -1; \
    v[0] = AT(here, 0); \
    if (left != -1) v[1] = AT(here - 1, 1); \
    if (below != -1) v[2] = AT(nx * below + x, 2); \
    if (x < nx - 1) v[3] = AT(here + 1, 3); \
    if (y < ny - 1) v[4] = AT(here + nx, 4); \
    if (left != -1 && below != -1) v[5] = AT(nx * below + left, 5); \
    if (x < nx - 1 && below != -1) v[6] = AT(nx * below + x + 1, 6); \
    if (x < nx - 1 && y < ny - 1) v[7] = AT(here + nx + 1, 7); \
    if (left != -1 && y < ny - 1) v[8] = AT(nx * (y + 1) + left, 8); \
    float s = 0; \
    for (int a = 0; a < 9; ++a) s += v[a]; \
    for (int a = 0; a < 9; ++a) AT(here, a) = v[a] * s; }
KERNEL(structures, STRUCTURES)
KERNEL(arrays, ARRAYS)
"""


@pytest.mark.parametrize("device", ["A100-SXM4-40GB", "RTX-4090"])
def test_members_of_neighbours_are_those_of_another_element(device, tmp_path):
    (file := tmp_path / "members.cu").write_text(CODE)
    launch = pa.Launch((16, 2048), 128, {"nx": 2048, "ny": 2048})
    before, after = (
        pa.predict(pa.from_cuda(file, name), launch, device) for name in ("structures", "arrays")
    )
    (advised,) = (a for a in before.advice if a.optimizer == "Coalescing")
    assert advised.speedup == pytest.approx(before.time / after.time, rel=0.1)
