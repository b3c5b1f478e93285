"""Tests that sources compile that nvcc compiles, and that a compiler's message reaches the user."""

import pytest

from perfassert.errors import KernelSourceError
from perfassert.frontends.toolchain import toolchains, tools
from perfassert.frontends.toolchain.binary import Source
from perfassert.frontends.toolchain.build import build

pytestmark = pytest.mark.skipif(
    tools.find("nvcc") is None or tools.find("nvrtc") is None, reason="needs NVRTC and nvcc"
)
BOM = b"\xef\xbb\xbf"
KERNEL = "__global__ void k(float* x) { x[threadIdx.x] = ONE; }\n"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PERFASSERT_CACHE_DIR", str(tmp_path / "cache"))


def built(folder, text, **more):
    (folder / "k.cu").write_bytes(text if isinstance(text, bytes) else text.encode())
    return build(Source(folder / "k.cu", "cuda", **more), "sm_80")


@pytest.mark.parametrize("host", ["", "#include <cstdio>\n"])
def test_marks_of_an_encoding(tmp_path, host):
    (tmp_path / "own.cuh").write_bytes(BOM + b"#define ONE 1\n")
    text = f'{host}#include "own.cuh"\n{KERNEL}'.encode()
    assert built(tmp_path, BOM + text).mangled == "_Z1kPf"
    plain = built(tmp_path, BOM + f"{host}#define ONE 1\n{KERNEL}".encode())
    assert plain.mangled == "_Z1kPf"


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize("header", ["float.h", "limits.h", "math.h", "time.h", "errno.h"])
def test_headers_of_c(tmp_path, header):
    assert built(tmp_path, f"#include <{header}>\n#define ONE 1\n{KERNEL}").code_bytes


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize(
    ("header", "wheel"),
    [("nv/target", "nvidia-cuda-cccl"), ("cub/cub.cuh", "nvidia-cuda-cccl"),
     ("cufft.h", "nvidia-cufft"), ("thrust/sort.h", "nvidia-cuda-cccl")],
)  # fmt: skip
def test_headers_of_nvidia_are_there_or_say_their_package(tmp_path, header, wheel):
    try:
        assert built(tmp_path, f"#include <{header}>\n#define ONE 1\n{KERNEL}").code_bytes
    except KernelSourceError as error:
        assert f"pip install {wheel}" in str(error)


APART = """
#ifdef __CUDACC_RTC__
#define ONE 1
#else
#define ONE x[(threadIdx.x * 31 + 7) % 64] + x[(threadIdx.x * 17 + 3) % 64]
#endif
"""


def test_production_is_built_by_nvcc(tmp_path):
    """Else the half for NVRTC would be predicted, and the other half shipped."""
    binary = built(tmp_path, APART + KERNEL)
    assert binary.tools.startswith("nvcc")
    (tmp_path / "apart.cuh").write_text(APART)
    assert built(tmp_path, f'#include "apart.cuh"\n{KERNEL}').tools.startswith("nvcc")
    assert binary.listing.count("LDG") == 2


@pytest.mark.parametrize("missing", ["nvcc", "g++"])
def test_without_nvcc_it_is_an_assumption(tmp_path, monkeypatch, missing):
    find = toolchains.find
    if missing == "g++":
        monkeypatch.setattr(tools, "host_compiler", lambda: None)
    else:
        monkeypatch.setattr(
            toolchains, "find", lambda name, chain: None if name == "nvcc" else find(name, chain)
        )
    binary = built(tmp_path, APART + KERNEL)
    (said,) = binary.assumptions
    assert "nvcc, which reads the host's headers first, may make other code" in said.text
    assert "install" in said.text


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("host", ["", "#include <cstdio>\n"])
@pytest.mark.parametrize(
    "text", ["#pragma once\n", "#ifndef _CONFIG\n#define _CONFIG\n#endif\n", "#include <cstdint>\n"]
)
def test_messages_of_headers_without_a_suffix(tmp_path, host, text):
    """Headers of libcu++ have no suffix; only their message names the remedy."""
    (tmp_path / "__config").write_text(f"// A licence.\n{text}#error add --expt-extended-lambda\n")
    with pytest.raises(KernelSourceError, match="add --expt-extended-lambda"):
        built(tmp_path, f'{host}#include "__config"\n#define ONE 1\n{KERNEL}')


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("host", ["", "#include <cstdio>\n"])
@pytest.mark.parametrize(
    "content", ["TOKEN=hunter2", "# a comment\nTOKEN=hunter2", "#!/bin/sh\nhunter2"]
)
def test_messages_of_other_files_are_withheld(tmp_path, host, content):
    (tmp_path / "settings").write_text(content)
    with pytest.raises(KernelSourceError, match="not shown") as caught:
        built(tmp_path, f'{host}#include "settings"\n#define ONE 1\n{KERNEL}')
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("host", ["", "#include <cstdio>\n"])
def test_another_release_of_the_libraries(tmp_path, host):
    text = "namespace thrust { }\nusing Same = thrust::identity<int>;\n#define ONE 1\n"
    with pytest.raises(KernelSourceError, match="another release of CUDA's libraries") as caught:
        built(tmp_path, host + text + KERNEL)
    assert "--toolchain" in str(caught.value)
