"""The same work by this checkout and by another one, in turns: what a tuner and an agent ask for.

``python benchmarks/turns.py [CHECKOUT or COMMIT] [--runs 5] [SCENARIO …]``: without either, the
last tag. A commit is checked out and its engines are compiled. Prints medians of processor seconds,
tools included, and of the clock, and their ratios; every process is new. Scenarios are ``star``,
``warm``, ``session``, ``unrolled``, ``init``, ``diff``, which needs nvcc and a host compiler, and
``xgemm``: 200 configurations of CLBlast's kernel, which needs PERFASSERT_MEASURED.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import sessions

ROOT = Path(__file__).parents[1]
Seconds = tuple[float, float]  # of the processor, by the clock
Scenario = Callable[[Path, Path], Seconds]
STEPS = 270
_PRODUCT = """
extern "C" __global__ void product(const float* __restrict__ a, const float* __restrict__ b,
                                   float* __restrict__ c, int n)
{{
    extern __shared__ __align__(16) float shared[];
    float (*as)[64] = (float (*)[64])shared, (*bs)[64] = as + {steps};
    int row = blockIdx.y * 64, column = blockIdx.x * 64, t = threadIdx.y * 8 + threadIdx.x;
    float sum[8][8] = {{}};
    for (int k0 = 0; k0 < n; k0 += {steps}) {{
        for (int i = 0; i < {steps}; i++) {{
            as[i][t] = a[(k0 + i) * n + row + t];
            bs[i][t] = b[(k0 + i) * n + column + t];
        }}
        __syncthreads();
        const float *pa = &as[0][threadIdx.y * 8], *pb = &bs[0][threadIdx.x * 8];
{body}
        __syncthreads();
    }}
    for (int y = 0; y < 8; y++)
        for (int x = 0; x < 8; x++)
            c[(row + threadIdx.y * 8 + y) * n + column + threadIdx.x * 8 + x] = sum[y][x];
}}
"""
_STEP = """{{ float av[8], bv[8];
  for (int j = 0; j < 8; j++) {{ av[j] = pa[{at} + j]; bv[j] = pb[{at} + j]; }}
  for (int y = 0; y < 8; y++) for (int x = 0; x < 8; x++) sum[y][x] += av[y] * bv[x]; }}"""
_KERNELS = (
    "__global__ void map{k}(const {t}* a, const {t}* b, {t}* c, int n) {{ int i = blockIdx.x * "
    "blockDim.x + threadIdx.x; if (i < n) c[i] = a[i] * b[i] + {k}; }}",
    "__global__ void sums{k}(const {t}* a, {t}* c, int n) {{ __shared__ {t} s[256]; {t} v = 0; "
    "for (int j = blockIdx.x * blockDim.x + threadIdx.x; j < n; j += gridDim.x * blockDim.x) "
    "v += a[j] * {k}; s[threadIdx.x] = v; __syncthreads(); for (int d = 128; d > 0; d /= 2) {{ "
    "if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d]; __syncthreads(); }} "
    "if (!threadIdx.x) c[blockIdx.x] = s[0]; }}",
    "__global__ void search{k}(const {t}* a, const {t}* table, {t}* c, int n) {{ int i = "
    "blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return; int lo = 0, hi = 16 + {k}; "
    "while (lo < hi) {{ int m = (lo + hi) / 2; if (table[m] < a[i]) lo = m + 1; else hi = m; }} "
    "c[i] = table[lo]; }}",
    "template <int N> __device__ {t} power{k}({t} x) {{ {t} r = 1; for (int j = 0; j < N; ++j) "
    "r = r * x + j; return r; }} __global__ void power_{k}(const {t}* a, {t}* c, int n) {{ int i = "
    "blockIdx.x * blockDim.x + threadIdx.x; if (i < n) c[i] = power{k}<8 + {k}>(a[i]); }}",
)
_LAUNCH = """void launch(const float* a, const float* b, float* c, int n)
{ map0<<<n / 256, 256>>>(a, b, c, n); }
"""
_CHILD = """
import json, sys, time
root, head, folder, scenario = sys.argv[1:]
sys.path[:0] = [f"{root}/src", f"{head}/benchmarks", f"{head}/examples"]
import perfassert as pa
assert pa.__file__.startswith(root), pa.__file__
def seconds(work, questions):
    work(0)
    clock, start = time.perf_counter(), time.process_time()
    for question in range(1, questions + 1):
        work(question)
    spent = time.process_time() - start, time.perf_counter() - clock
    return " ".join(str(seconds / questions) for seconds in spent)
if scenario == "star":
    import volumes
    device = pa.device("a100")
    print(seconds(lambda _: volumes.all_configurations(device, volumes.DOMAIN) if _ else None, 1))
elif scenario == "warm":
    defines = {"block_size_x": 32, "block_size_y": 8, "tile_size_x": 2, "tile_size_y": 1}
    file = f"{head}/examples/kernels/convolution.cu"
    kernel = pa.from_cuda(file, "convolution", defines=defines)
    print(seconds(lambda n: pa.predict(kernel, pa.Launch((64 + n, 256), (32, 8)), "a100"), 10))
else:
    kernel = pa.from_cuda(f"{folder}/product.cu", "product")
    def ask(n):
        args = {"n": 16 * STEPS}
        pa.predict(kernel, pa.Launch((32 + n, 32), (8, 8), args, shared_bytes=512 * STEPS), "a100")
    print(seconds(ask, 3))
""".replace("STEPS", str(STEPS))


def product() -> str:
    """A matrix product whose loop over a tile is unrolled to 20,000 instructions."""
    steps = "\n".join(_STEP.format(at=64 * k) for k in range(STEPS))
    return _PRODUCT.format(steps=STEPS, body=steps)


def kernels(count: int = 150) -> str:
    """A file with that many kernels, which do different things, and a launch of one of them."""
    types = ("float", "double", "int")
    made = [_KERNELS[k % len(_KERNELS)].format(k=k, t=types[k // 3 % 3]) for k in range(count)]
    return "\n".join([*made, _LAUNCH])


def asked(scenario: str) -> Scenario:
    """Warm predictions in a process of their own."""

    def run(root: Path, folder: Path) -> Seconds:
        given = [str(root), str(ROOT), str(folder), scenario]
        processor, clock = map(float, _python(root, folder, "-c", _CHILD, *given).split())
        return processor, clock

    return run


def command(*words: str, needs: Callable[[Path], None]) -> Scenario:
    """A command with an empty cache, tools included; it may say that something got worse."""

    def run(root: Path, folder: Path) -> Seconds:
        needs(folder)
        with tempfile.TemporaryDirectory() as cache:
            before = _spent()
            _python(root, Path(cache), "-m", "perfassert", *words, cwd=folder, most=1)
            return _since(before)

    return run


def session(root: Path, _: Path) -> Seconds:
    """A cold session of pytest with 20 kernels on three devices."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        code = sessions.TESTS.format(folder=str(sessions.KERNELS))
        (folder / "test_kernels.py").write_text(code)
        before = _spent()
        devices = [f"--perf-device={device}" for device in sessions.DEVICES]
        _python(root, folder, "-m", "pytest", "-q", *devices, cwd=folder)
        return _since(before)


def objects(folder: Path) -> None:
    """Two objects with 500 kernels each, some of which differ."""
    import many_kernels

    for side, change in (("old", ("", "")), ("new", ("= sum;", "= N % 7 ? sum : sum * 2;"))):
        if (folder / side / "many.o").exists():
            continue
        (folder / side).mkdir(exist_ok=True)
        many_kernels.build_library(str(folder / side), 500, many_kernels.KERNEL.replace(*change))


def file_of_kernels(folder: Path) -> None:
    """150 kernels, and no test file of them."""
    (folder / "many.cu").write_text(kernels())
    (folder / "made.perf.toml").unlink(missing_ok=True)


def tuning_space(folder: Path) -> None:
    """The suite of CLBlast's kernel, without what earlier commits do not know: values that were
    chosen with some of its rows in view, and pairs."""
    suite = (ROOT / "validation" / "xgemm_rtx3090.toml").read_text()
    kept = re.sub(r"(?s)\n\[\[fitted_on\]\].*?(?=\n\[device\])", "", suite)
    (folder / "xgemm.toml").write_text(kept)
    (folder / "kernels").mkdir(exist_ok=True)
    shutil.copy(ROOT / "validation" / "kernels" / "xgemm.cu", folder / "kernels")


SCENARIOS = {
    "star": asked("star"),
    "warm": asked("warm"),
    "session": session,
    "unrolled": asked("unrolled"),
    "init": command(
        "init", "many.cu", "--device", "a100", "-o", "made.perf.toml",
        needs=file_of_kernels,
    ),
    "diff": command("diff", "old/many.o", "new/many.o", needs=objects),
    "xgemm": command("validate", "xgemm.toml", "--rows", "200", needs=tuning_space),
}  # fmt: skip


def _python(root: Path, cache: Path, *words: str, cwd: Path | None = None, most: int = 0) -> str:
    """Return the output of a new process, which may end with a status up to ``most``."""
    environment = sessions.environment_with(
        PYTHONPATH=f"{root / 'src'}",
        PERFASSERT_CACHE_DIR=f"{cache}/cache",
        PERFASSERT_TOOL_TIMEOUT="600",
    )
    done = subprocess.run(
        [sys.executable, *words], cwd=cwd, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if done.returncode > most:
        raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])
    return done.stdout


def _spent() -> Seconds:
    return sessions.spent(), time.perf_counter()


def _since(before: Seconds) -> Seconds:
    now = _spent()
    return now[0] - before[0], now[1] - before[1]


@contextmanager
def checkout(named: str | None) -> Iterator[Path]:
    """A folder as it is, or a commit with its engines compiled."""
    if named and Path(named).is_dir():
        yield Path(named).resolve()
        return
    git = ["git", "-C", str(ROOT)]
    describe = [*git, "describe", "--tags", "--abbrev=0"]
    last = subprocess.run(describe, capture_output=True, text=True, check=False)
    commit = named or last.stdout.strip()
    if not commit:
        raise SystemExit("there is no tag: name a commit or a checkout")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "other")
        subprocess.run([*git, "worktree", "add", "-q", "--detach", str(folder), commit], check=True)
        try:
            build = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
            subprocess.run(build, cwd=folder, check=True, capture_output=True)
            yield folder
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(folder)], check=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("other", nargs="?", help="a checkout or a commit; default: the last tag")
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help="default: all")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_intermixed_args()
    with checkout(options.other) as other, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "product.cu").write_text(product())
        print("| scenario | processor: other | this | ratio | clock: other | this | ratio | runs |")
        print("|---|---|---|---|---|---|---|---|")
        for scenario in options.scenarios or SCENARIOS:
            times = [
                (*SCENARIOS[scenario](other, folder), *SCENARIOS[scenario](ROOT, folder))
                for _ in range(options.runs)
            ]
            medians = [statistics.median(column) for column in zip(*times, strict=True)]
            cells = [f"{before:.3g} s | {after:.3g} s | {after / before:.2f}"
                     for before, after in zip(medians[:2], medians[2:], strict=True)]  # fmt: skip
            print(f"| {scenario} | {' | '.join(cells)} | {options.runs} |", flush=True)


if __name__ == "__main__":
    main()
