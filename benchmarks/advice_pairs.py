"""Errors of the speedups that advice states, against the predicted effect of following it.

``python benchmarks/advice_pairs.py``: the pairs of the own suite whose improvement an optimizer
stands for, at the largest size, and those of ``tests/advisor_kernels``. ``estimate``: the speedup
of that optimizer's advice on the kernel before, ``formula``: the paper's estimate, both 1 where it
is silent; ``pair``: predicted time before over after. Gap: geometric mean of
\\|estimate / pair − 1\\|, no less than half a percent each; τ: Kendall's τ-b.
``--alarms``: instead, every suggestion above a factor on kernels of the own suite.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import exp, log
from pathlib import Path

import perfassert as pa
from perfassert.lab.validation.build import make_kernel, make_launch, row_names
from perfassert.lab.validation.read import read_suite
from perfassert.report.tables import table

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "predictor"))
SUITE = ROOT / "validation" / "own_kernels.toml"
DEVICE = "a100"
BY = {
    "copy_contiguous": "Coalescing",
    "drift_arrays": "Coalescing",
    "jacobi2d": "Block Shape",
    "transpose_conflicts": "Coalescing",
    "transpose_padded": "Shared Bank Conflict Removal",
    "sum_shuffle": "Warp Balance",
    "scan_shuffle": "Warp Balance",
    "histogram_shared": "Memory Transaction Reduction",
    "add_shared": "Shared Bank Conflict Removal",
    "matmul_registers": "Memory Transaction Reduction",
    "matvec_warp": "Coalescing",
    "convolve_registers": "Memory Transaction Reduction",
    "gather_sorted": "Coalescing",
    "spmv_ellpack": "Coalescing",
    "nbody_shared": "Memory Transaction Reduction",
    "softmax_registers": "Memory Transaction Reduction",
    "layernorm_vector": "Memory Transaction Reduction",
    "smooth_float": "Strength Reduction",
    "special_fast": "Fast Math",
    "divide_constant": "Strength Reduction",
    "values_kept": "Register Reuse",
    "matmul_wmma_shared": "Coalescing",
    "grid_spread": "Block Increase",
    "sum_unrolled": "Loop Unrolling",
    "barrier_balanced": "Warp Balance",
}
"""Kernels of the suite by the optimizer that advises them. Left out are those whose improvement no
optimizer stands for: fewer divergent branches, other addresses, matrix units, tiles in shared
memory, which are read as often as what they hold."""
_LEAST = 0.005


@dataclass(frozen=True, slots=True)
class Pair:
    """A kernel before, and how many times as fast it is predicted to be after."""

    name: str
    optimizer: str
    estimate: float
    formula: float
    achieved: float


def own_pairs() -> Iterator[Pair]:
    """Yield the pairs of the suite of this project."""
    suite = read_suite(SUITE)
    for name, optimizer in BY.items():
        before, after = (predict_largest(suite, n) for n in (suite.kernels[name].improves, name))
        yield pair(name, optimizer, before, after)


def small_pairs() -> Iterator[Pair]:
    """Yield the pairs of the kernels in the advisor's tests."""
    from advice_pairs import PAIRS

    for name, (before, after) in PAIRS.items():
        yield pair(name.lower(), name.partition(" (")[0], before(), after())


def predict_largest(suite, name: str, on: str = DEVICE) -> pa.Prediction:
    """Predict the largest launch of a kernel."""
    spec, device = suite.kernels[name], pa.device(on)
    names = row_names(spec, dict(spec.rows[-1]))
    kernel = make_kernel(spec, names, name)
    return pa.predict(kernel, make_launch(spec.launch, names, kernel, device), device)


def pair(name: str, optimizer: str, before: pa.Prediction, after: pa.Prediction) -> Pair:
    """Return the speedup that the advice on ``before`` states, and that of ``after``."""
    advice = next((a for a in before.advice or () if a.optimizer == optimizer), None)
    estimate, formula = (advice.speedup, advice.formula_speedup) if advice else (1.0, 1.0)
    return Pair(name, optimizer, estimate, formula, float(before.time) / float(after.time))


def gap(estimates: Sequence[float], achieved: Sequence[float]) -> float:
    """Compute the geometric mean of the relative errors of estimates."""
    off = [max(_LEAST, abs(e / a - 1)) for e, a in zip(estimates, achieved, strict=True)]
    return exp(sum(map(log, off)) / len(off))


def best_constant(achieved: Sequence[float]) -> float:
    """The one number that is off least, to a hundredth."""
    tried = [n / 100 for n in range(100, 1 + round(100 * max(achieved)))]
    return min(tried, key=lambda c: gap([c] * len(achieved), achieved))


def kendall(estimates: Sequence[float], achieved: Sequence[float]) -> float:
    """τ-b: concordant less discordant couples over those that are no ties."""
    signs = [
        (_sign(a[0] - b[0]), _sign(a[1] - b[1]))
        for a, b in combinations(list(zip(estimates, achieved, strict=True)), 2)
    ]
    left, right = (sum(s[side] != 0 for s in signs) for side in (0, 1))
    agreed = sum(x * y for x, y in signs)
    return agreed / (left * right) ** 0.5 if left and right else 0.0


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def report(pairs: Sequence[Pair]) -> str:
    """Return tables of the pairs, and of the errors of the three ways of estimating."""
    rows = [
        (p.name, p.optimizer, f"{p.achieved:.2f}", f"{p.estimate:.2f}", f"{p.formula:.2f}")
        for p in pairs
    ]
    achieved = [p.achieved for p in pairs]
    constant = best_constant(achieved)
    ways: dict[str, Callable[[Pair], float]] = {
        "estimate": lambda p: p.estimate,
        "formula": lambda p: p.formula,
        f"constant {constant:g}": lambda _: constant,
    }
    results = [(name, [way(p) for p in pairs]) for name, way in ways.items()]
    sums = [
        (name, f"{100 * gap(values, achieved):.1f} %", f"{kendall(values, achieved):.2f}")
        for name, values in results
    ]
    own = table(("pair", "optimizer", "pair", "estimate", "formula"), rows)
    return f"{own}\n\n{len(pairs)} pairs\n{table(('', 'gap', 'τ'), sums)}"


def alarms(above: float) -> Iterator[tuple[str, ...]]:
    """Suggestions above a factor on the largest launch of every kernel of the suite."""
    suite = read_suite(SUITE)
    for name in suite.kernels:
        try:
            advice = predict_largest(suite, name).advice or ()
        except pa.PerfAssertError as error:
            yield name, type(error).__name__, "", ""
            continue
        for a in advice:
            if a.speedup > above:
                yield name, a.optimizer, f"{a.speedup:.2f}", f"{a.formula_speedup:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--alarms", type=float, metavar="FACTOR")
    args = parser.parse_args()
    if args.alarms is not None:
        print(table(("kernel", "suggestion", "estimate", "formula"), list(alarms(args.alarms))))
        return
    print(report([*own_pairs(), *small_pairs()]))


if __name__ == "__main__":
    main()
