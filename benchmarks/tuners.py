"""Losses of tuners that measure only the predicted best tenth, on published tuning spaces.

``python benchmarks/tuners.py [--rows 500] [--keep 0.1] SUITE...``, for example
``validation/xgemm_rtx3090.toml validation/convolution_rtx3090.toml``, with the measured data in
``PERFASSERT_MEASURED``. Rows that something was fitted on are left out; a suite without others is
predicted as a whole, and the line says so. Of each suite: the regret (measured time of the best
measured among the kept over that of the best of all, less 1), of the first tenth of the measuring
order and of what :func:`perfassert.ranking.selection.select` keeps; Kendall's τ of measured and
predicted times; and CPU seconds for a configuration, tools included.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Callable, Sequence
from functools import partial
from math import ceil
from pathlib import Path

import numpy as np

import perfassert as pa
from perfassert.lab.validation.build import make_cases, make_device, measured_value, row_names
from perfassert.lab.validation.data import DataRow, read_rows
from perfassert.lab.validation.halves import is_fitted
from perfassert.lab.validation.read import read_suite
from perfassert.lab.validation.statistics import kendall
from perfassert.lab.validation.suite import Suite
from perfassert.lab.validation.toolchain import as_installed
from perfassert.ranking.ranking import Key
from perfassert.ranking.selection import is_spilling, measuring_order, rank_possible, select

REGRET, KENDALL = 0.05, 0.75
"""What is asked for: at most, and at least."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suites", nargs="+", type=Path, metavar="SUITE")
    parser.add_argument("--rows", type=int, help="evenly spread over the space; default: all")
    parser.add_argument("--keep", type=float, default=0.1, help="fraction that is measured")
    options = parser.parse_args()
    for path in options.suites:
        report(path, options.rows, options.keep)


def report(path: Path, limit: int | None, keep: float) -> None:
    suite, _ = as_installed(read_suite(path))
    rows, seen = unseen_rows(suite, limit)
    device = make_device(suite.device, rows[0].cells)
    begin, cpu = time.monotonic(), spent()
    candidates: dict[Key, Callable[[], tuple[pa.Kernel, pa.Launch]]] = {
        str(row.line): partial(candidate, suite, row, device) for row in rows
    }
    ranking, failures = rank_possible(candidates, device)
    seconds, cpu = time.monotonic() - begin, spent() - cpu
    assert ranking is not None, failures
    spec = next(metric for metric in suite.metrics if metric.name == "time")
    measured = {str(row.line): measured_time(suite, row, spec) for row in rows}
    fastest = min(measured.values())

    def regret(kept: Sequence[Key]) -> float:
        return min(measured[str(key)] for key in kept) / fastest - 1

    order = [key for key, _ in measuring_order(ranking)]
    first = order[: ceil(keep * len(rows))]
    selection = select(ranking, keep, failures)
    tau = kendall(
        np.array([measured[str(key)] for key, _ in ranking.entries]),
        np.array([float(prediction.time) for _, prediction in ranking.entries]),
    )
    spilling = sum(is_spilling(p) for _, p in ranking.entries)
    print(f"{suite.title}: {len(rows)} configurations, {seen}, {spilling} of them spill")
    print(f"  regret of the first {len(first)}: {regret(first):.1%} ({verdict(regret(first))}), "
          f"of the first alone {regret(order[:1]):.1%}")  # fmt: skip
    print(f"  {selection.describe()}; regret {regret(selection.kept):.1%}")
    print(f"  Kendall's τ {tau:.3f} (asked for: at least {KENDALL})")
    print(f"  {seconds / len(rows):.2f} s and {cpu / len(rows):.2f} CPU s a configuration, "
          f"load {os.getloadavg()[0]:.1f}", flush=True)  # fmt: skip


def unseen_rows(suite: Suite, limit: int | None) -> tuple[list[DataRow], str]:
    """Rows that nothing was fitted on, or all where there are none."""
    rows = read_rows(suite)
    unseen = [row for row in rows if not is_fitted(suite, row.cells, "time")]
    kept = unseen or rows
    if limit is not None and limit < len(kept):
        kept = [kept[i * len(kept) // limit] for i in range(limit)]
    if not unseen:
        return kept, "all of them seen by a fit"
    return kept, f"none of them seen by a fit ({len(rows) - len(unseen)} are left out)"


def candidate(suite: Suite, row: DataRow, device: pa.Device) -> tuple[pa.Kernel, pa.Launch]:
    key = suite.kernel_key(row.cells)
    spec = suite.kernels[key]
    (case,) = make_cases(spec, row.cells, row_names(spec, row.cells), key, device)
    return case.kernel, case.launch


def measured_time(suite: Suite, row: DataRow, metric: object) -> float:
    spec = suite.kernels[suite.kernel_key(row.cells)]
    return measured_value(metric, row.cells, row_names(spec, row.cells))


def verdict(regret: float) -> str:
    return f"asked for: at most {REGRET:.0%}, {'reached' if regret <= REGRET else 'missed'}"


def spent() -> float:
    """Seconds of CPU, tools included."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(u.ru_utime + u.ru_stime for u in used)


if __name__ == "__main__":
    main()
