"""Ways in that version 0.1.0 refused or made awkward, each really tried: rows for ``unseen.py``.

Every source is written to a fresh folder, with a fresh cache; what a row says is what came out.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import perfassert as pa
from perfassert.cli.main import main
from perfassert.frontends.toolchain import tools

HERE = Path(__file__).parent
SOURCE = HERE / "unseen.cu"
A100, H100 = "A100-SXM4-40GB", "H100-SXM5-80GB"
THREADS = 65536
X = "#define X (blockIdx.x * blockDim.x + threadIdx.x)\n"
COPY = X + 'extern "C" __global__ void copy(const float* a, float* out) { out[X] = a[X]; }\n'
HOST = "int main() { copy<<<1, 1>>>(nullptr, nullptr); }\n"
WARP_GROUP = (
    X
    + """extern "C" __global__ void product(float* out, unsigned long long d) {
  float s[4] = {};
  asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.fence.sync.aligned; "
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %4, p, 1, 1, 0, 0; "
    "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; }"
    : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]) : "l"(d));
  out[X] = s[0];
}"""
)
PTX = """.version 8.0
.target {target}
.address_size 64
.visible .entry {name}(.param .u64 out) {{
  .reg .b32 %r<5>; .reg .b64 %d<4>;
  {body}
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
  mad.lo.s32 %r4, %r1, %r2, %r3; ld.param.u64 %d1, [out]; cvta.to.global.u64 %d1, %d1;
  mul.wide.s32 %d2, %r4, 4; add.s64 %d3, %d1, %d2; st.global.u32 [%d3], %r4;
  ret;
}}
"""
BY_ARCH = (
    X
    + """extern "C" __global__ void chosen(const float* a, const float* b, float* out) {
  out[X] = a[X]
#if __CUDA_ARCH__ == 800
    + b[X]
#endif
    ;
}"""
)
ARRAYS = (
    X
    + """template <class T> struct array_t {
  T* data; T* grad; int shape[4]; int strides[4]; int ndim; };
extern "C" __global__ void blend(array_t<float> x, array_t<float> y, array_t<float> z, float f) {
  if (X >= x.shape[0]) return;
  float* p = (float*)((char*)x.data + X * x.strides[0]);
  float* q = (float*)((char*)y.data + X * y.strides[0]);
  float* r = (float*)((char*)z.data + X * z.strides[0]);
  *p += f; *q += *p; *r += *q;
}"""
)
TEMPLATES = (
    X
    + """#include <type_traits>
template <class B> __global__ void maybe(const float* a, float* out) {
  out[X] = B::value ? a[X] : 1.0f; }
template __global__ void maybe<std::bool_constant<true>>(const float*, float*);
template __global__ void maybe<std::bool_constant<false>>(const float*, float*);
__device__ float twice(float x) { return x + x; }
template <float (*F)(float)> __global__ void apply(const float* a, float* out) { out[X] = F(a[X]); }
template __global__ void apply<twice>(const float*, float*);
template <class F> __global__ void each(F f, float* values) { values[X] = f(values[X]); }
void call(float* p, float by) { each<<<1, 1>>>([=] __device__ (float v) { return v * by; }, p); }
"""
)
TEXTURE = (
    "texture<float, 1> t;\n"
    + X
    + ('extern "C" __global__ void copy(float* out) { out[X] = tex1Dfetch(t, X); }\n')
)
FIVE = (
    X
    + """extern "C" __global__ void five(
    const float* a, float* out, int n, int rows, int pitch, int step, int first) {
  if (X >= n) return;
  float s = 0;
  for (int r = first; r < rows; r += step) s += a[r * pitch + X];
  out[X] = s;
}"""
)


@dataclass(frozen=True)
class Way:
    """``tried`` gets an empty folder and says what came out."""

    what: str
    before: str
    tried: Callable[[Path], str]
    seen_by: str

    def row(self) -> list[str]:
        """Return a row of the table: subject, result before, result now, evidence."""
        with tempfile.TemporaryDirectory() as folder:
            here = Path(folder)
            cache = {"PERFASSERT_CACHE_DIR": str(here / "cache")}
            with mock.patch.dict(os.environ, cache):
                return [self.what, self.before, answer(lambda: self.tried(here)), self.seen_by]


def answer(attempt: Callable[[], str]) -> str:
    """Return the result of an attempt, or the last line of its error, which is the remedy."""
    try:
        return attempt()
    except pa.PerfAssertError as error:
        lines = re.sub(r"/\S+/", "", str(error)).splitlines()
        text = lines[0] if len(lines) == 1 else f"… {lines[-1]}"
        return f"{type(error).__name__}: {text.replace('<', '&lt;')}"


def summarize(kernel: Any, args: dict[str, Any] | None = None, device: str = A100) -> str:
    """Return the prediction of 65536 threads as one line."""
    p = pa.predict(kernel, pa.Launch(THREADS // 256, 256, args or {}), device)
    moved = f"{p.volumes.l2_load.total} loaded, {p.volumes.l2_store.total} stored"
    return f"predicted: {moved}, {p.confidence}"


def cuda(text: str, kernel: str | None = None, **more: Any) -> Callable[[Path], str]:
    """Predicts a kernel of CUDA source; ``args`` and ``device`` are the launch's."""
    launch = {key: more.pop(key) for key in ("args", "device") if key in more}
    return lambda here: summarize(pa.from_cuda(write_file(here, text), kernel, **more), **launch)


def write_file(here: Path, text: str, name: str = "file.cu") -> Path:
    """A file of that text."""
    path = here / name
    path.write_text(text, "utf-8")
    return path


def command(*arguments: str) -> tuple[int, str, str]:
    """Exit code, output and errors of ``perfassert …``."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    return code, out.getvalue(), err.getvalue().strip()


def same_as_python(path: Path, kernel: str, given: Sequence[str], **python: Any) -> str:
    """Compare ``perfassert predict`` with ``pa.predict``, and return the result as text."""
    args = python.pop("args")
    launch = ("--device", A100, "--grid", "256", "--block", "256", "--json")
    code, out, err = command("predict", str(path), "--kernel", kernel, *launch, *given)
    if code:
        return f"exit code {code}: {err.splitlines()[-1]}"
    made = pa.from_cuda(path, kernel, **python)
    wanted = pa.predict(made, pa.Launch(THREADS // 256, 256, args), A100)
    data = json.loads(json.dumps(wanted.to_dict()))
    alike = {key: json.loads(out)[key] for key in data} == data
    return f"predicted: {wanted.time}, {'the same as' if alike else 'other than'} in Python"


def entry(target: str, name: str = "index", body: str = "") -> str:
    """PTX of a kernel that stores each thread's index."""
    return PTX.format(target=target, name=name, body=body)


def binaries(ending: str) -> Callable[[Path], str]:
    """An object file, a shared library or a fat binary for two architectures."""

    def attempt(here: Path) -> str:
        write_file(here, COPY)
        targets = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in (80, 90)]
        kind = {".o": ["-c"], ".so": ["-shared", "-cudart=none"], ".fatbin": ["-fatbin"]}[ending]
        nvcc = tools.need("nvcc").path
        call = [nvcc, *targets, "-Xcompiler", "-fPIC", *kind, "file.cu", "-o", "file" + ending]
        subprocess.run(call, cwd=here, check=True, capture_output=True)
        return summarize(pa.from_cubin(here / f"file{ending}", "copy"))

    return attempt


def targets() -> Iterator[Way]:
    """Architectures, PTX, binaries."""
    yield Way("`wgmma` in a `.cu`, H100", "refused", cuda(WARP_GROUP, device=H100),
              "`pa.from_cuda`")  # fmt: skip
    yield Way("the same, A100", "refused", cuda(WARP_GROUP), "`pa.from_cuda`")
    body = "setmaxnreg.dec.sync.aligned.u32 64;"
    yield Way(
        "`.target sm_90a` in PTX", "refused",
        lambda here: summarize(
            pa.from_ptx(write_file(here, entry("sm_90a", body=body), "a.ptx")), device=H100
        ), "`pa.from_ptx`",
    )  # fmt: skip
    for arch, device in (("compute_80", H100), ("sm_90", H100), ("sm_90", A100)):
        yield Way(
            f"`-arch={arch}`, {device[:4]}; `b` is read where `__CUDA_ARCH__` is 800",
            "cannot be given", cuda(BY_ARCH, options=(f"-arch={arch}",), device=device),
            "`options=`",
        )  # fmt: skip
    yield Way(
        "PTX that ends in a NUL byte", "refused",
        lambda here: summarize(pa.from_ptx(write_file(here, entry("sm_80") + "\0", "a.ptx"))),
        "`pa.from_ptx`",
    )  # fmt: skip
    for ending in (".o", ".so", ".fatbin"):
        yield Way(f"`{ending}` for two architectures", "refused", binaries(ending),
                  "`pa.from_cubin`")  # fmt: skip


def set_up() -> Iterator[Way]:
    """Headers, compilers, what newer toolkits removed."""
    yield Way("`<cuda.h>` in a file", "cannot open “stdlib.h”", cuda("#include <cuda.h>\n" + COPY),
              "`pa.from_cuda`")  # fmt: skip
    blas = "#include <cublas_v2.h>\n" + COPY + HOST
    yield Way("`<cublas_v2.h>` without its wheel", "`No such file`, no hint", cuda(blas),
              "the error's remedy")  # fmt: skip

    def without_compiler(here: Path) -> str:
        with mock.patch.dict(os.environ, PATH=str(here)):
            return cuda("#include <cstdio>\n" + COPY + HOST)(here)

    yield Way("a file with `main()`, no g++ on the path", "`Failed to preprocess`, no hint",
              without_compiler, "the error's remedy")  # fmt: skip
    yield Way("a texture reference", "no remedy", cuda(TEXTURE), "the error's remedy")
    yield Way("the complete device file of `docs/reference/devices.md`", "no class `move`",
              on_example_device, "that file, taken from the page")  # fmt: skip


def on_example_device(here: Path) -> str:
    """Kernels of several kinds on the device that the page describes."""
    page = (HERE.parent / "docs/reference/devices.md").read_text("utf-8")
    text = re.search(r"<!-- file: example-gpu.toml -->\n```toml\n(.*?)```", page, re.S)
    if text is None:
        return "the page has no such file"
    device = str(write_file(here, text[1], "example-gpu.toml"))
    tried: dict[str, dict[str, Any]] = {
        "stride": {"n": 10**6}, "warp_size": {"columns": 64}, "halving": {"n": 8},
        "predicated_address": {"n": THREADS}, "matrix_product": {"inner": 64, "columns": 32768},
    }  # fmt: skip
    wrong = [
        f"{name}: {result}"
        for name, args in tried.items()
        if not (
            result := answer(lambda n=name, a=args: summarize(pa.from_cuda(SOURCE, n), a, device))
        ).startswith("predicted")
    ]  # fmt: skip
    return "; ".join(wrong) or f"{len(tried)} compiled kernels of {len(tried)} predicted"


class ArrayT(ctypes.Structure):
    """Warp's array."""

    _fields_ = [("data", ctypes.c_void_p), ("grad", ctypes.c_void_p),
                ("shape", ctypes.c_int * 4), ("strides", ctypes.c_int * 4),
                ("ndim", ctypes.c_int)]  # fmt: skip


def arguments() -> Iterator[Way]:
    """Numbers, arrays, structures, from Python and from the command line."""
    member = {"shape": [THREADS], "strides": [4], "ndim": 1}
    whole = ArrayT(1 << 20, 0, (THREADS,), (4,), 1)
    for how, value in (("by member", member), ("`ctypes.Structure`", whole)):
        args = {**dict.fromkeys("xyz", value), "f": 1.5}
        yield Way(f"three structures by value, {how}", "raw bytes only; 0 of 6 accesses resolved",
                  cuda(ARRAYS, args=args), "`Launch.args`")  # fmt: skip
    yield Way("their addresses", "0 of 6 resolved", addresses_of_arrays, "`explain --json`")
    rows = np.arange(THREADS // 256, dtype=np.int32)
    yield Way(
        "a numpy array in `Launch.args`", "`TypeError`",
        lambda here: summarize(pa.from_cuda(SOURCE, "block_rows"), {"row": rows}), "`Launch.args`",
    )  # fmt: skip
    for what, value in (("`pa.Buffer`", pa.Buffer(256, "float32")), ("an address", 1 << 20)):
        yield Way(
            f"{what} for a pointer that only a guard reads", "refused",
            lambda here, v=value: summarize(pa.from_cuda(SOURCE, "optional_bias"), {"bias": v}),
            "`Launch.args`",
        )  # fmt: skip
    yield Way(
        "a float that a guard needs (`end=1e4`)", "refused",
        lambda here: summarize(pa.from_cuda(SOURCE, "float_guard"), {"step": 0.5, "end": 1e4}),
        "`Launch.args`",
    )  # fmt: skip
    for text, number in (("1e6", 10**6), ("4096*256", 4096 * 256)):
        yield Way(
            f"`--arg n={text}`", "refused",
            lambda here, t=text, n=number: same_as_python(
                SOURCE, "stride", ("--arg", f"n={t}"), args={"n": n}
            ), "`perfassert predict`",
        )  # fmt: skip
    yield Way(
        "`--arg ry=1.5`", "refused",
        lambda here: same_as_python(SOURCE, "reciprocal", ("--arg", "ry=1.5"), args={"ry": 1.5}),
        "`perfassert predict`",
    )  # fmt: skip
    yield Way(
        "`--assume at='x * 7 % 4096'`", "not on the command line",
        lambda here: same_as_python(
            SOURCE, "scattered", ("--assume", "at=x * 7 % 4096"), args={},
            assume={"at": "x * 7 % 4096"},
        ), "`perfassert predict`",
    )  # fmt: skip
    parts = [f"--arg={a}.{p}" for a in "xyz" for p in (f"shape={THREADS},", "strides=4,")]
    args = {**{a: {"shape": [THREADS], "strides": [4]} for a in "xyz"}, "f": 2.5}
    yield Way(
        "structures, `--arg x.shape=65536,`", "not on the command line",
        lambda here: same_as_python(
            write_file(here, ARRAYS), "blend", (*parts, "--arg=f=2.5"), args=args
        ), "`perfassert predict`",
    )  # fmt: skip
    yield Way("five numbers needed", "asked for one per run", runs_until_bound,
              "runs of `pa.predict`")  # fmt: skip


def addresses_of_arrays(here: Path) -> str:
    """Return the number of accesses in closed form, as text."""
    code, out, err = command("explain", str(write_file(here, ARRAYS)), "--device", A100, "--json")
    if code:
        return f"exit code {code}: {err.splitlines()[-1]}"
    result = json.loads(out)
    return f"{result['in_closed_form']} of {result['global_accesses']} in closed form"


def runs_until_bound(here: Path) -> str:
    """Add the arguments that each error names, until the kernel is predicted."""
    kernel, args = pa.from_cuda(write_file(here, FIVE)), dict[str, int]()
    values = {"n": THREADS, "rows": 64, "pitch": THREADS, "step": 2, "first": 4}
    for run in range(8):
        try:
            summarize(kernel, args)
        except pa.LaunchError as error:
            named = set(re.findall(r"\w+", re.sub(r"'five'|/\S+", "", str(error))))
            args |= {name: values[name] for name in named & values.keys()}
        else:
            return f"{len(args)} asked for in {run} run{'s' * (run != 1)}; then predicted"
    return "not predicted after 8 runs"


def names() -> Iterator[Way]:
    """Kernels by name."""
    before = "only by mangled name, parameters `arg3`"
    for name in ("maybe<std::bool_constant<true>>", "apply<twice>"):
        yield Way(f"`{name}`", before, cuda(TEMPLATES, name, options=("--extended-lambda",)),
                  "`pa.from_cuda`")  # fmt: skip
    lambdas = cuda(TEMPLATES, "each", options=("--extended-lambda",))
    yield Way("template of an extended lambda, as `each`", before, lambdas, "`pa.from_cuda`")
    yield Way("Numba's two `[abi:…]` tags, four hash seeds", "their order varies", under_seeds,
              "`perfassert kernels`, four processes")  # fmt: skip


def under_seeds(here: Path) -> str:
    """The names that ``perfassert kernels`` prints."""
    path = write_file(here, entry("sm_80", "_ZN8__main__3addB2v1B4cw51EPf"), "numba.ptx")
    call = (sys.executable, "-m", "perfassert", "kernels", str(path), "--arch=sm_80", "--json")
    printed = set()
    for seed in range(4):
        own = {"PYTHONHASHSEED": str(seed), "PERFASSERT_CACHE_DIR": str(here / f"cache{seed}")}
        done = subprocess.run(call, env={**os.environ, **own}, capture_output=True, text=True)
        printed |= set(re.findall(r'"name": "([^"]*)"', done.stdout)) or {done.stderr.strip()}
    return f"{len(printed)} name{'s' * (len(printed) > 1)}: `{'`, `'.join(sorted(printed))}`"


def rows() -> list[list[str]]:
    """Return the rows of the table: subject, result of 0.1.0, result here, evidence."""
    return [way.row() for part in (targets, set_up, arguments, names) for way in part()]
