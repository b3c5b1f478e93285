"""Tests of user errors in sources, names, arguments, devices, and of kernels that are hard to
follow."""

import re
import shutil
from pathlib import Path

import pytest

import perfassert as pa
from perfassert.errors import (
    AddressExpressionError,
    KernelError,
    KernelSourceError,
    LaunchError,
    PerfAssertError,
)
from perfassert.frontends.toolchain import tools
from perfassert.frontends.toolchain.binary import Source
from perfassert.frontends.toolchain.build import compiled_module

pytestmark = pytest.mark.exhaustive(one_in=3)

FIXTURES = Path(__file__).parent / "fixtures"
A100, H100 = "A100-SXM4-40GB", "H100-SXM5-80GB"
LAUNCH = pa.Launch(64, 128, {"n": 5000})
TWO = "__global__ void first(int* a) { a[0] = 1; }\n__global__ void second(int* a) { a[0] = 2; }\n"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PERFASSERT_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def toolchain():
    for name in ("nvrtc", "nvdisasm", "ptxas"):
        if tools.find(name) is None:
            pytest.skip(f"{name} is not installed")


@pytest.fixture
def predicted(tmp_path, toolchain):
    """``predicted(text, kernel, launch=…, device=…, **how)`` of CUDA source."""

    def one(text, kernel=None, launch=LAUNCH, device=A100, **how):
        path = tmp_path / "k.cu"
        path.write_text(text)
        return pa.predict(pa.from_cuda(path, kernel, **how), launch, device)

    return one


class TestWithoutToolchain:
    saxpy = FIXTURES / "saxpy.sass"

    @pytest.mark.parametrize("read", [pa.from_cuda, pa.from_ptx, pa.from_cubin])
    def test_missing_file(self, read, tmp_path):
        (tmp_path / "kernel.cu").touch()
        with pytest.raises(KernelSourceError, match=r"kernels\.cu: no such file.*'kernel\.cu'"):
            read(tmp_path / "kernels.cu")
        with pytest.raises(KernelSourceError, match="is a folder; name a file in it"):
            read(tmp_path)

    @pytest.mark.parametrize(
        ("read", "settings", "message"),
        [
            (pa.from_cuda, {"options": "-use_fast_math"}, "options must be a list, not '-use"),
            (pa.from_cuda, {"options": 5}, "options must be a list, not 5"),
            (pa.from_cuda, {"options": [5]}, "each of options must be a text, not 5"),
            (pa.from_cuda, {"include_dirs": 5}, "include_dirs must be a list, not 5"),
            (pa.from_cuda, {"include_dirs": [5]}, "each of include_dirs must be a text or a path"),
            (pa.from_cuda, {"kernel": 5}, "kernel must be a text, not 5"),
            (pa.from_cuda, {"toolchain": 5}, "toolchain=5 is no release"),
            (pa.from_ptx, {"options": "-v"}, "options must be a list, not '-v'"),
            (pa.from_cubin, {"arch": 5}, "5 is no architecture"),
            (pa.kernels, {"arch": 80}, "80 is no architecture"),
            (pa.kernels, {"arch": "sm_80", "options": "-O3"}, "options must be a list, not '-O3'"),
            (pa.kernels, {"arch": "sm_80", "include_dirs": "/x"}, "no folder '/x'"),
        ],
    )
    def test_a_setting_of_another_kind(self, read, settings, message, tmp_path):
        path = tmp_path / "kernel.cu"
        path.write_text("__global__ void k() {}")
        with pytest.raises(KernelSourceError, match=message):
            read(path, **settings)

    @pytest.mark.parametrize("read", [pa.from_cuda, pa.from_ptx, pa.from_cubin, pa.kernels])
    def test_no_path(self, read):
        with pytest.raises(KernelSourceError, match="must be a text or a path, not None"):
            read(None)

    @pytest.mark.parametrize("count", [2.5, "3", -1, True, None])
    def test_trip_counts(self, count):
        with pytest.raises(
            KernelError, match=r"trip_counts\['k\.cu:3'\] must be (?:an integer|at least 0)"
        ):
            pa.from_cubin(self.saxpy, trip_counts={"k.cu:3": count})

    def test_trip_counts_of_code_without_lines(self, tmp_path):
        """Loops are named by their lines."""
        path = tmp_path / "saxpy.sass"
        lines = self.saxpy.read_text().splitlines(keepends=True)
        path.write_text("".join(line for line in lines if "//## File" not in line))
        kernel = pa.from_cubin(path, trip_counts={"saxpy.cu:13": 1})
        message = "has no line information.*compile it with -lineinfo"
        with pytest.raises(LaunchError, match=message):
            pa.predict(kernel, pa.Launch(8, 128, {"n": 9}), A100)

    def test_missing_argument(self):
        with pytest.raises(LaunchError, match=r"'saxpy_grid_stride' needs its argument 'n' for"):
            pa.predict(pa.from_cubin(self.saxpy), pa.Launch(8, 128, {"x": pa.Buffer((9,))}), A100)

    def test_unknown_kernel(self):
        with pytest.raises(KernelSourceError, match=r"no kernel 'saxpi'.*saxpy_grid_stride"):
            pa.predict(pa.from_cubin(self.saxpy, "saxpi"), LAUNCH, A100)

    def test_listing_for_another_device(self):
        with pytest.raises(KernelSourceError, match="is a listing for sm_80; the device is sm_90"):
            pa.predict(pa.from_cubin(self.saxpy), LAUNCH, H100)

    def test_device_without_machine_code(self):
        with pytest.raises(KernelSourceError, match=r"sm_20.*Kernel\.from_accesses"):
            pa.predict(pa.from_cubin(self.saxpy), LAUNCH, "C2050")

    def test_assumed_value_of_no_load(self):
        kernel = pa.from_cubin(self.saxpy, assume={"index": "x"})
        with pytest.raises(KernelError, match=r"assume: no load has the name 'index'"):
            pa.predict(kernel, LAUNCH, A100)

    @pytest.mark.parametrize("text", ["", "x +", "f(x)", "x ** 2", "'x'", "q", "(" * 300, "x.y.z"])
    def test_assumed_value_that_is_no_expression(self, text):
        kernel = pa.from_cubin(self.saxpy, assume={"x": text})
        with pytest.raises(AddressExpressionError, match=r"assume\['x'\]"):
            pa.predict(kernel, LAUNCH, A100)

    def test_a_file_that_vanished(self, tmp_path):
        path = tmp_path / "saxpy.sass"
        shutil.copy(self.saxpy, path)
        kernel = pa.from_cubin(path)
        path.unlink()
        with pytest.raises(KernelSourceError, match="cannot be read"):
            pa.predict(kernel, LAUNCH, A100)


@pytest.mark.usefixtures("toolchain")
class TestSources:
    def test_compile_error_has_its_place(self, predicted):
        with pytest.raises(KernelSourceError, match=r'k\.cu:2: .*"oops" is undefined'):
            predicted("__global__ void k(int* a)\n{ a[0] = oops; }\n")

    def test_kernel_names(self, predicted):
        with pytest.raises(KernelSourceError, match=r"no kernel 'third'.*first.*second"):
            predicted(TWO, "third")
        with pytest.raises(KernelSourceError, match=r"name the kernel: .*first, second"):
            predicted(TWO)
        with pytest.raises(KernelSourceError, match=r"k\.cu"):
            predicted("// no kernel at all\n")

    def test_cubins_that_are_none(self, tmp_path):
        path = tmp_path / "k.cu"
        path.write_text(TWO)
        whole = compiled_module(Source(path, "cuda"), "sm_80").cubin
        broken = tmp_path / "broken.cubin"
        for content in (
            b"",
            bytes(range(256)) * 8,
            whole[:64],
            whole[:700],
            whole[: -len(whole) // 3],
        ):
            broken.write_bytes(content)
            with pytest.raises(KernelSourceError, match="broken"):
                pa.predict(pa.from_cubin(broken, "first"), LAUNCH, A100)
        broken.write_bytes(whole)
        with pytest.raises(KernelSourceError, match="is a cubin for sm_80; the device is sm_90"):
            pa.predict(pa.from_cubin(broken, "first"), LAUNCH, H100)

    def test_ptx_that_is_too_new(self, tmp_path):
        path = tmp_path / "new.ptx"
        path.write_text(".version 99.9\n.target sm_80\n.address_size 64\n.entry k() { ret; }\n")
        with pytest.raises(KernelSourceError, match=r"new\.ptx:1: .*99\.9"):
            pa.predict(pa.from_ptx(path), LAUNCH, A100)


UNUSUAL = {
    "switched": """(float* a, int n) { int i = threadIdx.x + blockIdx.x * blockDim.x;
        switch (n + (i & 7)) { case 0: a[i] += 1; break; case 1: a[i] = sinf(a[i]); break;
        case 2: a[i] *= a[i * 7 % 64]; break; case 3: a[i] = sqrtf(a[i]); break;
        case 4: a[i] -= a[i / 3]; break; case 5: a[2 * i] = 1; break; default: a[i] = 2; } }""",
    "recursive": "(int* a, int n) { a[fib(n)] = fib(threadIdx.x); }",
    "left_by_data": """(volatile int* a, int n) { int i = threadIdx.x; while (true) { int v = a[i];
        if (v > n) break; i = v; if (v == -1) goto out; } a[0] = 1; out: a[i] = 2; }""",
    "endless": "(volatile int* a, int n) { while (true) a[threadIdx.x]++; }",
    "long_long": """(const float* a, float* b, unsigned long long n) {
        for (unsigned long long i = threadIdx.x; i < n; i += blockDim.x)
        b[i / 3] = a[i * 5 % n] + a[i % 7]; }""",
    "inline_asm": """(float* a, int n) { unsigned l; asm("mov.u32 %0, %%laneid;" : "=r"(l));
        asm volatile("{ .reg .pred p; setp.lt.s32 p, %1, 5; @p st.global.f32 [%0], 0f3F800000; }"
        :: "l"(a + l), "r"(n)); }""",
    "xorshift": """(const float* a, float* b, unsigned n) { unsigned x = threadIdx.x;
        _Pragma("unroll") for (int i = 0; i < 200; ++i) { x ^= x << 13; x ^= x >> 17; x ^= x << 5; }
        b[x % n] = a[threadIdx.x]; }""",
    "congruential": """(const float* a, float* b, unsigned n) { unsigned x = threadIdx.x + n;
        _Pragma("unroll") for (int i = 0; i < 20; ++i) x = x * 1664525u + 1013904223u + n * x;
        b[x % n] = a[x]; if (x & 1) b[x] = 1; }""",
    "congruential_loop": """(const float* a, float* b, unsigned n) { unsigned x = threadIdx.x;
        for (unsigned i = 0; i < n; ++i) { x = x * 1664525u + 1013904223u; b[x % n] += a[i]; } }""",
    "squares": """(const float* a, float* b, unsigned n) { unsigned x = threadIdx.x;
        _Pragma("unroll") for (int i = 0; i < 40; ++i) x *= x; if (x < n) b[x] = a[x]; }""",
    "minima": """(const float* a, float* b, int n) { int x = threadIdx.x;
        _Pragma("unroll") for (int i = 0; i < 200; ++i) x = min(x * 3 - i, n + i) + (x >> 1);
        b[x] = a[threadIdx.x]; }""",
    "local_array": """(const float* a, float* b, int n) { float t[40];
        for (int i = 0; i < 40; ++i) t[i] = a[i * n + threadIdx.x];
        b[threadIdx.x] = t[(int)a[0] % 40]; t[threadIdx.x % 40] = 2; b[n] = t[n % 40]; }""",
    "indirect_call": "(float* a, int n) { a[threadIdx.x] = table[n & 1](a[threadIdx.x]); }",
}
PRELUDE = """__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
typedef float (*function)(float);
__device__ float plus(float x) { return x + 1; }
__device__ float times(float x) { return x * 2; }
__device__ function table[2] = {plus, times};
"""


@pytest.mark.exhaustive(one_in=8)
@pytest.mark.parametrize("name", sorted(UNUSUAL))
def test_unusual_kernels(predicted, name):
    text = f'{PRELUDE}extern "C" __global__ void {name}{UNUSUAL[name]}\n'
    prediction = predicted(text, name)
    assert prediction.time > pa.Quantity("1 ns")


@pytest.mark.parametrize("n", [0, -1, 2**31 - 1, 2**40, 2**63, 2**80, -(2**80)])
def test_extreme_arguments(n):
    kernel = pa.from_cubin(FIXTURES / "saxpy.sass")
    try:
        assert pa.predict(kernel, pa.Launch(64, 128, {"n": n}), A100).time
    except PerfAssertError as error:
        assert re.search("n", str(error))
