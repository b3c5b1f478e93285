"""Timeline of the warps of one scheduler from the start, with the reason of each wait.

The reference engine reports the waits. For example, three warps load and add, on a scheduler that
issues one instruction per cycle. A load keeps its pipeline busy for 2 cycles and is complete after
6, an addition after 2:

    >>> import perfassert as pa
    >>> from perfassert.engines.pipeline.simulate import make_unit
    >>> g = pa.InstructionGraph.builder()
    >>> _ = g.op("add", g.op("load"))
    >>> latencies = {"load": pa.Latency(2, 6, "memory"), "add": pa.Latency(1, 2)}
    >>> unit = make_unit(g.build(), 3, 1, 1, latencies, "in-order", "loose-round-robin", 1, 1)
    >>> marks = {Stall.NOT_SELECTED: "-", Stall.PIPELINE: "=", Stall.DEPENDENCE: "."}
    >>> for warp in range(3):
    ...     own = [i for i in watch(unit, 20) if i.warp == warp]
    ...     print(warp, "".join(int(i.length) * marks.get(i.reason, "LA"[i.node]) for i in own))
    0 L.....A
    1 -=L.....A
    2 --==L.....A

In cycle 0 warp 0 issues its load (``L``), and the other two warps are ready but not selected
(``-``). The pipeline takes the next load in cycle 2 and the last one in cycle 4. Until then the
warps that wait for the pipeline are stalled by it (``=``). Each addition (``A``) waits for the load
of its warp (``.``).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from perfassert.engines.pipeline.configuration import Unit
from perfassert.engines.pipeline.events import Event, Issued, Stall, Stalled
from perfassert.engines.pipeline.reference_in_order import InOrderMachine

_LONGEST = 40_000  # instructions of a warp, which the reference engine keeps in memory
_LATEST = 20_000.0  # cycles after which a run ends, for units in which little happens


@dataclass(frozen=True, slots=True)
class WarpInterval:
    """An interval in which a warp waits before ``node``, or issues it (``reason`` None).

    Times are in cycles. ``producer`` is the graph node that the warp waits for, or -1.
    """

    block: int
    warp: int
    start: float
    length: float
    node: int
    reason: Stall | None
    producer: int = -1


def watch(unit: Unit, most: int) -> tuple[WarpInterval, ...]:
    """Return about the first ``most`` intervals, in the order in which they end.

    The result is empty if the unit does not issue in order, or if a warp runs too many
    instructions.
    """
    if not unit.in_order or max(p.length for p in unit.programs) > _LONGEST:
        return ()
    watching = _Watching(unit, most)
    with suppress(_StopRun):
        InOrderMachine(unit, [watching]).run()
    return tuple(watching.intervals)


class _StopRun(Exception):
    """Raised to end a run before its end."""


class _Watching:
    def __init__(self, unit: Unit, most: int) -> None:
        self.intervals: list[WarpInterval] = []
        self._cycle = unit.pipelines.ticks
        self._slot = self._cycle if unit.width == 1 else 0  # without a limit an issue takes no time
        self._most = most
        self._stalls: dict[tuple[int, int], list[Stalled]] = {}

    def hear(self, event: Event) -> None:
        """Collect a warp's stalls, which are reported just before the issue that ends them."""
        if isinstance(event, Stalled):
            self._stalls.setdefault((event.block, event.warp), []).append(event)
        elif isinstance(event, Issued):
            stalls = self._stalls.pop((event.block, event.warp), [])
            if event.scheduler == 0:
                self._enter(event, stalls)
            if len(self.intervals) >= self._most or event.time > _LATEST * self._cycle:
                raise _StopRun

    def _enter(self, issue: Issued, stalls: list[Stalled]) -> None:
        at = issue.time - sum(stall.ticks for stall in stalls)
        for stall in stalls:
            self._add(issue, at, stall.ticks, stall.reason, stall.producer)
            at += stall.ticks
        self._add(issue, at, self._slot, None, -1)

    def _add(self, issue: Issued, at: int, ticks: int, reason: Stall | None, producer: int) -> None:
        start, length = at / self._cycle, ticks / self._cycle
        node = issue.node.graph_node
        self.intervals.append(
            WarpInterval(issue.block, issue.warp, start, length, node, reason, producer)
        )
