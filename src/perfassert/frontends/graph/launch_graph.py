"""The instruction graph of a program for one launch: which warp executes what, how often.

A block from the middle of those that have work stands for all. For each of its warps conditions
are evaluated lane by lane: an instruction belongs to the warps in which some lane is active, so
both sides of a divergent branch follow one another. A loop whose conditions change from one
iteration to the next (a reduction's halving stride) is unrolled; any other stays a loop.

Instructions wait as the control codes say: for the barriers that loads and other instructions of
variable latency set. Fixed latencies are in the stall counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from math import prod

import numpy as np
import numpy.typing as npt

from perfassert.frontends.binding.binder import Binder
from perfassert.frontends.graph.block_kinds import (
    Box,
    RepresentativeBlock,
    choose_representative,
    chosen_groups,
    idle_boxes,
    partition,
)
from perfassert.frontends.graph.channels import assign_channels
from perfassert.frontends.graph.executed_counts import Counts
from perfassert.frontends.graph.items import GraphItem
from perfassert.frontends.graph.iterations import (
    Decisions,
    IterationWalked,
    can_evaluate_all,
    groups,
)
from perfassert.frontends.graph.numbering import number_items
from perfassert.frontends.machine.opcodes import longest_sleep
from perfassert.kernel.affine import Affine, Bounds, IntArray, interval
from perfassert.kernel.expression import AXES
from perfassert.kernel.expression_pool import Atom, Expression
from perfassert.kernel.graph import InstructionGraph, replace_costs
from perfassert.kernel.names import Argument, LoopCounter, Name
from perfassert.kernel.program import (
    Program,
    ProgramBlock,
    ProgramInstruction,
)
from perfassert.kernel.roles import Role
from perfassert.source import Assumption

_UNROLLED_TRIPS = 64
_MAX_ITEMS = 60_000
_STAGES = 64
"""Largest number of iterations in which the barriers that a loop goes round are looked for."""
_REMEMBERED = 1 << 16
"""Largest number of states of conditions whose lanes are kept."""
_NOTICED = 0.02
"""Least share of a loop's instructions for which a group of its iterations is simulated apart."""
_VALUES_OF_ITEM = 256
"""Decisions of lanes that are evaluated in the time that an item of a graph takes."""
_IDLE_KINDS = 8
"""Largest number of kinds of blocks without work that are walked through."""
BoolArray = npt.NDArray[np.bool_]


def launch_graph(
    program: Program,
    binder: Binder,
    touches: Mapping[int, tuple[int, ...]],
    warp_size: int,
    block: tuple[int, ...],
) -> InstructionGraph:
    """Return the graph of one block of the grid."""
    walk = _Walk(program, binder, warp_size)
    items = walk.block_at(block)
    channels = assign_channels(items, walk.warps, warp_size, walk.note_unclear)
    return replace_costs(number_items(items, touches, program.found), channels=channels)


@dataclass(frozen=True, slots=True)
class _Walked:
    instructions: int
    longest: int
    effort: int
    digest: int


def representative_block(
    program: Program, binder: Binder, warp_size: int, grid: tuple[int, ...]
) -> RepresentativeBlock:
    """Return the block of ``grid`` that stands for all, and how many blocks it stands for."""
    middle = tuple(n // 2 for n in grid)
    walk = _Walk(program, binder, warp_size)
    decisions = BlockDecisions(walk)
    if not decisions.axes:
        return RepresentativeBlock(middle)
    noted = dict(binder.assumptions)
    known: dict[int, _Walked] = {}

    def walk_block(place: tuple[int, ...]) -> _Walked:
        key = int(decisions.decide(np.array([place], np.int64))[0][0])
        if key not in known:
            items = walk.block_at(place)
            each = _instructions_by_warp(items, walk.warps)
            effort = walk.count + walk.evaluated // _VALUES_OF_ITEM
            known[key] = _Walked(round(each.sum()), round(each.max()), effort, hash(_kind(items)))
        return known[key]

    groups = partition(tuple((0, n) for n in grid), decisions)
    result = choose_representative(walk_block, grid, groups)
    idle = 0.0
    for box in idle_boxes(binder.launch.grid, grid):
        of = partition(box, decisions)
        idle += sum(walk_block(p).instructions * n for p, n in chosen_groups(of, _IDLE_KINDS))
    binder.assumptions = noted  # what was said of blocks that are not simulated
    if groups.looked_at:
        binder.assume(
            f"blocks decide differently: how many do what is counted in {groups.looked_at} of "
            f"{groups.sampled} blocks"
        )
    if result.walked:
        binder.assume(
            f"blocks decide in {len(groups.places)} ways: {result.walked} of them are looked at, "
            "and the others are taken for those next to them"
        )
    return replace(result, idle=idle)


def _instructions_by_warp(items: Sequence[GraphItem], warps: int) -> npt.NDArray[np.float64]:
    """Return the number of instructions of each warp of the block."""
    counts = np.zeros(warps)
    for item in items:
        if item.instruction is None:
            trips = np.array(item.each, float) if item.each else item.trips
            counts += trips * _instructions_by_warp(item.body, warps)
        elif item.warps is None:
            counts += 1
        else:
            counts[list(item.warps)] += 1
    return counts


def _kind(items: Sequence[GraphItem]) -> tuple[object, ...]:
    """Return what tells blocks apart: instructions, their warps, trips."""
    return tuple(
        (item.trips, item.each, _kind(item.body))
        if item.instruction is None
        else (item.instruction.index, item.warps, item.active, item.barriers)
        for item in items
    )


class _Walk:
    def __init__(self, program: Program, binder: Binder, warp_size: int) -> None:
        self.program = program
        self.binder = binder
        self.symbols = program.symbols
        launch = binder.launch
        nx, ny, nz = launch.block
        self.warp_size = warp_size
        self.warps = -(-(nx * ny * nz) // warp_size)
        linear = np.arange(self.warps * warp_size, dtype=np.int64)
        self.everyone: BoolArray = linear < nx * ny * nz
        self.names: dict[Name, IntArray] = {
            "threadIdx.x": linear % nx,
            "threadIdx.y": linear // nx % ny,
            "threadIdx.z": np.minimum(linear // (nx * ny), nz - 1),
            "laneid": linear % warp_size,
            "warpid": linear // warp_size,
        }
        self.names |= {n: np.asarray(v) for n, v in binder.names.items()}
        self.memo: dict[int, IntArray] = {}
        self.iteration: dict[int, int] = {}  # of each loop, now
        self.decided_by: dict[int, tuple[int, ...] | None] = {}  # loops; None: it is undecided
        self.counted_by: dict[int, frozenset[int]] = {}
        self.lanes: dict[tuple[int, ...], BoolArray | None] = {}
        self.inside = _blocks_by_loop(program)
        work = None if binder.executed is None else binder.executed.work
        self.counts = Counts(program, work, self.warps)
        self.count = 0
        self.evaluated = 0  # decisions of lanes in iterations
        self.order = 0
        self.apart_now: dict[int, Decisions] = {}  # loops that are being taken apart
        self.places: dict[int, float] = {}  # of the iteration among those of its loop, from 0 to 1
        self.varying = self._varying()

    def block_at(self, block: tuple[int, ...]) -> list[GraphItem]:
        """Return the items that one block of the grid executes."""
        self.place(block)
        self.count = self.evaluated = self.order = 0
        return self.region(-1, self.everyone)

    def place(self, block: Sequence[int] | IntArray) -> None:
        self.names |= {f"blockIdx.{a}": np.asarray(block[i]) for i, a in enumerate(AXES)}
        self.names |= {LoopCounter(x.index): np.asarray(0) for x in self.program.loops}
        self.iteration = dict.fromkeys((x.index for x in self.program.loops), 0)
        self.memo, self.lanes = {}, {}

    def _varying(self) -> frozenset[int]:
        """Return loops in which a condition depends on the loop's own counter, at this launch."""
        program = self.program
        loops: set[int] = set()
        for block in program.blocks.values():
            for value in self.conditions(block):
                loops |= self.counters(value)
        for loop in program.loops:
            if loop.parent >= 0:
                loops |= self.counters(loop.entry)
                if loop.trips is not None:
                    loops |= self.counters(loop.trips)
        return frozenset(loops)

    def conditions(self, block: ProgramBlock) -> list[Expression]:
        """Return the condition of a block and the guards of its instructions."""
        own = self.program.instructions[block.start : block.stop]
        return [block.condition, *(i.guard for i in own if i.guard is not None)]

    def counters(self, value: Expression) -> set[int]:
        """Loops on whose counter the decided parts of a condition depend."""
        s = self.symbols
        loops: set[int] = set()
        for part in s.conjuncts(value):
            names = (s.atoms[a].name for a in s.free_atoms(part) if not s.atoms[a].function)
            if any(isinstance(n, LoopCounter) for n in names) and not self.binder.why_undecided(
                part
            ):
                symbols = set(self.binder.form(part).symbols())
                loops.update(n.loop for n in symbols if isinstance(n, LoopCounter))
        return loops

    # Values for every lane

    def reads_block(self, value: Expression) -> bool:
        """Return True if a value contains a block's coordinates."""
        names = (self.symbols.atoms[a].name for a in self.symbols.free_atoms(value))
        return any(isinstance(n, str) and n.startswith("blockIdx.") for n in names)

    def missing(self, atom: Atom) -> Exception:
        """Return the error that names the value that was not given."""
        name = atom.name
        assert isinstance(name, Argument)  # of what the launch decides
        return self.binder.arguments.missing(name, "a condition or a trip count")

    def value(self, value: Expression, *shape: int) -> IntArray | None:
        """A value for every lane, also in several blocks or iterations (``shape``); None where the
        launch does not decide it. Raises :class:`LaunchError` for a parameter that is not given.
        """
        if self.binder.why_undecided(value):
            return None
        self.note_decision(value)
        with np.errstate(over="ignore"):
            known = self.symbols.evaluate(value, self.names, self.memo)
        if isinstance(known, Atom):
            if isinstance(known.name, Argument):
                raise self.missing(known)
            return None
        return np.broadcast_to(known, shape or self.everyone.shape)

    def holds(self, condition: Expression) -> BoolArray | None:
        """Return the lanes for which a condition holds; None if it depends on data."""
        if condition.index not in self.decided_by:
            self.decided_by[condition.index] = self._decided_by(condition)
        loops = self.decided_by[condition.index]
        if loops is None:
            return None
        self.note_decision(condition)
        state = (condition.index, *(self.iteration[x] for x in loops))
        if state not in self.lanes:
            if len(self.lanes) >= _REMEMBERED:
                self.lanes.clear()
            self.lanes[state] = self._lanes(condition)
        return self.lanes[state]

    def note_decision(self, value: Expression) -> None:
        """Have the loops that are taken apart know that a value decides about their iterations."""
        loops = self.counters_in(value) if self.apart_now else frozenset()
        around: set[int] = set()
        for index, decisions in self.apart_now.items():
            around.add(index)
            if index in loops:
                decisions.note(value, loops <= around)

    def _lanes(self, condition: Expression) -> BoolArray | None:
        if condition.constant is not None:
            return np.full(self.everyone.shape, bool(condition.constant))
        lanes = self.value(condition)
        return None if lanes is None else lanes != 0

    def _decided_by(self, condition: Expression) -> tuple[int, ...] | None:
        """Loops whose iteration a condition depends on; None where data decides it."""
        if condition.constant is None and self.binder.why_undecided(condition):
            return None
        return tuple(sorted(self.counters_in(condition)))

    def counters_in(self, value: Expression) -> frozenset[int]:
        """Loops whose counter stands in a value."""
        if value.index not in self.counted_by:
            names = (self.symbols.atoms[a].name for a in self.symbols.free_atoms(value))
            loops = frozenset(n.loop for n in names if isinstance(n, LoopCounter))
            self.counted_by[value.index] = loops
        return self.counted_by[value.index]

    def mask(
        self, condition: Expression, mask: BoolArray, span_of: int
    ) -> tuple[BoolArray, tuple[Assumption, ...]]:
        """Return ``mask`` narrowed by the decided parts of a condition; guesses for the rest."""
        guesses: dict[Assumption, None] = {}
        for part in self.symbols.conjuncts(condition):
            lanes = self.holds(part)
            if lanes is None:
                guesses[self.assume_both_sides(span_of)] = None
            else:
                mask = mask & lanes
        return mask, tuple(guesses)

    def narrow(self, condition: Expression, mask: BoolArray) -> BoolArray:
        """Return ``mask`` narrowed by the decided parts of the condition."""
        for part in self.symbols.conjuncts(condition):
            lanes = self.holds(part)
            mask = mask if lanes is None else mask & lanes
        return mask

    def assume_both_sides(self, instruction: int) -> Assumption:
        """Note that both sides of a branch are taken to be executed."""
        span = self.program.instructions[instruction].span
        message = "a branch depends on data: both its sides are taken to run"
        return self.binder.assume(message, span, "branch")

    def set_counter(self, loop: int, iteration: int) -> None:
        self.names[LoopCounter(loop)] = np.asarray(iteration)
        self.iteration[loop] = iteration
        self.memo = {}

    # Regions

    def region(
        self, loop: int, mask: BoolArray, only: frozenset[int] | None = None
    ) -> list[GraphItem]:
        """Return the items of a loop's body (-1: the kernel); of its blocks ``only`` these."""
        items: list[GraphItem] = []
        for block, inner in self.inside.get(loop, ()):
            if only is not None and block.index not in only:
                continue
            items += self.block(block, mask) if inner is None else self.loop(inner, mask)
        return items

    def block(self, block: ProgramBlock, mask: BoolArray) -> list[GraphItem]:
        chosen = self.executing_warps(block.condition, block, block.loop)
        guesses: tuple[Assumption, ...] = ()
        if chosen is None:
            mask, guesses = self.mask(block.condition, mask, block.start)
        else:
            mask = self.narrow(block.condition, mask)
        if not mask.any() or chosen == frozenset() or (guesses and self.binder.least):
            return []
        here = self.among(self.per_warp(mask), chosen)
        if here == frozenset():
            return []
        self.count += block.stop - block.start
        items: list[GraphItem] = []
        guarded: dict[int, tuple[BoolArray | None, frozenset[int] | None, frozenset[int]]] = {}
        for index in range(block.start, block.stop):
            instruction = self.program.instructions[index]
            guard = instruction.guard
            if guard is None or instruction.fence:
                items += self.items_of(instruction, mask, here)
                continue
            if guard.index not in guarded:
                lanes = self.holds(guard)
                on = here if lanes is None else self.per_warp(mask & lanes)
                guarded[guard.index] = lanes, on, self.without(here, on)
            lanes, on, off = guarded[guard.index]
            if on != frozenset():
                items += self.items_of(instruction, mask if lanes is None else mask & lanes, on)
            if off:
                items.append(GraphItem(instruction, off, active=False))
            if lanes is None and instruction.accesses and self.is_guessed(instruction):
                if self.binder.least and on != frozenset():
                    items.pop()
                    continue
                message = "a predicate depends on data: its access is taken to happen"
                guess = self.binder.assume(message, instruction.span, "branch")
                _with_guesses(items[-1:], (guess,))
        return _with_guesses(items, guesses)

    def is_guessed(self, instruction: ProgramInstruction) -> bool:
        """Return True if the warps that execute an instruction are not known: no block was
        executed, or unknown content let its lanes take part."""
        return self.counts.of(instruction.index) is None or self.binder.is_unknown(instruction)

    def items_of(
        self, instruction: ProgramInstruction, mask: BoolArray, warps: frozenset[int] | None
    ) -> list[GraphItem]:
        """An instruction for its warps; apart for those that mean different barriers."""
        use = instruction.meets
        if use is None or self.whole_block(instruction):
            sleep = self.longest_sleep(instruction, mask)
            return [GraphItem(instruction, None if instruction.fence else warps, sleep=sleep)]
        by_barrier: dict[tuple[frozenset[tuple[str, int]], int | None, int | None], set[int]] = {}
        barriers = self.over_iterations(use.barrier)
        parity, threads = self.at_first(use.parity), self.at_first(use.threads)
        for warp in range(self.warps) if warps is None else sorted(warps):
            lane = warp * self.warp_size
            lane += int(mask[lane : lane + self.warp_size].argmax())
            own = frozenset((use.kind, int(values[lane])) for values in barriers)
            odd = None if parity is None else int(parity[lane]) >> 31 & 1
            count = None if threads is None else int(threads[lane])
            by_barrier.setdefault((own, odd, count), set()).add(warp)
        items = []
        for (own, odd, count), members in by_barrier.items():
            here = None if len(members) == self.warps else frozenset(members)
            self.order += 1
            items.append(
                GraphItem(
                    instruction, here, barriers=own, use=use, parity=odd, threads=count,
                    order=self.order,
                )
            )  # fmt: skip
        return items

    def longest_sleep(self, instruction: ProgramInstruction, mask: BoolArray) -> int:
        """Return the longest sleep of the lanes in ns; 0, with an assumption, if it is unknown."""
        if Role.SLEEPS not in instruction.roles:
            return 0
        values = self.at_first(instruction.sleeps)
        if values is None:
            what = f"how long {instruction.opcode} sleeps is not known; it is taken not to"
            self.binder.assume(what, instruction.span, "opcode")
            return 0
        longest = int((values[mask] & 0xFFFFFFFF).max(initial=0))
        return min(longest, longest_sleep(self.program.arch))

    def whole_block(self, instruction: ProgramInstruction) -> bool:
        """``__syncthreads()``: barrier 0 of all threads."""
        use = instruction.meets
        if use is None or use.kind != "named" or use.threads is not None or not use.waits:
            return False
        return use.barrier.constant == 0

    def over_iterations(self, value: Expression) -> list[IntArray]:
        """Return a value for every lane, in iterations of the loops on which it depends."""
        saved = self.names, self.memo
        loops = [x for x in self.counters(value) if x not in self.apart_now]
        values = [self.at_first(value)]
        for loop in loops:
            for i in range(1, min(self.binder.loops[loop].most, _STAGES)):
                self.names = {**saved[0], **{LoopCounter(x): np.asarray(0) for x in loops},
                              LoopCounter(loop): np.asarray(i)}  # fmt: skip
                self.memo = {}
                values.append(self.value(value))
        self.names, self.memo = saved
        return [f for f in values if f is not None]

    def at_first(self, value: Expression | None) -> IntArray | None:
        """Return a value for every lane in the first iteration; None if it is not known."""
        if value is None:
            return None
        saved = self.names, self.memo
        first: dict[Name, IntArray] = {
            LoopCounter(x): np.asarray(0) for x in self.counters(value) - self.apart_now.keys()
        }
        self.names, self.memo = saved[0] | first, {}
        result = self.value(value)
        self.names, self.memo = saved
        return result

    def note_unclear(self, message: str, item: GraphItem) -> None:
        """Note what is not understood of a barrier."""
        assert item.instruction is not None
        guess = self.binder.assume(message, item.instruction.span, "branch")
        _with_guesses([item], (guess,))

    def executing_warps(
        self, condition: Expression, block: ProgramBlock, loop: int
    ) -> frozenset[int] | None:
        """The warps that come to a block in ``loop`` on a condition that depends on data, if the
        sample tells."""
        if all(self.holds(part) is not None for part in self.symbols.conjuncts(condition)):
            return None
        for decisions in self.apart_now.values():
            decisions.complete = False  # the place of the iteration decides, too
        return self.counts.busiest_warps(block.start, loop, self.places.get(loop, 0.5))

    def lanes_of(self, warps: frozenset[int]) -> BoolArray:
        """Return all lanes of these warps."""
        lanes = np.zeros((self.warps, self.warp_size), np.bool_)
        lanes[sorted(warps)] = True
        return lanes.reshape(-1)[: len(self.everyone)]

    def among(
        self, here: frozenset[int] | None, chosen: frozenset[int] | None
    ) -> frozenset[int] | None:
        """Return the warps that are in both sets; None stands for all warps of the block."""
        if chosen is None or len(chosen) == self.warps:
            return here
        return chosen if here is None else here & chosen

    def per_warp(self, mask: BoolArray) -> frozenset[int] | None:
        """Return the warps with an active lane; None for all of them."""
        some = mask.reshape(self.warps, self.warp_size).any(axis=1)
        return None if some.all() else frozenset(int(w) for w in np.flatnonzero(some))

    def without(self, here: frozenset[int] | None, on: frozenset[int] | None) -> frozenset[int]:
        all_here = frozenset(range(self.warps)) if here is None else here
        return frozenset() if on is None else all_here - on

    def loop(self, index: int, mask: BoolArray) -> list[GraphItem]:
        loop = self.program.loops[index]
        header = self.program.blocks[loop.header]
        loop_range = self.binder.loops[index]
        guesses: tuple[Assumption, ...] = ()
        each = (
            self.counts.trips(index) if loop_range.assumed and index not in self.varying else None
        )
        if loop_range.weighted or each is not None:
            mask = self.narrow(loop.entry, mask)
        elif (entering := self.executing_warps(loop.entry, header, loop.parent)) is not None:
            mask = self.narrow(loop.entry, mask) & self.lanes_of(entering)
        else:
            mask, guesses = self.mask(loop.entry, mask, header.start)
        if not mask.any() or (guesses and self.binder.least):
            return []
        guesses += loop_range.rests_on
        if each is not None and not loop_range.rests_on:
            return self.loop_by_warp(index, mask, each)
        return _with_guesses(self.enter_loop(index, mask), guesses)

    def loop_by_warp(self, index: int, mask: BoolArray, each: tuple[int, ...]) -> list[GraphItem]:
        """A loop that each warp runs as often as it does: by its own count, or that of a sample."""
        last = self.program.loops[index].last
        whole = last is None or last >= self.program.loops[index].blocks
        if not whole:
            each = tuple(max(n - 1, 0) for n in each)
        self.set_counter(index, max(each) // 2)
        tail = [] if whole else self.region(index, mask, last or frozenset())
        if not any(each):
            return tail
        items = []
        for (_, before), (iteration, after) in pairwise([(0, 0), *self.cut(index, max(each))]):
            own = tuple(n * after // max(each) - n * before // max(each) for n in each)
            self.set_counter(index, iteration)
            self.places[index] = (before + after) / 2 / max(each)
            if any(own) and (body := self.region(index, mask)):
                differ = own if len(set(own)) > 1 else ()
                trips = max(1, round(sum(own) / len(own))) if differ else own[0]
                items.append(GraphItem(trips=trips, each=differ, body=body))
        return items + tail

    def enter_loop(self, index: int, mask: BoolArray) -> list[GraphItem]:
        """The loop for the lanes that reach it."""
        loop = self.program.loops[index]
        trips = self.trips(index)
        most = int(trips[mask].max())
        if most <= 0:
            return []
        each = self.trips_by_warp(trips, mask)
        here = np.flatnonzero(mask.reshape(self.warps, self.warp_size).any(axis=1))
        differ = len({each[warp] for warp in here}) > 1
        if (differ or index in self.varying) and most <= _UNROLLED_TRIPS and self.may_grow(index):
            return self.unroll_loop(index, mask, trips, most)
        if int(trips[mask].min()) != most:
            self.binder.assume("the threads of a warp leave a loop together, with the last one",
                               loop.span)  # fmt: skip
        if differ:
            return self.loop_by_warp(index, mask, each)
        whole = loop.last is None or loop.last >= loop.blocks
        items = self.iterations(index, mask, most if whole else most - 1)
        if whole:
            return items
        self.set_counter(index, most - 1)  # left at its top: the last runs only what lies before
        return items + self.region(index, mask, loop.last or frozenset())

    def may_grow(self, index: int) -> bool:
        """Return True if the graph is small enough to take a loop apart; else note it."""
        if self.is_small():
            return True
        message = f"a block has more than {_MAX_ITEMS} instructions: no more loops are taken apart"
        self.binder.assume(message, self.program.loops[index].span)
        return False

    def is_small(self) -> bool:
        for decisions in self.apart_now.values():
            decisions.by_size = True
        return self.count < _MAX_ITEMS

    def trips_by_warp(self, trips: IntArray, mask: BoolArray) -> tuple[int, ...]:
        """Return the trip count of each warp of the block: the largest of its active threads."""
        shaped = np.where(mask, trips, 0).reshape(self.warps, self.warp_size)
        return tuple(shaped.max(axis=1).clip(0).tolist())

    def iterations(self, index: int, mask: BoolArray, trips: int) -> list[GraphItem]:
        """Return a loop as one item, or as several where its iterations decide differently."""
        items: list[GraphItem] = []
        for (_, before), (iteration, after) in pairwise([(0, 0), *self.cut(index, trips)]):
            self.set_counter(index, iteration)
            self.places[index] = (before + after) / 2 / trips
            if body := self.region(index, mask):
                items.append(GraphItem(trips=after - before, body=body))
        return items

    def cut(self, index: int, trips: int) -> list[tuple[int, int]]:
        """Divide the iterations of a loop into groups whose branches decide the same.

        Returns (representative iteration, end of the group) of each group. There is one group, with
        the middle iteration, if all decide the same or if there would be too many groups.
        """
        if trips <= 0:
            return []
        cuts: list[tuple[int, int]] = []
        wanted = index in self.varying or self.is_small()
        if wanted and can_evaluate_all(trips, len(self.everyone)) and self.may_grow(index):
            cuts = groups(
                [*self.decisions_of(index, trips), *self.alternating_decisions(index, trips)], trips
            )
        if len(cuts) > 1:
            message = (
                f"the {trips} iterations of a loop are taken in {len(cuts)} groups that differ"
            )
            self.binder.assume(message, self.program.loops[index].span)
        return cuts or [(trips // 2, trips)]

    def decisions_of(self, index: int, trips: int) -> list[BoolArray]:
        """Return, by iteration and lane, the decisions that depend on the counter of a loop."""
        if index not in self.varying:
            return []
        saved = self.names, self.memo
        every: dict[Name, IntArray] = {
            LoopCounter(index): np.arange(trips, dtype=np.int64)[:, None]
        }
        self.names, self.memo = {**saved[0], **every}, {}
        decided = [self.value(v, trips, len(self.everyone)) for v in self.counter_conditions(index)]
        self.evaluated += trips * len(self.everyone) * len(decided)
        self.names, self.memo = saved
        return [v != 0 for v in decided if v is not None]

    def alternating_decisions(self, index: int, trips: int) -> list[BoolArray]:
        """Return, by iteration, True where one warp more executes a block that data decides, so
        that as many do on average as in executed blocks; only for blocks that matter."""
        parts: list[tuple[float, float]] = []
        whole = 0.0
        for block in self.program.blocks.values() if self.counts.work is not None else ():
            if block.loop != index or block.skipped:
                continue
            mean = self.counts.warps_of(block.start, index)
            length = block.stop - block.start
            whole += length * (self.warps if mean is None else mean)
            chosen = self.executing_warps(block.condition, block, index)
            if mean is not None and chosen is not None:
                parts.append((mean % 1, length * abs(mean - round(mean))))
        places = (np.arange(trips)[:, None] + 0.5) / trips
        return [places < part for part, lost in parts if lost > _NOTICED * whole]

    def counter_conditions(self, index: int) -> list[Expression]:
        """Parts of conditions in a loop that depend on its counter, and on no loop's within."""
        program, inside = self.program, self.program.chain
        blocks = [b for b in program.blocks.values() if index in inside(b.loop)]
        values = [v for b in blocks for v in self.conditions(b)]
        values += [x.entry for x in program.loops if x.parent >= 0 and index in inside(x.parent)]
        within = {x.index for x in program.loops if x.index != index and index in inside(x.index)}
        parts = {part.index: part for v in values for part in self.symbols.conjuncts(v)}
        counters = {key: self.counters(part) for key, part in parts.items()}
        return [p for k, p in parts.items() if index in counters[k] and not within & counters[k]]

    def unroll_loop(
        self, index: int, mask: BoolArray, trips: IntArray, most: int
    ) -> list[GraphItem]:
        loop = self.program.loops[index]
        runs: list[tuple[int, list[GraphItem]]] = []
        last = IterationWalked()
        for iteration in range(most):
            self.set_counter(index, iteration)
            self.places[index] = (iteration + 0.5) / most
            lanes = mask & (trips > iteration)
            if runs and self.repeats(index, lanes, last):
                self.count, self.order = self.count + last.count, self.order + last.order
                runs[-1] = runs[-1][0] + 1, runs[-1][1]
                continue
            made, last = self.walk_iteration(index, lanes)
            if runs and _kind(runs[-1][1]) == _kind(made):
                runs[-1] = runs[-1][0] + 1, runs[-1][1]
            else:
                runs.append((1, made))
        del self.apart_now[index]
        if len(runs) > 1:
            message = f"a loop is taken apart into {len(runs)} runs of iterations, which differ"
            self.binder.assume(message, loop.span)
        return [
            item
            for count, made in runs
            for item in ([GraphItem(trips=count, body=made)] if count > 1 and made else made)
        ]

    def walk_iteration(
        self, index: int, lanes: BoolArray
    ) -> tuple[list[GraphItem], IterationWalked]:
        """Return the items of the iteration at which counters stand, and what walking it found."""
        decisions = self.apart_now[index] = Decisions()
        first, order = self.count, self.order
        made = self.region(index, lanes)
        walked = IterationWalked(
            first, self.count - first, self.order - order, self.decisive_values(decisions, lanes)
        )
        return made, walked

    def repeats(self, index: int, lanes: BoolArray, last: IterationWalked) -> bool:
        """Return True if an iteration decides the same as the ``last`` one that was walked."""
        decisions = self.apart_now[index]
        if decisions.by_size and not (
            self.count + last.count < _MAX_ITEMS or last.first >= _MAX_ITEMS
        ):
            return False
        return last.decided is not None and self.decisive_values(decisions, lanes) == last.decided

    def decisive_values(self, decisions: Decisions, lanes: BoolArray) -> tuple[bytes, ...] | None:
        """Return the values that decide the current iteration; None if they do not tell."""
        if not decisions.complete:
            return None
        values = [self.value(v) for v in tuple(decisions.noted.values())]
        return lanes.tobytes(), *(b"" if v is None else v.tobytes() for v in values)

    def trips(self, index: int) -> IntArray:
        loop = self.program.loops[index]
        loop_range = self.binder.loops[index]
        known = None
        if (
            loop.trips is not None
            and not loop_range.assumed
            and self.binder.stated_trips(loop) is None
        ):
            known = self.value(loop.trips)
        return np.full(self.everyone.shape, loop_range.most) if known is None else known


class BlockDecisions:
    """Conditions and trip counts that differ from block to block, where the launch decides them."""

    def __init__(self, walk: _Walk) -> None:
        self.walk = walk
        launch, program, symbols = walk.binder.launch, walk.program, walk.symbols
        conditions = [v for b in program.blocks.values() for v in walk.conditions(b)]
        conditions += [x.entry for x in program.loops]
        parts = {p.index: (p, True) for v in conditions for p in symbols.conjuncts(v)}
        for x in program.loops:
            if x.trips is not None:
                parts.setdefault(x.trips.index, (x.trips, False))
        self.parts: list[_Decision] = []
        for part, is_condition in parts.values():
            if walk.binder.why_undecided(part) or not walk.reads_block(part):
                continue
            form = walk.binder.form(part)
            names = set(form.symbols())
            axes = frozenset(
                i for i, a in enumerate(AXES)
                if launch.grid[i] > 1 and names & {a, f"blockIdx.{a}"}
            )  # fmt: skip
            if axes:
                in_loop = any(isinstance(n, LoopCounter) for n in names)
                lanes = any(n in names for n in (*AXES, *_THREADS))
                self.parts.append(_Decision(part, form, axes, is_condition, in_loop, lanes))

    @property
    def axes(self) -> frozenset[int]:
        """Return the axes of the grid that decisions depend on."""
        return frozenset().union(*(part.axes for part in self.parts))

    def cost(self, box: Box) -> int:
        """See :class:`~perfassert.frontends.graph.block_kinds.Deciding`."""
        lanes, sides = len(self.walk.everyone), [high - low for low, high in box]
        return prod(sides) * len(self.parts) + sum(
            prod(sides[a] for a in part.axes) * (lanes if part.lanes else 1) for part in self.parts
        )

    def differing(self, box: Box, among: Sequence[int] | None) -> Sequence[int]:
        """See :class:`~perfassert.frontends.graph.block_kinds.Deciding`."""
        binder = self.walk.binder
        ranges = dict(binder.ranges)
        for axis, (low, high), threads in zip(AXES, box, binder.launch.block, strict=True):
            ranges[f"blockIdx.{axis}"] = low, high - 1
            ranges[axis] = low * threads, high * threads - 1
        known: dict[int, Bounds] = {}
        return [
            n for n in (range(len(self.parts)) if among is None else among)
            if self.parts[n].differs_in(ranges, known)
        ]  # fmt: skip

    def decide(self, places: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """See :class:`~perfassert.frontends.graph.block_kinds.Deciding`."""
        keys, conditions, trips = np.zeros((3, len(places)), np.int64)
        with np.errstate(over="ignore"):
            for axes, parts in self._parts_by_axes.items():
                chosen, which = self._by_axes(axes, places)
                self.walk.place(chosen.T[:, :, None])
                for number in parts:
                    part = self.parts[number]
                    if part.in_loop:  # every block is one of its own
                        keys += places[:, sorted(axes)] @ _weights(len(axes), number)
                        continue
                    values = self._values(part, len(chosen))
                    own = (values @ _weights(values.shape[1], number))[which]
                    keys += own
                    if part.is_condition:
                        conditions += own
                    else:
                        trips += self._sum_over_warps(values)[which]
        return keys, conditions, trips

    @cached_property
    def _parts_by_axes(self) -> dict[frozenset[int], list[int]]:
        by_axes: dict[frozenset[int], list[int]] = {}
        for number, part in enumerate(self.parts):
            by_axes.setdefault(part.axes, []).append(number)
        return by_axes

    def _by_axes(self, axes: frozenset[int], places: IntArray) -> tuple[IntArray, IntArray]:
        """The places that differ along some axes, and which of them each place is one of."""
        if axes == self.axes:
            return places, np.arange(len(places))
        extents = self.walk.binder.launch.grid
        code = np.zeros(len(places), np.int64)
        for axis in axes:
            code = code * extents[axis] + places[:, axis]
        _, first, which = np.unique(code, return_index=True, return_inverse=True)
        return places[first], which.reshape(-1)

    def _values(self, part: _Decision, blocks: int) -> IntArray:
        """Return the values of a decision for the threads of each placed block, or for all."""
        walk = self.walk
        known = walk.symbols.evaluate(part.value, walk.names, walk.memo)
        if isinstance(known, Atom):
            raise walk.missing(known)
        values = np.broadcast_to(known, (blocks, *known.shape[1:]))
        return (values != 0).astype(np.int64) if part.is_condition else np.maximum(values, 0)

    def _sum_over_warps(self, trips: IntArray) -> IntArray:
        by_warp = trips.reshape(len(trips), -1, min(trips.shape[1], self.walk.warp_size))
        sums: IntArray = by_warp.max(axis=2).sum(axis=1)
        return sums


@dataclass(frozen=True, slots=True)
class _Decision:
    """A condition or a trip count, as a ``value`` of the program and as a ``form`` of the launch;
    ``in_loop``: it is another one in each iteration; ``lanes``: in each thread."""

    value: Expression
    form: Affine
    axes: frozenset[int]
    is_condition: bool
    in_loop: bool
    lanes: bool

    def differs_in(self, ranges: Mapping[Name, Bounds], known: dict[int, Bounds]) -> bool:
        low, high = interval(self.form, ranges, known)
        if self.is_condition and (low > 0 or high < 0):
            return False
        return low != high


_THREADS = ("threadIdx.x", "threadIdx.y", "threadIdx.z", "laneid", "warpid")


@lru_cache(maxsize=256)
def _weights(count: int, number: int) -> IntArray:
    """Odd numbers that tell one vector of values from another in a sum that wraps around."""
    draw = np.random.Generator(np.random.PCG64([count, number]))
    return draw.integers(-(2**62), 2**62, count, np.int64) * 2 + 1


def _blocks_by_loop(program: Program) -> dict[int, list[tuple[ProgramBlock, int | None]]]:
    """Return each loop's blocks in order (-1: the kernel's); a loop within it is its header."""
    headers: dict[int, list[tuple[int, int]]] = {}
    for x in program.loops:
        headers.setdefault(x.header, []).append((x.parent, x.index))
    blocks: dict[int, list[tuple[ProgramBlock, int | None]]] = {}
    for number in program.order:
        block = program.blocks.get(number)
        if block is None or block.skipped:
            continue
        loops = dict(headers.get(number, ()))
        for parent, loop in loops.items():
            blocks.setdefault(parent, []).append((block, loop))
        if block.loop not in loops:
            blocks.setdefault(block.loop, []).append((block, None))
    return blocks


def _with_guesses(items: list[GraphItem], guesses: tuple[Assumption, ...]) -> list[GraphItem]:
    """The items, resting on these guesses too."""
    for item in items if guesses else ():
        item.rests_on = tuple(dict.fromkeys((*item.rests_on, *guesses)))
    return items
