"""Launches of a suite's rows, once each, in a process of its own for a profiler to see."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from perfassert.errors import PerfAssertError
from perfassert.lab.measurement.cuda_gpu import CudaGpu
from perfassert.lab.measurement.plan import gpu_launch, jobs
from perfassert.lab.validation.read import read_suite


def main() -> str | None:
    """Launch rows of a suite: ``SUITE NUMBERS DEVICE GPU``, numbers as in ``0,2``.

    Returns a message, with which the process fails, or None.
    """
    suite_path, numbers, device, index = sys.argv[1:]
    try:
        launch_rows(Path(suite_path), [*map(int, numbers.split(","))], device, int(index))
    except PerfAssertError as error:
        return f"perfassert: {error}"
    return None


def launch_rows(suite_path: Path, numbers: Sequence[int], device: str, index: int) -> None:
    """Launch the jobs ``numbers`` of a suite, in that order."""
    suite = read_suite(suite_path)
    rows = jobs(suite)
    gpu = CudaGpu(index)
    try:
        for number in numbers:
            gpu.launch(gpu_launch(suite, rows[number], device, gpu.properties().arch))
    finally:
        gpu.close()
