"""Seconds that the check of a kernel's closed forms by a few executed warps costs.

``python benchmarks/checked.py``: the first prediction of each kernel of the own suite in a process,
compilation left out, with the check and without, one after the other; and all of its launches.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from unittest import mock

import perfassert as pa
from perfassert.frontends.analysis.describe import describe
from perfassert.lab.validation.build import make_kernel, make_launch, row_names
from perfassert.lab.validation.read import read_suite
from perfassert.predictor.sample import executed

SUITE = Path(__file__).parents[1] / "validation" / "own_kernels.toml"
KERNELS = ("copy", "saxpy", "jacobi2d", "star3d", "box3d", "transpose_padded", "sum_tree",
           "scan_shared", "matmul_tiled", "matmul_registers", "nbody_shared", "softmax_passes",
           "convolve_shared")  # fmt: skip


def no_differences(code, described, launch, work, device):
    return ()


def seconds(suite, name: str, device, rows: int) -> float:
    """Processor time from the kernel's code on: description, check, predictions."""
    spec = suite.kernels[name]
    launches = []
    for row in spec.rows[:rows]:
        names = row_names(spec, dict(row))
        kernel = make_kernel(spec, names, name)
        launches.append((kernel, make_launch(spec.launch, names, kernel, device)))
    binary = launches[0][0].compiled.binary(device.arch)
    start, session = time.process_time(), pa.Session()
    for kernel, launch in launches:
        session.predict(kernel, launch, device)
    return time.process_time() - start + described_in(binary)


def described_in(binary) -> float:
    start = time.process_time()
    describe(binary)
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--device", default="a100")
    args = parser.parse_args()
    suite, device = read_suite(SUITE), pa.device(args.device)
    print(f"{'kernel':18}{'first, ms':>10}{'checked':>9}{'ratio':>7}{'all, ms':>10}{'checked':>9}"
          f"{'ratio':>7}{'launches':>9}")  # fmt: skip
    sums = [0.0] * 4
    for name in KERNELS:
        seconds(suite, name, device, 1)  # compiles, imports
        medians = []
        for rows in (1, len(suite.kernels[name].rows)):
            pairs = [(once(suite, name, device, rows, False), once(suite, name, device, rows, True))
                     for _ in range(args.repeat)]  # fmt: skip
            medians += [statistics.median(side) for side in zip(*pairs, strict=True)]
        sums = [total + own for total, own in zip(sums, medians, strict=True)]
        show(name, medians, len(suite.kernels[name].rows))
    show("all", sums, 0)


def once(suite, name: str, device, rows: int, check: bool) -> float:
    if check:
        return seconds(suite, name, device, rows)
    with mock.patch.object(executed, "find_differences", no_differences):
        return seconds(suite, name, device, rows)


def show(name: str, medians: list[float], launches: int) -> None:
    first, checked, every, all_checked = (1e3 * f for f in medians)
    print(f"{name:18}{first:10.1f}{checked:9.1f}{checked / first:7.2f}{every:10.1f}"
          f"{all_checked:9.1f}{all_checked / every:7.2f}{launches or '':>9}")  # fmt: skip


if __name__ == "__main__":
    main()
