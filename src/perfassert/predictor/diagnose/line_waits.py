"""Waits between source lines: the advisor's blames, summed by line."""

from __future__ import annotations

from collections.abc import Iterable

from perfassert.engines.advisor.blame import Blame
from perfassert.engines.advisor.code import Code
from perfassert.prediction.prediction import LineWait
from perfassert.quantity import round_significant

_LEAST = 0.005  # of all samples: less is not worth an arrow
_MOST = 24


def line_waits(blames: Iterable[Blame], code: Code, samples: float) -> tuple[LineWait, ...]:
    """The longest waits first; none of instructions without a line."""
    waits: dict[tuple[str, int, str, int, str], float] = {}
    for blame in blames:
        use, source = (code.instructions[n].span for n in (blame.use, blame.source))
        if blame.use == blame.source or use is None or source is None:
            continue
        key = (use.file, use.line, source.file, source.line, blame.cls)
        waits[key] = waits.get(key, 0.0) + blame.count.all / samples
    ordered = sorted(waits.items(), key=lambda item: (-item[1], item[0]))
    shown = [(key, share) for key, share in ordered if share >= _LEAST]
    return tuple(LineWait(*key, round_significant(share)) for key, share in shown[:_MOST])
