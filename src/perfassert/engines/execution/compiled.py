"""Interface to the compiled engine: a plan is packed into integers, and the result is unpacked.

An array is passed as its address, since the stable ABI of Python 3.10 has no buffers. The packing
keeps the arrays alive during the call. Registers are renumbered, so that unused registers take no
memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from perfassert.engines.execution.collective import pack_lanes, unpack_lanes
from perfassert.engines.execution.memory import Plane
from perfassert.engines.execution.plan import ExecutionPlan
from perfassert.engines.execution.presets import Setting
from perfassert.engines.execution.result import Counts, Execution, OutsideAccess, Touch
from perfassert.engines.extension import compiled_core
from perfassert.kernel.buffer import PAGE_BYTES
from perfassert.kernel.distinct import distinct
from perfassert.kernel.machine import (
    WARP_LANES,
    Kind,
    MachineInstruction,
    MemoryOperand,
    Micro,
    Space,
)

_core = partial(compiled_core, "execution")
_NUMBER = {kind: number for number, kind in enumerate(Kind)}
_NAMES = {-1: "no buffer", -2: "shared memory", -3: "local memory", -4: "constant memory"}
_EMPTY = np.zeros(16, np.uint8)
_NO_PAGES = np.zeros(0, np.int64)


def available() -> bool:
    """Return True if the extension was built when the package was installed."""
    return _core() is not None


def run_compiled(plan: ExecutionPlan) -> Execution:
    """Execute a plan; the result is bit-identical to that of the interpreter.

    See :class:`~perfassert.engines.execution.interpreter.Interpreter`.
    """
    packing = _Packing(plan)
    packed_result = _core().execute(packing.words)
    return _unpack(plan, packing, packed_result)


class _Packing:
    """Arguments of a call: ``words`` for the core, and the arrays ``held`` that they point to."""

    def __init__(self, plan: ExecutionPlan) -> None:
        setting = plan.setting
        count = len(setting.code.instructions) + 1
        self.executed = np.zeros((setting.warps, count), np.int64)
        self.lanes = np.zeros((setting.warps, count), np.int64)
        self.held: list[npt.NDArray[Any]] = []
        self.planes: list[tuple[Plane | None, npt.NDArray[np.uint8]]] = []
        banks = tuple(setting.banks)
        self.code = setting.code.found.once(
            (_PackedCode, plan.key, banks), lambda: _PackedCode(plan, banks)
        )
        launch = _words(self._setting(plan), self._memory(plan))
        self.words = launch + self._registers(setting) + self.code.words

    def _address(self, array: npt.NDArray[Any]) -> int:
        self.held.append(array)
        return int(array.ctypes.data)

    def _setting(self, plan: ExecutionPlan) -> Iterator[int]:
        setting, limits = plan.setting, plan.limits
        yield from (setting.warps, setting.warps_per_block)
        yield from (limits.lane_instructions, limits.instructions, limits.accesses)
        yield self._address(np.ascontiguousarray(pack_lanes(setting.threads)))
        yield self._address(self.executed)
        yield self._address(self.lanes)
        yield len(setting.code.entries)
        for entry in setting.code.entries.items():
            yield from entry

    def _memory(self, plan: ExecutionPlan) -> Iterator[int]:
        setting, memory = plan.setting, plan.setting.memory
        shared = not self.code.spaces.isdisjoint((Space.SHARED, Space.GENERIC))
        local = not self.code.spaces.isdisjoint((Space.LOCAL, Space.GENERIC))
        codes = setting.codes.masks()
        yield len(codes)
        yield from codes
        for plane in (
            memory.plane,
            setting.shared if shared else None,
            setting.local if local else None,
        ):
            yield from self._plane(plane)
        yield from (setting.shared_bytes, setting.stack_bytes, len(setting.banks))
        for plane in setting.banks.values():
            yield from self._plane(plane)
        spans = memory.spans()
        yield len(spans)
        for number, span in enumerate(spans):
            yield from span
            region = memory.regions[number]
            pages = _NO_PAGES if region.pages is None else np.ascontiguousarray(region.pages)
            yield from (self._address(pages), -1 if region.pages is None else len(pages))
            yield region.offset % PAGE_BYTES
        yield int(any(r.size is not None for r in memory.regions))

    def _plane(self, plane: Plane | None) -> Iterator[int]:
        content = _EMPTY if plane is None else plane.content
        marks = _EMPTY if plane is None else plane.marks()
        self.planes.append((plane, marks))
        yield from (self._address(content), self._address(marks))
        yield from (0, 0) if plane is None else (len(content), int(plane.marked))

    def _registers(self, setting: Setting) -> bytes:
        values, unknown, numbers = setting.values(), setting.unknown(), self.code.numbers
        table = self.code.registers.copy()
        for register in {p.register for p in setting.code.presets} & numbers.keys():
            array, marks = values[register], unknown[register]
            assert array is not None
            full = np.broadcast_to(array, (len(array), WARP_LANES))
            start = self._address(np.ascontiguousarray(full, np.uint32))
            mask = 0 if marks is None else int(marks[0, 0])
            table[numbers[register], :3] = start, len(array), mask
        return _words(iter([len(table)])) + table.tobytes()


class _PackedCode:
    """The part of the arguments that follows from the code and the needed results.

    ``numbers``: the new number of each register that is used. ``registers``: by new number, where
    words of a launch are left free, whether it changes, and whether all lanes hold the same.
    ``spaces``: memory spaces of its accesses. ``words``: for the core.
    """

    def __init__(self, plan: ExecutionPlan, banks: Sequence[int]) -> None:
        operations = [o for steps in plan.steps for _, o, _ in steps]
        self.banks = {bank: number for number, bank in enumerate(banks)}
        self.numbers = _numbers(plan)
        written = {target for operation in operations for target in operation.targets}
        uniform = plan.setting.code.uniform
        self.registers = np.array(
            [[0, 0, 0, r in written, r in uniform] for r in self.numbers], np.int64
        )
        self.spaces = frozenset(o.memory.space for o in operations if o.memory is not None)
        self.words = _words(self._code(plan))

    def _code(self, plan: ExecutionPlan) -> Iterator[int]:
        instructions = plan.setting.code.instructions
        yield len(instructions)
        for instruction, steps in zip(instructions, plan.steps, strict=True):
            yield from (self.numbers.get(instruction.guard, -1), instruction.holds, len(steps))
            for part, operation, wanted in steps:
                yield from (_NUMBER[operation.kind], part, int(wanted))
                yield from self._operation(operation)

    def _operation(self, operation: Micro) -> Iterator[int]:
        yield len(operation.targets)
        for target in operation.targets:
            yield self.numbers[target] if target > 0 else 0
        yield len(operation.sources)
        for source in operation.sources:
            yield self.numbers[source]
        yield len(operation.detail)
        yield from operation.detail
        yield int(operation.memory is not None)
        if operation.memory is not None:
            yield from self._access(operation.memory)

    def _access(self, memory: MemoryOperand) -> Iterator[int]:
        bank = self.banks.get(memory.bank, -1) if memory.space is Space.CONSTANT else -1
        yield from (memory.space, memory.bytes, memory.offset, memory.scale, int(memory.signed))
        yield from (bank, -1 if memory.combine is None else memory.combine)
        yield int(memory.combine_signed)


def _words(*parts: Iterator[int]) -> bytes:
    """Return integers as words of 64 bits, negative ones by their complement."""
    words = [word & (1 << 64) - 1 for part in parts for word in part]
    return np.array(words, np.uint64).tobytes()


def _numbers(plan: ExecutionPlan) -> dict[int, int]:
    """Return the new number of each register that is used; 0 stays 0."""
    instructions = plan.setting.code.instructions
    used = {0: 0}
    for instruction, steps in zip(instructions, plan.steps, strict=True):
        for register in _registers_of(instruction, [operation for _, operation, _ in steps]):
            used.setdefault(register, len(used))
    return used


def _registers_of(instruction: MachineInstruction, operations: list[Micro]) -> Iterator[int]:
    if instruction.guard >= 0:
        yield instruction.guard
    for operation in operations:
        yield from operation.sources
        yield from (t for t in operation.targets if t > 0)


def _unpack(plan: ExecutionPlan, packing: _Packing, packed_result: tuple[Any, ...]) -> Execution:
    setting = plan.setting
    guesses, lost, forced, alive, cut, branches, taken, outside, marked, touched = packed_result
    for (plane, marks), some in zip(packing.planes, marked, strict=False):
        if some and plane is not None:
            plane.adopt(marks)
    masks = np.frombuffer(guesses, np.uint32)
    left = np.flatnonzero(np.frombuffer(alive, np.uint32))
    over = np.frombuffer(cut, np.uint32).astype(np.intp)
    return Execution(
        setting.code, setting.memory.regions, setting.blocks, setting.warps_per_block,
        np.cumsum(packing.executed, axis=1)[:, :-1], np.cumsum(packing.lanes, axis=1)[:, :-1],
        _branch_counts(branches, np.frombuffer(taken, np.int64).reshape(-1, setting.warps, 2)),
        tuple(_touch(setting, *record) for record in touched), _outside(setting, outside),
        {int(place): int(masks[place]) for place in np.flatnonzero(masks)},
        distinct(np.concatenate([over, left])), _places(lost), _places(forced),
        setting.memory,
    )  # fmt: skip


def _places(flags: bytes) -> frozenset[int]:
    return frozenset(place for place, flag in enumerate(flags) if flag)


def _branch_counts(branches: bytes, counts: npt.NDArray[np.int64]) -> Mapping[int, Counts]:
    """Return the counts of the branches that a warp reached.

    ``branches`` holds 1 for an instruction that may branch, and 2 if a warp reached it.
    """
    places = [place for place, flag in enumerate(branches) if flag]
    return {p: c for p, c in zip(places, counts, strict=True) if branches[p] == 2}


def _touch(
    setting: Setting, place: int, part: int, guessed: int,
    warps: bytes, lanes: bytes, starts: bytes, steps: bytes, irregular: bytes,
) -> Touch:  # fmt: skip
    memory = setting.code.instructions[place].operations[part].memory
    assert memory is not None
    masks = np.frombuffer(lanes, np.uint32).reshape(-1, 1)
    return Touch(
        place, part, memory, np.frombuffer(warps, np.uint32).astype(np.intp), unpack_lanes(masks),
        guessed, np.frombuffer(starts, np.uint64), np.frombuffer(steps, np.int64),
        np.frombuffer(irregular, np.uint64).reshape(-1, WARP_LANES),
    )  # fmt: skip


def _outside(setting: Setting, packed: bytes) -> tuple[OutsideAccess, ...]:
    """Return the accesses outside of buffers, ordered by instruction and name."""
    outside: dict[tuple[int, str], OutsideAccess] = {}
    for place, where, offset, lanes in np.frombuffer(packed, np.int64).reshape(-1, 4).tolist():
        name = _NAMES[where] if where < 0 else setting.memory.regions[where].name
        before = outside.get((place, name), OutsideAccess(place, name, offset, 0))
        outside[place, name] = OutsideAccess(place, name, before.offset, before.lanes + lanes)
    return tuple(outside[key] for key in sorted(outside))
