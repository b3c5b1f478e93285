"""The time line of one scheduler of an SM: its warps over the first cycles of a launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfassert.engines.pipeline.events import Stall
from perfassert.engines.pipeline.watch import WarpInterval, watch
from perfassert.kernel.samples import SELECTED
from perfassert.prediction.prediction import Lane, TimelineSpan
from perfassert.predictor.cost.memory import QUEUE
from perfassert.predictor.diagnose.sampling import reason_of
from perfassert.predictor.model import Model

LAUNCH, DRAIN = "launch", "drain"
"""Waiting for the block to begin, and to end; beside the reasons of stalls."""
_MOST = 3000  # intervals


def timeline(model: Model) -> tuple[Lane, ...]:
    """Return the warps of one scheduler, in the order of the unit.

    The result is empty where warps run too many instructions to be watched.
    """
    known = _Reasons(model)
    warps: dict[tuple[int, int], list[TimelineSpan]] = {}
    for interval in watch(model.unit, _MOST):
        spans = warps.setdefault((interval.block, interval.warp), [])
        span = TimelineSpan(
            round(interval.start), round(interval.start + interval.length), *known.of(interval)
        )
        if spans and (spans[-1].reason, spans[-1].place) == (span.reason, span.place):
            spans[-1] = TimelineSpan(spans[-1].start, span.end, span.reason, span.place)
        elif span.end > span.start:
            spans.append(span)
    return _lanes({at: spans for at, spans in sorted(warps.items()) if spans})


def _lanes(warps: Mapping[tuple[int, int], Sequence[TimelineSpan]]) -> tuple[Lane, ...]:
    """The warps of a later block follow those whose places they take."""
    lanes: list[tuple[int, list[TimelineSpan]]] = []
    for (_, warp), spans in warps.items():
        begin = spans[0].start
        free = (lane for number, lane in lanes if number == warp and lane[-1].end <= begin)
        if (lane := next(free, None)) is None:
            lanes.append((warp, list(spans)))
            continue
        if lane[-1].end < begin:
            lane.append(TimelineSpan(lane[-1].end, begin, DRAIN, ""))
        lane += spans
    return tuple(tuple(lane) for _, lane in lanes)


class _Reasons:
    """Reasons of waits, named as the shares of stalls."""

    def __init__(self, model: Model) -> None:
        self.graph = model.graph
        self.launch = model.launch_nodes
        self.queued = model.unit.nodes_on(QUEUE)
        self.program = model.bound_launch.kernel.program

    def of(self, interval: WarpInterval) -> tuple[str, str]:
        """Reason and place."""
        return self.reason(interval), self.place(interval.node)

    def reason(self, interval: WarpInterval) -> str:
        if {interval.node, interval.producer} & self.launch:
            return LAUNCH
        if interval.reason is None:
            return SELECTED
        if interval.reason is Stall.DEPENDENCE and interval.producer >= 0:
            return reason_of(self.graph.nodes[interval.producer])
        if interval.reason is Stall.PIPELINE:
            return "memory_throttle" if interval.node in self.queued else "pipe_busy"
        return {
            Stall.STALL_COUNT: "execution_dependency",
            Stall.BARRIER: "synchronization",
            Stall.NOT_SELECTED: "not_selected",
        }.get(interval.reason, "other")

    def place(self, node: int) -> str:
        """The source line, else what the operation is called."""
        number = self.graph.nodes[node].program
        if self.program is not None and number >= 0:
            span = self.program.instructions[number].span
            if span is not None and span.line:
                return span.short
        return self.graph.nodes[node].operation
