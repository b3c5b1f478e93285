"""What a simulation reports: exact totals of its events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EventTotals:
    """Totals over the simulated unit.

    ``issued``: instructions per operation class, ``busy``: cycles per pipeline (summed over its
    copies). Cycles of warps, in order only, summed over all warps of all blocks: ``dependence``
    on a producer of a class (``"barrier"``: on the block), ``blamed``: the same by graph node,
    ``pipeline``: ready, but the pipeline
    or the issue slot is not, ``not_selected``: another warp took the slot (with an issue width of
    one), ``drained``: everything issued, the block not yet complete.
    """

    issued: Mapping[str, int]
    busy: Mapping[str, float]
    blocks_launched: int
    blocks_retired: int
    dependence: Mapping[str, float]
    blamed: Mapping[int, float]
    pipeline: Mapping[str, float]
    not_selected: float
    drained: float
    resident: float

    @property
    def completed(self) -> int:
        """Instructions that completed: all that were issued."""
        return sum(self.issued.values())


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """One event of a traced window; ``time`` in cycles, ``node`` an index into the graph."""

    time: float
    kind: str
    block: int
    warp: int
    node: int


@dataclass(frozen=True, slots=True)
class Simulation:
    """Result of :func:`perfassert.simulate`.

    ``cycles`` until every node is complete; ``instructions`` issued, barriers included;
    ``skipped``: the share of instructions that fast-forward did not have to simulate;
    ``engine``: ``"compiled"`` or ``"reference"``.
    """

    cycles: float
    instructions: int
    events: EventTotals
    skipped: float
    engine: str
    trace: tuple[TraceEvent, ...] = ()
