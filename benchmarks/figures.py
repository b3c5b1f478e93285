"""Figures that a change should know of: counts of work, which every machine reproduces, and times.

Usage: python benchmarks/figures.py [--check]

Writes ``benchmarks/figures.json``, which is committed. ``--check`` counts anew and fails where a
count is more than 5 % above the one in the file; it measures no time.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import compiled
import execution
import modules
import numpy as np
import pipeline
import sessions
import volumes
from work import count_work

import perfassert as pa
from perfassert.engines.pipeline.compiled import available
from perfassert.frontends.toolchain import tools

FILE = Path(__file__).with_name("figures.json")
MORE = 1.05  # times as much work: more has to be in the file
SESSIONS = "session of 20 kernels on three devices"
EVERY = 12  # so many configurations of the star are one of a sample
_Counts = dict[str, dict[str, int]]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--check", action="store_true", help="compare counts with the file")
    check = options.parse_args().check
    if not available() or tools.find("nvrtc") is None or tools.find("nvdisasm") is None:
        sys.exit('counts need the compiled engine and the extra: pip install "perfassert[cuda]"')
    current = counts()
    if check:
        known = json.loads(FILE.read_text())["counts"]
        complaints = grown(known, current)
        print("\n".join(complaints) or f"{len(current)} scenarios: no more work than on record")
        sys.exit(1 if complaints else 0)
    FILE.write_text(json.dumps({"counts": current, **times()}, indent=2) + "\n")
    print(FILE.read_text())


def grown(known: Mapping[str, Mapping[str, int]], current: _Counts) -> list[str]:
    """Return messages about counts more than 5 % above the record, or only in one of the two."""
    complaints = []
    for scenario, counts in current.items():
        for name, before in known.get(scenario, {}).items():
            if before and name not in counts:
                complaints.append(f"{scenario}: {name}: on record, but not counted any more")
        for name, count in counts.items():
            before = known.get(scenario, {}).get(name, 0)
            if count > MORE * before:
                complaints.append(
                    f"{scenario}: {name} {count}, on record {before}; if that is right, "
                    "`make bench` writes it, and the commit says why"
                )
    gone = [s for s in known if s not in current]
    return complaints + [f"{s}: on record, but not counted any more" for s in gone]


def counts() -> _Counts:
    """Count the work of each scenario; caches are new, and no question is asked twice."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PERFASSERT_CACHE_DIR"] = f"{folder}/cache"
        work_of = {}
        for name, scenario in scenarios(Path(folder)).items():
            with count_work() as counter:
                scenario()
            work_of[name] = dict(sorted(counter.items()))
        for name, code in modules.SCENARIOS.items():
            work_of[name] = {"modules": len(modules.imported_modules(code))}
        cold, warm = (sessions.run_session(Path(folder))[-1] for _ in range(2))
        work_of[SESSIONS] = {f"{tool} started": count for tool, count in sorted(cold.items())}
        work_of[SESSIONS]["started when warm"] = warm.total()
        return work_of


def scenarios(folder: Path) -> dict[str, Callable[[], object]]:
    """Return the scenarios in the order in which they run: later ones use cached compilations."""
    kernel = compiled.convolution("about 1,000")
    (folder / "rows.cu").write_text(execution.CODE)
    rows = pa.from_cuda(folder / "rows.cu", kernel="rows")
    return {
        "simulation that recurs": lambda: pipeline.matmul(8, 1024, 8, issue_order="in-order"),
        "simulation that is plain": lambda: pipeline.matmul(
            8, 256, 8, issue_order="in-order", fast_forward=False
        ),
        "25-point star, one configuration of twelve": lambda: star(EVERY),
        "1,000 instructions, compiled": lambda: compiled.warm(kernel, range(1)),
        "1,000 instructions, three launches": lambda: compiled.warm(kernel, range(1, 4)),
        "sparse rows, executed": lambda: sparse(rows),
        "advice": lambda: pa.predict(kernel, compiled.launch(7), "a100").advice,
    }


def star(every: int) -> None:
    """Some of the configurations, those of one fold as those of another."""
    device = pa.device("a100")
    for fold in volumes.FOLDS.values():
        kernel = volumes.star3d25pt(volumes.DOMAIN, fold)
        for block in volumes.blocks()[::every]:
            threads = volumes.threads(volumes.DOMAIN, fold)
            pa.predict(kernel, pa.Launch.cover(threads, block), device)


def sparse(kernel: pa.Kernel) -> None:
    """A prediction that has to execute blocks, of which no two do the same."""
    size = 1 << 12
    rows = (np.arange(size + 1) * 20 + np.arange(size + 1) % 7).astype(np.int32)
    columns = (np.arange(rows[-1]) * 7919 % size).astype(np.int32)
    args = {"rows": rows, "columns": columns, "n": size}
    pa.predict(kernel, pa.Launch(size // 128, 128, args), "a100")


def times() -> dict[str, object]:
    """Best of several, of the processor; they tell of the machine that wrote them, too."""
    kernel = compiled.convolution("about 1,000")
    seconds = volumes.best_times(pa.device("a100"), volumes.DOMAIN)
    return {
        "measured on": f"{platform.machine()}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}",
        "plain in order, four schedulers (million warp instructions per second)": round(
            pipeline.plain_rate(4, 1) / 1e6, 1
        ),
        "warm prediction of 1,000 instructions (milliseconds)": round(
            1e3 * min(compiled.warm(kernel, range(10, 16))[1:]), 1
        ),
        "25-point star, all configurations (seconds)": round(sum(seconds.values()), 2),
    }


if __name__ == "__main__":
    main()
