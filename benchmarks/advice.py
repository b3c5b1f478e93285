"""Seconds that blame and advice take, for kernels of about 1,000 and 20,000 SASS instructions.

``known``: the simulator names the instruction for which a warp waited. ``sliced``: every use is
sliced and pruned, as for a measured profile. Estimates that simulate again are left out.
`make bench` runs it; it needs the extra ``cuda``.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import perfassert as pa
from perfassert.engines.advisor.advise import advise, own_optimizers
from perfassert.engines.advisor.blame import blame
from perfassert.engines.advisor.code import Code
from perfassert.frontends.toolchain import tools
from perfassert.predictor.diagnose.diagnose import advisor_case, latency_bounds
from perfassert.predictor.model import bind_launch, make_model
from perfassert.predictor.session import DEFAULT

DEVICE = pa.device("a100")
LAUNCH = pa.Launch(4096, 256, args={"n": 1 << 20})
SUMS = {"about 1,000": 210, "about 20,000": 4000}
LOOPS = {"about 1,000, loops": 10, "about 8,000, loops": 60}
HEAD = """
extern "C" __global__ void longest(const float* a, float* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;
"""
SUM = "    s += a[i + {k} * n] * a[i + {k}];"
LOOP = """
    #pragma unroll 1
    for (int k = 0; k < 8; ++k) {{
        if (s < {k}) s = s * s + a[i + {k} * n + k];
        #pragma unroll
        for (int j = 0; j < 24; ++j) s = s * 0.5f + a[i + j * n + k + {k}];
    }}"""
_T = TypeVar("_T")


def main() -> None:
    if tools.find("nvrtc") is None or tools.find("nvdisasm") is None:
        sys.exit('the extra is not installed: pip install "perfassert[cuda]"')
    os.environ.setdefault("PERFASSERT_TOOL_TIMEOUT", "600")
    print(f"{'kernel':<22}{'instructions':>13}{'code':>8}{'known':>8}{'sliced':>8}{'advise':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for text, sizes in ((SUM, SUMS), (LOOP, LOOPS)):
            for name, count in sizes.items():
                path = Path(folder) / f"longest{text is LOOP}{count}.cu"
                body = "\n".join(text.format(k=k) for k in range(count))
                path.write_text(f"{HEAD}{body}\n    b[i] = s;\n}}\n")
                report(name, pa.from_cuda(path))


def report(name: str, kernel: pa.Kernel) -> None:
    model = make_model(bind_launch(DEFAULT.ask(kernel, LAUNCH, DEVICE)), LAUNCH, DEVICE)
    program = model.bound_launch.kernel.program
    case = advisor_case(pa.predict(kernel, LAUNCH, DEVICE), pa.predict)
    assert program is not None
    assert case is not None
    measured = replace(case.samples, edges=None)
    code, reading = best_time(lambda: Code.of(program))
    bounds = latency_bounds(code, DEVICE)
    _, known = best_time(lambda: blame(code, case.samples, bounds))
    blamed, sliced = best_time(lambda: blame(code, measured, bounds))
    again = replace(case, blames=blamed.blames)
    _, advising = best_time(lambda: advise(again, own_optimizers()))
    times = "".join(f"{1e3 * t:>5.0f} ms" for t in (reading, known, sliced, advising))
    print(f"{name:<22}{len(program.instructions):>13}{times}")


def best_time(work: Callable[[], _T]) -> tuple[_T, float]:
    """The result and the best of three times."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - start)
    return result, min(times)


if __name__ == "__main__":
    main()
