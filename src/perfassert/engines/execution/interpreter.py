"""Interpreter of machine code on arrays: all lanes of all warps at the same place step together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from perfassert.engines.execution import collective
from perfassert.engines.execution.accesses import Accesses
from perfassert.engines.execution.collective import Lanes
from perfassert.engines.execution.floats import FLOAT
from perfassert.engines.execution.plan import CONTROL, ExecutionPlan
from perfassert.engines.execution.provenance import UNTRANSLATED, Masks
from perfassert.engines.execution.result import Counts, Execution
from perfassert.engines.execution.warps import Barriers, Fragment, Warps
from perfassert.engines.execution.words import INTEGER, Words, carries
from perfassert.kernel.distinct import distinct
from perfassert.kernel.machine import Combining, Kind, Micro

_PURE = {**INTEGER, **FLOAT}
RowIndex = Any  # a slice or an index array that selects warps


class Interpreter:
    """An execution of a plan, with the registers and the control state of all warps."""

    def __init__(self, plan: ExecutionPlan) -> None:
        setting = plan.setting
        self.setting = setting
        self.code = setting.code
        self.limits = plan.limits
        self.steps_of = plan.steps
        self.values: list[Words | None] = setting.values()
        self.unknown: list[Masks | None] = setting.unknown()
        self.warps = Warps(setting.threads, setting.block_of)
        self.barriers = Barriers(self.values)
        self.guesses: dict[int, int] = {}
        self.lost: set[int] = set()
        self.taken: dict[int, Counts] = {}
        count = len(self.code.instructions)
        self.executed = np.zeros((setting.warps, count), np.int64)
        self.lanes = np.zeros((setting.warps, count), np.int64)
        self.steps = np.zeros(setting.warps, np.int64)
        self.cut: list[npt.NDArray[np.intp]] = []
        self.spent = 0
        self.accesses = Accesses(self)
        self.ends = tuple(
            any(o.kind in CONTROL for o in i.operations) for i in self.code.instructions
        )
        self.work = np.cumsum([0, *(bool(steps) for steps in self.steps_of)])
        self.place = 0
        self.rows: RowIndex = slice(None)
        self.numbers: npt.NDArray[np.intp] = np.empty(0, np.intp)
        self.active: Lanes = np.empty((0, 32), np.bool_)
        self.mask = self.active

    # Running

    def run(self) -> Execution:
        """Execute until every warp has ended or the limits are reached."""
        with np.errstate(all="ignore"):
            while self._within_limits():
                place, rows, stop = self.warps.choose()
                if place < 0:
                    if not self.warps.unlock():
                        break
                    continue
                self._run(place, rows, stop)
        left = np.flatnonzero(self.warps.alive.any(axis=1))
        return self._result(distinct(np.concatenate([*self.cut, left])))

    def _within_limits(self) -> bool:
        affordable = self.spent < self.limits.lane_instructions
        return affordable and self.accesses.recorded < self.limits.accesses

    def _run(self, place: int, rows: npt.NDArray[np.intp], stop: int) -> None:
        """Execute from ``place`` to a jump, a wait, or the place ``stop`` of another fragment."""
        self.numbers = rows
        self.rows = _selection(rows, self.setting.warps)
        active = self.warps.active[self.rows].copy()  # jumps change the original array
        per_warp = active.sum(axis=1)
        start = place
        count = len(self.ends)
        ended = False
        while place < min(stop, count) and not ended:
            ended = self._step(place, active)
            place += 1
        length = int(self.work[place] - self.work[start])
        self.executed[self.rows, start:place] += 1
        self.lanes[self.rows, start:place] += per_warp[:, None]
        self.spent += length * int(per_warp.sum())
        self.steps[self.rows] += length
        if not ended:
            self.warps.place[self.rows] = place
            if place >= count:
                self.warps.stop(rows)
        over = rows[self.steps[self.rows] > self.limits.instructions]
        if len(over):
            self.cut.append(over)
            self.warps.stop(over)

    def _step(self, place: int, active: Lanes) -> bool:
        """Execute one instruction; return True if it ends the run."""
        plan = self.steps_of[place]
        if not plan:
            return False
        instruction = self.code.instructions[place]
        self.place = place
        self.mask = self.active = active
        doubt: Masks | None = None
        if instruction.guard >= 0:
            guard = self.read(instruction.guard)
            self.mask = active & (guard == instruction.holds)
            if self.ends[place]:
                self.guess(self.masks((instruction.guard,)), active)
            else:
                doubt = self._doubt(instruction.guard)
        for part, operation, wanted in plan:
            if operation.kind in CONTROL:
                self._control(operation)
            elif self.mask.any():
                self._execute(part, operation, wanted)
        if doubt is not None:
            self._taint(plan, doubt)
        return self.ends[place]

    def _doubt(self, guard: int) -> Masks | None:
        """Return the provenance of an unknown guard, or None if all active lanes know it."""
        unknown = self.masks((guard,))
        if unknown is None:
            return None
        reasons = np.where(self.active, unknown, np.uint32(0))
        return reasons if reasons.any() else None

    def _taint(self, plan: Sequence[tuple[int, Micro, bool]], doubt: Masks) -> None:
        """Mark as unknown what an instruction under an unknown guard writes, or would write."""
        for _, operation, _ in plan:
            for target in operation.targets:
                self._mark(target, doubt)
            if operation.memory is not None:
                self.guess(doubt, self.active)
                if operation.kind in (Kind.STORE, Kind.ATOMIC):
                    self.accesses.doubt(operation, doubt)

    def _mark(self, register: int, more: Masks) -> None:
        if register <= 0:
            return
        if register in self.code.uniform:
            more = np.bitwise_or.reduce(more, axis=1, keepdims=True)
        self._expand_register(self.unknown, register)[self.rows] |= more

    # Registers

    def read(self, register: int) -> Words:
        """Return a register of the current warps: [warps or 1, lanes or 1]."""
        values = self.values[register]
        if values is None:
            return _ZERO
        return values if len(values) == 1 else values[self.rows]

    def masks(self, registers: Sequence[int]) -> Masks | None:
        """Return the provenance of unknown values in these registers, or None if all are known."""
        union: Masks | None = None
        for register in registers:
            marks = self.unknown[register]
            if marks is not None:
                here = marks if len(marks) == 1 else marks[self.rows]
                union = here if union is None else union | here
        return union

    def write(self, register: int, result: Any, unknown: Masks | None) -> None:
        """Write the lanes of ``mask``; a uniform register is written if the mask holds any lane."""
        if register <= 0:
            return
        uniform = register in self.code.uniform
        where: Any = self.mask.any(axis=1, keepdims=True) if uniform else self.mask
        if uniform:
            result = self._value_of_first_lane(result) if _has_lane_axis(result) else result
            unknown = self._value_of_first_lane(unknown) if _has_lane_axis(unknown) else unknown
        _assign_lanes(self._expand_register(self.values, register), self.rows, where, result)
        if unknown is None and self.unknown[register] is None:
            return
        marks = np.uint32(0) if unknown is None else unknown
        _assign_lanes(self._expand_register(self.unknown, register), self.rows, where, marks)

    def _expand_register(self, arrays: list[Any], register: int) -> Any:
        """Return a register's array, expanded to an element for every warp and lane."""
        shape = (self.setting.warps, 1 if register in self.code.uniform else 32)
        array = arrays[register]
        if array is None or array.shape != shape:
            array = arrays[register] = _grown(array, shape)
        return array

    def _value_of_first_lane(self, result: Any) -> Any:
        lane = collective.first_active(self.mask)
        full = np.broadcast_to(result, self.mask.shape)
        return full[np.arange(len(lane)), lane][:, None]

    def guess(self, unknown: Masks | None, lanes: Lanes) -> None:
        """Note that an unknown value decides something at the current place."""
        if unknown is None:
            return
        mask = int(np.bitwise_or.reduce(np.where(lanes, unknown, np.uint32(0)), axis=None))
        if mask:
            self.guesses[self.place] = self.guesses.get(self.place, 0) | mask

    # Operations

    def _execute(self, part: int, operation: Micro, wanted: bool) -> None:
        kind = operation.kind
        pure = _PURE.get(kind)
        if pure is not None:
            if kind is Kind.ADD and any(t > 0 for t in operation.targets[1:]):
                pure = carries
            sources = [self.read(r) for r in operation.sources]
            unknown = self._unknown_result(operation, sources)
            results = pure(operation.detail, *sources)
            for target, result in zip(operation.targets, results, strict=False):
                self.write(target, result, unknown)
        elif operation.memory is not None and kind is not Kind.UNKNOWN:
            self.accesses.perform(part, operation, wanted)
        elif kind is Kind.UNKNOWN:
            for target in operation.targets:
                self.write(target, np.uint32(0), _UNTRANSLATED)
            self.accesses.forget(operation)
        else:
            self._execute_collective(operation)

    def _unknown_result(self, operation: Micro, sources: list[Words]) -> Masks | None:
        """Return the provenance of a result; unknown operands that it ignores do not count."""
        unknown = self.masks(operation.sources)
        if unknown is None:
            return None
        if operation.kind is Kind.SELECT:
            first, second, chosen = ((self.masks((r,))) for r in operation.sources)
            taken = np.where(
                sources[2] != 0, _masks_or_zero(first), _masks_or_zero(second)
            ) | _masks_or_zero(chosen)  # fmt: skip
            return np.asarray(taken, np.uint32)
        if operation.kind is Kind.DECIDE:
            return self._undecided_marks(operation, sources, unknown)
        return unknown

    def _undecided_marks(self, operation: Micro, sources: list[Words], unknown: Masks) -> Masks:
        """Return the marks of a predicate's look-up: 0 if the known predicates decide already."""
        # For example, the table 0b10000000 is the AND of three predicates. If a is known to be 0,
        # the rows that unknown b and c allow are 0 to 3, which all hold 0: the result is known.
        table = np.uint32(operation.detail[0])
        rows: list[Any] = [np.uint32(0)]
        for weight, register, source in zip((4, 2, 1), operation.sources, sources, strict=True):
            marks = self.masks((register,))
            open_ = np.bool_(False) if marks is None else marks != 0
            known = source * np.uint32(weight)
            both = (np.where(open_, np.uint32(0), known), np.where(open_, np.uint32(weight), known))
            rows = [row | side for row in rows for side in both]
        results = [(table >> row) & np.uint32(1) for row in rows]
        agree = np.logical_and.reduce([r == results[0] for r in results])
        return np.where(agree, np.uint32(0), unknown)

    def _execute_collective(self, operation: Micro) -> None:
        """Execute an operation in which lanes of a warp use values of other lanes."""
        kind, mask = operation.kind, self.mask
        shape = mask.shape
        sources = [np.broadcast_to(self.read(r), shape) for r in operation.sources]
        unknown = self.masks(operation.sources)
        if unknown is not None and kind is not Kind.SHUFFLE:
            active_marks = np.where(mask, unknown, np.uint32(0))
            unknown = np.bitwise_or.reduce(active_marks, axis=1, keepdims=True)
        results: tuple[Any, ...]
        if kind is Kind.VOTE:
            results = collective.vote(mask, sources[0], operation.detail[0])
        elif kind is Kind.SHUFFLE:
            results, unknown = self._shuffle(operation, sources)
        elif kind is Kind.MATCH:
            results = collective.match(mask, sources[0], sources[1], bool(operation.detail[0]))
        elif kind is Kind.REDUCE:
            results = (collective.reduce_lanes(mask, sources[0], *operation.detail),)
        elif kind is Kind.FIRST:
            results = (self._value_of_first_lane(sources[0]),)
        elif kind is Kind.SYNC_SET:
            results = (collective.pack_lanes(mask),)
        elif kind is Kind.SYNC_LEAVE:
            self._leave_barrier(operation.sources[0])
            return
        else:
            raise AssertionError(kind)
        for target, result in zip(operation.targets, results, strict=False):
            self.write(target, result, unknown)

    def _shuffle(
        self, operation: Micro, sources: list[Words]
    ) -> tuple[tuple[Any, ...], Masks | None]:
        """Execute a shuffle; a lane that reads from an inactive lane gets an unknown value.

        The hardware does not define the value in that case.
        """
        lanes, inside = collective.source_lanes(operation.detail[0], sources[1], sources[2])
        values = np.take_along_axis(sources[0], lanes, axis=1)
        there = np.take_along_axis(self.mask, lanes, axis=1)
        marks = self.masks(operation.sources[1:])
        moved = self.masks(operation.sources[:1])
        unknown = np.where(there, np.uint32(0), np.uint32(UNTRANSLATED))
        if moved is not None:
            full = np.broadcast_to(moved, self.mask.shape)
            unknown = unknown | np.take_along_axis(full, lanes, axis=1)
        if marks is not None:
            unknown = unknown | marks
        some = bool(unknown[self.mask].any())
        return (values, inside), (unknown if some else None)

    def _leave_barrier(self, register: int) -> None:
        masks = self.values[register]
        if masks is None:
            return
        for n, warp in enumerate(self.numbers):
            lanes = self.mask[n]
            if not lanes.any():
                continue
            mask = masks[warp, int(lanes.argmax())]
            left = mask & ~collective.pack_lanes(lanes[None, :])[0, 0]
            masks[warp] = np.where(masks[warp] == mask, left, masks[warp])
            if self.warps.blocked[warp]:
                self.warps.release(int(warp), self.barriers)

    # Flow of control

    def _control(self, operation: Micro) -> None:
        kind, place, warps, active = operation.kind, self.place, self.warps, self.active
        if kind is Kind.BRANCH:
            self._branch(operation, active)
        elif kind is Kind.BRANCH_DIVERGED:
            self._branch_diverged(operation, active)
        elif kind is Kind.BRANCH_INDIRECT:
            self._branch_indirect(operation, active)
        elif kind in (Kind.EXIT, Kind.LOST):
            lanes = self.mask
            if operation.sources:
                lanes = lanes & (self.read(operation.sources[0]) != 0)
                self.guess(self.masks(operation.sources), active)
            if kind is Kind.LOST and lanes.any():
                self.lost.add(place)
            warps.leave(self.numbers, place, lanes, self.barriers)
        elif kind is Kind.YIELD:
            warps.place[self.rows] = place + 1
            for warp in self.numbers:
                warps.rotate(int(warp))
        else:
            self._wait(operation, active)

    def _branch(self, operation: Micro, active: Lanes) -> None:
        taken = self.mask
        if operation.sources:
            taken = taken & (self.read(operation.sources[0]) != 0)
            self.guess(self.masks(operation.sources), active)
        self._count(taken, active & ~taken)
        self.warps.branch(self.numbers, self.place, operation.detail[0], taken)

    def _count(self, taken: Lanes, stay: Lanes) -> None:
        counts = self.taken.get(self.place)
        if counts is None:
            counts = self.taken[self.place] = np.zeros((self.setting.warps, 2), np.int64)
        counts[self.rows, 0] += taken.any(axis=1)
        counts[self.rows, 1] += stay.any(axis=1)

    def _branch_diverged(self, operation: Micro, active: Lanes) -> None:
        target, converged = operation.detail
        whole = (active == self.warps.alive[self.rows]).all(axis=1, keepdims=True)
        taken = self.mask & (whole if converged else ~whole)
        self._count(taken, active & ~taken)
        self.warps.branch(self.numbers, self.place, target, taken)

    def _branch_indirect(self, operation: Micro, active: Lanes) -> None:
        entries = self.code.entries
        register = operation.sources[0]
        addresses = np.broadcast_to(self.read(register), active.shape)
        unknown = self.masks((register,))
        self.guess(unknown, self.mask)
        known = self.mask if unknown is None else self.mask & (unknown == 0)
        for n, warp in enumerate(self.numbers):
            targets = addresses[n].astype(np.int64) + operation.detail[0]
            places = np.array([entries.get(int(a) & 0xFFFFFFFF, -1) for a in targets], np.int64)
            places = np.where(known[n], places, np.where(self.mask[n], -1, self.place + 1))
            gone = active[n] & (places < 0)
            if gone.any():
                self.lost.add(self.place)
                row = np.array([warp])
                self.warps.leave(row, self.place, gone[None, :], self.barriers)
            if (active[n] & ~gone).any():
                self.warps.scatter(int(warp), places)

    def _wait(self, operation: Micro, active: Lanes) -> None:
        """Let lanes whose guard does not hold continue, and the other lanes wait."""
        kind, warps = operation.kind, self.warps
        after = self.place + 1
        slow = np.arange(len(self.numbers))
        if kind in (Kind.SYNC_WAIT, Kind.WARP_WAIT):
            slow = self._complete(operation.sources[0], active)
        elif kind is Kind.BARRIER and operation.sources[1] == 0 and not operation.detail[0]:
            whole = bool((self.mask == active).all())
            if whole and warps.pass_barrier(self.numbers, after):
                return
        bits = collective.pack_lanes(self.mask)[:, 0]
        for n in slow:
            warp = int(self.numbers[n])
            lanes, rest = self.mask[n].copy(), active[n] & ~self.mask[n]
            if not lanes.any():
                warps.place[warp] = after
                continue
            if rest.any() and (kind is not Kind.BARRIER or not operation.detail[0]):
                warps.pending[warp].append(Fragment(after, rest))
            if kind is Kind.SYNC_WAIT:
                waits = Fragment(after, lanes, operation.sources[0], bits=int(bits[n]))
                warps.wait(warp, waits, self.barriers)
            elif kind is Kind.WARP_WAIT:
                mask = self._lane_word(operation.sources[0], int(n), int(lanes.argmax()))
                waits = Fragment(after, lanes, -1, mask, int(bits[n]))
                warps.wait(warp, waits, self.barriers)
            else:
                self._arrive(operation, warp, int(n), Fragment(after, lanes))

    def _complete(self, register: int, active: Lanes) -> npt.NDArray[np.intp]:
        """Let warps continue of which no lane is missing; return the indices of the other warps."""
        masks = np.broadcast_to(self.read(register), active.shape)
        first = collective.first_active(self.mask)
        wanted = collective.unpack_lanes(masks[np.arange(len(first)), first][:, None])
        missing = (wanted & self.warps.alive[self.rows] & ~self.mask).any(axis=1)
        slow = missing | (active & ~self.mask).any(axis=1) | ~self.mask.any(axis=1)
        self.warps.place[self.numbers[~slow]] = self.place + 1
        return np.flatnonzero(slow)

    def _arrive(self, operation: Micro, warp: int, n: int, fragment: Fragment) -> None:
        lane = int(fragment.lanes.argmax())
        self.guess(self.masks(operation.sources[:2]), self.mask)
        barrier, count = (self._lane_word(r, n, lane) for r in operation.sources[:2])
        waits = operation.kind is Kind.BARRIER_REDUCE or not operation.detail[0]
        if operation.kind is Kind.BARRIER_REDUCE:
            self._contribute(operation, warp, barrier, n, fragment.lanes)
        self.warps.arrive(warp, barrier, count, fragment, waits)

    def _contribute(self, operation: Micro, warp: int, barrier: int, n: int, lanes: Lanes) -> None:
        """Update the result of a reducing barrier for all lanes that have arrived.

        Each arrival overwrites the result, so that the last arrival leaves the final one.
        """
        condition = np.broadcast_to(self.read(operation.sources[2]), self.mask.shape)[n] != 0
        marks = self.masks(operation.sources[2:3])
        unknown = 0
        if marks is not None:
            unknown = int(np.bitwise_or.reduce(np.broadcast_to(marks, self.mask.shape)[n][lanes]))
        block = int(self.warps.block_of[warp])
        gathering = self.warps.gatherings.get((block, barrier))
        parts = [] if gathering is None else list(gathering.parts)
        parts.append((int((condition & lanes).sum()), int(lanes.sum()), unknown))
        if gathering is None:
            gathering = self.warps.gathering(block, barrier)
        gathering.parts = parts
        # For example, two warps arrive, with 32 and 20 of 32 lanes for which the predicate holds.
        # After the first one the result is 32 of 32, so AND holds. After the second it is 52 of 64,
        # and AND fails.
        holds, asked = sum(p[0] for p in parts), sum(p[1] for p in parts)
        mode = operation.detail[0]
        truth = holds == asked if mode == Combining.AND else holds > 0
        waiting = [*gathering.waiting, (warp, Fragment(0, lanes))]
        for target, value in zip(operation.targets, (holds, int(truth)), strict=True):
            self._set_lanes(
                target, waiting, value, int(np.bitwise_or.reduce([p[2] for p in parts]))
            )

    def _set_lanes(
        self, register: int, waiting: list[tuple[int, Fragment]], value: int, unknown: int
    ) -> None:
        if register <= 0:
            return
        shape = (self.setting.warps, 32)
        if self.values[register] is None:
            self.values[register] = np.zeros(shape, np.uint32)
        if unknown and self.unknown[register] is None:
            self.unknown[register] = np.zeros(shape, np.uint32)
        for warp, fragment in waiting:
            for arrays, word in ((self.values, value), (self.unknown, unknown)):
                array = arrays[register]
                if array is not None:
                    array[warp, fragment.lanes] = word

    def _lane_word(self, register: int, n: int, lane: int) -> int:
        """Return the word of one lane."""
        values = self.read(register)
        return int(values[n % len(values), lane % values.shape[1]])

    def _result(self, cut: npt.NDArray[np.intp]) -> Execution:
        setting = self.setting
        return Execution(
            self.code, setting.memory.regions, setting.blocks, setting.warps_per_block,
            self.executed, self.lanes, self.taken, self.accesses.touches(),
            self.accesses.outside_accesses(), self.guesses, cut, frozenset(self.lost),
            frozenset(self.warps.released_by_force), setting.memory,
        )  # fmt: skip


_ZERO = np.zeros((1, 1), np.uint32)
_UNTRANSLATED = np.full((1, 1), UNTRANSLATED, np.uint32)


def _has_lane_axis(words: Any) -> bool:
    return np.ndim(words) == 2 and words.shape[1] > 1


def _masks_or_zero(masks: Masks | None) -> Any:
    return np.uint32(0) if masks is None else masks


def _selection(rows: npt.NDArray[np.intp], count: int) -> RowIndex:
    """Return a slice if the warps are consecutive, so that arrays are viewed instead of copied."""
    if len(rows) == count:
        return slice(None)
    if rows[-1] - rows[0] + 1 == len(rows):
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows


def _grown(array: Any, shape: tuple[int, int]) -> Any:
    """Return a copy of the array with an element for each warp and lane."""
    if array is None:
        return np.zeros(shape, np.uint32)
    return np.broadcast_to(array, shape).copy()


def _assign_lanes(array: Any, rows: RowIndex, where: Lanes, result: Any) -> None:
    if isinstance(rows, slice):
        np.copyto(array[rows], result, where=where)
    else:
        array[rows] = np.where(where, result, array[rows])
