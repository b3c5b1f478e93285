"""The rule by which tuners keep candidates: a share of them, and what is undecided."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from math import ceil

from perfassert.errors import (
    PerfAssertError,
    RankingError,
    ToolchainMissing,
    in_short,
)
from perfassert.facade.prediction import Prediction
from perfassert.facade.session import predict
from perfassert.hardware.model import Device
from perfassert.kernel.description import Kernel
from perfassert.kernel.launch import Launch
from perfassert.predictor.ahead import compile_ahead
from perfassert.ranking.ranking import Key, Ranking


def order_candidates(spills: Sequence[bool], is_decided: Callable[[int, int], bool]) -> list[int]:
    """Return the places of candidates in the order in which they are worth measuring.

    A candidate that spills registers never comes before one that does not if their order is
    undecided. Apart from that the order stays that of the predicted times. Of places 0 (spills), 1
    and 2, where only 0 and 2 are decided, the order is 1, 0, 2.

    Args:
        spills: whether each candidate spills, the one predicted to be fastest first.
        is_decided: True if the order of two places is.
    """

    def last_before(place: int) -> int:
        if not spills[place]:
            return place
        later = reversed(range(place + 1, len(spills)))
        return next((p for p in later if not spills[p] and not is_decided(place, p)), place)

    return sorted(range(len(spills)), key=lambda place: (last_before(place), spills[place], place))


def is_spilling(prediction: Prediction) -> bool:
    """Return True if registers of the kernel are spilled."""
    return bool(prediction.resources.spill_bytes)


def measuring_order(ranking: Ranking) -> list[tuple[Key, Prediction]]:
    """Entries of a ranking in the order of :func:`order_candidates`."""
    predictions = [prediction for _, prediction in ranking.entries]
    order = order_candidates(
        [is_spilling(p) for p in predictions],
        lambda first, second: _is_slower(ranking, predictions[first], predictions[second]),
    )
    return [ranking.entries[place] for place in order]


def _is_slower(ranking: Ranking, fast: Prediction, slow: Prediction) -> bool:
    """Return True if the second is decided to be slower than the first."""
    likely = fast.probability_faster(slow)
    return likely is not None and likely >= ranking.confidence


def check_share(share: float, name: str) -> float:
    """Return ``share``, or raise :class:`RankingError` if it is none."""
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share <= 1:
        raise RankingError(f"{name} must be above 0 and at most 1, not {in_short(share)}")
    return share


@dataclass(frozen=True)
class Selection:
    """Candidates that are worth measuring, and those that are not.

    Args:
        kept: in the order in which to measure them; those that are not predicted come last.
        undecided: how many of them are kept beyond the share, as nothing decides that they are
            slower than the first.
        unpredicted: how many of them could not be predicted.
        slower: those that are dropped, as they are decided to be slower.
        impossible: those that are dropped, as the device cannot run them.
    """

    kept: tuple[Key, ...]
    undecided: int
    unpredicted: int
    slower: tuple[Key, ...]
    impossible: tuple[Key, ...]

    def describe(self) -> str:
        """Return the result as one line of text."""
        count = len(self.kept) + len(self.slower) + len(self.impossible)
        parts = [
            f"kept {len(self.kept)} of {count} configurations",
            f"dropped {len(self.slower)} as decided slower",
            f"undecided kept {self.undecided}",
        ]
        if self.impossible:
            parts.append(f"dropped {len(self.impossible)} that the device cannot run")
        if self.unpredicted:
            parts.append(f"not predicted and kept {self.unpredicted}")
        return ", ".join(parts)


def select(
    ranking: Ranking | None, share: float, failures: Mapping[Key, PerfAssertError]
) -> Selection:
    """Select a share of all candidates, and those that are not decided to be slower than the first.

    Args:
        ranking: those that could be predicted; None without any.
        share: of all candidates, rounded up.
        failures: the others, and why each could not be predicted.
    """
    ordered = measuring_order(ranking) if ranking else []
    count = ceil(share * (len(ordered) + len(failures)))
    undecided: list[Key] = []
    slower: list[Key] = []
    for key, prediction in ordered[count:]:
        assert ranking is not None
        is_slower = _is_slower(ranking, ordered[0][1], prediction)
        (slower if is_slower else undecided).append(key)
    impossible = [k for k, error in failures.items() if getattr(error, "exceeds_device", False)]
    unpredicted = [k for k in failures if k not in impossible]
    first = (key for key, _ in ordered[:count])
    return Selection(
        kept=tuple(chain(first, undecided, unpredicted)),
        undecided=len(undecided),
        unpredicted=len(unpredicted),
        slower=tuple(slower),
        impossible=tuple(impossible),
    )


def rank_possible(
    candidates: Mapping[Key, Callable[[], tuple[Kernel, Launch]]], device: Device
) -> tuple[Ranking | None, dict[Key, PerfAssertError]]:
    """Rank those candidates that can be predicted, and say why the others cannot.

    Raises :class:`ToolchainMissing` and :class:`RankingError`, which are not about one candidate.
    """
    pairs: dict[Key, tuple[Kernel, Launch]] = {}
    predictions: dict[Key, Prediction] = {}
    failures: dict[Key, PerfAssertError] = {}

    @contextmanager
    def noting(key: Key) -> Iterator[None]:
        try:
            yield
        except (ToolchainMissing, RankingError):
            raise
        except PerfAssertError as error:
            failures[key] = error

    for key, make in candidates.items():
        with noting(key):
            pairs[key] = make()
    with compile_ahead((kernel, launch, device) for kernel, launch in pairs.values()):
        for key, (kernel, launch) in pairs.items():
            with noting(key):
                predictions[key] = predict(kernel, launch, device)
    ordered = sorted(predictions.items(), key=lambda item: float(item[1].time))
    return (Ranking(tuple(ordered)) if ordered else None), failures
