"""Speed of block execution: lane-instructions per second of both engines, whole code and slice.

The kernels are a regular one (matrix product), one whose warps diverge (sparse matrix by rows), one
whose lanes search, and one whose lanes diverge at every step. The time of a prediction of the
sparse one, which has to execute a sample, follows. `make bench` runs it; it needs the extra
``cuda``.
"""

from __future__ import annotations

import struct
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import perfassert as pa
from perfassert.engines.execution.execute import execute
from perfassert.engines.execution.memory import Region
from perfassert.engines.execution.plan import ExecutionLimits
from perfassert.engines.execution.presets import ArgumentValue
from perfassert.engines.execution.slicing import control_slice
from perfassert.frontends.machine.lowering import executable
from perfassert.frontends.toolchain import tools
from perfassert.frontends.toolchain.build import Source, build

ROWS = 1 << 14
CODE = """
extern "C" __global__ void rows(const int* rows, const int* columns, const float* values,
                                const float* x, float* y, int n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n) return;
    float sum = 0;
    for (int e = rows[row]; e < rows[row + 1]; e++) sum += values[e] * x[columns[e]];
    y[row] = sum;
}
extern "C" __global__ void search(const int* keys, int n, const int* wanted, int* places) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, low = 0, high = n;
    while (low < high) {
        int middle = (low + high) / 2;
        if (keys[middle] < wanted[i]) low = middle + 1; else high = middle;
    }
    places[i] = low;
}
extern "C" __global__ void divergent(const int* start, int* steps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = start[i], count = 0;
    while (n != 1) {
        if (n % 2) n = 3 * n + 1; else n /= 2;
        count++;
    }
    steps[i] = count;
}
extern "C" __global__ void product(const float* a, const float* b, float* c, int n) {
    __shared__ float x[16][16], y[16][16];
    int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; k += 16) {
        x[threadIdx.y][threadIdx.x] = a[i * n + k + threadIdx.x];
        y[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + j];
        __syncthreads();
        for (int l = 0; l < 16; l++) sum += x[threadIdx.y][l] * y[l][threadIdx.x];
        __syncthreads();
    }
    c[i * n + j] = sum;
}
"""


def main() -> None:
    if tools.find("nvrtc") is None or tools.find("nvdisasm") is None:
        sys.exit('the extra is not installed: pip install "perfassert[cuda]"')
    generator = np.random.default_rng(1)
    lengths = generator.integers(0, 40, ROWS)
    rows = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    columns = generator.integers(0, ROWS, rows[-1]).astype(np.int32)
    keys = np.arange(100_000, dtype=np.int32)
    wanted = generator.integers(0, len(keys), ROWS).astype(np.int32)
    number = struct.Struct("<i").pack
    matrix, output = Region("matrix"), Region("out")
    cases: list[tuple[str, tuple[int, ...], tuple[int, ...], list[ArgumentValue]]] = [
        ("product", (16, 16), (16, 16), [matrix, matrix, output, number(256)]),
        ("rows", (ROWS // 128,), (128,), [region(rows), region(columns), matrix, matrix, output,
                                          number(ROWS)]),
        ("search", (ROWS // 128,), (128,), [region(keys), number(len(keys)), region(wanted),
                                            output]),
        ("divergent", (ROWS // 128,), (128,), [region(wanted + 1), output]),
    ]  # fmt: skip
    print(f"{'':>30}{'compiled, M/s':>20}{'numpy, M/s':>20}")
    print(f"{'kernel':<10}{'Mlane-instructions':>20}" + 2 * f"{'whole':>10}{'slice':>10}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "benchmark.cu"
        path.write_text(CODE)
        for case in cases:
            report(path, *case)
        report_prediction(path, rows, columns)


def region(array: np.ndarray) -> Region:  # type: ignore[type-arg]
    return Region("data", array.view(np.uint8), array.nbytes)


def report(
    path: Path,
    kernel: str,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    given: list[ArgumentValue],
) -> None:
    code = executable(build(Source(path, "cuda", kernel), "sm_80"))
    launch = pa.Launch(grid, block)
    rates = []
    count = 0
    for compiled in (True, False):
        for needed in (None, control_slice(code)):
            start = time.process_time()
            run = execute(
                code,
                launch,
                given,
                range(launch.blocks),
                ExecutionLimits(100_000_000),
                needed,
                compiled,
            )
            rates.append(run.lane_instructions / (time.process_time() - start) / 1e6)
            count = run.lane_instructions
    print(f"{kernel:<10}{count / 1e6:>20.1f}" + "".join(f"{rate:>10.0f}" for rate in rates))


def report_prediction(path: Path, rows: np.ndarray, columns: np.ndarray) -> None:  # type: ignore[type-arg]
    kernel = pa.from_cuda(path, kernel="rows")
    launch = pa.Launch(ROWS // 128, 128, {"rows": rows, "columns": columns, "n": ROWS})
    kernel.compiled.program("sm_80")
    start = time.process_time()
    pa.predict(kernel, launch, "a100")
    print(f"prediction of rows, compiled and described before: {time.process_time() - start:.2f} s")


if __name__ == "__main__":
    main()
