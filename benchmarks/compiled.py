"""Seconds from a binary to its description, and the compilations of a second run.

Measured are cached tool output → program, for kernels of about 1,000 and 20,000 SASS instructions,
and warm predictions of them, each of a new launch. `make bench` runs it; it needs the extra
``cuda``.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import perfassert as pa
from perfassert.frontends.analysis.describe import describe
from perfassert.frontends.toolchain import tools
from perfassert.frontends.toolchain.build import Source, build

CONVOLUTION = Path(__file__).parents[1] / "examples" / "kernels" / "convolution.cu"
SIZES = {"about 1,000": (2, 1), "about 3,000": (4, 2), "about 20,000": (1, 1)}
LONG = """
extern "C" __global__ void longest(const float* a, float* b, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;
{}
    b[i] = s;
}}
""".format("\n".join(f"    s += a[i + {k} * n] * a[i + {k}];" for k in range(4000)))


def main() -> None:
    if tools.find("nvrtc") is None or tools.find("nvdisasm") is None:
        sys.exit('the extra is not installed: pip install "perfassert[cuda]"')
    os.environ.setdefault("PERFASSERT_TOOL_TIMEOUT", "600")
    with tempfile.TemporaryDirectory() as folder:
        long = Path(folder) / "long.cu"
        long.write_text(LONG)
        for size, (x, y) in SIZES.items():
            source = Source(CONVOLUTION, "cuda", "convolution", defines(x, y))
            if size.endswith("20,000"):
                source = Source(long, "cuda", "longest")
            report(size, source)
        calls = []
        real = tools.run_tool
        tools.run_tool = lambda *a, **k: calls.append(a) or real(*a, **k)  # type: ignore[func-returns-value]
        build(source, "sm_80")
        print(f"tools run by a second build: {len(calls)}")


def report(size: str, source: Source) -> None:
    binary = build(source, "sm_80")
    start = time.perf_counter()
    program = describe(binary)
    seconds = time.perf_counter() - start
    print(f"{size}: {len(program.instructions)} instructions described in {1e3 * seconds:.0f} ms")
    kernel = pa.from_cuda(source.path, source.kernel, defines=source.defines)
    args = {"n": 1 << 16} if source.kernel == "longest" else {}
    print(f"  warm prediction: {1e3 * min(warm(kernel, range(6), args)[1:]):.0f} ms")


def defines(x: int, y: int) -> dict[str, int]:
    return {"block_size_x": 32, "block_size_y": 8, "tile_size_x": x, "tile_size_y": y}


def convolution(size: str) -> pa.Kernel:
    return pa.from_cuda(CONVOLUTION, "convolution", defines=defines(*SIZES[size]))


def launch(number: int, args: Mapping[str, int] | None = None) -> pa.Launch:
    """Another one for each number: the same question would be answered from a cache."""
    return pa.Launch((64 + number, 256), (32, 8) if not args else 256, args=args or {})


def warm(
    kernel: pa.Kernel, numbers: Sequence[int], args: Mapping[str, int] | None = None
) -> list[float]:
    """Processor seconds of a prediction for each of several launches; the first one may be cold."""
    times = []
    for number in numbers:
        start = time.process_time()
        pa.predict(kernel, launch(number, args), "a100")
        times.append(time.process_time() - start)
    return times


if __name__ == "__main__":
    main()
