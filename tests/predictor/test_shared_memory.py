"""A launch whose blocks have less shared memory than their threads access is refused."""

import pytest

import perfassert as pa
from perfassert.frontends.toolchain import tools

pytestmark = pytest.mark.skipif(tools.find("nvrtc") is None, reason="NVRTC is not installed")
REVERSED = """
extern __shared__ float tile[];
extern "C" __global__ void reversed(float* out, const float* in, const int* index) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = in[i];
    __syncthreads();
    out[%s] = tile[blockDim.x - 1 - threadIdx.x];
}
"""


@pytest.mark.parametrize("place", ["i", "index[i]"])  # by a closed form, by executed blocks
def test_dynamic_shared_memory_that_was_forgotten(place, tmp_path):
    (file := tmp_path / "kernel.cu").write_text(REVERSED % place)
    kernel = pa.from_cuda(file, "reversed")
    for given in (0, 512):
        with pytest.raises(pa.LaunchError, match=f"0 of .* and {given} of .* shared_bytes=1024"):
            pa.predict(kernel, pa.Launch(64, 256, shared_bytes=given), "a100")
    assert pa.predict(kernel, pa.Launch(64, 256, shared_bytes=1024), "a100").time > 0


def test_an_unknown_place_is_not_taken_for_one_beyond(tmp_path):
    code = REVERSED.replace("[blockDim.x - 1 - threadIdx.x]", "[index[i]]") % "i"
    (file := tmp_path / "kernel.cu").write_text(code)
    launch = pa.Launch(64, 256, shared_bytes=1024)
    assert pa.predict(pa.from_cuda(file, "reversed"), launch, "a100").time > 0
