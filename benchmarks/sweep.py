"""Launches of one compiled kernel, each of another size: seconds and memory.

Usage: python benchmarks/sweep.py [LAUNCHES] [--jobs N | --dask N]     (prints; nothing is asserted)

One process; ``--jobs N``: a pool of N, started for it; ``--dask N``: a local Dask cluster of N
workers. Memory is the peak of the largest process.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from funnel import spent

import perfassert as pa
from perfassert.cli.executors import executor_of

SAXPY = Path(__file__).parents[1] / "examples" / "kernels" / "saxpy.cu"
CHUNK = 250  # launches that a worker gets at a time
DEVICE = "a100"
PROCESSES = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("launches", nargs="?", type=int, default=10_000)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--jobs", type=int, default=1, metavar="N")
    where.add_argument("--dask", type=int, default=0, metavar="N")
    options = parser.parse_args()
    pa.rank(candidates(range(1)), DEVICE)  # compiles
    ranges = [range(n, min(n + CHUNK, options.launches)) for n in range(0, options.launches, CHUNK)]
    begin, before = time.perf_counter(), spent()
    with (
        dask_address(options.dask) as address,
        executor_of(argparse.Namespace(jobs=options.jobs, dask=address)) as pool,
    ):
        start = time.perf_counter()
        if pool is None:
            for numbers in ranges:
                pa.rank(candidates(numbers), DEVICE)
        else:
            waiting = [pool.submit(pa.rank, candidates(numbers), DEVICE) for numbers in ranges]
            for future in waiting:
                future.result()
        end = time.perf_counter()
    largest = max(resource.getrusage(who).ru_maxrss for who in PROCESSES) / 1024
    processor = spent() - before
    each = 1e3 * processor / options.launches
    print(
        f"{options.launches} launches: {processor:.1f} s of the processor in all processes, "
        f"{each:.2f} ms each; {end - start:.1f} s by the clock, after {start - begin:.1f} s until "
        f"processes can start; largest process {largest:.0f} MB"
    )


@contextmanager
def dask_address(workers: int) -> Iterator[str | None]:
    """Yield the address of a local cluster; None for no workers."""
    if not workers:
        yield None
        return
    from distributed import LocalCluster

    with LocalCluster(workers, threads_per_worker=1, dashboard_address=":0") as cluster:
        yield cluster.scheduler_address


def candidates(numbers: range) -> dict[int, tuple[pa.Kernel, pa.Launch]]:
    """Return launches of one kernel, by their blocks."""
    kernel = pa.from_cuda(SAXPY, "saxpy")
    sizes = [4096 + number for number in numbers]
    return {n: (kernel, pa.Launch(n, 256, {"n": 256 * n})) for n in sizes}


if __name__ == "__main__":
    main()
