"""Counts of work: what engines and tools report of themselves while a block of code runs.

They are the same on every machine and in every run: they can be compared where times cannot.
Nothing in the package counts for this: results are looked at as their functions return them.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from perfassert.engines.execution.execute import execute
from perfassert.engines.pipeline.compiled import run_compiled, time_compiled
from perfassert.engines.pipeline.program import compile_programs
from perfassert.engines.pipeline.results import Duration
from perfassert.engines.volume.runs import merge_runs
from perfassert.engines.volume.warps import lane_addresses
from perfassert.frontends.toolchain.tools import run_tool

_Counts = Mapping[str, int]


def _count_run(run: Duration) -> _Counts:
    return {"simulations": 1, "instructions simulated": run.simulated}


_COUNTED: Mapping[CodeType, Callable[[Any], _Counts]] = {
    run_compiled.__code__: _count_run,
    time_compiled.__code__: _count_run,
    compile_programs.__code__: lambda made: {
        "nodes compiled": sum(len(program.costs) for program in made[0]),
    },
    merge_runs.__code__: lambda runs: {"unions of runs": 1, "runs of sectors": len(runs)},
    lane_addresses.__code__: lambda lanes: {"addresses of lanes": int(lanes.addresses.size)},
    execute.__code__: lambda execution: {
        "instructions executed": int(execution.executed.sum()),
    },
    run_tool.__code__: lambda _: {"tools started": 1},
}


@contextmanager
def count_work() -> Iterator[Counter[str]]:
    """Counts of what happens inside, in this thread and in those that start there; complete when it
    is left."""
    counts: Counter[str] = Counter()

    def on_event(frame: FrameType, event: str, result: Any) -> None:
        if event == "return" and result is not None and frame.f_code in _COUNTED:
            counts.update(_COUNTED[frame.f_code](result))

    before = sys.getprofile()
    sys.setprofile(on_event)
    threading.setprofile(on_event)
    try:
        yield counts
    finally:
        sys.setprofile(before)
        threading.setprofile(before)
