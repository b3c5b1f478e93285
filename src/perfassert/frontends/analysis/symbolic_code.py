"""A kernel's machine operations as the evaluation sees them: registers, symbolic values, stack."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from perfassert.frontends.analysis.symbolic_operations import TRANSFERS
from perfassert.frontends.analysis.symbolic_words import Words
from perfassert.frontends.machine.control_flow import BasicBlock, ControlEdge, Flow, Jump, analyse
from perfassert.frontends.machine.inlining import PlacedInstruction
from perfassert.frontends.toolchain.binary import Parameter, Unset
from perfassert.frontends.toolchain.names import demangle
from perfassert.kernel.expression_pool import Atom, Expression, ExpressionPool
from perfassert.kernel.machine import (
    ADDRESS_SOURCES,
    Kind,
    MachineCode,
    MachineInstruction,
    Micro,
    Preset,
    PresetSource,
    Space,
)
from perfassert.kernel.names import (
    CLUSTERED,
    LIMITS,
    PARAMETERS,
    Argument,
    ConstantWord,
    Coordinate,
    GlobalVariable,
    LoopEntry,
    Name,
    loaded_name,
)

Read = Callable[[int], Expression]
"""Function that returns the value of a register before the instruction at hand."""
_LOADED = frozenset((Kind.LOAD, Kind.ATOMIC, Kind.MATRIX_LOAD))
_CONDITIONAL = frozenset((Kind.BRANCH, Kind.EXIT))
_WIDE_SPACES = (Space.GLOBAL, Space.GENERIC)
_STACK_WORDS = 1 << 20
"""Largest number of words of a stack below its pointer."""
_NOTHING = frozenset(("shared window",))
"""Special registers that are 0 as far as addresses are distinguished."""
_UNTRANSLATED = "the result of {}, which has no translation"
_DATA = "data that {} loads"


@dataclass(frozen=True, slots=True)
class Constants:
    """Contents of the constant banks of one kernel.

    ``base``: where ``parameters`` start in bank 0; ``block``, ``grid``, ``stack``, ``memory``,
    ``cluster``: offsets there of ``blockDim.x``, ``gridDim.x``, of the stack pointer, of the
    address at which parameters lie in memory, of a 1 where the launch has clusters (-1: the
    architecture has no such word, what lies there may be a parameter); ``banks``: initialised
    banks; ``unset``: what in them only the program fills.
    """

    base: int
    parameters: tuple[Parameter, ...]
    block: int = 0
    grid: int = 12
    stack: int = 0x28
    memory: int = -1
    cluster: int = -1
    banks: Mapping[int, bytes] | None = None
    unset: tuple[Unset, ...] = ()

    def unset_word(self, bank: int, offset: int) -> ConstantWord | None:
        """A word which only the program fills."""
        for symbol in self.unset:
            inside = offset - symbol.offset
            if symbol.bank == bank and 0 <= inside < symbol.size:
                return ConstantWord(demangle(symbol.name), inside + symbol.start)
        return None

    def dimension(self, offset: int) -> Coordinate:
        """``blockDim.x``, … for a word of the launch's extents; else ``""``."""
        for start, what in ((self.block, "blockDim"), (self.grid, "gridDim")):
            if start <= offset < start + 12 and offset % 4 == 0:
                return f"{what}.{'xyz'[(offset - start) // 4]}"
        return CLUSTERED if offset == self.cluster else ""


class SymbolicCode:
    """Code of a kernel that :mod:`.evaluate` reads; ``words`` has noted what it assumes. ``rare``:
    by the address of a conditional jump, True if jumping is the side that is taken never to happen;
    ``executed``: sides that a sample of blocks took.

    Registers are those of ``machine``, and behind them words of the stack that are used as
    registers are.
    """

    def __init__(
        self,
        machine: MachineCode,
        placed: Sequence[PlacedInstruction],
        jumps: Mapping[int, Jump],
        symbols: ExpressionPool,
        constants: Constants,
        rare: Collection[tuple[int, bool]] = (),
        executed: Collection[tuple[int, bool]] = (),
    ) -> None:
        self.machine = machine
        self.rare = rare
        self.executed = executed
        self.placed = placed
        self.jumps = jumps
        self.symbols = symbols
        self.constants = constants
        self.words = Words(symbols, machine.uniform)
        self._presets = {p.register: p for p in machine.presets}
        self._filled: dict[int, Expression] = {}
        self._origins: dict[str, tuple[int, str]] = {}
        self._spills = spilled_words(machine)
        self._touched = [self._registers(i) for i in range(len(machine.instructions))]

    @cached_property
    def flow(self) -> Flow:
        """The control-flow graph."""
        return analyse(len(self.placed), self.jumps)

    def _number(self, index: int) -> int:
        return self.placed[index].instruction.index

    def instruction(self, index: int) -> MachineInstruction:
        """Return the instruction at a place of the inlined code."""
        return self.machine.instructions[self._number(index)]

    def is_slow_path(self, block: BasicBlock) -> bool:
        """Return True if a block is taken never to be executed: it lies in a routine of the
        compiler for rare operands, whose results other blocks compute, too."""
        return self.placed[block.start].in_library

    def is_rare(self, block: BasicBlock, edge: ControlEdge) -> bool:
        """Return True if only rare operands are known to take this side of a conditional jump."""
        return (self.instruction(block.stop - 1).address, edge.taken) in self.rare

    def is_executed(self, block: BasicBlock, edge: ControlEdge) -> bool:
        """Return True if an executed sample took this side of a conditional jump."""
        return (self.instruction(block.stop - 1).address, edge.taken) in self.executed

    def calls_routine(self, edge: ControlEdge) -> bool:
        """Return True if a side of a jump leads to a routine of the compiler, or to a block that
        only calls one. Where data decides the jump, that side is for rare operands."""
        target = self.flow.blocks[edge.target]
        inside = range(target.start, target.stop)
        calls = not self._routine_calls.isdisjoint(inside)
        return self.is_slow_path(target) or (calls and not any(map(self._acts, inside)))

    @cached_property
    def _routine_calls(self) -> frozenset[int]:
        return frozenset(p.calls[-1] for p in self.placed if p.in_library)

    def _acts(self, index: int) -> bool:
        """Return True if an instruction does more than compute values."""
        return any(
            o.memory is not None or o.kind in (Kind.BARRIER, Kind.BARRIER_REDUCE)
            for o in self.instruction(index).operations
        )

    # Registers

    def defines(self, index: int) -> Sequence[int]:
        """Return the registers that an instruction may write."""
        return self._touched[self._number(index)][0]

    def uses(self, index: int) -> Sequence[int]:
        """Return the registers that the values of its results depend on, guard included."""
        return self._touched[self._number(index)][1]

    def _registers(self, number: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        instruction = self.machine.instructions[number]
        written: dict[int, None] = {}
        read: dict[int, None] = {}
        for operation in instruction.operations:
            if operation.kind in TRANSFERS:
                read.update((r, None) for r in operation.sources if r not in written)
            written.update((r, None) for r in operation.targets if r > 0)
        spill = self._spills.get(number, ())
        if spill and instruction.operations[0].kind is Kind.STORE:
            data = instruction.operations[0].sources[ADDRESS_SOURCES:]
            written, read = dict.fromkeys(spill), dict.fromkeys(data)
        elif spill:
            read = dict.fromkeys(spill)
        if instruction.guard > 0 and (read or written):
            read[instruction.guard] = None
            read.update(written)
        return tuple(written), tuple(r for r in read if r not in self._presets and r > 0)

    def roots(self, index: int) -> Sequence[int]:
        """Return the registers that must be known: of addresses, guards and branch conditions."""
        registers = list(self.guards(index))
        for asked in self.instruction(index).inputs:
            registers += asked.sources
        return [r for r in registers if r > 0 and r not in self._presets]

    def guards(self, index: int) -> Sequence[int]:
        """Return the registers that decide if an instruction has an effect, or a jump is taken."""
        instruction = self.instruction(index)
        registers = (
            [] if instruction.guard < 0 or _of_one_lane(instruction) else [instruction.guard]
        )
        operations = instruction.operations
        if operations and operations[-1].kind in _CONDITIONAL:
            written = {t for o in operations for t in o.targets}
            registers += [r for o in operations for r in o.sources if r not in written]
        return registers

    def condition(self, index: int, read: Read) -> Expression:
        """Return the condition under which the instruction has an effect, or the jump is taken."""
        instruction, s = self.instruction(index), self.symbols
        result = s.one
        if instruction.guard >= 0 and not _of_one_lane(instruction):
            result = read(instruction.guard)
            result = result if instruction.holds else s.logical_not(result)
        operations = instruction.operations
        if operations and operations[-1].kind in _CONDITIONAL:
            written = self.execute(index, read)
            for register in operations[-1].sources:
                own = written[register] if register in written else read(register)
                result = s.logical_and(result, own)
        return result

    # Values

    def initial(self, register: int) -> Expression | None:
        """Return the initial value of a register that no instruction writes."""
        if register == 0:
            return self.symbols.zero
        value = self._filled.get(register)
        if value is None and register in self._presets:
            value = self._filled[register] = self._preset(self._presets[register])
        return value

    def _preset(self, preset: Preset) -> Expression:
        s = self.symbols
        if preset.source is PresetSource.LITERAL:
            return self.words.as_signed(s.number(preset.value))
        if preset.source is PresetSource.CONSTANT:
            return self._constant(preset.bank, preset.value)
        if preset.name in _NOTHING:
            return s.zero
        return s.variable(preset.name) if preset.name in LIMITS else s.unknown(preset.name)

    def _constant(self, bank: int, offset: int) -> Expression:
        """Return a word of a constant bank; its value if the binary holds it."""
        s, constants = self.symbols, self.constants
        if bank == 0:
            return self._word_of_launch(offset)
        if word := constants.unset_word(bank, offset):
            return s.variable(word)
        if bank == 4:  # addresses of variables in global memory
            address = self._wide(GlobalVariable(offset & ~7))
            return self.words.high(address) if offset & 4 else address
        data = (constants.banks or {}).get(bank, b"")[offset : offset + 4]
        if len(data) == 4:
            return s.number(struct.unpack("<i", data)[0])
        return s.unknown(f"constant c[{bank:#x}][{offset:#x}]")

    def _word_of_launch(self, offset: int) -> Expression:
        s, constants = self.symbols, self.constants
        if offset == constants.stack:
            return s.zero  # the stack's base: local addresses count from it
        if name := constants.dimension(offset):
            return s.variable(name)
        if constants.memory >= 0 and offset in (constants.memory, constants.memory + 4):
            address = self._wide(PARAMETERS)
            return address if offset == constants.memory else self.words.high(address)
        for position, parameter in enumerate(constants.parameters):
            inside = offset - constants.base - parameter.offset
            if 0 <= inside < parameter.size:
                return self._word_of_parameter(position, parameter, inside)
        return s.unknown(f"c[0x0][{offset:#x}]")

    def _word_of_parameter(self, position: int, parameter: Parameter, inside: int) -> Expression:
        sizes = {m.offset: m.size for m in parameter.members} or {0: parameter.size}
        if sizes.get(inside - 4) == 8:
            return self.words.high(self._wide(Argument(position, inside - 4)))
        name = Argument(position, inside)
        at = self.constants.base + parameter.offset + inside
        unknown = not parameter.members and inside + 8 <= parameter.size
        if sizes.get(inside) == 8 or (unknown and at in self._low_halves):
            return self._wide(name)
        return self.symbols.variable(name)

    @cached_property
    def _low_halves(self) -> frozenset[int]:
        """Offsets in bank 0 of words that are read together with the next one."""
        offsets = {p.register: p.value for p in self.machine.presets
                   if p.source is PresetSource.CONSTANT and p.bank == 0}  # fmt: skip
        low_halves = set()
        for instruction in self.machine.instructions:
            runs = [o.sources for o in instruction.operations]
            runs.append(tuple(r for o in instruction.operations if o.kind is Kind.MOVE
                              for r in o.sources))  # fmt: skip
            for sources in runs:
                for low, high in pairwise(sources):
                    at = offsets.get(low, 1)
                    if at % 8 == 0 and offsets.get(high) == at + 4:
                        low_halves.add(at)
        return frozenset(low_halves)

    def _wide(self, name: Name) -> Expression:
        value = self.symbols.variable(name)
        self.words.wide |= value.atoms
        return value

    def placeholder(self, loop: int, register: int, before: Expression | None) -> Expression:
        """Return the placeholder of a register at the top of a loop that is not yet solved."""
        value = self.symbols.variable(LoopEntry(loop, register))
        if before is not None and self.words.has_64_bits(before):
            self.words.wide |= value.atoms
        return value

    def addresses(self, index: int, read: Read) -> tuple[Expression, ...]:
        """The addresses and other inputs that an analysis asks for."""
        return tuple(self._input(asked, read) for asked in self.instruction(index).inputs)

    def _input(self, asked: Micro, read: Read) -> Expression:
        s, memory = self.symbols, asked.memory
        if memory is None:
            return read(asked.sources[0])
        low, high, other, over = map(read, asked.sources)
        if memory.space in _WIDE_SPACES:
            first, second = self.words.address(low, high), self.words.address(other, over)
        else:
            first, second = low, other
        return s.add(s.scale(first, memory.scale), second, s.number(memory.offset))

    def execute(self, index: int, read: Read) -> Mapping[int, Expression]:
        """The values that an instruction writes; a register left out is not known."""
        number, instruction = self._number(index), self.instruction(index)
        spill = self._spills.get(number)
        if spill is not None:
            operation = instruction.operations[0]
            if operation.kind is Kind.STORE:
                return dict(zip(spill, map(read, operation.sources[ADDRESS_SOURCES:]), strict=True))
            return dict(zip(operation.targets, map(read, spill), strict=True))
        written: dict[int, Expression] = {}

        def current(register: int) -> Expression:
            known = written.get(register)
            return read(register) if known is None else known

        for place, operation in enumerate(instruction.operations):
            transfer = TRANSFERS.get(operation.kind)
            results: Sequence[Expression | None] = ()
            if transfer is not None:
                results = transfer(self.words, operation, tuple(map(current, operation.sources)))
            elif operation.kind in _LOADED:
                results = self._loaded_values(index, operation, current)
            for word, target in enumerate(operation.targets):
                if target > 0:
                    result = results[word] if word < len(results) else None
                    if result is None:
                        name = f"result {index}.{place}.{word}"
                        if operation.kind is Kind.UNKNOWN:
                            self._origins[name] = index, _UNTRANSLATED
                        result = self.symbols.unknown(name)
                    written[target] = result
        return written

    def _loaded_values(self, index: int, operation: Micro, read: Read) -> Sequence[Expression]:
        """Return what is loaded: data, or words at a known place of a constant bank."""
        memory, words = operation.memory, range(len(operation.targets))
        if memory is not None and memory.space is Space.CONSTANT and memory.bytes % 4 == 0:
            place = read(operation.sources[0]).constant
            if place is not None:
                start = place + memory.offset
                return [self._constant(memory.bank, start + 4 * word) for word in words]
        names = [loaded_name(index, word) for word in words]
        self._origins |= dict.fromkeys(names, (index, _DATA))
        return [self.symbols.unknown(name) for name in names]

    def cause_of(self, unknown: Atom) -> str:
        """Return which instruction a value that nobody knows comes from; empty where it comes from
        several."""
        if str(unknown.name) not in self._origins:
            return ""
        index, cause = self._origins[str(unknown.name)]
        instruction = self.placed[index].instruction
        place = f" at {instruction.span.short}" if instruction.span is not None else ""
        return cause.format(f"{instruction.base}{place}")


def _of_one_lane(instruction: MachineInstruction) -> bool:
    """Return True if one lane's value becomes that of all, also of lanes that are guarded off."""
    operations = instruction.operations
    return bool(operations) and operations[0].kind is Kind.FIRST and bool(operations[0].detail)


def spilled_words(machine: MachineCode) -> dict[int, tuple[int, ...]]:
    """Numbers, behind those of registers, of the stack's words that an instruction moves.

    Empty where not all of them are distinguished by their constants: local arrays with an index, a
    pointer into the stack, parts of words, a stack pointer that moves between.
    """
    place = (PresetSource.CONSTANT, 0, machine.stack)
    start = {p.register for p in machine.presets if (p.source, p.bank, p.value) == place}
    operations = [(n, o) for n, i in enumerate(machine.instructions) for o in i.operations]
    pointers = {t for _, o in operations if start.intersection(o.sources) for t in o.targets}
    words: dict[int, tuple[int, ...]] = {}
    moves = [number for number, o in operations if pointers.intersection(o.targets)]
    for number, o in operations:
        if o.memory is not None and o.memory.space is Space.LOCAL:
            low, high, other, over = o.sources[:ADDRESS_SOURCES]
            size, offset = o.memory.bytes, o.memory.offset
            if low not in pointers or high or other or over or size % 4 or offset % 4:
                return {}
            first = machine.registers + _STACK_WORDS + offset // 4
            words[number] = tuple(first + word for word in range(size // 4))
        elif pointers.intersection(o.sources) and not pointers.intersection(o.targets):
            return {}
    return {} if words and moves and moves[-1] > min(words) else words
