"""The in-order machine: warps issue in program order, and each scheduler picks one at a time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from perfassert.engines.pipeline.configuration import Unit
from perfassert.engines.pipeline.events import Drained, Listener, Stall, Stalled
from perfassert.engines.pipeline.program import ProgramNode
from perfassert.engines.pipeline.reference_machine import Machine, ResidentBlock, Warp


@dataclass(slots=True)
class LineWarp(Warp):
    """A warp of the in-order machine.

    ``head_since`` is the time since which its next instruction is the next one. ``ready_since`` is
    the time since which that instruction is ready (-1: not yet), and ``blamed`` the producer it
    waited for. ``done_at`` holds completion times by place.
    """

    done_at: list[int] = field(default_factory=list)
    head_since: int = 0
    ready_since: int = -1
    blamed: int = -1
    issued_at: int = -1

    @property
    def head(self) -> ProgramNode:
        """The instruction to issue next."""
        return self.code.nodes[self.issued]


class InOrderMachine(Machine[LineWarp]):
    """Machine in which warps issue in program order.

    ``opportunities`` holds, by scheduler and copy of a pipeline, the times of issues that found the
    copy free.
    """

    def __init__(self, unit: Unit, listeners: Sequence[Listener]) -> None:
        super().__init__(unit, listeners)
        self.last_served = [-1] * unit.schedulers
        self.first_scheduler = 0
        self.opportunities: list[list[list[int]]] = [
            [[] for _ in self.free_at] for _ in range(unit.schedulers)
        ]
        self.fences = {n.graph_node for p in unit.programs for n in p.nodes if n.fence}
        self.slot = self.cycle if unit.width == 1 else 0  # ticks of the slot that an issue takes

    def warp(self, slot: int, number: int, start: int) -> LineWarp:
        """See :class:`Machine`."""
        code = self.codes[self.unit.variant[number]]
        index = slot * self.unit.warps + number
        return LineWarp(
            index, index % self.unit.schedulers, self.launched - 1, number, code,
            [len(p) for p in code.producers], done_at=[0] * len(code.nodes), head_since=start,
        )  # fmt: skip

    def begin(self, warp: LineWarp) -> None:
        """Note since when the next instruction is ready, and the producer that it waited for."""
        warp.ready_since = -1
        if warp.is_unfinished() and warp.remaining[warp.issued] == 0:
            self.become_ready(warp)

    def now_ready(self, warp: LineWarp, place: int) -> None:
        """See :class:`Machine`."""
        if place == warp.issued:
            self.become_ready(warp)

    def note_completion(self, warp: LineWarp, place: int) -> None:
        """See :class:`Machine`."""
        warp.done_at[place] = self.now

    def become_ready(self, warp: LineWarp) -> None:
        """Mark the next instruction as ready, and blame the producer that completed last.

        Among several, the last one of the graph is blamed.
        """
        warp.ready_since = max(self.now, warp.head_since)
        code = warp.code
        waits = [(warp.done_at[p], code.nodes[p].graph_node) for p in code.producers[warp.issued]]
        warp.blamed = max(waits, default=(0, -1))[1]

    def issue_all(self) -> None:
        """See :class:`Machine`."""
        first = self.first_scheduler
        for i in range(self.unit.schedulers):
            self.issue_on((first + i) % self.unit.schedulers)

    def issue_on(self, scheduler: int) -> None:
        """Issue the instructions that a scheduler can issue now."""
        while self.has_slot(scheduler):
            able = [
                w
                for w in self.warps_of[scheduler]
                if 0 <= w.ready_since <= self.now
                and self.free_at[self.copies[w.head.pipeline][scheduler]] <= self.now
            ]
            if not able:
                return
            warp = self.arbitration(able, self.goes_on(able, self.last_served[scheduler]))
            for copy, free in enumerate(self.free_at):
                if free <= self.now:
                    self.opportunities[scheduler][copy].append(self.now)
            self.last_served[scheduler] = warp.index
            self.first_scheduler = (scheduler + 1) % self.unit.schedulers
            self.issue_next(warp)

    def goes_on(self, able: Sequence[LineWarp], last: int) -> int:
        """Return the warp served last, or -1 if a greedy scheduler gives it up.

        A warp is given up if it was ready for a whole cycle and its pipeline was occupied.
        """
        enough = self.cycle if self.unit.width else 1
        blocked = any(w.index == last and self.now - w.ready_since >= enough for w in able)
        return -1 if blocked and self.unit.oldest_first else last

    def issue_next(self, warp: LineWarp) -> None:
        """Issue a warp's next instruction; the instruction after it becomes the next one."""
        node = warp.head
        self.report_stalls(warp, node)
        self.issue(warp, warp.issued, self.copies[node.pipeline][warp.scheduler])
        warp.issued_at = warp.head_since = self.now + self.slot
        if warp.is_unfinished():
            warp.head_since = max(warp.head_since, self.now + node.stall)
        self.begin(warp)

    def report_stalls(self, warp: LineWarp, node: ProgramNode) -> None:
        """Report the stalls since the warp's last issue, with their reasons."""
        # For example, a warp issues in cycle 0 with a stall count of 3. Its slot ends at 1, and its
        # next instruction may issue from 3 on. The producer of that instruction completes at 10,
        # and it issues at 14. The stalls are 2 cycles (stall count), 7 (dependence), and 4 that are
        # divided into slots of other warps and a busy pipeline.
        stall = warp.head_since - warp.issued_at if warp.issued_at >= 0 else 0
        self.report_stall(warp, node, Stall.STALL_COUNT, stall)
        waited = warp.ready_since - warp.head_since
        by_fence = (node.fence and not node.partial) or warp.blamed in self.fences
        reason = Stall.BARRIER if by_fence else Stall.DEPENDENCE
        self.report_stall(warp, node, reason, waited, warp.blamed)
        since_ready = self.now - warp.ready_since
        passed = min(since_ready, self.passed_over(warp, node)) if self.unit.width == 1 else 0
        self.report_stall(warp, node, Stall.NOT_SELECTED, passed)
        self.report_stall(warp, node, Stall.PIPELINE, since_ready - passed)

    def report_stall(
        self, warp: LineWarp, node: ProgramNode, reason: Stall, ticks: int, producer: int = -1
    ) -> None:
        """Report a stall if it took time."""
        if ticks > 0:
            self.emit(Stalled(warp.block, warp.number, node, reason, ticks, producer))

    def passed_over(self, warp: LineWarp, node: ProgramNode) -> int:
        """Return the ticks of slots that other warps took while the warp could have issued."""
        # For example, a warp is ready since cycle 3 and issues in cycle 5. Its scheduler issued in
        # cycles 2, 3, 4 and 5 with the pipeline free. Those from 3 on, without its issue, are 2
        # cycles.
        times = self.opportunities[warp.scheduler][self.copies[node.pipeline][warp.scheduler]]
        return (len(times) - bisect_left(times, warp.ready_since) - 1) * self.cycle

    def report_drain(self, block: ResidentBlock[LineWarp]) -> None:
        """See :class:`Machine`."""
        for warp in block.warps:
            ticks = max(0, self.now - warp.head_since)
            self.emit(Drained(warp.block, warp.number, ticks))

    def waiting(self) -> bool:
        """See :class:`Machine`."""
        return any(w.ready_since >= 0 for w in self.warps())

    def ready_later(self) -> Iterator[int]:
        """See :class:`Machine`."""
        return (w.ready_since for w in self.warps() if w.ready_since > self.now)
