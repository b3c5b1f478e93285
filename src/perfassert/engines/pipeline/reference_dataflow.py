"""Dataflow machine, Algorithm 1 of the paper: any instruction with its operands may issue.

Among several, the first in program order issues.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from perfassert.engines.pipeline.configuration import Unit
from perfassert.engines.pipeline.events import Listener
from perfassert.engines.pipeline.reference_machine import Machine, Warp


@dataclass(slots=True)
class FlowWarp(Warp):
    """A warp of the dataflow machine.

    ``ready`` holds places of ready instructions by pipeline. ``head`` is the first place that is
    not issued, and ``done`` the places from it on that are issued.
    """

    ready: dict[int, list[int]] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)
    head: int = 0


class DataflowMachine(Machine[FlowWarp]):
    """Machine in which each copy of a pipeline picks among the warps with an instruction for it."""

    def __init__(self, unit: Unit, listeners: Sequence[Listener]) -> None:
        super().__init__(unit, listeners)
        self.last_served = [-1] * len(self.free_at)

    def warp(self, slot: int, number: int, start: int) -> FlowWarp:
        """See :class:`Machine`."""
        code = self.codes[self.unit.variant[number]]
        index = slot * self.unit.warps + number
        remaining = [len(p) for p in code.producers]
        block = self.launched - 1
        return FlowWarp(index, index % self.unit.schedulers, block, number, code, remaining)

    def begin(self, warp: FlowWarp) -> None:
        """See :class:`Machine`."""
        for place, count in enumerate(warp.remaining):
            if count == 0:
                self.now_ready(warp, place)

    def now_ready(self, warp: FlowWarp, place: int) -> None:
        """Mark an instruction as ready to issue; a partial barrier waits for earlier issues."""
        node = warp.code.nodes[place]
        if node.partial and warp.issued < place:
            return
        heapq.heappush(warp.ready.setdefault(node.pipeline, []), place)

    def issue_all(self) -> None:
        """See :class:`Machine`."""
        progress = True
        while progress:
            progress = False
            for pipeline, copies in enumerate(self.copies):
                for copy in dict.fromkeys(copies):
                    progress |= self.issue_on(pipeline, copy)

    def issue_on(self, pipeline: int, copy: int) -> bool:
        """Issue one instruction to a copy of a pipeline; return True if there is one."""
        if self.free_at[copy] > self.now:
            return False
        able = [
            w
            for w in self.warps()
            if self.copies[pipeline][w.scheduler] == copy
            and w.ready.get(pipeline)
            and self.has_slot(w.scheduler)
        ]
        if not able:
            return False
        warp = self.arbitration(able, self.last_served[copy])
        place = heapq.heappop(warp.ready[pipeline])
        self.last_served[copy] = warp.index
        warp.done.add(place)
        self.issue(warp, place, copy)
        self.offer_barrier(warp)
        return True

    def offer_barrier(self, warp: FlowWarp) -> None:
        """Mark a partial barrier as ready if it has waited for nothing but earlier issues."""
        # For example, places 0, 1 and 3 are issued: ``head`` is 2 and ``done`` is {3}. When 2 is
        # issued, ``head`` moves to 4. If 4 is a partial barrier whose producers are complete, it is
        # ready now.
        while warp.head in warp.done:
            warp.done.remove(warp.head)
            warp.head += 1
        if not warp.is_unfinished() or warp.remaining[warp.head]:
            return
        if warp.code.nodes[warp.head].partial:
            self.now_ready(warp, warp.head)

    def waiting(self) -> bool:
        """See :class:`Machine`."""
        return any(heap for w in self.warps() for heap in w.ready.values())
