"""Growth of time with a kernel's instructions, trips and grid; with launches, tests and kernels.

``python benchmarks/growth.py [WHAT …]`` prints, for each of them, processor seconds of sizes that
lie a factor apart, and the exponent of the power law through them: least squares of the logarithms.
Tests and kernels are timed as processes of pytest and ``perfassert survey``, less one that has
nothing to do. It needs the extra ``cuda``.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import load
import many_kernels
import numpy as np
import sessions
import sweep

import perfassert as pa

_LINE = "    s = s * a[i + {k}] + {k};"
_STRAIGHT = """
extern "C" __global__ void straight(const float* a, float* b, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;
{lines}
    b[i] = s;
}}
"""
_LOOP = """
extern "C" __global__ void loop(const float* a, float* b, int n, int trips) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;
    for (int k = 0; k < trips; k++) s = s * a[i + (k & 1023) * n] + a[i];
    b[i] = s;
}
"""
_NO_TESTS = 5  # pytest's exit status
_RUNS = 3
_BLOCKS = 4096


def _seconds(work: Callable[[int], object]) -> float:
    """The least of some runs, which are told their number; one before them is not counted."""
    work(0)
    spent = []
    for number in range(1, _RUNS + 1):
        start = time.process_time()
        work(number)
        spent.append(time.process_time() - start)
    return min(spent)


def _ask(kernel: pa.CompiledKernel, **args: int) -> Callable[[int], object]:
    """Warm predictions, each of a launch that was not asked for before."""
    return lambda number: pa.predict(kernel, pa.Launch((_BLOCKS + number,), (256,), args), "a100")


def by_instructions(folder: Path, lines: Sequence[int]) -> dict[int, float]:
    """Return the seconds of straight code, by its number of machine instructions."""
    found = {}
    for count in lines:
        path = folder / f"straight{count}.cu"
        body = "\n".join(_LINE.format(k=k) for k in range(count))
        path.write_text(_STRAIGHT.format(lines=body))
        kernel = pa.from_cuda(path)
        prediction = pa.predict(kernel, pa.Launch((1,), (32,), {"n": 1 << 20}), "a100")
        instructions = int(prediction.resources.instructions)
        found[instructions] = _seconds(_ask(kernel, n=1 << 20))
    return found


def by_trips(folder: Path, trips: Sequence[int]) -> dict[int, float]:
    """Return the seconds of one loop, by its trips."""
    path = folder / "loop.cu"
    path.write_text(_LOOP)
    kernel = pa.from_cuda(path)
    return {count: _seconds(_ask(kernel, n=1 << 20, trips=count)) for count in trips}


def by_blocks(blocks: Sequence[int]) -> dict[int, float]:
    """Return the seconds of a stencil described by address expressions, by blocks."""
    found = {}
    for count in blocks:
        field = pa.Field("a", "float32", (256 * (count + _RUNS),), halo=1)
        loads = [f"a[x + {d}]" for d in (-1, 0, 1)]
        kernel = pa.Kernel.from_accesses("row", [field], loads, ["a[x]"])
        found[count] = _seconds(
            lambda n, k=kernel, c=count: pa.predict(k, pa.Launch((c + n,), (256,)), "a100")
        )
    return found


def by_launches(counts: Sequence[int]) -> dict[int, float]:
    """Return the seconds of a ranking, by its launches; none is asked for twice."""
    pa.rank(sweep.candidates(range(1)), "a100")  # compiles
    found, first = {}, 1
    for count in counts:
        start = time.process_time()
        pa.rank(sweep.candidates(range(first, first + count)), "a100")
        found[count] = time.process_time() - start
        first += count
    return found


def by_tests(folder: Path, counts: Sequence[int]) -> dict[int, float]:
    """Return the seconds of a run of pytest, by its tests, less those of one without tests."""

    def run(count: int) -> float:
        file = folder / "test_growth.py"
        compared = 'p.expect(time="< 1 s")'
        text = load.TESTS.format(count=count, width="4096 - 2 * n", compared=compared)
        file.write_text(text)
        command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--perf-device=a100", str(file)]
        return _seconds_of_process(folder, command)

    run(1)  # compiles Python's modules
    alone = run(0)
    return {count: run(count) - alone for count in counts}


def by_kernels(folder: Path, counts: Sequence[int]) -> dict[int, float]:
    """Return the seconds of a survey with an empty cache, by kernels, less those of its start."""
    found = {}
    alone = _seconds_of_process(folder, ["-m", "perfassert", "survey", "--help"])
    for count in counts:
        own = folder / f"kernels{count}"
        own.mkdir()
        many_kernels.build_library(str(own), count)
        command = ["-m", "perfassert", "survey", "many.o"]
        found[count] = _seconds_of_process(own, command) - alone
    return found


def _seconds_of_process(folder: Path, words: Sequence[str]) -> float:
    """Return the processor seconds of Python with these words, those that it starts included."""
    environment = sessions.environment_with(PERFASSERT_CACHE_DIR=str(folder / "cache"))
    before = sessions.spent()
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, check=False
    )
    if done.returncode not in (0, _NO_TESTS):
        raise SystemExit(done.stdout.decode()[-2000:] + done.stderr.decode()[-2000:])
    return sessions.spent() - before


def exponent(seconds: Mapping[int, float]) -> float:
    """Compute the exponent of the power law through the points."""
    slope = np.polyfit(np.log(list(seconds)), np.log(list(seconds.values())), 1)[0]
    return float(slope)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        grown = {
            "instructions": lambda: by_instructions(folder, (250, 500, 1000, 2000, 4000)),
            "trips": lambda: by_trips(folder, [10**n for n in range(3, 9)]),
            "blocks": lambda: by_blocks([10**n for n in range(2, 7)]),
            "launches": lambda: by_launches((125, 250, 500, 1000)),
            "tests": lambda: by_tests(folder, (125, 250, 500, 1000)),
            "kernels": lambda: by_kernels(folder, (100, 200, 400, 800)),
        }
        for what in sys.argv[1:] or grown:
            seconds = grown[what]()
            points = ", ".join(f"{size:.3g}: {t * 1e3:.3g} ms" for size, t in seconds.items())
            print(f"{what}: exponent {exponent(seconds):.2f} ({points})", flush=True)


if __name__ == "__main__":
    main()
