"""Much of everything: seconds of the clock and memory, each part in a process of its own.

``python benchmarks/load.py [PART ...]``: ``tests`` and ``baselines`` are 10,000 of them in one run
of pytest, ``launches`` are 1,000 different ones on two cores, ``large`` is 10⁹ blocks, 10¹² trips
and 50,000 instructions, ``memory`` is 2,000 predictions in one process, ``caches`` what they fill,
``together`` is eight sessions at once on one cache, ``listing`` one listing of 5,000 kernels.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import perfassert as pa

DEVICE = "A100-SXM4-40GB"
KERNELS = Path(__file__).parents[1] / "examples" / "kernels"
COUNT = 10_000
TESTS = """
import pytest
import perfassert as pa

FIELDS = [pa.Field("a", shape=(512, 4096), halo=1), pa.Field("b", shape=(512, 4096))]
KERNEL = pa.Kernel.from_accesses("k", FIELDS, ["a[y, x + 1]", "a[y, x - 1]"], ["b[y, x]"])


@pytest.mark.parametrize("n", range({count}))
def test_of_many(perf, n):
    p = perf(KERNEL, domain=({width}, 512), block=(32, 1 + n % 8))
    {compared}
"""
CODE = """
extern "C" __global__ void trips(float* a, long long n) {
    float sum = 0;
    for (long long i = 0; i < n; i++) sum = sum * 1.5f + a[threadIdx.x];
    a[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
extern "C" __global__ void line(float* a) {
    float v = a[blockIdx.x * blockDim.x + threadIdx.x], w = v;
    BODY
    a[blockIdx.x * blockDim.x + threadIdx.x] = v + w;
}
"""


def tests() -> None:
    """Measure tests that are collected and run, each with an expectation."""
    with tempfile.TemporaryDirectory() as folder:
        session(Path(folder), 'p.expect(time="< 1 s")')


def baselines() -> None:
    """Measure baselines in one file: they are written, then compared."""
    with tempfile.TemporaryDirectory() as folder:
        for option in ("--perf-update", "--perf-strict"):
            session(Path(folder), "perf.no_regression(p)", option)
        size = (Path(folder) / "__perf__" / "test_many.toml").stat().st_size
    print(f"  the file has {size / 1e6:.1f} MB")


def session(folder: Path, compared: str, *options: str) -> None:
    text = TESTS.format(count=COUNT, width="4096 - 32 * (n % 100)", compared=compared)
    (folder / "test_many.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull,
               "--rootdir=.", f"--perf-device={DEVICE}", *options]  # fmt: skip
    begin = time.monotonic()
    done = subprocess.run(
        command, cwd=folder, check=False, capture_output=True, text=True,
        env={**os.environ, "CI": ""},
    )  # fmt: skip
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    last = done.stdout.splitlines()[-1]
    print(f"{COUNT} tests {' '.join(options)}: {since(begin)}, {memory:.0f} MB; {last}")


def questions() -> Iterator[tuple[str, pa.Launch]]:
    """Kernels and launches, each one only once."""
    dice, seen = random.Random(1), set()
    while True:
        block, n = 32 * dice.randint(1, 16), dice.randint(1 << 10, 1 << 24)
        kernel = dice.choice(("saxpy", "saxpy_grid_stride", "block_sums", "accesses"))
        if (kernel, block, n) not in seen:
            seen.add((kernel, block, n))
            grid = -(-n // block) if kernel in ("saxpy", "accesses") else 432
            yield kernel, pa.Launch(grid, 256 if kernel == "block_sums" else block, {"n": n})


def kernel(name: str) -> pa.Kernel:
    if name == "accesses":
        fields = [pa.Field("a", shape=(1 << 24,)), pa.Field("b", shape=(1 << 24,))]
        return pa.Kernel.from_accesses(name, fields, ["a[x]"], ["b[x]"])
    file = "reduction.cu" if name == "block_sums" else "saxpy.cu"
    defines = {"BLOCK": 256} if name == "block_sums" else {}
    return pa.from_cuda(KERNELS / file, name, defines=defines)


def predict_part(part: tuple[tuple[str, pa.Launch], ...]) -> int:
    known: dict[str, pa.Kernel] = {}
    for name, launch in part:
        pa.predict(known.setdefault(name, kernel(name)), launch, DEVICE)
    return len(part)


def launches() -> None:
    """Measure different launches of four kernels, three of them compiled."""
    pairs = questions()
    parts = [tuple(next(pairs) for _ in range(50)) for _ in range(20)]
    begin = time.monotonic()
    with ProcessPoolExecutor(2) as pool:
        count = sum(pool.map(predict_part, parts))
    print(f"{count} different launches on two cores: {since(begin)}")


def large() -> None:
    """Measure a large grid, a large trip count and a large kernel."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.cu"
        path.write_text(CODE.replace("BODY", "v = v * w + 1.5f; w = w * v + 2.5f;" * 25_000))
        trips = pa.from_cuda(path, "trips")
        line = pa.from_cuda(path, "line")
        saxpy = pa.from_cuda(KERNELS / "saxpy.cu", "saxpy")
        wide = pa.Kernel.from_accesses("wide", [pa.Field("a", shape=(1 << 37,))], ["a[x]"])
        show("10⁹ blocks", saxpy, pa.Launch(10**9, 2, {"n": 2 * 10**9}))
        show("10⁹ blocks of accesses", wide, pa.Launch(10**9, 128))
        show("10¹² trips", trips, pa.Launch(1000, 128, {"n": 10**12}))
        show("50,000 instructions", line, pa.Launch(1000, 128))


def show(what: str, kernel: pa.Kernel, launch: pa.Launch) -> None:
    begin, used = time.monotonic(), time.process_time()
    try:
        answer = f"{pa.predict(kernel, launch, DEVICE).time:.4g} s"
    except pa.PerfAssertError as error:
        answer = f"{type(error).__name__}: {str(error)[:120]}"
    seconds, used = time.monotonic() - begin, time.process_time() - used
    print(
        f"{what}: {seconds:.1f} s ({used:.1f} s of this processor), {resident():.0f} MB ({answer})"
    )


def memory() -> None:
    """Print the memory of the process after each 500 predictions."""
    pairs = questions()
    known: dict[str, pa.Kernel] = {}
    answers = []
    for count in range(1, 2001):
        name, launch = next(pairs)
        pa.predict(known.setdefault(name, kernel(name)), launch, DEVICE)
        if count % 500 == 0:
            answers.append(f"{count}: {resident():.0f} MB")
    print(f"predictions in one process: {', '.join(answers)}")


def caches() -> None:
    """The folder of compiled kernels under a bound of 1 MB."""
    from perfassert.frontends.toolchain import cache

    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"PERFASSERT_CACHE_DIR": folder, "PERFASSERT_CACHE_SIZE": "1000000"}
        begin = time.monotonic()
        for number in range(COUNT):
            cache.store(cache.key([str(number)]), list(random.Random(number).randbytes(500)))
        took, entries = since(begin), list(Path(folder).iterdir())
        size = sum(entry.stat().st_size for entry in entries)
    print(f"{COUNT} entries stored: {took}; {len(entries)} left, {size / 1e6:.2f} MB of 1 MB")


def together() -> None:
    """Eight sessions that compile the same kernels, on an empty cache and again."""
    text = """
import pytest
import perfassert as pa

@pytest.mark.parametrize("n", range(20))
def test_of_one_cache(perf, n):
    kernel = pa.from_cuda("lines.cu", f"line{n}")
    print("DIGEST", n, perf(kernel, launch=pa.Launch(64, 128, {"n": n + 1})).question)
"""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "test_together.py").write_text(text)
        (folder / "lines.cu").write_text("".join(line_kernel(n) for n in range(20)))
        environment = {**os.environ, "PERFASSERT_CACHE_DIR": str(folder / "cache")}
        command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "-c",
                   os.devnull, "--rootdir=.", f"--perf-device={DEVICE}"]  # fmt: skip
        for state in ("empty", "full"):
            begin = time.monotonic()
            running = [
                subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE)
                for _ in range(8)
            ]
            printed = [process.communicate()[0].decode() for process in running]
            memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
            digests = [sorted(x for x in p.splitlines() if "DIGEST" in x) for p in printed]
            failed = sum(process.returncode != 0 for process in running)
            same = len({tuple(d) for d in digests}) == 1 and len(digests[0]) == 20
            left = len([p for p in (folder / "cache").iterdir() if p.suffix != ".kernel"])
            print(
                f"eight sessions of 20 kernels on one cache ({state}): {since(begin)}, "
                f"{memory:.0f} MB each at most; {failed} failed, "
                f"{'the same answers' if same else 'OTHER ANSWERS'}, {left} unfinished entries"
            )


def line_kernel(number: int) -> str:
    return (
        f'extern "C" __global__ void line{number}(float* a, int n) {{ '
        f"for (int i = 0; i < n; i++) a[threadIdx.x + i * {number + 1}] += {number}; }}\n"
    )


def listing() -> None:
    """Measure `perfassert kernels` for 5,000 kernels in 50 files."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file in range(50):
            text = "".join(line_kernel(100 * file + n) for n in range(100))
            (folder / f"lines{file}.cu").write_text(text)
        files = sorted(map(str, folder.glob("*.cu")))
        for state in ("empty", "full"):
            begin = time.monotonic()
            done = subprocess.run(
                [sys.executable, "-m", "perfassert", "kernels", *files, "--arch=sm_80", "--json"],
                env={**os.environ, "PERFASSERT_CACHE_DIR": str(folder / "cache")},
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
            listed = len(json.loads(done.stdout))
            print(
                f"{listed} kernels of 50 files listed ({state} cache): {since(begin)}, "
                f"{memory:.0f} MB"
            )


def since(begin: float) -> str:
    """Return the seconds since ``begin``, and those of all processors since the process began."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    busy = sum(u.ru_utime + u.ru_stime for u in used)
    return f"{time.monotonic() - begin:.1f} s ({busy:.1f} s of processors)"


def resident() -> float:
    """Return the resident memory of this process, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


PARTS: dict[str, Callable[[], None]] = {
    part.__name__: part
    for part in (
        tests,
        baselines,
        launches,
        large,
        memory,
        caches,
        together,
        listing,
    )
}

if __name__ == "__main__":
    chosen = sys.argv[1:]
    if len(chosen) == 1:
        PARTS[chosen[0]]()
    else:
        for name in chosen or PARTS:
            subprocess.run([sys.executable, __file__, name], check=True)
