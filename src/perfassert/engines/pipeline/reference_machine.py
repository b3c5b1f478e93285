"""Event loop of the reference engine: blocks, servers and completions.

Subclasses decide which warp issues. A server, such as the L2, serves one instruction after the
other. Issued instructions wait for it in the queue behind their pipeline. For example, one warp
issues four loads, each of which occupies the L2 for 8 cycles. The issue times depend on the places
of the queue:

    >>> from dataclasses import replace
    >>> import perfassert as pa
    >>> from perfassert.engines.pipeline.simulate import make_unit
    >>> from perfassert.engines.pipeline.watch import watch
    >>> g = pa.InstructionGraph.builder()
    >>> for _ in range(4):
    ...     _ = g.op("load")
    >>> graph = g.build()
    >>> graph = replace(
    ...     graph, nodes=tuple(n._replace(demands=(("L2", 8.0),)) for n in graph.nodes)
    ... )
    >>> latencies = {"load": pa.Latency(1, 10, "queue")}
    >>> for places in (1, 2, 4):
    ...     unit = make_unit(
    ...         graph, 1, 1, 1, latencies, "in-order", "loose-round-robin", 1, 1, {"queue": places}
    ...     )
    ...     print(places, [int(i.start) for i in watch(unit, 20) if i.reason is None])
    1 [0, 1, 8, 16]
    2 [0, 1, 2, 8]
    4 [0, 1, 2, 3]

The L2 begins a load every 8 cycles. With one place the second load occupies it from cycle 1 to 8,
when the L2 takes the load. The third load issues then. Until then the warp is stalled by *memory
throttle*. With four places all loads issue without a stall, and the warp waits only when it uses a
result.
"""

from __future__ import annotations

import heapq
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from perfassert.engines.pipeline.configuration import Unit
from perfassert.engines.pipeline.events import (
    Barrier,
    Completed,
    Event,
    Issued,
    Launched,
    Listener,
    Retired,
    Served,
)
from perfassert.engines.pipeline.phases import ProgramSignal
from perfassert.engines.pipeline.program import SERVER, ProgramNode
from perfassert.engines.pipeline.reference_channels import Channels
from perfassert.engines.pipeline.results import deadlock
from perfassert.engines.pipeline.unrolled import Unrolled, unroll


@dataclass(slots=True)
class Warp:
    """A warp of a resident block; ``index`` numbers the warps of the unit, slot by slot."""

    index: int
    scheduler: int
    block: int
    number: int
    code: Unrolled
    remaining: list[int]
    issued: int = 0
    completed: int = 0

    def is_unfinished(self) -> bool:
        """Return True if an instruction is left to issue."""
        return self.issued < len(self.code.nodes)


W = TypeVar("W", bound=Warp)


@dataclass(slots=True)
class ResidentBlock(Generic[W]):
    """A resident block; ``arrived``: warps that have arrived at its barrier."""

    number: int
    launched: int
    channels: Channels[W]
    warps: list[W] = field(default_factory=list)
    arrived: int = 0

    def complete(self) -> bool:
        """Return True if every instruction is complete."""
        return all(w.completed == len(w.code.nodes) for w in self.warps)


class Machine(Generic[W]):
    """A run over a :class:`Unit`, reported to ``listeners``."""

    def __init__(self, unit: Unit, listeners: Sequence[Listener]) -> None:
        self.unit = unit
        self.listeners = listeners
        self.cycle = unit.pipelines.ticks
        self.codes = [unroll(program) for program in unit.programs]
        self.copies = unit.copies
        self.free_at = [0] * (self.copies[-1][-1] + 1)
        self.runs_on = unit.runs_on
        self.slots: list[ResidentBlock[W] | None] = [None] * unit.resident
        self.warps_of: list[list[W]] = [[] for _ in range(unit.schedulers)]
        self.launched = 0
        self.completions: list[tuple[int, int, W, int]] = []
        self.queued = [[0] * max(0, d) for d in self._depths()]
        self.sequence = 0
        self.now = 0
        self.used = [0] * unit.schedulers
        self.used_at = [-1] * unit.schedulers

    def _depths(self) -> Iterator[int]:
        """Yield the places of the queue behind every copy of a pipeline."""
        for depth, copies in zip(self.unit.pipelines.depths, self.copies, strict=True):
            yield from [depth] * len(set(copies))

    def emit(self, event: Event) -> None:
        """Pass an event to every listener."""
        for listener in self.listeners:
            listener.hear(event)

    def run(self) -> int:
        """Simulate until every block is complete; return the tick at which all servers are done,
        too."""
        for slot in range(min(self.unit.resident, self.unit.blocks)):
            self.launch(slot)
        while any(self.slots):
            self.retire()
            if not any(self.slots):
                break
            self.issue_all()
            following = self.next_time()
            if following is None:
                self.check_progress()
                continue
            self.now = following
            self.complete_until_now()
        depths = self.unit.pipelines.depths
        servers = [self.copies[i][0] for i, d in enumerate(depths) if d == SERVER]
        return max([self.now, *(self.free_at[s] for s in servers)])

    def check_progress(self) -> None:
        """Raise a deadlock error unless a block is complete.

        The function is called when there is no next event. A complete block is one without
        instructions.
        """
        if any(block is not None and block.complete() for block in self.slots):
            return
        last = [w.code.nodes[w.issued - 1] for w in self.warps() if w.completed < w.issued]
        raise deadlock(next((n.graph_node for n in last if n.fence), -1))

    @abstractmethod
    def warp(self, slot: int, number: int, start: int) -> W:
        """Return a new warp of the block in ``slot`` that may issue from ``start`` on."""

    @abstractmethod
    def begin(self, warp: W) -> None:
        """Make the first instructions of a warp ready."""

    @abstractmethod
    def now_ready(self, warp: W, place: int) -> None:
        """Note that all producers of an instruction are complete."""

    @abstractmethod
    def issue_all(self) -> None:
        """Issue all instructions that can be issued now."""

    @abstractmethod
    def waiting(self) -> bool:
        """Return True if a warp could issue at the next whole cycle."""

    # Blocks

    def launch(self, slot: int) -> None:
        """Launch a new block into a slot; the first resident blocks start one after the other."""
        block: ResidentBlock[W] = ResidentBlock(
            self.launched, self.now, Channels(self.unit.channels)
        )
        self.launched += 1
        first = block.number < self.unit.resident
        start = self.now + (block.number * self.unit.stagger if first else 0)
        for number in range(self.unit.warps):
            warp = self.warp(slot, number, start)
            block.warps.append(warp)
            self.begin(warp)
        self.occupy_slot(slot, block)
        self.emit(Launched(self.now, block.number))

    def retire(self) -> None:
        """Replace complete blocks, the lowest slot first."""
        replaced = True
        while replaced:  # a new block without instructions is complete, too
            replaced = False
            for slot, block in enumerate(self.slots):
                if block is None or not block.complete():
                    continue
                self.report_drain(block)
                self.emit(Retired(self.now, block.number, block.launched))
                self.occupy_slot(slot, None)
                if self.launched < self.unit.blocks:
                    self.launch(slot)
                    replaced = True

    def occupy_slot(self, slot: int, block: ResidentBlock[W] | None) -> None:
        """Put a block into a slot, and distribute the warps of all slots to their schedulers."""
        self.slots[slot] = block
        self.warps_of = [[] for _ in self.warps_of]
        for warp in self.warps():
            self.warps_of[warp.scheduler].append(warp)

    def report_drain(self, block: ResidentBlock[W]) -> None:
        """Report how long the warps of a complete block have waited for its end."""

    def warps(self) -> Iterator[W]:
        """Yield the warps of all resident blocks."""
        for block in self.slots:
            if block is not None:
                yield from block.warps

    def block_of(self, warp: W) -> ResidentBlock[W]:
        """Return the block that a warp belongs to."""
        block = self.slots[warp.index // self.unit.warps]
        assert block is not None
        return block

    # Issue and completion

    def has_slot(self, scheduler: int) -> bool:
        """Return True if a scheduler may issue another instruction now."""
        if not self.unit.width:
            return True
        if self.now % self.cycle:
            return False
        if self.used_at[scheduler] != self.now:
            self.used_at[scheduler] = self.now
            self.used[scheduler] = 0
        return self.used[scheduler] < self.unit.width

    def arbitration(self, warps: list[W], last: int) -> W:
        """Choose the next warp of a scheduler or pipeline.

        Round robin starts after the warp ``last`` served. Greedy scheduling takes that warp again,
        or else the oldest.
        """
        # For example, warps 0, 2 and 3 can issue, and warp 2 was served last. Round robin chooses
        # 3. Greedy-then-oldest chooses 2, or if 2 cannot issue, a warp of the oldest block.
        if self.unit.oldest_first:
            return min(warps, key=lambda w: (w.index != last, w.block, w.index))
        return min(warps, key=lambda w: (w.index <= last, w.index))

    def issue(self, warp: W, place: int, copy: int) -> None:
        """Issue an instruction to its pipeline and servers; at a barrier it waits for the block."""
        node = warp.code.nodes[place]
        self.occupy(copy, node.issue)
        done = self.serve(node, copy)
        self.used[warp.scheduler] += 1
        warp.issued += 1
        self.emit(Issued(self.now, warp.block, warp.number, warp.scheduler, node))
        if node.signal is not None:
            self.signal(warp, place, node, node.signal)
        if node.signal is not None and node.signal.waits:
            return
        if node.fence:
            self.arrive(warp, node)
        else:
            self.schedule(warp, place, done - self.now + node.completion)

    def occupy(self, copy: int, ticks: int) -> None:
        """Occupy a copy of a pipeline.

        Issue slots lie at whole cycles, but the issue time need not be a whole number of cycles. If
        the pipeline was done less than a cycle ago, it continues from that time.
        """
        # For example, each instruction takes 1.5 cycles. The first issues at 0 and occupies the
        # pipeline to 1.5. The second issues in the slot at 2, and occupies it from 1.5 to 3, so the
        # third can issue at 3.
        free = self.free_at[copy]
        runs_on = copy in self.runs_on and self.now - free < self.cycle
        self.free_at[copy] = (free if runs_on else self.now) + ticks

    def arrive(self, warp: W, node: ProgramNode) -> None:
        """Count a warp at a barrier; the last one releases all warps of the block.

        The barrier is the last instruction that each of them has issued.
        """
        block = self.block_of(warp)
        block.arrived += 1
        if block.arrived == len(block.warps):
            block.arrived = 0
            self.emit(Barrier(self.now, warp.block, warp.number, node))
            for member in block.warps:
                self.schedule(member, member.issued - 1, node.completion)

    def signal(self, warp: W, place: int, node: ProgramNode, signal: ProgramSignal) -> None:
        """Apply the issue of a node to a channel; arrivals and copies count on completion."""
        channels, phase = self.block_of(warp).channels, warp.code.phases[place]
        if signal.arrives:
            channels.expect(signal.channel, phase, signal.expects)
        if signal.arrives and signal.waits:
            self.release(channels.arrive(signal.channel, phase))
        if signal.waits and not channels.waits(signal.channel, phase, warp):
            self.schedule(warp, place, node.completion)

    def complete_signal(self, warp: W, place: int, signal: ProgramSignal) -> None:
        """Count a complete arrival or copy, and release the warps that waited for the phase."""
        channels, phase = self.block_of(warp).channels, warp.code.phases[place]
        if signal.copies:
            self.release(channels.complete_copy(signal.channel, phase))
        elif not signal.waits:
            self.release(channels.arrive(signal.channel, phase))

    def release(self, warps: list[W]) -> None:
        """Release warps whose phase is complete; each has issued its wait last."""
        for warp in warps:
            place = warp.issued - 1
            self.schedule(warp, place, warp.code.nodes[place].completion)

    def serve(self, node: ProgramNode, copy: int) -> int:
        """Pass an instruction through its servers; return the time at which the last one is done.

        Without a result it is the time at which the first server is done. The queue before the
        first server is full if the instruction that came as many places earlier has not been served
        yet.
        """
        at = self.now
        times = []
        for server, needed in node.demands:
            own = self.copies[server][0]
            start = max(at, self.free_at[own])
            at = self.free_at[own] = start + needed
            self.emit(Served(server, needed))
            times.append((start, at))
        if self.queued[copy] and times:
            self.queued[copy] = [*self.queued[copy][1:], times[0][0]]
            self.free_at[copy] = max(self.free_at[copy], self.queued[copy][0])
        return times[0][1] if times and not node.produces else at

    def schedule(self, warp: W, place: int, delay: int) -> None:
        """Schedule the completion of an instruction ``delay`` ticks from now."""
        self.sequence += 1
        heapq.heappush(self.completions, (self.now + delay, self.sequence, warp, place))

    def complete_until_now(self) -> None:
        """Complete the instructions that are due, in order of issue, and wake their consumers."""
        while self.completions and self.completions[0][0] <= self.now:
            _, _, warp, place = heapq.heappop(self.completions)
            warp.completed += 1
            self.note_completion(warp, place)
            node = warp.code.nodes[place]
            self.emit(Completed(self.now, warp.block, warp.number, node))
            if node.signal is not None:
                self.complete_signal(warp, place, node.signal)
            for consumer in warp.code.consumers[place]:
                warp.remaining[consumer] -= 1
                if warp.remaining[consumer] == 0:
                    self.now_ready(warp, consumer)

    def note_completion(self, warp: W, place: int) -> None:
        """Note the time of a completion."""

    # Time

    def next_time(self) -> int | None:
        """Return the next time at which anything can change, or None."""
        times = [self.completions[0][0]] if self.completions else []
        times += [t for t in self.free_at if t > self.now]
        times += self.ready_later()
        if self.unit.width and self.waiting():
            times.append((self.now // self.cycle + 1) * self.cycle)
        return min(times) if times else None

    def ready_later(self) -> Iterator[int]:
        """Yield the times at which warps become ready that wait for nothing but time."""
        yield from ()
