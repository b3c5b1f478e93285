"""Baselines of rankings: which candidate is best, in which order they come, how far apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256
from itertools import combinations
from typing import TYPE_CHECKING, Any

from perfassert.baseline.entry import RANKING, UNKNOWN, Entry, entry_of, number
from perfassert.baseline.tolerance import parse
from perfassert.errors import ExpectationError
from perfassert.expect.metrics import METRICS
from perfassert.ranking.ranking import Ranking, format_key
from perfassert.report.tables import percent

if TYPE_CHECKING:
    from perfassert.facade.prediction import Prediction

_DIGITS = 16  # hexadecimal, of a digest
_DECIMALS = 10  # of a share


def ranking_entry(ranking: Ranking) -> dict[str, Any]:
    """Return what is kept of a ranking; ``within``: how far each is behind the best, as a share.

    Raises:
        ExpectationError: two candidates have one name.

    Example:
        >>> import perfassert as pa
        >>> field = pa.Field("a", shape=(4096, 4096))
        >>> fill = pa.Kernel.from_accesses("fill", [field], stores=["a[y, x]"])
        >>> ranking = pa.rank([(256, 1), (1, 256)], "a100", kernel=fill, domain=(4096, 4096))
        >>> ranking_entry(ranking)["ranking"]["order"]
        ['256×1×1', '1×256×1']
    """
    names = [format_key(key) for key, _ in ranking.entries]
    if len({*names}) < len(names):
        raise ExpectationError("no_regression(): two candidates have the same name; label them")
    fastest = ranking.entries[0][1]
    entries = [entry_of(prediction) for _, prediction in ranking.entries]
    digests = sorted(str(entry["kernel_digest"]) for entry in entries)
    whole = UNKNOWN if UNKNOWN in digests else sha256("".join(digests).encode()).hexdigest()
    shares = [_share(prediction, fastest) for _, prediction in ranking.entries]
    return {
        RANKING: {"best": names[0], "order": names, "within": shares},
        "model_version": fastest.model_version,
        "device_digest": fastest.device_digest,
        "kernel_digest": whole[:_DIGITS],
    }


def _share(prediction: Prediction, fastest: Prediction) -> float:
    if not fastest.time:
        return 0
    return number(round(float(prediction.time) / float(fastest.time) - 1, _DECIMALS))


def other_candidates(old: Entry, new: Entry) -> str:
    """Tell which candidates only one of two rankings has, or return ``""``."""
    before, after = ({*entry[RANKING]["order"]} for entry in (old, new))
    gone = [f"{name} is no candidate any more" for name in sorted(before - after)]
    return "; ".join([*gone, *(f"{name} is a new candidate" for name in sorted(after - before))])


def find_changes(old: Entry, ranking: Ranking, tolerance: str) -> tuple[list[str], list[str]]:
    """Say what has become of a ranking: what is worse than its baseline, and what is better.

    Worse: a candidate is further behind the best than it was, by more than the tolerance; or the
    order of two is now decided to be the opposite one. Better: the best of the baseline is ahead
    of the second by more than it was.

    Args:
        old: the baseline, of the same candidates.
        ranking: what is predicted now.
        tolerance: ``"2 %"`` of the best's time, as for the metric time.
    """
    allowed = parse(METRICS["time"], tolerance)
    before = dict(zip(old[RANKING]["order"], map(float, old[RANKING]["within"]), strict=True))
    fastest = ranking.entries[0][1]
    after = {format_key(key): _share(p, fastest) for key, p in ranking.entries}
    worse = [*_further_behind(before, after, allowed.above.around(1.0))]
    worse += _other_orders(before, ranking)
    best, now = old[RANKING]["best"], format_key(ranking.best)
    if best != now and after[best] > 0 and worse:
        worse.insert(0, f"best is {now}, was {best}")
    leads = [sorted(shares.values())[1] if len(shares) > 1 else 0.0 for shares in (before, after)]
    better = []
    if best == now and leads[1] - leads[0] > allowed.below.around(1.0):
        better = [f"{best} is ahead by {_percent(leads[1])}, was {_percent(leads[0])}"]
    return worse, better


def _further_behind(
    before: Mapping[str, float], after: Mapping[str, float], margin: float
) -> Iterator[str]:
    for name, share in before.items():
        if after[name] - share > margin:
            yield f"{name} is {_percent(after[name])} behind the best, was {_percent(share)}"


def _other_orders(before: Mapping[str, float], ranking: Ranking) -> Iterator[str]:
    keys = {format_key(key): key for key, _ in ranking.entries}
    for first, second in combinations(before, 2):
        likely = ranking.probability_faster(keys[second], keys[first])
        if likely is not None and likely >= ranking.confidence and before[first] < before[second]:
            yield f"{second} is faster than {first}, was slower"


def _percent(share: float) -> str:
    return percent(share, signed=False)
