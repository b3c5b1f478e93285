"""The simulator, written to be read: every dynamic instruction, one event after the other.

This is the paper's Algorithm 1 with its gaps closed (see ``docs/model.md``): completions precede
issues at equal times, idle pipelines wake on events instead of polling, arbitration is fixed. The
compiled engine gives the same results; this one is its reference, and its stand-in where no
compiler was at hand.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

from perfassert.engines.pipeline.configuration import Profile, Totals, Unit
from perfassert.engines.pipeline.events import TraceEvent
from perfassert.engines.pipeline.program import NO_LOOP, SERVER, Program, ProgramNode


@dataclass(slots=True)
class Unrolled:
    """A program with its loops replicated: per dynamic instruction, its node and consumers."""

    nodes: list[ProgramNode]
    producers: list[list[int]]
    consumers: list[list[int]]


def unroll(program: Program) -> Unrolled:
    """Replicate all loops. A node waits for the last barrier before it; a full barrier for
    everything since the last full one."""
    nodes: list[ProgramNode] = []
    producers: list[list[int]] = []
    fence = full_fence = -1
    for index, counters in _dynamic(program, program.body, {}):
        node = program.nodes[index]
        place = len(nodes)
        waits = {s for edge in node.sources if (s := _producer(program, edge, counters)) >= 0}
        if node.fence and not node.partial:
            waits.update(range(full_fence + 1, place))
            full_fence = place
        if fence >= 0:
            waits.add(fence)
        nodes.append(node)
        producers.append(sorted(waits))
        if node.fence:
            fence = place
    consumers: list[list[int]] = [[] for _ in nodes]
    for consumer, waits_for in enumerate(producers):
        for producer in waits_for:
            consumers[producer].append(consumer)
    return Unrolled(nodes, producers, consumers)


def _dynamic(
    program: Program, body: tuple[tuple[str, int], ...], counters: dict[int, int]
) -> Iterator[tuple[int, dict[int, int]]]:
    for kind, index in body:
        if kind == "node":
            yield index, counters
        else:
            loop = program.loops[index]
            for i in range(loop.trips):
                yield from _dynamic(program, loop.body, {**counters, index: i})


def _producer(
    program: Program, edge: tuple[tuple[int, int, int], ...], counters: dict[int, int]
) -> int:
    """Program-order number of the instruction that an edge means, or -1 for none."""
    for producer, loop, distance in edge:
        if distance and counters[loop] < distance:
            continue
        node = program.nodes[producer]
        place, inside = node.offset, loop != NO_LOOP
        for level in program.chain(node.loop):
            if inside:
                iteration = counters[level] - (distance if level == loop else 0)
            else:
                iteration = program.loops[level].trips - 1
            place += program.loops[level].offset + iteration * program.loops[level].length
            inside = inside and level != loop
        return place
    return -1


@dataclass(slots=True)
class _Warp:
    """A warp of a resident block. ``index`` numbers the warps of the unit, slot by slot."""

    index: int
    scheduler: int
    block: _Block
    code: Unrolled
    remaining: list[int]
    issued: list[bool]
    done_at: list[int]
    ready: dict[int, list[int]] = field(default_factory=dict)
    head: int = 0
    issued_count: int = 0
    completed: int = 0
    head_since: int = 0
    ready_since: int = -1
    blamed: int = -1
    issued_at: int = -1

    def unfinished(self) -> bool:
        return self.issued_count < len(self.code.nodes)


@dataclass(slots=True)
class _Block:
    number: int
    slot: int
    launched: int
    warps: list[_Warp] = field(default_factory=list)
    arrived: int = 0

    def complete(self) -> bool:
        return all(w.completed == len(w.code.nodes) for w in self.warps)


class Reference:
    """One run over a :class:`Unit`; ``window`` in ticks asks for a trace."""

    def __init__(self, unit: Unit, window: tuple[int, int] | None = None) -> None:
        self.unit = unit
        self.window = window
        self.cycle = unit.pipelines.ticks
        self.codes = [unroll(program) for program in unit.programs]
        self.copies = unit.copies
        copies = self.copies[-1][-1] + 1
        self.free_at = [0] * copies
        self.last_served = [-1] * (unit.schedulers if unit.in_order else copies)
        self.slots: list[_Block | None] = [None] * unit.resident
        self.completions: list[tuple[int, int, _Warp, int]] = []
        self.queued = [[0] * max(0, d) for d in self._depths()]
        self.sequence = 0
        self.now = 0
        self.used = [0] * unit.schedulers
        self.used_at = [-1] * unit.schedulers
        self.first_scheduler = 0
        self.opportunities: list[list[list[int]]] = [
            [[] for _ in range(copies)] for _ in range(unit.schedulers)
        ]
        self.profile = Profile()
        self.fences = {n.graph_node for p in unit.programs for n in p.nodes if n.fence}
        self.issues: list[list[int]] = [[] for _ in range(unit.schedulers)]
        operations, names = len(unit.pipelines.operations), len(unit.pipelines.names)
        self.totals = Totals(
            0, [0] * operations, [0] * names, 0, 0, [0] * unit.graph_nodes, [0] * names, 0, 0, 0, 0
        )

    @property
    def slot(self) -> int:
        """Ticks of an issue slot: a cycle where the issue width is one."""
        return self.cycle if self.unit.width == 1 else 0

    def _depths(self) -> Iterator[int]:
        """Places of the queue behind every copy of a pipeline."""
        for depth, copies in zip(self.unit.pipelines.depths, self.copies, strict=True):
            yield from [depth] * len(set(copies))

    def run(self) -> Totals:
        """Simulate until every block is complete."""
        for slot in range(min(self.unit.resident, self.unit.blocks)):
            self.launch(slot)
        while any(self.slots):
            self.retire()
            if not any(self.slots):
                break
            self.issue_all()
            following = self.next_time()
            if following is None:
                continue
            self.now = following
            self.complete_until_now()
        depths = self.unit.pipelines.depths
        servers = [self.copies[i][0] for i, d in enumerate(depths) if d == SERVER]
        self.totals.end = max([self.now, *(self.free_at[s] for s in servers)])
        self.totals.profile = self.profile if self.unit.profile else None
        self.totals.simulated = sum(self.totals.issued)
        return self.totals

    # Blocks

    def launch(self, slot: int) -> None:
        block = _Block(self.totals.launched, slot, self.now)
        self.totals.launched += 1
        first = block.number < self.unit.resident
        start = self.now + (block.number * self.unit.stagger if first else 0)
        for w, variant in enumerate(self.unit.variant):
            code = self.codes[variant]
            index = slot * self.unit.warps + w
            remaining = [len(p) for p in code.producers]
            warp = _Warp(
                index, index % self.unit.schedulers, block, code, remaining,
                [False] * len(code.nodes), [0] * len(code.nodes), head_since=start,
            )  # fmt: skip
            block.warps.append(warp)
            if self.unit.in_order:
                self.check_head(warp)
            else:
                for place, count in enumerate(remaining):
                    if count == 0:
                        self.offer(warp, place)
        self.slots[slot] = block
        self.record("launched", block.warps[0], -1)

    def retire(self) -> None:
        """Replace complete blocks at once, the lowest slot first."""
        replaced = True
        while replaced:  # a block of warps without instructions is complete at once
            replaced = False
            for slot, block in enumerate(self.slots):
                if block is None or not block.complete():
                    continue
                self.totals.retired += 1
                for warp in block.warps:
                    if self.unit.in_order:
                        self.totals.drained += max(0, self.now - warp.head_since)
                    self.totals.resident += self.now - block.launched
                self.record("retired", block.warps[0], -1)
                self.slots[slot] = None
                if self.totals.launched < self.unit.blocks:
                    self.launch(slot)
                    replaced = True

    def warps(self) -> Iterator[_Warp]:
        for block in self.slots:
            if block is not None:
                yield from block.warps

    # Completion

    def complete_until_now(self) -> None:
        while self.completions and self.completions[0][0] <= self.now:
            _, _, warp, place = heapq.heappop(self.completions)
            warp.completed += 1
            warp.done_at[place] = self.now
            self.record("completed", warp, place)
            for consumer in warp.code.consumers[place]:
                warp.remaining[consumer] -= 1
                if warp.remaining[consumer] == 0:
                    self.now_ready(warp, consumer)

    # Readiness

    def now_ready(self, warp: _Warp, place: int) -> None:
        if not self.unit.in_order:
            self.offer(warp, place)
        elif place == warp.head:
            self.become_ready(warp)

    def offer(self, warp: _Warp, place: int) -> None:
        """Dataflow: the instruction may be issued; a partial barrier waits for earlier issues."""
        node = warp.code.nodes[place]
        if node.partial and warp.issued_count < place:
            return
        heapq.heappush(warp.ready.setdefault(node.pipeline, []), place)

    def check_head(self, warp: _Warp) -> None:
        """In order: note since when, and after whom, the next instruction is ready."""
        warp.ready_since = -1
        if warp.unfinished() and warp.remaining[warp.head] == 0:
            self.become_ready(warp)

    def become_ready(self, warp: _Warp) -> None:
        """Blame the producer that completed last; among several, the last one of the graph."""
        warp.ready_since = max(self.now, warp.head_since)
        code = warp.code
        waits = [(warp.done_at[p], code.nodes[p].graph_node) for p in code.producers[warp.head]]
        warp.blamed = max(waits, default=(0, -1))[1]

    # Issue

    def issue_all(self) -> None:
        if self.unit.in_order:
            first = self.first_scheduler
            for i in range(self.unit.schedulers):
                self.issue_in_order((first + i) % self.unit.schedulers)
            return
        progress = True
        while progress:
            progress = False
            for pipeline, copies in enumerate(self.copies):
                for copy in dict.fromkeys(copies):
                    progress |= self.issue_dataflow(pipeline, copy)

    def has_slot(self, scheduler: int) -> bool:
        if not self.unit.width:
            return True
        if self.now % self.cycle:
            return False
        if self.used_at[scheduler] != self.now:
            self.used_at[scheduler] = self.now
            self.used[scheduler] = 0
        return self.used[scheduler] < self.unit.width

    def arbitration(self, warps: list[_Warp], last: int) -> list[_Warp]:
        """Round robin starts after the last one served; else it first, then the oldest."""
        if self.unit.oldest_first:
            return sorted(warps, key=lambda w: (w.index != last, w.block.number, w.index))
        return sorted(warps, key=lambda w: (w.index <= last, w.index))

    def issue_dataflow(self, pipeline: int, copy: int) -> bool:
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
        warp = self.arbitration(able, self.last_served[copy])[0]
        place = heapq.heappop(warp.ready[pipeline])
        self.last_served[copy] = warp.index
        self.issue(warp, place, copy)
        following = self.lowest_unissued(warp)
        if following is not None and self.waits_for_issue(warp, following):
            self.offer(warp, following)
        return True

    def waits_for_issue(self, warp: _Warp, place: int) -> bool:
        return warp.code.nodes[place].partial and not warp.remaining[place]

    def lowest_unissued(self, warp: _Warp) -> int | None:
        while warp.head < len(warp.issued) and warp.issued[warp.head]:
            warp.head += 1
        return warp.head if warp.head < len(warp.issued) else None

    def issue_in_order(self, scheduler: int) -> None:
        while self.has_slot(scheduler):
            able = []
            for warp in self.warps():
                if warp.scheduler == scheduler and 0 <= warp.ready_since <= self.now:
                    node = warp.code.nodes[warp.head]
                    if self.free_at[self.copies[node.pipeline][scheduler]] <= self.now:
                        able.append(warp)
            if not able:
                return
            warp = self.arbitration(able, self.last_served[scheduler])[0]
            for copy, free in enumerate(self.free_at):
                if free <= self.now:
                    self.opportunities[scheduler][copy].append(self.now)
            self.last_served[scheduler] = warp.index
            self.first_scheduler = (scheduler + 1) % self.unit.schedulers
            self.account(warp)
            node = warp.code.nodes[warp.head]
            place = warp.head
            warp.head += 1
            self.issues[scheduler].append(self.now)
            self.issue(warp, place, self.copies[node.pipeline][scheduler])
            warp.issued_at = warp.head_since = self.now + self.slot
            if warp.unfinished():
                warp.head_since = max(warp.head_since, self.now + node.stall)
            self.check_head(warp)

    def account(self, warp: _Warp) -> None:
        """Where the time since the warp's last issue went."""
        node = warp.code.nodes[warp.head]
        waited = warp.ready_since - warp.head_since
        if waited > 0:
            self.totals.dependence[warp.blamed] += waited  # type: ignore[index]
        held = self.now - warp.ready_since
        passed = 0
        if self.unit.width == 1:
            copy = self.copies[node.pipeline][warp.scheduler]
            times = self.opportunities[warp.scheduler][copy]
            count = len(times) - bisect_left(times, warp.ready_since) - 1
            passed = min(held, count * self.cycle)
            self.totals.not_selected += passed
            held -= passed
        self.totals.pipeline[node.pipeline] += held  # type: ignore[index]
        if self.unit.profile:
            self.note(warp, passed, held)

    def note(self, warp: _Warp, passed: int, held: int) -> None:
        """Enter the time since the warp's last issue into the profile."""
        node = warp.code.nodes[warp.head]
        stall = warp.head_since - warp.issued_at if warp.issued_at >= 0 else 0
        waited = warp.ready_since - warp.head_since
        idle = self.idle(warp, warp.head_since - stall, warp.ready_since)
        idle_stall = idle * stall // (stall + waited) if idle else 0
        idle_held = min(held, self.idle(warp, warp.ready_since, self.now))
        by_fence = warp.blamed < 0 or (node.fence and not node.partial)
        by_fence = by_fence or warp.blamed in self.fences
        to_fence = (waited, idle - idle_stall) if by_fence else (0, 0)
        counts = (1, stall, idle_stall, passed, held, idle_held, *to_fence)
        self.profile.at(node.graph_node).add(counts)
        if waited and not by_fence:
            self.profile.wait(node.graph_node, warp.blamed, waited, idle - idle_stall)

    def idle(self, warp: _Warp, start: int, end: int) -> int:
        """Ticks of a time in which the warp's scheduler issued nothing."""
        times = self.issues[warp.scheduler]
        issues = bisect_left(times, end) - bisect_left(times, start)
        return max(0, end - start - issues * self.cycle)

    def issue(self, warp: _Warp, place: int, copy: int) -> None:
        node = warp.code.nodes[place]
        self.free_at[copy] = self.now + node.issue
        done = self.serve(node, copy)
        self.used[warp.scheduler] += 1
        self.totals.issued[node.operation] += 1  # type: ignore[index]
        self.totals.busy[node.pipeline] += node.issue  # type: ignore[index]
        warp.issued[place] = True
        warp.issued_count += 1
        self.record("issued", warp, place)
        if not node.fence:
            self.schedule(warp, place, done - self.now + node.completion)
            return
        warp.block.arrived += 1
        if warp.block.arrived == len(warp.block.warps):
            warp.block.arrived = 0
            for other in warp.block.warps:
                self.schedule(other, self.fence_of(other), node.completion)

    def serve(self, node: ProgramNode, copy: int) -> int:
        """Pass the servers; the queue before the first one is full when the instruction that came
        so many places earlier has not been served yet. When the last server is done, or the
        first where there is no result."""
        at = self.now
        times = []
        for server, needed in node.demands:
            own = self.copies[server][0]
            start = max(at, self.free_at[own])
            at = self.free_at[own] = start + needed
            self.totals.busy[server] += needed  # type: ignore[index]
            times.append((start, at))
        if self.queued[copy] and times:
            self.queued[copy] = [*self.queued[copy][1:], times[0][0]]
            self.free_at[copy] = max(self.free_at[copy], self.queued[copy][0])
        return times[0][1] if times and not node.produces else at

    def fence_of(self, warp: _Warp) -> int:
        """The barrier that the warp has just arrived at: its last issued instruction."""
        return warp.issued_count - 1

    def schedule(self, warp: _Warp, place: int, delay: int) -> None:
        self.sequence += 1
        heapq.heappush(self.completions, (self.now + delay, self.sequence, warp, place))

    # Time

    def next_time(self) -> int | None:
        """The next moment at which anything can change."""
        times = [self.completions[0][0]] if self.completions else []
        times += [t for t in self.free_at if t > self.now]
        if self.unit.in_order:
            times += [w.ready_since for w in self.warps() if w.ready_since > self.now]
        if self.unit.width and self.waiting():
            times.append((self.now // self.cycle + 1) * self.cycle)
        return min(times) if times else None

    def waiting(self) -> bool:
        if self.unit.in_order:
            return any(w.ready_since >= 0 for w in self.warps())
        return any(heap for w in self.warps() for heap in w.ready.values())

    def record(self, kind: str, warp: _Warp, place: int) -> None:
        if self.window is None or not self.window[0] <= self.now < self.window[1]:
            return
        node = warp.code.nodes[place].graph_node if place >= 0 else -1
        number = warp.index % self.unit.warps
        self.totals.trace.append(
            TraceEvent(self.now / self.cycle, kind, warp.block.number, number, node)
        )
