"""``python -m perfassert.lab.measurement.replay``: launches rows once, for a profiler to see."""

from __future__ import annotations

import sys
from pathlib import Path

from perfassert.errors import PerfAssertError
from perfassert.lab.measurement.cuda_gpu import CudaGpu
from perfassert.lab.measurement.plan import gpu_launch, jobs
from perfassert.lab.validation.read import read_suite


def main(suite_path: str, numbers: str, device: str, index: str) -> None:
    """The jobs ``numbers`` (``"0,2"``) of a suite, in that order."""
    suite = read_suite(Path(suite_path))
    rows = jobs(suite)
    gpu = CudaGpu(int(index))
    try:
        for number in map(int, numbers.split(",")):
            gpu.launch(gpu_launch(suite, rows[number], device, gpu.properties().arch))
    finally:
        gpu.close()


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except PerfAssertError as error:
        sys.exit(f"perfassert: {error}")
