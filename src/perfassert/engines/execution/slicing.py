"""Address and control slice: the operations whose values decide addresses and control flow.

The slice is a backward dataflow over the instructions. A register is needed if it is read by an
address, by the guard of a jump or an access, by a branch, by a barrier, or by a needed operation.
The data of a store is needed if a needed load may read it. That requires the same memory space and,
in global memory, a pointer that may come from the same parameter.

For example, in ``j = index[i]; out[i] = a[j]`` the load of ``index`` is needed, since its value is
the address of the next load. The value loaded from ``a`` is not: it is stored, and no load of the
kernel reads it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush

from perfassert.engines.execution.plan import acts_on_memory
from perfassert.kernel.machine import (
    ADDRESS_SOURCES,
    Kind,
    MachineCode,
    MachineInstruction,
    Micro,
    PresetSource,
    Space,
)

Part = tuple[int, int]
_DECIDES = frozenset((
    Kind.BRANCH, Kind.BRANCH_INDIRECT, Kind.EXIT, Kind.SYNC_WAIT, Kind.SYNC_LEAVE, Kind.SYNC_SET,
    Kind.WARP_WAIT, Kind.BARRIER,
))  # fmt: skip
_WRITES = frozenset((Kind.STORE, Kind.ATOMIC))
_READS = frozenset((Kind.LOAD, Kind.ATOMIC))
_JUMPS = frozenset((Kind.BRANCH, Kind.BRANCH_DIVERGED))
_NO_FALL = frozenset((Kind.EXIT, Kind.LOST, Kind.BRANCH_INDIRECT))


def control_slice(code: MachineCode, addresses: bool = True) -> frozenset[Part]:
    """Return the (instruction, part) pairs whose values must be computed.

    ``addresses``: also those that decide addresses, not control flow alone.
    """
    return code.found.once(control_slice, lambda: _slices(code))[addresses]


def _slices(code: MachineCode) -> tuple[frozenset[Part], frozenset[Part]]:
    """Return the slice of control flow alone, and that of addresses, too."""
    slicer = _Slicer(code)
    return slicer.parts(False), slicer.parts(True)


class _Slicer:
    """Backward dataflow over the instructions of one code."""

    def __init__(self, code: MachineCode) -> None:
        self.code = code
        self.before = _predecessors(code)
        self.masks = [[_masks(o) for o in i.operations] for i in code.instructions]
        self.bases: Mapping[Part, int] | None = None

    def parts(self, addresses: bool) -> frozenset[Part]:
        """Return the slice; it is recomputed until no further store is needed."""
        stores: set[Part] = set()
        while True:
            wanted = self._wanted_parts(stores, addresses)
            loaded_stores = self._stores(wanted)
            if loaded_stores <= stores:
                return frozenset(wanted)
            stores |= loaded_stores

    def _wanted_parts(self, stores: set[Part], addresses: bool) -> set[Part]:
        count = len(self.code.instructions)
        live_after = [0] * count
        wanted: set[Part] = set()
        work = [
            -index for index in reversed(range(count))
        ]  # heap of negated indices: the last instruction is next
        queued = [True] * count
        while work:
            index = -heappop(work)
            queued[index] = False
            live = self._live_before(index, live_after[index], stores, wanted, addresses)
            for before in self.before[index]:
                if live & ~live_after[before]:
                    live_after[before] |= live
                    if not queued[before]:
                        queued[before] = True
                        heappush(work, -before)
        return wanted

    def _live_before(
        self, index: int, live: int, stores: set[Part], wanted: set[Part], addresses: bool
    ) -> int:
        """Return the registers needed before an instruction, given those needed after it."""
        instruction = self.code.instructions[index]
        guarded = instruction.guard >= 0
        matters = False
        # For example, r1 is needed after ``r1 = r2 + r3``: before it, r2 and r3 are needed and r1
        # is not. If the instruction has a guard, it may not execute: r1 stays needed, and the guard
        # is needed, too.
        for part in reversed(range(len(instruction.operations))):
            operation = instruction.operations[part]
            targets, sources, address = self.masks[index][part]
            take = bool(targets & live) or operation.kind in _DECIDES or (index, part) in stores
            if not guarded:
                live &= ~targets
            acts = acts_on_memory(operation, addresses)
            if take:
                wanted.add((index, part))
                live |= sources
            elif acts:
                live |= address
            matters |= take or acts
        if guarded and matters:
            live |= 1 << instruction.guard
        return live & ~1

    def _stores(self, wanted: set[Part]) -> set[Part]:
        """Return the stores and atomics whose data a needed load may read."""
        read: dict[Space, int] = {}
        for part, operation in self._memory(_READS):
            if part in wanted:
                for space in _spaces(operation):
                    read[space] = read.get(space, 0) | self._base(part)
        return {
            part
            for part, operation in self._memory(_WRITES)
            if any(self._base(part) & read.get(space, 0) for space in _spaces(operation))
        }

    def _memory(self, kinds: frozenset[Kind]) -> Iterator[tuple[Part, Micro]]:
        for index, instruction in enumerate(self.code.instructions):
            for number, operation in enumerate(instruction.operations):
                if operation.kind in kinds and operation.memory is not None:
                    yield (index, number), operation

    def _base(self, part: Part) -> int:
        if self.bases is None:
            self.bases = pointer_bases(self.code)
        return self.bases.get(part, 0) or -1


def _spaces(operation: Micro) -> tuple[Space, ...]:
    assert operation.memory is not None
    space = operation.memory.space
    return (Space.GLOBAL, Space.SHARED, Space.LOCAL) if space is Space.GENERIC else (space,)


def pointer_bases(code: MachineCode) -> dict[Part, int]:
    """Return the parameters, as bits, that the address of each global access may come from.

    0 means unknown. Accesses to other memory spaces are left out. A loaded value contributes no
    bit: if it is added to a parameter, it is assumed to be an index. An address that is only a
    loaded value is unknown.
    """
    states: list[dict[int, int] | None] = [None] * len(code.instructions)
    after = _successors(code)
    straight = _falls_through(after)
    states[0] = dict(_parameter_bits(code))
    work = [0]  # heap: in code order, most instructions are visited once
    queued = {0}
    bases: dict[Part, int] = {}
    while work:
        index = heappop(work)
        queued.discard(index)
        entry = states[index]
        assert entry is not None
        state = dict(entry)
        _forward(code.instructions[index], index, state, bases)
        while straight[index]:
            index += 1
            _forward(code.instructions[index], index, state, bases)
        for following in after[index]:
            target = states[following]
            if target is None:
                states[following] = dict(state)
            elif not _join(target, state):
                continue
            if following not in queued:
                queued.add(following)
                heappush(work, following)
    return bases


def _falls_through(after: Sequence[tuple[int, ...]]) -> list[bool]:
    """Return for each instruction True if it and the next one are in one basic block."""
    arrivals = Counter(following for own in after for following in own)
    return [own == (i + 1,) and arrivals[i + 1] == 1 for i, own in enumerate(after)]


def _forward(
    instruction: MachineInstruction, index: int, state: dict[int, int], bases: dict[Part, int]
) -> None:
    for number, operation in enumerate(instruction.operations):
        bits = 0
        if operation.memory is None:
            for source in operation.sources:
                bits |= state.get(source, 0)
        elif operation.memory.space in (Space.GLOBAL, Space.GENERIC):
            base = 0
            for source in operation.sources[:ADDRESS_SOURCES]:
                base |= state.get(source, 0)
            bases[index, number] = bases.get((index, number), 0) | base
        for target in operation.targets:
            if target > 0:
                state[target] = bits | (state.get(target, 0) if instruction.guard >= 0 else 0)


def _join(target: dict[int, int], state: dict[int, int]) -> bool:
    changed = False
    for register, bits in state.items():
        old = target.get(register, 0)
        if bits & ~old:
            target[register] = old | bits
            changed = True
    return changed


def _parameter_bits(code: MachineCode) -> dict[int, int]:
    """Return the parameter, as a bit, of each register that is preset to a word of a pointer."""
    bits = {}
    for preset in code.presets:
        if preset.source is PresetSource.CONSTANT and preset.bank == 0:
            for place, slot in enumerate(code.parameters):
                if slot.size == 8 and slot.offset <= preset.value < slot.offset + 8:
                    bits[preset.register] = 1 << place
    return bits


def _masks(operation: Micro) -> tuple[int, int, int]:
    """Return the registers that an operation writes, reads, and uses in its address, as bits."""
    sources = operation.sources
    return _bits(operation.targets), _bits(sources), _bits(sources[:ADDRESS_SOURCES])


def _bits(registers: tuple[int, ...]) -> int:
    mask = 0
    for register in registers:
        if register > 0:
            mask |= 1 << register
    return mask


def _successors(code: MachineCode) -> list[tuple[int, ...]]:
    count = len(code.instructions)
    result = []
    for index, instruction in enumerate(code.instructions):
        following = {index + 1}
        for operation in instruction.operations:
            if (
                operation.kind in _NO_FALL
                and instruction.guard < 0
                and not (operation.kind is Kind.EXIT and operation.sources)
            ):
                following.discard(index + 1)
            if operation.kind in _JUMPS:
                if (
                    instruction.guard < 0
                    and not operation.sources
                    and (operation.kind is Kind.BRANCH)
                ):
                    following.discard(index + 1)
                following.add(operation.detail[0])
            elif operation.kind is Kind.BRANCH_INDIRECT:
                following |= code.returns if operation.detail[1] else code.landings
        result.append(tuple(f for f in following if f < count))
    return result


def _predecessors(code: MachineCode) -> list[list[int]]:
    before: list[list[int]] = [[] for _ in code.instructions]
    for index, following in enumerate(_successors(code)):
        for target in following:
            before[target].append(index)
    return before
