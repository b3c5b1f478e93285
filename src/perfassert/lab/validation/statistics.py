"""Statistics of predicted against measured numbers; closed forms over plain vectors.

Everywhere ``measured`` and ``predicted`` are vectors of one length n with finite values, measured
ones above 0. An undefined result (a correlation with a constant, no pair to order) is ``None``.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
Group = TypeVar("Group", bound=Hashable)
APART = 0.10
"""Share by which the larger of two measurements exceeds the smaller if they truly differ."""
_DEVIATIONS = NormalDist().inv_cdf(0.975)  # standard ones, that 95 % are within
_ROUNDING = 1e-12  # 1.1 · 100 is a little more than 110


@dataclass(frozen=True, slots=True)
class Summary:
    """Statistics of one metric; errors and regret are fractions, 0.05 is 5 %.

    ``pairs``: pairs that truly differ; ``pairs_right``: the fraction of them in the right order.
    """

    n: int
    median: float | None
    mean: float | None
    percentile_90: float | None
    spearman: float | None
    kendall: float | None
    regret: float | None
    pairs: int
    pairs_right: float | None


def summarize_errors(
    measured: Vector, predicted: Vector, higher_is_better: bool = False, apart: float = APART
) -> Summary:
    """Return the summary of all points, which are ranked together."""
    if not len(measured):
        return Summary(0, None, None, None, None, None, None, 0, None)
    errors = percentage_errors(measured, predicted)
    right, pairs = ordered_pairs(measured, predicted, apart)
    return Summary(
        n=len(measured),
        median=float(np.median(errors)),
        mean=float(np.mean(errors)),
        percentile_90=float(np.quantile(errors, 0.9)),
        spearman=spearman(measured, predicted),
        kendall=kendall(measured, predicted),
        regret=top_1_regret(measured, predicted, higher_is_better),
        pairs=pairs,
        pairs_right=right / pairs if pairs else None,
    )


def summarize_groups(
    measured: Vector,
    predicted: Vector,
    groups: Sequence[Group],
    higher_is_better: bool = False,
    apart: float = APART,
) -> tuple[Summary, dict[Group, Summary]]:
    """Return the summary of all points, and of each group by first appearance.

    Points of different groups solve different problems, so no rank is taken across groups. In the
    summary of all points, correlations are means weighted by the groups' points (a constant
    prediction counts as 0), the regret is the worst of any group, and pairs are those within
    groups.
    """
    members: dict[Group, list[int]] = {}
    for i, group in enumerate(groups):
        members.setdefault(group, []).append(i)
    parts = {
        group: summarize_errors(measured[rows], predicted[rows], higher_is_better, apart)
        for group, rows in members.items()
    }
    if len(parts) <= 1:
        return summarize_errors(measured, predicted, higher_is_better, apart), parts
    pairs = sum(part.pairs for part in parts.values())
    right = sum((part.pairs_right or 0) * part.pairs for part in parts.values())
    varied = [len(np.unique(measured[rows])) > 1 for rows in members.values()]
    weights = [part.n if v else 0 for part, v in zip(parts.values(), varied, strict=True)]
    whole = replace(
        summarize_errors(measured, predicted, higher_is_better, apart),
        spearman=_weighted_mean([part.spearman for part in parts.values()], weights),
        kendall=_weighted_mean([part.kendall for part in parts.values()], weights),
        regret=max(part.regret for part in parts.values() if part.regret is not None),
        pairs=pairs,
        pairs_right=right / pairs if pairs else None,
    )
    return whole, parts


def _weighted_mean(values: Sequence[float | None], weights: Sequence[int]) -> float | None:
    """Return the weighted mean; a constant prediction has no correlation and counts as 0."""
    total = sum(weights)
    pairs = zip(values, weights, strict=True)
    return sum((value or 0.0) * weight for value, weight in pairs) / total if total else None


def binomial_interval(successes: int, trials: int) -> tuple[float, float]:
    """Return the 95 % interval of a share, after Wilson (JASA 22, 1927): the shares from which
    ``successes`` of ``trials`` are less than 1.96 standard deviations away.

    >>> [round(end, 3) for end in binomial_interval(9, 10)]
    [0.596, 0.982]
    """
    share, squared = successes / trials, _DEVIATIONS**2 / trials
    centre = (share + squared / 2) / (1 + squared)
    half = np.sqrt(share * (1 - share) * squared + squared**2 / 4) / (1 + squared)
    return float(centre - half), float(centre + half)


def percentage_errors(measured: Vector, predicted: Vector) -> Vector:
    """Return ``|predicted − measured| / measured`` of each point, as a share."""
    return np.abs(predicted - measured) / measured


def spearman(first: Vector, second: Vector) -> float | None:
    """Return Spearman's rank correlation: Pearson's of the ranks, with mean ranks for ties."""
    if len(first) < 2:
        return None
    a, b = (_ranks(v) - (len(v) + 1) / 2 for v in (first, second))
    norm = float(np.sqrt(np.sum(a * a) * np.sum(b * b)))
    return float(np.sum(a * b)) / norm if norm else None


def _ranks(values: Vector) -> Vector:
    """Return the ranks, 1 for the smallest; equal values share the mean of their places."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    means: Vector = last - (counts - 1) / 2
    return means[inverse]


def kendall(first: Vector, second: Vector) -> float | None:
    """Return Kendall's τ-b: (concordant − discordant) / √(untied in one · untied in the other).

    It takes n² / 2 comparisons, one row at a time.
    """
    score = untied_first = untied_second = 0
    for i in range(len(first) - 1):
        a, b = np.sign(first[i + 1 :] - first[i]), np.sign(second[i + 1 :] - second[i])
        score += int(np.sum(a * b))
        untied_first += int(np.count_nonzero(a))
        untied_second += int(np.count_nonzero(b))
    norm = float(np.sqrt(float(untied_first) * float(untied_second)))
    return score / norm if norm else None


def top_1_regret(
    measured: Vector, predicted: Vector, higher_is_better: bool = False
) -> float | None:
    """Return how much slower the model's pick is than the true best configuration, as a share.

    If the model predicts several picks as equally good, the result is the mean over them.
    """
    if not len(measured):
        return None
    # Measured 10, 12, 15; predicted 9, 8, 8: the picks 12 and 15 cost (20 % + 50 %) / 2 = 35 %.
    cost = 1 / measured if higher_is_better else measured
    best = np.max(predicted) if higher_is_better else np.min(predicted)
    return float(np.mean(cost[predicted == best] / np.min(cost) - 1))


def ordered_pairs(measured: Vector, predicted: Vector, apart: float = APART) -> tuple[int, int]:
    """Return, of the pairs that truly differ, the number predicted in right order and of all.

    A pair truly differs when larger ≥ (1 + apart) · smaller. A predicted tie is not right.
    """
    # Measured 1, 2, 2.05, 4; predicted 1, 3, 2, 2.5: 2 and 2.05 do not differ, so 5 pairs do.
    # Of these, only (2, 4) is predicted in the wrong order, 3 > 2.5: the result is (4, 5).
    right = pairs = 0
    threshold = (1 + apart) * (1 - _ROUNDING)
    for i in range(len(measured) - 1):
        a, b = measured[i], measured[i + 1 :]
        differ = np.maximum(a, b) >= threshold * np.minimum(a, b)
        same = np.sign(b - a) * np.sign(predicted[i + 1 :] - predicted[i]) > 0
        pairs += int(np.count_nonzero(differ))
        right += int(np.count_nonzero(differ & same))
    return right, pairs
