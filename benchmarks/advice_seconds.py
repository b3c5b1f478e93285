"""Seconds of advice on the largest kernels of a folder of CUDA programs.

``python benchmarks/advice_seconds.py FOLDER [--make] [--programs '*-cuda'] [--sample 120]
[--count 100]``: programs, options, launches and arguments are found, or stood in for, as by
``funnel.py``. Of all kernels in code the ``--count`` with the most instructions are predicted and
advised on, each in a process of its own: instructions, processor seconds of the prediction and of
the advice with what it compiles, and the share of the compilers in these.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import funnel

import perfassert as pa
from perfassert.report.tables import table

SLOW = 10.0  # processor seconds: advice that takes longer is named


def main() -> None:
    parser = funnel.make_parser(__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100, help="kernels")
    options = parser.parse_args()
    if options.step:
        step(options, Path(options.step[0]), options.step[1])
        return
    begin = time.monotonic()
    found = funnel.each(options, lambda p: sizes(options, p), funnel.programs(options))
    largest = sorted((k for own in found for k in own), reverse=True)[: options.count]
    rows = funnel.each(
        options, lambda k: funnel.run_step(options, Path(k[1]), k[2], __file__), largest
    )
    if options.rows:
        options.rows.write_text(json.dumps(rows, indent=1))
    report(rows, sum(map(len, found)), time.monotonic() - begin)


def sizes(options: Any, files: list[Path]) -> list[tuple[int, str, str]]:
    """Bytes of code, file and name of each kernel of a program."""
    rows = [(path, funnel.run_step(options, path, "", __file__)) for path in files]
    print(".", end="", flush=True, file=sys.stderr)
    return [(size, str(path), name) for path, row in rows for name, size in row.get("sizes", ())]


def step(options: Any, path: Path, kernel: str) -> None:
    """List the sizes of a file's kernels, or advise on one; a line of JSON for each stage."""
    given = funnel.how(options, path)
    try:
        if not kernel:
            kernels = pa.kernels(path, options.arch, **given)
            print(json.dumps({"sizes": [(k.mangled, k.code_bytes) for k in kernels]}))
            return
        device = pa.device(options.device)
        code = pa.from_cuda(path, kernel, **given)
        program = code.compiled.program(device.arch)
        print(json.dumps({"instructions": len(program.instructions)}), flush=True)
        launch = funnel.stand_in_launch(program)
        begin = funnel.spent()
        prediction = pa.predict(code, launch, device)
        predicted = funnel.spent()
        print(json.dumps({"predicted": predicted - begin}), flush=True)
        own = os.times().user
        advice = prediction.advice
        print(json.dumps({
            "advised": funnel.spent() - predicted,
            "compilers": resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime,
            "own": os.times().user - own,
            "first": f"{advice[0].optimizer} {advice[0].speedup:.2f}" if advice else "",
            "trials": len(prediction.diagnosis.trials),
        }), flush=True)  # fmt: skip
    except pa.PerfAssertError as error:
        print(json.dumps({"lost": funnel.cause(error)}))


def report(rows: list[dict[str, Any]], known: int, seconds: float) -> None:
    """Print the kernels that took long, and statistics of all kernels."""
    advised = [r for r in rows if "advised" in r]
    slow = sorted((r for r in advised if r["own"] > SLOW), key=lambda r: -r["own"])
    print(f"\n{known} kernels in code, the {len(rows)} largest tried: {len(advised)} advised on")
    print(f"instructions: {min(r['instructions'] for r in advised)} to "
          f"{max(r['instructions'] for r in advised)}")  # fmt: skip
    for what in ("predicted", "advised", "own"):
        values = sorted(r[what] for r in advised)
        tenth = values[len(values) * 9 // 10]
        print(f"{what}: median {statistics.median(values):.1f} s, 90th percentile {tenth:.1f}, "
              f"most {values[-1]:.1f}")  # fmt: skip
    lines = [
        (r["instructions"], f"{r['predicted']:.1f}", f"{r['advised']:.1f}", f"{r['own']:.1f}",
         r["trials"], r["first"], f"{Path(r['path']).name} {r['kernel'][:40]}")
        for r in slow
    ]  # fmt: skip
    if lines:
        print(table(("instructions", "predicted", "advised", "own", "trials", "first", ""), lines))
    funnel.print_counts("lost", [r["lost"] for r in rows if "lost" in r])
    funnel.print_counts("hangs", [f"{r['path']} {r['kernel']}" for r in rows if "hang" in r])
    broken = [r for r in rows if "traceback" in r]
    funnel.print_counts("tracebacks", [f"{r['path']}\n{r['traceback']}" for r in broken])
    print(f"{seconds:.0f} s")


if __name__ == "__main__":
    main()
