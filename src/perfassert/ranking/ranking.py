"""Rankings: candidates ordered by predicted time, with the probability of each order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations
from math import floor
from pathlib import Path
from typing import Any, Union

from perfassert.errors import (
    ExpectationError,
    ExpectationFailed,
    LaunchError,
    MissingArgument,
    RankingError,
    check_kind,
    in_short,
)
from perfassert.expect.check import ALLOW, FAIL, check_undecided
from perfassert.expect.condition import parse_share
from perfassert.facade.prediction import Prediction
from perfassert.facade.session import predict
from perfassert.frontends.toolchain.names import short_name
from perfassert.hardware.model import Device
from perfassert.kernel.description import Kernel
from perfassert.kernel.launch import Extent, Launch, extent
from perfassert.predictor.ahead import compile_ahead
from perfassert.predictor.judge.pairs import CONFIDENCE
from perfassert.quantity import to_list, to_real
from perfassert.report.tables import Table, percent, table

Candidate = Union[str, Launch, Extent]
Key = Union[str, Launch, tuple[int, int, int]]
Candidates = Union[Sequence[Candidate], Mapping[str, tuple[Kernel, Launch]]]

_SHOWN = 20
"""Number of candidates that ``str(ranking)`` lists."""
_ALLOWED = 'give undecided="allow" if either may be faster'


def rank(
    candidates: Candidates,
    device: Device | str | Path,
    *,
    kernel: Kernel | None = None,
    domain: Extent | None = None,
    predictor: Callable[[Kernel, Launch, Device | str | Path], Prediction] = predict,
    confidence: float = CONFIDENCE,
) -> Ranking:
    """Predict every candidate, and order them by predicted time, fastest first.

    Equal times keep the order in which the candidates were given. Files of the device, and of a
    kernel that candidates share, are read once.

    Args:
        candidates: blocks (with ``kernel`` and ``domain``), launches (with ``kernel``), or a
            mapping label → (kernel, launch), so that variants of a kernel compete.
        device: a :class:`Device`, a name or alias, or the path of a device file.
        kernel: kernel to launch, where candidates are blocks or launches. Default: none.
        domain: threads in (x, y, z) that a grid of each block has to cover, where candidates are
            blocks. Default: none.
        predictor: function that predicts one candidate. Default: :func:`perfassert.predict`.
        confidence: probability from which the order of two candidates is decided, above 0.5 and
            below 1. Default: 0.9.

    Returns:
        A :class:`Ranking`.

    Raises:
        RankingError: there is no candidate, a candidate occurs twice, ``kernel`` or ``domain`` is
            missing or is given along with a mapping, ``confidence`` is out of range, or
            ``predictor`` is no function that returns a prediction.
        LaunchError: a launch that the device cannot run; the message names the candidate.

    Example:
        >>> import perfassert as pa
        >>> fields = [pa.Field("a", shape=(4096, 4096)), pa.Field("b", shape=(4096, 4096))]
        >>> copy = pa.Kernel.from_accesses("copy", fields, loads=["a[y, x]"], stores=["b[y, x]"])
        >>> ranking = pa.rank([(1, 256), (256, 1)], "a100", kernel=copy, domain=(4096, 4096))
        >>> ranking.best, ranking.position((1, 256))
        ((256, 1, 1), 2)
    """
    sure = to_real(confidence, "confidence", RankingError)
    if not 0.5 < sure < 1:
        raise RankingError(f"confidence is {confidence!r}; give more than 0.5 and less than 1")
    if not callable(predictor):
        raise RankingError(f"predictor must be a function, not {in_short(predictor)}")
    predictions: dict[Key, Prediction] = {}
    pairs = [*_pairs(candidates, kernel, domain)]
    read: dict[int, Kernel] = {}  # number of a kernel → the same with the code that it had at first
    with compile_ahead((own, launch, device) for _, (own, launch) in pairs):
        for key, (own, launch) in pairs:
            if key in predictions:
                raise RankingError(f"candidate {format_key(key)} occurs twice")
            with _naming(key):
                prediction = predictor(read.get(id(own), own), launch, device)
                check_kind(prediction, Prediction, "the result of predictor", RankingError)
            predictions[key] = prediction
            if prediction.origin is not None:
                read.setdefault(id(own), prediction.origin[0])
                device = prediction.origin[2]
    if not predictions:
        raise RankingError("there is no candidate to rank")
    ordered = sorted(predictions.items(), key=lambda item: float(item[1].time))
    return Ranking(tuple(ordered), confidence=float(sure))


def _pairs(
    candidates: Candidates, kernel: Kernel | None, domain: Extent | None
) -> Iterable[tuple[Key, tuple[Kernel, Launch]]]:
    if isinstance(candidates, Mapping):
        if kernel is not None or domain is not None:
            raise RankingError("labelled candidates bring kernel and launch along; give neither")
        for label, pair in candidates.items():
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise RankingError(
                    f"candidate {in_short(label)} must be (kernel, launch), not {in_short(pair)}"
                )
            yield label, pair
        return
    if kernel is None:
        raise RankingError("a list of blocks or launches needs kernel=")
    for candidate in to_list(candidates, "candidates", RankingError):
        if isinstance(candidate, Launch):
            yield candidate, (kernel, candidate)
        elif domain is None:
            raise RankingError(f"block {in_short(candidate)} needs domain=, or give launches")
        else:
            block = extent("block", candidate)  # type: ignore[arg-type]
            with _naming(block):
                launch = Launch.cover(domain, block)
            yield block, (kernel, launch)


@contextmanager
def _naming(key: Key) -> Iterator[None]:
    """Prefix the message of a :class:`LaunchError` with the candidate."""
    try:
        yield
    except MissingArgument as error:
        place = f"candidate {format_key(key)}: "
        error.args = (f"{place}{error}{_WITH_ARGUMENTS if isinstance(key, tuple) else ''}",)
        error.problem = f"{place}{error.problem}"
        raise
    except LaunchError as error:
        raise LaunchError(f"candidate {format_key(key)}: {error}") from None


_WITH_ARGUMENTS = (
    "; launches as candidates have arguments: pa.Launch.cover(domain, block, args={...}) for each "
    "block"
)


def _is_hashable(candidate: Any) -> bool:
    try:
        hash(candidate)
    except TypeError:
        return False
    return True


def format_key(key: Key) -> str:
    """Return a block as ``"16×2×8"``, a launch in words, or a label as it is."""
    if isinstance(key, Launch):
        return key.describe()
    return "×".join(map(str, key)) if isinstance(key, tuple) else str(key)


@dataclass(frozen=True)
class Ranking:
    """Candidates with their predictions, fastest first.

    The order of two candidates is decided if its probability is at least ``confidence``; see
    :meth:`Prediction.probability_faster`. Candidates are tied if their order is undecided.

    Args:
        entries: pairs of candidate and prediction, fastest first. A candidate is a block padded to
            three numbers, a launch, or a label.
        confidence: probability from which the order of two candidates is decided. Default: 0.9.
        on_expect: function that every :meth:`expect` calls with its complaints. Default: none.

    Example:
        >>> import perfassert as pa
        >>> fields = [pa.Field("a", shape=(4096, 4096)), pa.Field("b", shape=(4096, 4096))]
        >>> rows = pa.Kernel.from_accesses("rows", fields, loads=["a[y, x]"], stores=["b[y, x]"])
        >>> columns = pa.Kernel.from_accesses("columns", fields, ["a[x, y]"], ["b[x, y]"])
        >>> launch = pa.Launch.cover((4096, 4096), block=(256, 1))
        >>> ranking = pa.rank({"columns": (columns, launch), "rows": (rows, launch)}, "a100")
        >>> ranking.best, ranking.tied_with_best()
        ('rows', ('rows',))
        >>> ranking.expect(order=["rows", "columns"]) is ranking
        True
    """

    entries: tuple[tuple[Key, Prediction], ...]
    confidence: float = field(default=CONFIDENCE, kw_only=True)
    on_expect: Callable[[list[str]], object] | None = field(
        default=None, compare=False, repr=False, kw_only=True
    )

    def __str__(self) -> str:
        """Return the table of the first :data:`_SHOWN` places."""
        table = str(ranking_table(self, _SHOWN))
        left = len(self.entries) - _SHOWN
        return f"{table}\n… and {left} more" if left > 0 else table

    def __repr__(self) -> str:
        fastest = format_key(self.best)
        return f"<Ranking of {len(self.entries)} candidates, {fastest} fastest>"

    @property
    def best(self) -> Key:
        """Fastest candidate."""
        return self.entries[0][0]

    def position(self, candidate: Candidate) -> int:
        """Place of a candidate; 1 is the fastest.

        Args:
            candidate: a block, a launch or a label.

        Raises:
            RankingError: the candidate was not ranked.
        """
        key = self._key(candidate)
        return next(i for i, (k, _) in enumerate(self.entries, 1) if k == key)

    def prediction(self, candidate: Candidate) -> Prediction:
        """Prediction of a candidate.

        Args:
            candidate: a block, a launch or a label.

        Raises:
            RankingError: the candidate was not ranked.
        """
        return dict(self.entries)[self._key(candidate)]

    def probability_faster(self, first: Candidate, second: Candidate) -> float | None:
        """Return the probability that the first candidate is faster than the second.

        It is None if what differs between the two predictions is guessed.

        Args:
            first: a block, a launch or a label.
            second: another block, launch or label.

        Raises:
            RankingError: one of them was not ranked.
        """
        return self.prediction(first).probability_faster(self.prediction(second))

    def tied_with_best(self) -> tuple[Key, ...]:
        """Return the fastest candidate and the candidates whose order with it is undecided."""
        best = self.entries[0][1]
        return tuple(
            k
            for i, (k, p) in enumerate(self.entries)
            if i == 0 or (best.probability_faster(p) or 0.0) < self.confidence
        )

    def table(self) -> str:
        """Return the table of all candidates; ``=`` marks ties with the best.

        Columns: place, candidate, time, slowdown from the best, probability that the best is
        faster, and limiter.
        """
        return str(ranking_table(self))

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain data that JSON can hold; times in seconds, fastest first."""
        tied, fastest = set(self.tied_with_best()), self.entries[0][1]
        return {
            "confidence": self.confidence,
            "candidates": [
                {
                    "candidate": format_key(key),
                    "kernel": p.kernel,
                    "grid": list(p.grid),
                    "block": list(p.block),
                    "time": float(p.time),
                    "limiter": p.limiter,
                    "tied_with_best": key in tied,
                    "best_is_faster": None if p is fastest else fastest.probability_faster(p),
                }
                for key, p in self.entries
            ],
        }

    def expect(
        self,
        *,
        best: Candidate | None = None,
        best_in: Sequence[Candidate] | None = None,
        order: Sequence[Candidate] | None = None,
        within: str | float | None = None,
        of: Candidate | None = None,
        undecided: str = FAIL,
    ) -> Ranking:
        """Check claims about the order, and fail with the table if one does not hold.

        Args:
            best: this candidate is first, or tied with the first.
            best_in: at least one of these is first, or tied with the first.
            order: each candidate is faster than all candidates after it. A pair is undecided if
                neither order is likely enough.
            within: largest allowed slowdown of ``of`` from the best: ``"5 %"`` or 0.05.
            of: the candidate that ``within`` limits.
            undecided: ``"fail"`` (default) or ``"allow"``: treatment of undecided pairs of
                ``order``, and of a ``best`` or ``best_in`` whose order with the fastest is guessed.

        Returns:
            The ranking itself.

        Raises:
            ExpectationFailed: at least one claim does not hold.
            ExpectationError: no claim, ``within`` without ``of``, ``of`` without ``within``, an
                empty claim, or an ``order`` that names a candidate twice.
            RankingError: a candidate that was not ranked.

        Example:
            >>> import perfassert as pa
            >>> field = pa.Field("a", shape=(4096, 4096))
            >>> fill = pa.Kernel.from_accesses("fill", [field], stores=["a[y, x]"])
            >>> blocks = [(256, 1), (64, 4), (1, 256)]
            >>> ranking = pa.rank(blocks, "a100", kernel=fill, domain=(4096, 4096))
            >>> ranking.expect(best_in=[(256, 1), (64, 4)]) is ranking
            True
        """
        __tracebackhide__ = True
        if best is None and best_in is None and order is None and within is None:
            raise ExpectationError("expect() was given no claim: best, best_in, order or within")
        check_undecided(undecided)
        if (within is None) != (of is None):
            raise ExpectationError("within= and of= go together")
        complaints: list[str] = []
        strict = undecided != ALLOW
        if best is not None:
            complaints += self._check_best([best], strict)
        if best_in is not None:
            best_in = to_list(best_in, "best_in", RankingError)
            if not best_in:
                raise ExpectationError("best_in is empty; name at least one candidate")
            complaints += self._check_best(best_in, strict)
        if order is not None:
            order = to_list(order, "order", RankingError)
            if len({self._key(c) for c in order}) < max(2, len(order)):
                raise ExpectationError("order needs at least two candidates, each once")
            complaints += self._check_order(order, strict)
        if within is not None and of is not None:
            complaints += self._check_within(parse_share(within), of)
        if self.on_expect is not None:
            self.on_expect(complaints)
        if complaints:
            kernels = dict.fromkeys(short_name(p.kernel) for _, p in self.entries)
            subject = f"{', '.join(kernels)} on {self.entries[0][1].device}"
            headline = "; ".join(complaints)
            sure = percent(self.confidence, signed=False)
            note = f"= tied: less than {sure} sure that the best is faster"
            raise ExpectationFailed(f"{headline} ({subject})\n\n{self.table()}\n\n{note}")
        return self

    def _key(self, candidate: Candidate) -> Key:
        known = dict(self.entries)
        if _is_hashable(candidate) and candidate in known:  # a label may be of any type
            return candidate
        key: Key = candidate if isinstance(candidate, (str, Launch)) else extent("block", candidate)
        if key not in known:
            listed = ", ".join(format_key(k) for k in [*known][:8])
            more = ", …" if len(known) > 8 else ""
            raise RankingError(f"{format_key(key)} is no candidate; ranked were {listed}{more}")
        return key

    def _time(self, candidate: Candidate) -> float:
        return float(self.prediction(candidate).time)

    def _check_best(self, wanted: Sequence[Candidate], strict: bool) -> list[str]:
        keys = [self._key(c) for c in wanted]
        nearest = min(keys, key=self._time)
        named = " or ".join(format_key(k) for k in keys)
        if nearest not in self.tied_with_best():
            behind = percent(self._time(nearest) / self._time(self.best) - 1)
            return [
                f"best is {format_key(self.best)}, expected {named} "
                f"(place {self.position(nearest)}, {behind})"
            ]
        if strict and self.probability_faster(self.best, nearest) is None:
            return [f"whether {named} is best is undecided: what differs is guessed; {_ALLOWED}"]
        return []

    def _check_order(self, order: Sequence[Candidate], strict: bool) -> list[str]:
        pairs = combinations([self._key(c) for c in order], 2)
        return [complaint for pair in pairs if (complaint := self._check_pair(*pair, strict))]

    def _check_pair(self, first: Key, second: Key, strict: bool) -> str:
        """Return why the first is not known to be faster than the second, or ``""``."""
        likely = self.probability_faster(first, second)
        names = format_key(first), format_key(second)
        if likely is not None and likely <= 1 - self.confidence:
            ahead = percent(self._time(first) / self._time(second) - 1)
            return "{} is slower than {} ({}), expected the opposite order".format(*names, ahead)
        if not strict or (likely is not None and likely >= self.confidence):
            return ""
        why = "what differs is guessed"
        if likely is not None:
            sure, needed = (percent(p, signed=False) for p in (likely, self.confidence))
            why = f"{sure} sure, {needed} needed"
        return "{} before {} is undecided ({}); {}".format(*names, why, _ALLOWED)

    def _check_within(self, share: float, of: Candidate) -> list[str]:
        key = self._key(of)
        behind = self._time(key) / self._time(self.best) - 1
        if behind <= share:
            return []
        return [
            f"{format_key(key)} is {percent(behind, signed=False)} slower than the best, "
            f"{format_key(self.best)}, "
            f"expected at most {percent(share, signed=False)}"
        ]


def ranking_table(ranking: Ranking, top: int | None = None) -> Table:
    """Return the table of the ``top`` fastest candidates, or of all."""
    fastest = ranking.entries[0][1]
    best = float(fastest.time)
    tied = set(ranking.tied_with_best())
    rows = [
        (
            f"{i}{' =' if key in tied and i > 1 else ''}",
            format_key(key),
            p.time,
            percent(float(p.time) / best - 1) if best else "",
            "" if i == 1 else _format_probability(fastest.probability_faster(p)),
            p.limiter,
        )
        for i, (key, p) in enumerate(ranking.entries[:top], 1)
    ]
    header = ("place", "candidate", "time", "to the best", "best is faster", "limiter")
    return table(header, rows)


def _format_probability(likely: float | None) -> str:
    """Return a probability as text, rounded down; it never reads 100 %."""
    if likely is None:
        return "guessed"
    return "> 99 %" if likely > 0.99 else f"{floor(100 * likely)} %"
