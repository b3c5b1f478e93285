"""Loads, stores and atomics of many warps at a time, and the record of the addresses they touch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from perfassert.engines.execution.atomics import perform
from perfassert.engines.execution.collective import Lanes
from perfassert.engines.execution.memory import (
    LOCAL_WINDOW,
    SHARED_WINDOW,
    Addresses,
    Offsets,
    Plane,
)
from perfassert.engines.execution.provenance import (
    CONSTANT,
    LEFT_OUT,
    OUTSIDE,
    UNINITIALISED,
    UNTRANSLATED,
    Masks,
)
from perfassert.engines.execution.result import IRREGULAR, OutsideAccess, Touch
from perfassert.engines.execution.words import Words, halves, wide
from perfassert.kernel.distinct import distinct
from perfassert.kernel.machine import Kind, MemoryOperand, Micro, Space

if TYPE_CHECKING:
    from perfassert.engines.execution.interpreter import Interpreter

_LOW = np.uint64(0xFFFFFFFF)
_Rows = tuple[npt.NDArray[np.intp], Addresses, Lanes, int]


class Accesses:
    """Executor of the memory operations of one execution, with the record of their addresses."""

    def __init__(self, owner: Interpreter) -> None:
        self.owner = owner
        self.setting = owner.setting
        self.recorded = 0
        self.rows: dict[tuple[int, int], list[_Rows]] = {}
        self.outside: dict[tuple[int, str], OutsideAccess] = {}
        self.bounded = any(r.size is not None for r in owner.setting.memory.regions)

    def perform(self, part: int, operation: Micro, wanted: bool) -> None:
        """Execute one memory operation for the current warps and lanes."""
        memory = operation.memory
        assert memory is not None
        owner = self.owner
        addresses, unknown = self._addresses(memory, operation)
        lanes = owner.mask
        if operation.kind is Kind.MATRIX_LOAD:
            lanes = lanes & (np.arange(32) < operation.detail[0])
        owner.guess(unknown, lanes)
        known = lanes if unknown is None else lanes & (unknown == 0)
        if unknown is not None and operation.kind in (Kind.STORE, Kind.ATOMIC):
            self._stray(memory, addresses, np.broadcast_to(unknown, lanes.shape), lanes & ~known)
        addresses = np.where(known, addresses, np.uint64(0))
        self._record(part, addresses, known, lanes)
        if operation.kind is Kind.MATRIX_LOAD:
            for target in operation.targets:
                owner.write(target, np.uint32(0), _mask(UNTRANSLATED))
        elif operation.kind is Kind.LOAD:
            self._load(memory, operation, wanted, addresses, known, unknown)
        else:
            self._change(memory, operation, wanted, addresses, known, lanes, unknown)

    def _record(self, part: int, addresses: Addresses, known: Lanes, lanes: Lanes) -> None:
        rows = lanes.any(axis=1)
        if not rows.any():
            return
        guessed = int(lanes.sum()) - int(known.sum())
        row = self.owner.numbers[rows], addresses[rows], known[rows], guessed
        self.recorded += len(row[0])
        self.rows.setdefault((self.owner.place, part), []).append(row)

    def touches(self) -> tuple[Touch, ...]:
        """Return the recorded addresses of each operation, in the order of the code."""
        instructions = self.owner.code.instructions
        touches = []
        for (place, part), rows in sorted(self.rows.items()):
            memory = instructions[place].operations[part].memory
            assert memory is not None
            warps, addresses, lanes = (np.concatenate([r[k] for r in rows]) for k in range(3))
            guessed = sum(r[3] for r in rows)
            starts, steps = np.zeros(len(warps), np.uint64), np.full(len(warps), IRREGULAR)
            touches.append(
                Touch(place, part, memory, warps, lanes, guessed, starts, steps, addresses)
            )
        return tuple(touches)

    def forget(self, operation: Micro) -> None:
        """Mark a memory space as unknown after an instruction without a translation wrote to it."""
        if operation.memory is None:
            return
        if operation.memory.space is Space.SHARED and self.setting.shared_bytes:
            self.setting.shared.taint(UNTRANSLATED)
        elif operation.memory.space is Space.GLOBAL:
            self.setting.memory.plane.taint(UNTRANSLATED)

    def doubt(self, operation: Micro, unknown: Masks) -> None:
        """Mark memory as unknown that lanes may have written, if their guard is unknown."""
        assert operation.memory is not None
        addresses, _ = self._addresses(operation.memory, operation)
        addresses = np.broadcast_to(addresses, unknown.shape)
        self._stray(operation.memory, addresses, unknown, unknown != 0)

    def _stray(
        self, memory: MemoryOperand, addresses: Addresses, unknown: Masks, lanes: Lanes
    ) -> None:
        """Mark memory as unknown after a write to an unknown address.

        In global memory only the buffer whose pointer the address was computed from is marked.
        """
        if not lanes.any():
            return
        mask = int(np.bitwise_or.reduce(unknown[lanes]))
        # For example, a store to ``out[index[i]]`` with an unknown ``index[i]`` marks the whole of
        # ``out`` and nothing else, since the address lies in the span of ``out``.
        if memory.space is Space.SHARED:
            self.setting.shared.taint(mask)
        elif memory.space is Space.LOCAL:
            self.setting.local.taint(mask)
        else:
            self.setting.memory.taint(addresses[lanes], mask)

    def _addresses(self, memory: MemoryOperand, operation: Micro) -> tuple[Addresses, Masks | None]:
        owner = self.owner
        count = 4 if memory.space in (Space.GLOBAL, Space.GENERIC) else 3
        unknown = owner.masks(operation.sources[:count])
        a, above, b, over = (owner.read(r) for r in operation.sources[:4])
        if count == 4:
            address = wide(a, above) * np.uint64(memory.scale) + wide(b, over)
            address = address + np.uint64(memory.offset & (1 << 64) - 1)
        else:
            word = a * np.uint32(memory.scale) + b + np.uint32(memory.offset & 0xFFFFFFFF)
            address = word.astype(np.uint64)
        return np.broadcast_to(address, owner.mask.shape), unknown

    # Reading

    def _load(
        self, memory: MemoryOperand, operation: Micro, wanted: bool, addresses: Addresses,
        known: Lanes, unknown: Masks | None,
    ) -> None:  # fmt: skip
        if not wanted:
            if self.bounded and memory.space is Space.GLOBAL:
                self._buffers(memory, addresses, known)  # reports accesses outside of buffers
            return
        words = max(memory.bytes // 4, 1)
        results = [np.zeros(known.shape, np.uint32) for _ in range(words)]
        marks = np.zeros(known.shape, np.uint32)
        if unknown is not None:
            marks |= unknown
        for plane, where, offsets, bits in self._planes(memory, addresses, known):
            if plane is None:
                marks[where] |= bits
                continue
            content, masks = plane.read(offsets, memory.bytes)
            for result, word in zip(results, content, strict=True):
                result[where] = word
            if masks is not None:
                marks[where] |= masks
        if memory.signed:
            shift = np.uint32(32 - 8 * memory.bytes)
            results = [
                ((r << shift).view(np.int32) >> shift.view(np.int32)).view(np.uint32)
                for r in results
            ]
        some = marks if marks.any() else None
        for target, result in zip(operation.targets, results, strict=True):
            self.owner.write(target, result, some)

    def _planes(
        self, memory: MemoryOperand, addresses: Addresses, lanes: Lanes
    ) -> list[tuple[Plane | None, Lanes, Offsets, Any]]:
        """Return (plane, lanes, offsets, provenance) for each plane that the lanes access.

        Plane None means unknown content, of the given provenance.
        """
        if memory.space is Space.GLOBAL:
            return self._buffers(memory, addresses, lanes)
        if memory.space is not Space.GENERIC:
            return self._windows(memory, memory.space, addresses, lanes)
        high = addresses >> np.uint64(32)
        shared, local = lanes & (high == SHARED_WINDOW), lanes & (high == LOCAL_WINDOW)
        planes = self._buffers(memory, addresses, lanes & ~shared & ~local)
        if shared.any():
            planes += self._windows(memory, Space.SHARED, addresses & _LOW, shared)
        if local.any():
            planes += self._windows(memory, Space.LOCAL, addresses & _LOW, local)
        return planes

    def _buffers(
        self, memory: MemoryOperand, addresses: Addresses, lanes: Lanes
    ) -> list[tuple[Plane | None, Lanes, Offsets, Any]]:
        store = self.setting.memory
        if not lanes.any():
            return []
        index, offsets = store.locate(addresses)
        inside = store.inside(index, offsets, memory.bytes)
        self._report(lanes & ~inside, index, offsets)
        aligned = addresses % np.uint64(min(memory.bytes, 16)) == 0
        places = store.place(index, offsets)
        readable = lanes & inside & (places >= 0) & aligned
        rest = lanes & ~readable
        planes: list[tuple[Plane | None, Lanes, Offsets, Any]] = []
        if readable.any():
            planes.append((store.plane, readable, places[readable], 0))
        if rest.any():
            bits = np.where(inside & aligned, store.bits(index), np.uint32(OUTSIDE))
            planes.append((None, rest, offsets[rest], bits[rest]))
        return planes

    def _windows(
        self, memory: MemoryOperand, space: Space, addresses: Addresses, lanes: Lanes
    ) -> list[tuple[Plane | None, Lanes, Offsets, Any]]:
        setting = self.setting
        offsets = addresses.astype(np.int64)
        if space is Space.SHARED:
            size, plane = setting.shared_bytes, setting.shared
            owners: Any = setting.block_of[self.owner.numbers][:, None]
        elif space is Space.LOCAL:
            size, plane = setting.stack_bytes, setting.local
            owners = self.owner.numbers[:, None] * 32 + np.arange(32)
        else:
            bank = setting.banks.get(memory.bank)
            if bank is None:
                return [(None, lanes, offsets[lanes], np.uint32(CONSTANT))]
            size, plane, owners = len(bank.content), bank, np.zeros((1, 1), np.int64)
        inside = lanes & (offsets + memory.bytes <= size) & (offsets % min(memory.bytes, 16) == 0)
        wrong = lanes & ~inside
        planes: list[tuple[Plane | None, Lanes, Offsets, Any]] = []
        if inside.any():
            planes.append((plane, inside, (offsets + owners * size)[inside], 0))
        if wrong.any():
            self._remember(space.name.lower() + " memory", int(offsets[wrong][0]), int(wrong.sum()))
            bits = np.uint32(CONSTANT if space is Space.CONSTANT else UNINITIALISED)
            planes.append((None, wrong, offsets[wrong], bits))
        return planes

    def _report(self, wrong: Lanes, index: npt.NDArray[np.intp], offsets: Offsets) -> None:
        for region in distinct(index[wrong]):
            here = wrong & (index == region)
            name = self.setting.memory.regions[region].name if region >= 0 else "no buffer"
            self._remember(name, int(offsets[here][0]), int(here.sum()))

    def _remember(self, name: str, offset: int, lanes: int) -> None:
        key = (self.owner.place, name)
        before = self.outside.get(key)
        first, count = (offset, 0) if before is None else (before.offset, before.lanes)
        self.outside[key] = OutsideAccess(self.owner.place, name, first, count + lanes)

    def outside_accesses(self) -> tuple[OutsideAccess, ...]:
        """Return the accesses outside their buffers, in the order of the code."""
        return tuple(self.outside[key] for key in sorted(self.outside))

    # Writing

    def _change(
        self, memory: MemoryOperand, operation: Micro, wanted: bool, addresses: Addresses,
        known: Lanes, lanes: Lanes, unknown: Masks | None,
    ) -> None:  # fmt: skip
        """Execute a store or an atomic for the lanes whose address is known."""
        owner = self.owner
        shape = owner.mask.shape
        data = [np.broadcast_to(owner.read(r), shape) for r in operation.sources[4:]]
        marks = owner.masks(operation.sources[4:])
        full = None if marks is None else np.broadcast_to(marks, shape)
        if not wanted:
            full = np.full(shape, LEFT_OUT, np.uint32)
        atomic = operation.kind is Kind.ATOMIC
        words = max(memory.bytes // 4, 1)
        results = [np.zeros(shape, np.uint32) for _ in range(words)]
        result_marks = (
            np.zeros(shape, np.uint32)
            if unknown is None
            else np.broadcast_to(unknown, shape).copy()
        )
        for plane, where, offsets, bits in self._planes(memory, addresses, known):
            if plane is None:
                result_marks[where] |= bits
                continue
            here = [d[where] for d in data]
            mark = None if full is None else full[where]
            if mark is not None and not mark.any():
                mark = None
            if not atomic:
                plane.write(offsets, memory.bytes, here, mark)
                continue
            self._atomic(plane, memory, where, offsets, here, mark, results, result_marks)
        if atomic and wanted:
            some = result_marks if result_marks.any() else None
            for target, result in zip(operation.targets, results, strict=True):
                owner.write(target, result, some)

    def _atomic(
        self, plane: Plane, memory: MemoryOperand, where: Lanes, offsets: Offsets,
        data: list[Words], mark: Masks | None, results: list[Words], result_marks: Masks,
    ) -> None:  # fmt: skip
        words = len(results)
        before = plane.read(offsets, memory.bytes)[1]
        if memory.combine is None or mark is not None or before is not None:
            why = np.full(len(offsets), UNTRANSLATED if memory.combine is None else 0, np.uint32)
            for more in (mark, before):
                if more is not None:
                    why |= more
            content = plane.read(offsets, memory.bytes)[0]
            plane.write(
                offsets, memory.bytes, content, np.bitwise_or.reduce(why) | np.zeros_like(why)
            )
            result_marks[where] |= np.bitwise_or.reduce(why)
            return
        new, swap = _join_words(data[:words]), _join_words(data[words:] or data[:words])
        old = perform(plane, offsets, words, memory.combine, memory.combine_signed, new, swap)
        parts = (old,) if words == 1 else halves(old)
        for result, part in zip(results, parts, strict=True):
            result[where] = part


def _join_words(words: list[Words]) -> Any:
    return words[0] if len(words) == 1 else wide(words[0], words[1])


def _mask(bit: int) -> Masks:
    return np.full((1, 1), bit, np.uint32)
