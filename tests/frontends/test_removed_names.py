"""Names that a release of CUDA has removed: the error says what takes their place."""

from __future__ import annotations

import pytest

import perfassert as pa
from perfassert.frontends.toolchain.diagnostics import failure

SAID = {
    'identifier "__shfl_down" is undefined': "__shfl_down_sync",
    'identifier "__ballot" is undefined': "__ballot_sync(0xffffffff, predicate)",
    'identifier "cudaDevicePropDontCare" is undefined': "cudaDeviceProp prop = {};",
    'identifier "cudaThreadSynchronize" is undefined': "cudaDeviceSynchronize",
    'class "cudaDeviceProp" has no member "clockRate"': "cudaDeviceGetAttribute",
    'namespace "cub" has no member "Max"': "cuda::maximum<>{}",
    'namespace "cub::CUB_300000_SM_800" has no member "Sum"': "cuda::std::plus<>{}",
    'namespace "thrust" has no member "unary_function"': "leave the base class out",
    "texture is not a template": "cudaTextureObject_t",
    'identifier "cudaUnbindTexture" is undefined': "cudaTextureObject_t",
}


@pytest.mark.parametrize(("said", "instead"), SAID.items(), ids=SAID)
def test_the_error_has_the_replacement(said, instead):
    error = failure("nvcc", f"k.cu(3): error: {said}\n", "k.cu")
    assert instead in str(error)


def test_a_name_of_the_author_has_none():
    error = failure("nvcc", 'k.cu(3): error: identifier "shfl_down" is undefined\n', "k.cu")
    assert "CUDA" not in str(error)


def test_a_compiler_says_so(tmp_path):
    path = tmp_path / "k.cu"
    path.write_text("__global__ void k(int* a) { a[0] = __shfl(a[threadIdx.x], 0); }\n")
    with pytest.raises(pa.KernelSourceError, match=r"k\.cu:1: .*\n[\s\S]*__shfl_sync"):
        pa.kernels(path, "sm_80")
