"""Advice on kernels with a planted defect, against the same kernels without it.

``python benchmarks/planted_defects.py [KIND …]``: for each of the 60 pairs of
``validation/planted.toml``, the first advice and how many times as fast it is said to make the
kernel, the place of the advice that names the defect (0: none does) and its estimate, how many
times as fast the mended kernel is predicted to be (``pair``), and what an H100 measured.

Which optimizers name a kind of defect was written down before any of the kernels was (`NAMED_BY`).
A defect counts where mending it is predicted to gain ``_WORTH``. An estimate has the wrong sign
where it says that more than ``_SURE`` is gained and the pair loses as much.
"""

from __future__ import annotations

import argparse
import csv
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from advice_pairs import predict_largest

from perfassert.lab.validation.read import read_suite
from perfassert.report.tables import table

SUITE = Path(__file__).parents[1] / "validation" / "planted.toml"
DEVICE = "h100"
NAMED_BY = {
    "spill_bound": ("Register Reuse",),
    "local_array": ("Register Reuse",),
    "int_division": ("Strength Reduction",),
    "double_literals": ("Strength Reduction",),
    "double_division": ("Strength Reduction",),
    "precise_math": ("Fast Math",),
    "uneven_work": ("Warp Balance",),
    "struct_stride": ("Coalescing",),
    "column_access": ("Coalescing",),
    "block_shape": ("Block Shape", "Coalescing"),
    "tile_conflict": ("Shared Bank Conflict Removal",),
    "shared_stride": ("Shared Bank Conflict Removal",),
    "rolled_loop": ("Loop Unrolling", "Code Reordering"),
    "late_load": ("Code Reordering", "Loop Unrolling"),
    "noinline_call": ("Function Inlining",),
    "few_blocks": ("Block Increase",),
    "tiny_blocks": ("Thread Increase",),
    "narrow_access": ("Memory Transaction Reduction",),
    "staged_copy": ("Asynchronous Copy",),
    "shared_limits": ("Occupancy Increase",),
}
_WORTH = 1.2
_SURE = 1.02


@dataclass(frozen=True, slots=True)
class Judged:
    """Results for one defect; ``place`` of the advice that names it, from 1 on, or 0."""

    name: str
    first: str
    place: int
    estimate: float
    pair: float
    measured: float

    @property
    def counts(self) -> bool:
        """Ask if there is something to gain."""
        return self.pair >= _WORTH


def measured_times(suite) -> dict[str, float]:
    """Seconds by kernel."""
    with (SUITE.parent / suite.data).open(encoding="utf-8") as file:
        return {row["kernel"]: float(row["duration_s"]) for row in csv.DictReader(file)}


def judge(suite, name: str, measured: dict[str, float]) -> Judged:
    """Compare the advice on a defect with what mending it gains."""
    before, after = (predict_largest(suite, n, DEVICE) for n in (name, f"{name}_mended"))
    named = NAMED_BY[name.rpartition("_")[0]]
    advice = before.advice or ()
    places = [n for n, a in enumerate(advice, 1) if a.optimizer in named]
    first = f"{advice[0].optimizer} {advice[0].speedup:.2f}" if advice else "–"
    return Judged(
        name,
        first,
        places[0] if places else 0,
        advice[places[0] - 1].speedup if places else 1.0,
        float(before.time) / float(after.time),
        measured[name] / measured[f"{name}_mended"],
    )


def report(judged: Sequence[Judged]) -> str:
    """Return tables of the defects, and of how often advice names them."""
    rows = [
        (j.name, j.first, j.place or "–", f"{j.estimate:.2f}", f"{j.pair:.2f}", f"{j.measured:.2f}")
        for j in judged
    ]
    counted = [j for j in judged if j.counts]
    named = [j for j in counted if j.place]
    off = statistics.median(abs(j.estimate / j.pair - 1) for j in named) if named else 0.0
    wrong = [j.name for j in judged if j.estimate > _SURE and j.pair < 1 / _SURE]
    sums = [
        ("defects that are predicted to cost 1.2 times the time", len(counted), len(judged)),
        ("… named by the first advice", sum(j.place == 1 for j in counted), len(counted)),
        ("… named by some advice", len(named), len(counted)),
        ("… without any advice", sum(j.first == "–" for j in counted), len(counted)),
        ("estimates of the wrong sign", len(wrong), len(judged)),
    ]
    own = table(("defect", "first advice", "named", "estimate", "pair", "measured"), rows)
    summary = table(("", "", "of"), sums)
    return f"{own}\n\n{summary}\n\nestimate off the pair, median: {100 * off:.1f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", nargs="*", choices=[*NAMED_BY, []])
    kinds = parser.parse_args().kind or list(NAMED_BY)
    suite = read_suite(SUITE)
    measured = measured_times(suite)
    names = [f"{kind}_{n}" for kind in kinds for n in (1, 2, 3)]
    print(report([judge(suite, name, measured) for name in names]))


if __name__ == "__main__":
    main()
