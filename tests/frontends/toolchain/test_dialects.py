"""NVRTC compiles only what nvcc would compile to the same instructions."""

import json
import re
from pathlib import Path

import pytest

from perfassert.errors import KernelSourceError
from perfassert.frontends.machine.lowering import lower
from perfassert.frontends.toolchain import compilers, dialects, tools
from perfassert.frontends.toolchain.binary import Source
from perfassert.frontends.toolchain.build import build, prepare
from perfassert.frontends.toolchain.modules import compile_module

pytestmark = [
    pytest.mark.exhaustive(one_in=8),
    pytest.mark.skipif(
        None in (tools.find("nvcc"), tools.find("nvrtc"), tools.host_compiler()),
        reason="needs NVRTC, nvcc and a C++ compiler",
    ),
]
ROOT = Path(__file__).parents[3]
KERNEL = 'extern "C" __global__ void k(float* x, int n) {{ {} }}\n'


def compiler_of(folder, text, **more):
    path = folder / "k.cu"
    path.write_text(text)
    return build(Source(path, "cuda", **more), "sm_80").compilers.split()[0]


SAME = {
    "plain": KERNEL.format("x[threadIdx.x] = n;"),
    "of C alone": KERNEL.format("x[threadIdx.x] = sqrtf(x[n]) + fmaxf(x[0], 1.f);"),
    "own names that std has": KERNEL.format("int next = n; x[next] = 1;"),
    "of CUDA alone": KERNEL.format("x[n] = rsqrtf(x[0]) + __shfl_sync(~0u, x[1], 0);"),
    "bounds": 'extern "C" __global__ void __launch_bounds__(128, 2) k(float* x) { x[0] = 1; }',
    "macros of the source": "#define N 4\n#if N > 3\n" + KERNEL.format("x[N] = 1;") + "#endif\n",
    "an unrolled loop": KERNEL.format("\n#pragma unroll 4\nfor (int i = 0; i < n; ++i) x[i] = 0;"),
    "words in comments and texts": '// pow INT_MAX\nconstexpr char a[] = "__GNUC__";\n'
    + KERNEL.format("/* #ifdef\n__NVCC__ */ x[n] = a[0];"),
}


@pytest.mark.parametrize("name", SAME)
def test_a_source_that_only_uses_what_both_have(tmp_path, name):
    assert compiler_of(tmp_path, SAME[name]) == "nvrtc"


OTHER = {
    "an overload of the host's": KERNEL.format("x[threadIdx.x] = pow(x[n], 2);"),
    "a macro of the host's": KERNEL.format("for (int i = 0; i < INT_MAX; ++i) x[i] = 0;"),
    "a macro of the compiler's": "#ifdef __GNUC__\n#endif\n" + KERNEL.format("x[n] = 0;"),
    "a spliced word": "#ifdef __GN\\\nUC__\n#endif\n" + KERNEL.format("x[n] = 0;"),
    "a word put together": "#define F(a, b) a##b\n" + KERNEL.format("x[n] = F(__LIN, E__);"),
    "an operator of the preprocessor": "#if __has_include(<vector>)\n#endif\n"
    + KERNEL.format("x[n] = 0;"),
    "a header of the host's": "#include <climits>\n" + KERNEL.format("x[n] = 0;"),
    "a name of a file": KERNEL.format("x[n] = __FILE__[1];"),
    "a name of the host's": KERNEL.format("int index = n; x[index] = 1;"),
    "overloads": "__device__ int f(int) { return 1; }\n__device__ int f(void*) { return 2; }\n"
    + KERNEL.format("x[n] = f(0);"),
    "overloads that a macro makes": "#define F(T) __device__ int f(T) { return 1; }\n"
    "F(int) F(void*)\n" + KERNEL.format("x[n] = f(0);"),
    "a reference in a macro": "#define LIKE const int* const& r =\n"
    + KERNEL.format("int* p = &n; LIKE p; p = 0; x[n] = r != p;"),
    "a specialisation": "template <class T> struct S { static const int n = 1; };\n"
    "template <> struct S<int> { static const int n = 2; };\n" + KERNEL.format("x[n] = S<int>::n;"),
    "a question of the dialect": KERNEL.format("x[n] = noexcept(sqrtf(1.f)) ? 1 : 2;"),
    "a pragma": "#pragma GCC optimize 1\n" + KERNEL.format("x[n] = 0;"),
    "letters": "#if 'a' < 0\n#endif\n" + KERNEL.format("x[n] = 0;"),
    "a trigraph": "#ifdef X ??/\n\n#endif\n" + KERNEL.format("x[n] = 0;"),
}


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("name", OTHER)
def test_a_source_that_the_two_may_read_otherwise(tmp_path, name):
    assert compiler_of(tmp_path, OTHER[name]) == "nvcc"


@pytest.mark.parametrize("word", ["INT_MAX", "__GNUC__"])
def test_headers_and_definitions_count_as_well(tmp_path, word):
    (tmp_path / "own.h").write_text(f"#ifdef {word}\n#define N 1\n#else\n#define N 2\n#endif\n")
    text = '#include "own.h"\n' + KERNEL.format("x[n] = N;")
    assert compiler_of(tmp_path, text) == "nvcc"
    assert compiler_of(tmp_path, KERNEL.format("x[n] = N;"), defines={"N": word}) == "nvcc"


REFUSED = {
    "for NVRTC alone": "#ifndef __CUDACC_RTC__\n#error for NVRTC alone\n#endif\n"
    + KERNEL.format("x[n] = 0;"),
    'identifier "N" is undefined': "#define N 4\n"
    + KERNEL.format("\n#pragma unroll N\nfor (int i = 0; i < n; ++i) x[i] = 0;"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_nvcc_does_not_take_is_compiled_by_nvrtc_and_said(tmp_path, why):
    (tmp_path / "k.cu").write_text(REFUSED[why])
    binary = build(Source(tmp_path / "k.cu", "cuda"), "sm_80")
    assert binary.compilers.startswith("nvrtc")
    (said,) = binary.assumptions
    assert "nvcc does not take it" in said.text
    assert why in said.text


def test_an_error_of_the_source_is_reported_once_by_its_line(tmp_path):
    (tmp_path / "k.cu").write_text("\n" + KERNEL.format("x[n] = pow(missing, 2);"))
    with pytest.raises(KernelSourceError, match=r"k\.cu:2: identifier \"missing\" is undefined"):
        build(Source(tmp_path / "k.cu", "cuda"), "sm_80")


_NAMES = re.compile(r"\$L__\w+|\b_ZN?\w+|\.(?:weak|visible)\b|//.*")


def instructions(ptx):
    """Lines inside of functions, without what only names something."""
    lines, inside = [], False
    for line in ptx.splitlines():
        inside = inside or ".entry" in line or ".func" in line
        if inside and ".loc" not in line and (code := _NAMES.sub("", line).strip(" \t:")):
            lines.append(code)
        inside = inside and not line.startswith("}")
    return lines


def ptx_of(path, way, tmp_path, **more):
    """PTX by way of one of :mod:`.compilers`' functions; None where that is not taken."""
    source = Source(path, "cuda", **more)
    job = prepare(source, "sm_80")
    inputs = job.inputs()
    folder = tmp_path / way
    folder.mkdir()
    program = compilers._NvrtcProgram(source, job.files(inputs), folder, inputs)
    nvrtc, nvcc = tools.find("nvrtc"), tools.find("nvcc")
    if way == "nvcc":
        return compilers._with_nvcc(nvcc, program, "compute_80").ptx
    try:
        check = compilers._check_of(nvrtc, nvcc, program)
        made = compilers._with_nvrtc(nvrtc, program, "compute_80", False, check)
    except (dialects.MayDiffer, KernelSourceError):
        return None
    return made and made.ptx


FORMS = json.loads(Path(__file__).with_name("compiler_dependent.json").read_text())
"""Sources of which NVRTC 13.5 and nvcc 13.5 (g++ 12) make other instructions, with the reason.

Written from the manuals of the compilers, without a look at :mod:`.dialects`: sixty, of which 51
were seen when they were first run, and 45 like them; then forty that avoid all that had been named
as seen, of which 33 were, and 88 like those. What was missed is seen by the rules that came after.
"""


@pytest.mark.exhaustive(one_in=40)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form["name"])
def test_what_the_two_compile_otherwise_is_not_compiled_by_nvrtc(tmp_path, form):
    for name, text in form["files"].items():
        path = tmp_path / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    assert ptx_of(tmp_path / "source" / "k.cu", "nvrtc", tmp_path) is None


SOURCES = sorted(
    path
    for folder in ("examples/kernels", "validation/kernels", "tests/frontends/kernels")
    for path in (ROOT / folder).glob("*.cu")
)


@pytest.mark.exhaustive(one_in=12)
@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_both_make_the_same_instructions(tmp_path, path):
    quick = ptx_of(path, "nvrtc", tmp_path)
    if quick is None:
        pytest.skip("nvcc compiles it")
    assert instructions(quick) == instructions(ptx_of(path, "nvcc", tmp_path))


def test_the_preamble_is_read_once_for_all_architectures(tmp_path, runs):
    path = tmp_path / "k.cu"
    path.write_text(SAME["plain"])
    for arch in ("sm_80", "sm_90", "sm_120"):
        job = prepare(Source(path, "cuda"), arch)
        compile_module(job, job.inputs())
    assert runs == ["NVRTC"] * 3


def test_places_are_those_of_the_source_by_either_compiler(tmp_path):
    """nvcc takes ``atomicAdd`` and others from headers of CUDA's, NVRTC has them built in."""
    lines = ["int w = __shfl_xor_sync(~0u, n, 1);", "x[w] = __ldg(x + n);", "atomicAdd(x, 1.f);"]
    path = tmp_path / "k.cu"
    places = {}
    for first in ("", "#include <cstdio>\n#undef EOF\n"):
        path.write_text(first.replace("\n", " \n", 1) + KERNEL.format("\n" + "\n".join(lines)))
        binary = build(Source(path, "cuda"), "sm_80")
        listing = lower(binary)[0]
        places[binary.compilers[:5]] = {
            i.span.line - first.count("\n") for i in listing.instructions if i.span
        }
        assert {i.span.file for i in listing.instructions if i.span} == {str(path)}
    assert places["nvcc "] == places["nvrtc"] >= {3, 4}
