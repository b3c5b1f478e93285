"""CUDA source: names, options, includes, errors with their place."""

import re

import pytest

import perfassert as pa
from perfassert.errors import KernelSourceError, ToolchainMissing
from perfassert.frontends.toolchain import compilers, inputs, tools
from perfassert.frontends.toolchain.build import Source, build

pytestmark = pytest.mark.exhaustive(one_in=8)

AXPY = """\
extern "C" __global__ void axpy(const double* __restrict__ x, double *y, double a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}
"""
SEVERAL = """\
#define FACTOR 3
struct Pair { int a; float* b; };
namespace ns {
template <typename T, int N> __global__ void star(const T* src, T* dst, int n) {
  __shared__ T tile[128];
  tile[threadIdx.x] = src[threadIdx.x];
  __syncthreads();
  if (threadIdx.x < n) dst[threadIdx.x] = tile[127 - threadIdx.x] * N * FACTOR;
}
}
__global__ void plain(Pair p, float v, float (*q)[4]) { p.b[threadIdx.x] = v + q[1][p.a]; }
"""


def names(binary):
    return [(p.name, p.offset, p.size, p.pointer, p.dtype) for p in binary.parameters]


@pytest.mark.usefixtures("toolchain")
class TestCompiled:
    def test_facts(self, compiled):
        binary = compiled("axpy.cu", AXPY)
        assert (binary.kernel, binary.mangled, binary.arch) == ("axpy", "axpy", "sm_80")
        assert names(binary) == [
            ("x", 0, 8, True, "double"),
            ("y", 8, 8, True, "double"),
            ("a", 16, 8, False, "double"),
            ("n", 24, 4, False, "int"),
        ]
        assert binary.parameter_base == 0x160
        assert (binary.shared_bytes, binary.local_bytes) == (0, 0)
        assert 0 < binary.registers <= 32
        assert binary.code_bytes >= 16 * binary.listing.count(" ;")
        assert list(binary.files.values()) == [AXPY]
        assert "nvdisasm" in binary.tools
        assert binary.assumptions == ()

    @pytest.mark.exhaustive(one_in=2)
    @pytest.mark.parametrize(
        ("arch", "base"), [("sm_75", 0x160), ("sm_89", 0x160), ("sm_90", 0x210), ("sm_120", 0x380)]
    )
    def test_static_shared_memory_and_parameters_of_each_architecture(self, compiled, arch, base):
        binary = compiled("several.cu", SEVERAL, "ns::star<float, 4>", arch=arch)
        assert (binary.arch, binary.parameter_base, binary.shared_bytes) == (arch, base, 512)
        assert binary.registers > 0

    @pytest.mark.exhaustive(one_in=2)
    @pytest.mark.parametrize(
        "name",
        [
            "ns::star<double, 4>",
            "ns::star<double,4u>",
            "star<double, 4>",
            "_ZN2ns4starIdLi4EEEvPKT_PS1_i",
            "void ns::star<double, 4>(double const*, double*, int)",
        ],
    )
    def test_template_instance(self, compiled, name):
        binary = compiled("several.cu", SEVERAL, name)
        assert binary.mangled == "_ZN2ns4starIdLi4EEEvPKT_PS1_i"
        assert binary.kernel == "ns::star<double, 4>"
        assert names(binary)[0] == ("src", 0, 8, True, "double")

    @pytest.mark.exhaustive(one_in=2)
    @pytest.mark.parametrize("name", [None, "plain", "plain(Pair, float, float (*) [4])"])
    def test_plain_kernel_beside_a_template(self, compiled, name):
        assert names(compiled("several.cu", SEVERAL, name)) == [
            ("p", 0, 16, False, "Pair"),
            ("v", 16, 4, False, "float"),
            ("q", 24, 8, True, "float [4]"),
        ]

    def test_unknown_kernel_lists_the_others(self, compiled):
        with pytest.raises(KernelSourceError, match=r"no kernel 'plane': .*plain.*mean 'plain'"):
            compiled("several.cu", SEVERAL, "plane")
        with pytest.raises(KernelSourceError, match=r"'stra<float, 4>'.*ns::star<[^…]*>, plain"):
            compiled("several.cu", SEVERAL, "stra<float, 4>")

    def test_two_kernels_need_a_name(self, compiled):
        text = "__global__ void one() {}\nnamespace n { __global__ void two() {} }\n"
        with pytest.raises(KernelSourceError, match=r"name the kernel: .*\bn::two, one"):
            compiled("two.cu", text)
        assert compiled("two.cu", text, "two").kernel == "n::two"

    def test_a_template_alone_needs_arguments(self, compiled):
        text = "template <int N> __global__ void k(int* a) { a[0] = N; }"
        with pytest.raises(KernelSourceError, match=r"templates need their arguments: k<int N>;"):
            compiled("template.cu", text)

    def test_called_function_comes_along(self, compiled):
        text = (
            "__device__ __noinline__ float slow(float x) { return sqrtf(x); }\n"
            "__global__ void k(float* a) { volatile float t[64];\n"
            "for (int i = 0; i < 64; ++i) t[i] = a[i * i];\n"
            "a[0] = slow(a[1]) + t[int(a[2]) & 63]; }\n"
        )
        whole = compiled("call.cu", text)
        apart = compiled("call.cu", text, options=("-rdc=true",))
        assert whole.local_bytes == 256
        assert ".text._Z4slowf" in apart.listing
        assert ".text._Z4slowf" not in whole.listing

    def test_options_and_defines(self, compiled):
        text = "__global__ void k(float* a) { a[threadIdx.x + LEFT + RIGHT] = 1.f / a[0]; }"
        defines = {"LEFT": 7, "RIGHT": True}
        precise = compiled("k.cu", text, defines=defines)
        options = ("-use_fast_math", "--maxrregcount 24", "-O3", "-lineinfo", "-std=c++17")
        fast = compiled("k.cu", text, defines=defines, options=options)
        assert "+0x20" in precise.listing
        assert fast.code_bytes < precise.code_bytes
        with pytest.raises(KernelSourceError, match=r"k\.cu:1: .*\"LEFT\" is undefined"):
            compiled("k.cu", text)

    @pytest.mark.parametrize(
        ("option", "why"),
        [
            ("-arch=sm_90", r"compile for sm_90, compute_90; none of it runs on sm_80"),
            ("-gencode=arch=compute_80,code=sm_86", "compile for sm_86; none of it runs on sm_80"),
            ("-arch=hopper", "'hopper' is no architecture"),
            ("-gencode=sm_80", "looks like arch=compute_80,code=sm_80"),
            ("-code=sm_80", "needs --gpu-architecture"),
            ("-G", "unoptimised"),
            ("-o=x", "what is produced"),
            ("-maxrregcount", "needs a value"),
            ("64", "does not start with"),
        ],
    )
    def test_refused_options(self, compiled, option, why):
        with pytest.raises(KernelSourceError, match=why):
            compiled("axpy.cu", AXPY, options=(option,))

    def test_compile_error_has_its_place(self, compiled, tmp_path):
        (tmp_path / "header.h").write_text("__device__ int f() { return nope; }\n")
        text = '#include "header.h"\n__global__ void k(int* a) { a[0] = f()\n}\n'
        with pytest.raises(KernelSourceError) as caught:
            compiled("error.cu", text)
        first, line, caret, *rest = str(caught.value).split("\n")
        assert first == f'{tmp_path}/header.h:1: identifier "nope" is undefined'
        assert line[caret.index("^") :].startswith("nope")
        assert rest == ["(1 more)"]

    def test_assembler_error(self, compiled):
        text = "__global__ void k(float* a) { __shared__ double z[30000];\n"
        text += "z[threadIdx.x] = a[0]; __syncthreads(); a[1] = z[5]; }"
        with pytest.raises(KernelSourceError, match="too much shared data"):
            compiled("shared.cu", text)

    def test_include_dirs_and_a_changed_header(self, compiled, tmp_path, runs):
        (tmp_path / "inc" / "deep").mkdir(parents=True)
        header = tmp_path / "inc" / "deep" / "value.h"
        (tmp_path / "inc" / "outer.h").write_text('#include "deep/value.h"\n')
        header.write_text("#define VALUE 41\n")
        text = "#include <outer.h>\n__global__ void k(int* a) { a[0] = VALUE; }\n"
        first = compiled("k.cu", text, include_dirs=("inc",))
        again = compiled("k.cu", text, include_dirs=("inc",))
        assert (again, len(runs)) == (first, 2)
        header.write_text("#define VALUE 43\n")
        changed = compiled("k.cu", text, include_dirs=("inc",))
        assert changed.digest != first.digest
        (tmp_path / "outer.h").write_text("#define VALUE 44\n")  # last in the search order
        assert compiled("k.cu", text, include_dirs=("inc",)) == changed
        with pytest.raises(KernelSourceError, match="no folder"):
            compiled("k.cu", text, include_dirs=("ink",))

    @pytest.mark.parametrize("watched", [True, False])
    def test_an_include_by_macro_is_kept_where_files_are_seen(
        self, compiled, runs, monkeypatch, watched
    ):
        """The text does not say which file that is."""
        if not watched:
            monkeypatch.setattr(inputs, "can_watch", lambda: False)
        elif not inputs.can_watch():
            pytest.skip("this system does not report files")
        text = '#define H "vector_types.h"\n#if 0\n#include H\n#endif\n__global__ void k() {}\n'
        compiled("k.cu", text)
        compiled("k.cu", text)
        assert runs.count("cicc") == 1 + (not watched)


HOST = """\
#include <cstdio>
template <typename T> __global__ void twice(T* a) { a[threadIdx.x] *= 2; }
__global__ void inc(float* a) { a[threadIdx.x] += 1; }
int main() { inc<<<1, 32>>>(nullptr); std::printf("done"); }
"""


@pytest.mark.usefixtures("nvcc")
@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize(
    ("name", "kernel"), [("inc", "inc"), (None, "inc"), ("twice<double>", "twice<double>")]
)
def test_host_code_goes_through_nvcc(compiled, name, kernel):
    binary = compiled("host.cu", HOST, name)
    assert binary.kernel == kernel
    assert "nvcc" in binary.tools
    assert names(binary)[0][0] == "a"


@pytest.mark.usefixtures("nvcc")
def test_naming_the_host_compiler_reads_no_header(compiled, monkeypatch):
    """An option for nvcc alone decides before any header of the host has been asked for."""
    monkeypatch.setattr(compilers, "_read_preamble", lambda program: pytest.fail("asked"))
    binary = compiled("k.cu", AXPY, options=("-Uunused",))
    assert re.match(r"nvcc \d+\.\d+ with (gcc|clang) \d+\.\d+", binary.tools)


@pytest.mark.usefixtures("nvcc")
def test_a_host_compiler_that_does_not_say_its_name(compiled, monkeypatch, tmp_path):
    def silent(path):
        raise ToolchainMissing(f"{path} cannot be started")

    monkeypatch.setattr(tools, "predefined_macros", silent)
    monkeypatch.setenv("PERFASSERT_CACHE_DIR", str(tmp_path / "cache"))  # where nobody has said it
    binary = compiled("k.cu", AXPY, options=("-Uunused",))
    assert re.match(r"nvcc \d+\.\d+(?! with)", binary.tools)


FUNCTIONS = """\
namespace std { template <bool B> struct bool_constant { static constexpr bool value = B; }; }
__device__ inline float twice(float x) { return 2 * x; }
template <class T, T (*F)(T)> __global__ void apply(T* values) {
  values[threadIdx.x] = F(values[threadIdx.x]); }
template <class B> __global__ void choose(float* a, int n) { a[n] = B::value ? a[0] : 1; }
"""


@pytest.mark.usefixtures("toolchain")
@pytest.mark.parametrize(
    ("name", "mangled"),
    [
        ("apply<float, twice>", "_Z5applyIfXadL_Z5twicefEEEvPT_"),
        ("_Z5applyIfXadL_Z5twicefEEEvPT_", "_Z5applyIfXadL_Z5twicefEEEvPT_"),
        ("choose<std::bool_constant<true>>", "_Z6chooseISt13bool_constantILb1EEEvPfi"),
    ],
)
def test_functions_and_truths_as_template_arguments(compiled, name, mangled):
    pytest.importorskip("perfassert.frontends.toolchain._abi")
    binary = compiled("functions.cu", FUNCTIONS, name)
    assert binary.mangled == mangled
    assert [p[0] for p in names(binary)] == (["values"] if "apply" in name else ["a", "n"])


LAMBDA = """\
#include <cstdlib>
template <class F> __global__ void each(F body, float* values) {
  values[threadIdx.x] = body(values[threadIdx.x]); }
int main() { float* p = nullptr; each<<<1, 32>>>([=] __device__(float x) { return x + 1; }, p); }
"""


@pytest.mark.usefixtures("nvcc")
@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("name", ["each", "main", "_Z4eachIZ4mainEUlfE_EvT_Pf"])
def test_an_extended_lambda(compiled, name):
    pytest.importorskip("perfassert.frontends.toolchain._abi")
    binary = compiled("lambda.cu", LAMBDA, name, options=("--extended-lambda",))
    assert binary.kernel == "each<main::{lambda(float)#1}>"
    assert [p[0] for p in names(binary)] == ["body", "values"]


@pytest.mark.usefixtures("nvcc")
def test_error_in_a_file_with_host_code(compiled, tmp_path):
    with pytest.raises(KernelSourceError, match=rf"{tmp_path}/host.cu:3: .*\"oops\""):
        compiled("host.cu", HOST.replace("+= 1", "+= oops"))
    with pytest.raises(KernelSourceError, match=r"no kernel 'trice<float>'.*twice<\w+ T>"):
        compiled("host.cu", HOST, "trice<float>")


@pytest.mark.usefixtures("nvcc")
def test_a_host_function_without_any_host_header(compiled):
    text = "int half(int n) { return n / 2; }\n__global__ void k(int* a) { a[threadIdx.x] = 1; }\n"
    binary = compiled("host.cu", text)
    assert (binary.kernel, "nvcc" in binary.tools) == ("k", True)


@pytest.mark.usefixtures("nvcc")
def test_host_code_includes_headers_of_other_wheels(compiled, tmp_path, monkeypatch):
    if tools.find("nvcc").version is None:
        pytest.skip("nvcc is of no wheel")
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "cusomething.h").write_text("typedef float something;\n")
    real = tools.wheel_include_dirs()
    monkeypatch.setattr(tools, "wheel_include_dirs", lambda: (*real, str(tmp_path / "library")))
    text = "#include <cusomething.h>\n" + HOST.replace("float* a", "something* a")
    assert compiled("host.cu", text, "inc").kernel == "inc"


@pytest.mark.usefixtures("toolchain")
def test_host_code_without_nvcc(compiled, monkeypatch):
    real = tools.candidates
    monkeypatch.setattr(tools, "candidates", lambda n: () if n == "nvcc" else real(n))
    with pytest.raises(KernelSourceError, match=r"host.cu:1: .*(?s:.*)install nvcc"):
        compiled("host.cu", HOST, "inc")


@pytest.mark.usefixtures("toolchain")
def test_volta_without_its_tools_is_compiled_for_turing(compiled, monkeypatch):
    monkeypatch.setattr(tools, "find_older", lambda name, major: None)
    binary = compiled("axpy.cu", AXPY, arch="sm_70")
    assert binary.arch == "sm_75"
    assert "no tool for sm_70" in str(binary.assumptions[0])


@pytest.mark.usefixtures("toolchain")
def test_volta(compiled):
    if not (tools.find_older("ptxas", 13) and tools.find_older("nvdisasm", 13)):
        pytest.skip("no tools of CUDA 12 are installed")
    binary = compiled("axpy.cu", AXPY, arch="sm_70")
    assert binary.arch == "sm_70"
    assert "by way of PTX" in str(binary.assumptions[0])


def test_nothing_installed(compiled, monkeypatch):
    monkeypatch.setattr(tools, "candidates", lambda name: ())
    with pytest.raises(ToolchainMissing, match=r'pip install "perfassert\[cuda\]"'):
        compiled("axpy.cu", AXPY)


@pytest.mark.parametrize("arch", ["sm_20", "sm_61"])
def test_old_architectures(compiled, arch):
    with pytest.raises(KernelSourceError, match=rf"{arch}.*from_accesses"):
        compiled("axpy.cu", AXPY, arch=arch)


def test_unreadable_sources(compiled, tmp_path):
    with pytest.raises(KernelSourceError, match=r"none\.cu cannot be read: No such file"):
        build(Source(tmp_path / "none.cu", "cuda"), "sm_80")
    with pytest.raises(KernelSourceError, match="NUL byte"):
        compiled("nul.cu", b"__global__ void k() {}\0")
    with pytest.raises(KernelSourceError, match="no kind of source"):
        build(Source(tmp_path / "a.hip", "hip"), "sm_80")
    with pytest.raises(KernelSourceError, match="no architecture"):
        compiled("axpy.cu", AXPY, arch="80")
    with pytest.raises(KernelSourceError, match="no macro name"):
        compiled("axpy.cu", AXPY, defines={"1x": 1})


@pytest.mark.skipif(tools.find("nvrtc") is None, reason="NVRTC is not installed")
def test_elements_of_a_parameter_pack_have_names_of_their_own(tmp_path):
    source = tmp_path / "pack.cu"
    source.write_text(
        "template <typename... A> __global__ void fill(A... a) {"
        " auto set = [](float* p, float v, int n) { if (threadIdx.x < n) p[threadIdx.x] = v; };"
        " set(a...); }\n"
        "template __global__ void fill<float*, float, int>(float*, float, int);\n"
    )
    kernel = pa.from_cuda(source)
    launch = pa.Launch(1, 64, {"a[1]": 1.0, "a[2]": 32})
    assert pa.predict(kernel, launch, "a100").time > 0
    with pytest.raises(pa.LaunchError, match=r"'a\[2\]'"):
        pa.predict(kernel, pa.Launch(1, 64), "a100")
