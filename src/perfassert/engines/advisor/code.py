"""Compiled code as the advisor needs it: operands, predicates, barriers and control flow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from perfassert.kernel.graph import loop_chain
from perfassert.kernel.program import Program, ProgramInstruction, ProgramLoop
from perfassert.kernel.roles import Role, space_of
from perfassert.source import SourceSpan

SYNCHRONIZATION = "SYNC"
"""A virtual register that synchronization instructions write."""
NEVER = "!PT"


@dataclass(frozen=True, slots=True)
class CodeInstruction:
    """An instruction with its operands, barriers and place in the code.

    ``label`` is its name for users. ``space`` is ``"local"``, ``"constant"``, ``"global"`` (also
    for textures), ``"shared"`` or None. ``predicate`` is ``"P0"``, ``"!P0"``, or ``""`` if it is
    always executed. ``sets`` is the barrier that its result clears, and ``frees`` the barrier that
    the reading of its operands clears (-1: none). ``waits`` lists barriers that must be clear.
    ``block`` is -1 if control never reaches it. ``loop`` is the innermost loop or -1. ``stall`` is
    the number of cycles until the warp may issue the next instruction. ``roles`` hold further
    properties.
    """

    index: int
    label: str
    operation: str
    space: str | None = None
    predicate: str = ""
    defines: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    sets: int = -1
    frees: int = -1
    waits: tuple[int, ...] = ()
    stall: int = 1
    block: int = 0
    loop: int = -1
    function: str = ""
    span: SourceSpan | None = None
    call_path: tuple[SourceSpan, ...] = ()
    roles: frozenset[Role] = frozenset()

    @property
    def synchronizes(self) -> bool:
        """True if the instruction waits for other warps or for the order of memory."""
        return Role.SYNCHRONIZES in self.roles or self.orders

    @property
    def orders(self) -> bool:
        """True if the instruction is a memory fence, which waits for no other warp."""
        return Role.ORDERS_MEMORY in self.roles

    @property
    def written(self) -> tuple[str, ...]:
        """Registers, predicates and virtual registers that the instruction writes."""
        if self.predicate == NEVER:
            return ()
        barriers = {b for b in (self.sets, self.frees) if b >= 0}
        names = (*self.defines, *(barrier_register(b) for b in sorted(barriers)))
        return (*names, SYNCHRONIZATION) if self.synchronizes else names

    @property
    def read(self) -> tuple[str, ...]:
        """Registers, predicates and virtual barrier registers that the instruction reads."""
        return (*self.uses, *(barrier_register(b) for b in self.waits))


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """Instructions ``start`` to ``stop`` (exclusive), and the blocks that may follow them."""

    index: int
    start: int
    stop: int
    successors: tuple[int, ...] = ()
    loop: int = -1


@dataclass(frozen=True, slots=True)
class CodeLoop:
    """A natural loop; ``trips``: executions of its header per entry, None unless constant."""

    index: int
    parent: int
    header: int
    blocks: frozenset[int]
    trips: int | None = None
    span: SourceSpan | None = None


@dataclass(frozen=True, eq=False)
class Code:
    """A kernel's code: instructions by number, and blocks in reverse postorder, the entry first."""

    instructions: tuple[CodeInstruction, ...]
    blocks: Mapping[int, CodeBlock]
    loops: tuple[CodeLoop, ...] = ()

    @staticmethod
    def of(program: Program) -> Code:
        """Return the advisor's view of a program.

        Blocks that the description leaves out have no instructions.
        """
        blocks = {
            b: CodeBlock(b, p.start, p.stop, tuple(dict.fromkeys(p.successors)), p.loop)
            for b in program.order
            if (p := program.blocks.get(b)) is not None
        }
        place = {i: b for b in blocks.values() for i in range(b.start, b.stop)}
        return Code(
            tuple(
                _instruction(i, place.get(i.index), call_path(program, i))
                for i in program.instructions
            ),
            blocks,
            tuple(_loop(loop) for loop in program.loops),
        )

    @cached_property
    def predecessors(self) -> Mapping[int, tuple[int, ...]]:
        """Blocks from which each block may be entered."""
        result: dict[int, list[int]] = {b: [] for b in self.blocks}
        for block in self.blocks.values():
            for target in block.successors:
                result[target].append(block.index)
        return {b: tuple(p) for b, p in result.items()}

    @cached_property
    def predecessors_in_order(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """Blocks in reverse postorder, with their predecessors."""
        return tuple((b, self.predecessors[b]) for b in self.blocks)

    def chain(self, loop: int) -> tuple[int, ...]:
        """Return the loop and the loops around it, outermost first."""
        return loop_chain(self.loops, loop)


def barrier_register(number: int) -> str:
    """Return the virtual register of a barrier."""
    return f"B{number}"


def call_path(program: Program, i: ProgramInstruction) -> tuple[SourceSpan, ...]:
    """Return the calls that lead from the kernel to an instruction, outermost first.

    Calls that the compiler inlined are included.
    """
    inlined = tuple(dict.fromkeys(reversed(i.inlined)))  # listings repeat lines
    if i.call < 0:
        return inlined
    call = program.instructions[i.call]
    here = () if call.span is None else (call.span,)
    return (*call_path(program, call), *here, *inlined)


def _instruction(
    i: ProgramInstruction, block: CodeBlock | None, calls: tuple[SourceSpan, ...]
) -> CodeInstruction:
    waits = tuple(dict.fromkeys((*i.waits, *(w.barrier for w in i.counted))))
    space = "global" if Role.COMMITS_COPIES in i.roles else space_of(i.operation)
    return CodeInstruction(
        i.index, i.opcode, i.operation, space, i.predicate, i.defines, i.uses, i.sets, i.frees,
        waits, i.stall, block.index if block else -1, block.loop if block else -1,
        i.function, i.span, calls, i.roles,
    )  # fmt: skip


def _loop(loop: ProgramLoop) -> CodeLoop:
    trips = loop.trips.constant if loop.trips is not None else None
    return CodeLoop(
        loop.index, loop.parent, loop.header, loop.blocks,
        None if trips is None else int(trips), loop.span,
    )  # fmt: skip
