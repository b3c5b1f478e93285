"""Listeners of the reference engine: accounting, profile and trace."""

from __future__ import annotations

from bisect import bisect_left

from perfassert.engines.pipeline.configuration import Unit
from perfassert.engines.pipeline.events import (
    Barrier,
    Completed,
    Drained,
    Event,
    Issued,
    Launched,
    Retired,
    Served,
    Stall,
    Stalled,
)
from perfassert.engines.pipeline.results import (
    MOST_EVENTS,
    StallProfile,
    Totals,
    TraceEvent,
    trace_full,
)


class Accounting:
    """Listener that adds up all events in ``totals``; values known at the end only stay zero."""

    def __init__(self, unit: Unit) -> None:
        self._warps = unit.warps
        operations, names = len(unit.pipelines.operations), len(unit.pipelines.names)
        self._issued, self._busy = [0] * operations, [0] * names
        self._dependence, self._pipeline = [0] * unit.graph_nodes, [0] * names
        self.totals = Totals(
            issued=self._issued,
            busy=self._busy,
            dependence=self._dependence,
            pipeline=self._pipeline,
        )

    def hear(self, event: Event) -> None:
        """Add one event."""
        match event:
            case Issued():
                self._issued[event.node.operation] += 1
                self._busy[event.node.pipeline] += event.node.issue
            case Served():
                self._busy[event.server] += event.ticks
            case Stalled():
                self._count_stall(event)
            case Launched():
                self.totals.launched += 1
            case Retired():
                self.totals.retired += 1
                self.totals.resident += self._warps * (event.time - event.since)
            case Drained():
                self.totals.drained += event.ticks

    def _count_stall(self, event: Stalled) -> None:
        if event.reason in (Stall.DEPENDENCE, Stall.BARRIER):
            self._dependence[event.producer] += event.ticks
        elif event.reason is Stall.PIPELINE:
            self._pipeline[event.node.pipeline] += event.ticks
        elif event.reason is Stall.NOT_SELECTED:
            self.totals.not_selected += event.ticks


class Profiling:
    """Listener that sums the warps' time at each node, and the idle part of their scheduler."""

    def __init__(self, unit: Unit) -> None:
        self.profile = StallProfile()
        self._cycle = unit.pipelines.ticks
        self._issues: list[list[int]] = [[] for _ in range(unit.schedulers)]
        self._stalls: dict[tuple[int, int], dict[Stall, Stalled]] = {}

    def hear(self, event: Event) -> None:
        """Collect a warp's stalls until it issues."""
        if isinstance(event, Stalled):
            self._stalls.setdefault((event.block, event.warp), {})[event.reason] = event
        elif isinstance(event, Issued):
            self._enter(event, self._stalls.pop((event.block, event.warp), {}))
            self._issues[event.scheduler].append(event.time)

    def _enter(self, issue: Issued, stalls: dict[Stall, Stalled]) -> None:
        def ticks(*reasons: Stall) -> int:
            return sum(stalls[r].ticks for r in reasons if r in stalls)

        stall, passed, blocked = map(ticks, (Stall.STALL_COUNT, Stall.NOT_SELECTED, Stall.PIPELINE))
        fence, waited = ticks(Stall.BARRIER), ticks(Stall.DEPENDENCE)
        before = stall + fence + waited
        ready = issue.time - passed - blocked
        idle = self._idle(issue.scheduler, ready - before, ready)
        # For example, a warp waits 4 ticks for the stall count and 12 for a producer. Its scheduler
        # idles in 8 of these 16: 8 * 4 // 16 = 2 belong to the stall count, 6 to the producer.
        idle_stall = idle * stall // before if idle else 0
        idle_blocked = min(blocked, self._idle(issue.scheduler, ready, issue.time))
        to_fence = (fence, idle - idle_stall) if fence else (0, 0)
        counts = (1, stall, idle_stall, passed, blocked, idle_blocked, *to_fence)
        self.profile.at(issue.node.graph_node).add(counts)
        if waited:
            producer = stalls[Stall.DEPENDENCE].producer
            self.profile.wait(issue.node.graph_node, producer, waited, idle - idle_stall)

    def _idle(self, scheduler: int, start: int, end: int) -> int:
        """Return the ticks from ``start`` to ``end`` in which the scheduler issued nothing."""
        times = self._issues[scheduler]
        issues = bisect_left(times, end) - bisect_left(times, start)
        return max(0, end - start - issues * self._cycle)


class Tracing:
    """Listener that records events from ``window[0]`` to before ``window[1]``, in ticks."""

    def __init__(self, unit: Unit, window: tuple[int, int]) -> None:
        self.trace: list[TraceEvent] = []
        self._cycle = unit.pipelines.ticks
        self._window = window

    def hear(self, event: Event) -> None:
        """Record an event if its time lies within the window."""
        match event:
            case Issued() | Completed() | Barrier():
                self._keep(event.time, event.block, event.warp, event.node.graph_node, event)
            case Launched() | Retired():
                self._keep(event.time, event.block, 0, -1, event)

    def _keep(self, time: int, block: int, warp: int, node: int, event: Event) -> None:
        if self._window[0] <= time < self._window[1]:
            if len(self.trace) >= MOST_EVENTS:
                raise trace_full()
            kind = type(event).__name__.lower()
            self.trace.append(TraceEvent(time / self._cycle, kind, block, warp, node))
