"""Modules disassembled by one run of nvdisasm: the listings are those of a run for each."""

from dataclasses import replace

import pytest

from perfassert.errors import KernelSourceError
from perfassert.frontends.toolchain import build, cache, listing, merged, tools
from perfassert.frontends.toolchain.binary import Source
from perfassert.frontends.toolchain.elf import Cubin, read_sections

KERNELS = {
    "copy.cu": """
extern "C" __global__ void k(float* a, const float* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] = b[i];
}
""",
    "functions.cu": """
#include <cstdio>
__constant__ float factors[16];
__device__ float sums[256];
__device__ __noinline__ float divide(float x, float y) { return x / y; }
__device__ float power(float x, int n) {
    float p = 1;
    for (int i = 0; i < n; i++) p *= x;
    return p;
}
extern "C" __global__ void k(float* a, int n) {
    __shared__ float s[128];
    s[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    float t = divide(s[n], factors[n & 15]) + power(s[n + 1], n);
    if (t > 100) printf("%f\\n", t);
    a[threadIdx.x] = t + sums[threadIdx.x & 255];
}
template <int N> __global__ void filled(float* a) { a[threadIdx.x] = divide(a[N], N); }
template __global__ void filled<3>(float*);
template __global__ void filled<4>(float*);
""",
    "doubles.cu": """
extern "C" __global__ void k(double* a) { a[threadIdx.x] = sin(a[threadIdx.x]); }
""",
    "jumps.cu": """
extern "C" __global__ void k(int* a, int n) {
    int x = a[threadIdx.x];
    switch (n) {
        case 0: x += 3; break; case 1: x *= 7; break; case 2: x ^= 5; break; case 3: x |= 9; break;
        case 4: x -= a[1]; break; case 5: x <<= 2; break; case 6: x /= 3; break; case 7: x %= 11;
    }
    a[threadIdx.x] = x;
}
""",
}


@pytest.fixture(autouse=True)
def runs(nvdisasm_runs):
    """The runs of nvdisasm, of tests with an empty cache of their own."""
    for tool in ("nvrtc", "nvdisasm"):
        if tools.find(tool) is None:
            pytest.skip(f"{tool} is not installed")
    return nvdisasm_runs


def written(folder, names=KERNELS):
    for name in names:
        (folder / name).write_text(KERNELS[name])
    return [Source(folder / name, "cuda", "k") for name in names]


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_120"])
def test_listings_are_those_of_modules_alone(tmp_path, arch, runs):
    sources = written(tmp_path)
    alone = []
    for source in sources:
        alone.append(build.build(source, arch).listing)
    cache_folder = tmp_path / "cache"
    for path in cache_folder.iterdir():
        path.unlink()
    runs.clear()
    for source in sources[1:]:
        build.compile_for_later(source, arch)
    assert runs == []
    together = [build.build(source, arch).listing for source in sources]
    assert together == alone
    jumps = sum(listing._JUMPS_BY_TABLE.search(text) is not None for text in alone)
    assert len(runs) == 1 + 2 * jumps  # twice for each of those, the second time with data flow
    assert [text.count('//## File "') > 0 for text in together] == [True] * len(sources)


def test_every_kernel_of_a_module_is_listed(tmp_path, runs):
    first, second = written(tmp_path, ["copy.cu", "functions.cu"])
    build.compile_for_later(second, "sm_80")
    build.build(first, "sm_80")
    assert len(runs) == 1
    for name in ("k", "filled<3>", "filled<4>"):
        code = build.build(Source(second.path, "cuda", name), "sm_80").listing
        assert "perfassert" not in code.replace(str(tmp_path), "")
        assert code.count("STG") == 1
    assert len(runs) == 1


def test_a_damaged_module_is_disassembled_by_nobody_else(tmp_path, runs):
    first, second = written(tmp_path, ["copy.cu", "doubles.cu"])
    made = build.compiled_module(second, "sm_80")
    broken = made.cubin[:5000] + bytes(len(made.cubin) - 5000)
    nvdisasm = tools.need("nvdisasm")
    listing.disassemble_later(nvdisasm, Cubin(made.cubin, "here"), broken)
    assert "STG" in build.build(first, "sm_80").listing
    assert "STG" in build.build(second, "sm_80").listing
    with pytest.raises(KernelSourceError):
        listing.disassemble(nvdisasm, Cubin(made.cubin, "here"), broken, "k", alone=True)


def test_a_given_binary_is_read_by_itself(tmp_path, runs):
    first, second = written(tmp_path, ["copy.cu", "doubles.cu"])
    binary = tmp_path / "k.cubin"
    binary.write_bytes(build.compiled_module(first, "sm_80").cubin)
    build.compile_for_later(second, "sm_80")
    build.build(Source(binary, "cubin", "k"), "sm_80")
    assert len(runs) == 1
    build.build(second, "sm_80")
    assert len(runs) == 2


def test_modules_of_other_kinds_wait(tmp_path, runs):
    first, second = written(tmp_path, ["copy.cu", "doubles.cu"])
    build.compile_for_later(second, "sm_90")
    build.build(first, "sm_80")
    build.build(first, "sm_90")
    build.build(second, "sm_90")
    assert len(runs) == 2


def test_so_much_code_is_read_at_a_time(tmp_path, runs, monkeypatch):
    sources = written(tmp_path, ["copy.cu", "functions.cu", "doubles.cu"])
    for source in sources[1:]:
        build.compile_for_later(source, "sm_80")
    sizes = [
        Cubin(build.compiled_module(source, "sm_80").cubin, "k").code_bytes() for source in sources
    ]
    monkeypatch.setattr(listing, "_WHOLE", sum(sizes) - 1)
    for source in sources:
        build.build(source, "sm_80")
    assert len(runs) == 2


def test_names_of_merged_modules_are_not_those_of_functions():
    assert not merged.may_be_merged(b"\0perfassert.0.k\0")
    assert not merged.may_be_merged(b"\0.debug_info\0")
    assert cache.folder().name == "cache"


def test_types_in_debug_information_keep_a_module_apart(tmp_path):
    """nvdisasm lists modules with them in another order; types in PTX beside the code are none."""
    (first,) = written(tmp_path, ["copy.cu"])
    content = build.compiled_module(first, "sm_80").cubin
    assert merged.may_be_merged(content)
    *sections, symbols, names = read_sections(content)
    assert merged.may_be_merged(content + b"// .section .debug_info")
    typed = replace(sections[0], name=".debug_info", data=b"")
    assert not merged.may_be_merged(merged._write(content[:64], [*sections, typed, symbols, names]))
