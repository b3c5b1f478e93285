"""Description of a binary as a :class:`~perfassert.kernel.program.Program` with its accesses.

SASS is evaluated, since it is what executes; PTX is assembled before anything reads it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from itertools import chain

from perfassert.frontends.analysis.evaluate import evaluate
from perfassert.frontends.analysis.loop_places import loop_names, loop_span
from perfassert.frontends.analysis.symbolic_code import Constants, SymbolicCode
from perfassert.frontends.analysis.symbolic_words import WORD
from perfassert.frontends.machine.barriers import barrier_operands, barrier_use
from perfassert.frontends.machine.bulk_copies import (
    bulk_copy,
    copy_operands,
)
from perfassert.frontends.machine.control_flow import Flow
from perfassert.frontends.machine.inlining import PlacedInstruction, place
from perfassert.frontends.machine.lowering import Lowered, lower
from perfassert.frontends.machine.matrix import (
    described_variant,
    descriptor_operands,
    matrix_variant,
)
from perfassert.frontends.machine.opcodes import UNKNOWN, is_unsourced, operation_class
from perfassert.frontends.machine.roles import closes_group, counted_waits, roles_of
from perfassert.frontends.machine.sass import NO_BARRIER, Instruction
from perfassert.frontends.machine.textures import place_of_thread, texel
from perfassert.frontends.toolchain.binary import Binary
from perfassert.frontends.toolchain.names import demangle
from perfassert.kernel.access import Direction
from perfassert.kernel.expression_pool import Expression, ExpressionPool
from perfassert.kernel.machine import (
    POINTER_BYTES,
    WARP_LANES,
    Combining,
    Kind,
    MemoryOperand,
    Space,
)
from perfassert.kernel.names import PARAMETERS, Argument, ConstantWord, GlobalVariable, loaded_name
from perfassert.kernel.program import (
    CLUSTER,
    BulkCopy,
    Member,
    MemoryAccess,
    Parameter,
    Program,
    ProgramBlock,
    ProgramInstruction,
    ProgramLoop,
)
from perfassert.kernel.roles import Role
from perfassert.source import Assumption, SourceSpan
from perfassert.system.collection import without_collections

_SPACES = {
    Space.GLOBAL: "global", Space.GENERIC: "global", Space.SHARED: "shared",
    Space.LOCAL: "local", Space.CONSTANT: "constant",
}  # fmt: skip
_TABLES = "__cudart_"
"""Prefix of the names of the compiler's own variables in global memory."""
_DRIVER_WORDS: tuple[tuple[int, dict[str, int]], ...] = (
    (100, {"block": 0x360, "grid": 0x370, "stack": 0x37C, "memory": 0x348, "cluster": 0x36C}),
    (90, {"memory": 0x198, "cluster": 0x140}),
    (0, {}),
)
"""Offsets of :class:`Constants` that differ from its defaults, by least architecture."""
_WORDS = 8
"""Largest number of registers that a load writes."""


@without_collections()
def describe(
    binary: Binary,
    rare: Collection[tuple[int, bool]] = (),
    executed: Collection[tuple[int, bool]] = (),
    lowered: Lowered | None = None,
) -> Program:
    """Return the program of a binary; raises :class:`KernelSourceError` for an unreadable listing.

    ``rare``: conditional jumps of which one side is taken never to be executed, by their address:
    with True it is jumping. ``executed``: sides that an executed sample took, which are not taken
    to be rare. ``lowered``: what :func:`lower` returns for the binary, if it is known.
    """
    return Describer(binary, rare, executed, lowered).program()


_ASSERTION = "__assertfail"
_NEAR_CALL = 64  # instructions before a call that are searched for what is called


class Describer:
    """Reader of a binary: it evaluates the instructions and puts the results together."""

    def __init__(
        self,
        binary: Binary,
        rare: Collection[tuple[int, bool]] = (),
        executed: Collection[tuple[int, bool]] = (),
        lowered: Lowered | None = None,
    ) -> None:
        self.binary = binary
        self.lowered = lowered or lower(binary)
        self.rare = rare
        self.executed = executed
        self.variables = {
            v.offset: f"global {demangle(v.name)}" for v in binary.variables if v.size
        }
        self.functions = {v.offset: v.name for v in binary.variables if not v.size}
        self.symbols = ExpressionPool()
        self.parameters = tuple(
            Parameter(p.name, p.pointer, p.size, p.dtype, p.members) for p in binary.parameters
        )
        self.assumptions: dict[Assumption, None] = dict.fromkeys(binary.assumptions)
        self.placed: tuple[PlacedInstruction, ...] = ()
        self.jumps: Collection[int] = ()
        self.code: SymbolicCode
        self.read()
        self.result = evaluate(self.code)
        if operands := self._calls_for_rare_operands():
            self.rare = {*rare, *operands}
            self.read()
            self.result = evaluate(self.code)
        self.flow: Flow = self.code.flow
        self.loads = self._load_names()

    def read(self) -> None:
        """Read the instructions and build their symbolic code."""
        binary = self.binary
        listing, machine = self.lowered
        self.placed, jumps, notes = place(listing)
        number = int("".join(filter(str.isdigit, binary.arch)) or 0)
        constants = Constants(
            binary.parameter_base,
            binary.parameters,
            banks=binary.constants,
            unset=binary.unset,
            **next(words for least, words in _DRIVER_WORDS if number >= least),
        )
        self.jumps = jumps
        self.code = SymbolicCode(
            machine, self.placed, jumps, self.symbols, constants, self.rare, self.executed
        )
        self.assumptions.update(dict.fromkeys(Assumption(n) for n in notes))

    def _calls_for_rare_operands(self) -> set[tuple[int, bool]]:
        """Return sides of jumps to routines of the compiler for which data decides, and sides on
        which an assertion fails. They are known only after an evaluation, as values that a loop
        carries are solved at its end."""
        conditions, never = self.result.conditions, self.result.never
        return {
            (self.code.instruction(block.stop - 1).address, edge.taken)
            for block in self.code.flow.blocks.values()
            for edge in block.edges
            if len(block.edges) > 1 and edge.target in conditions and edge.target not in never
            and (self.code.calls_routine(edge) or self._asserts(edge.target))
            and not self.code.is_executed(block, edge)
            and self.symbols.depends_on_data(conditions[edge.target])
            and not self.symbols.depends_on_data(conditions[block.index])
        }  # fmt: skip

    def _asserts(self, block: int) -> bool:
        """Return True if a block calls the function by which a failed assertion stops."""
        own = self.code.flow.blocks[block]
        calls = (i for i in range(own.start, own.stop) if self.placed[i].instruction.base == "CALL")
        return any(i not in self.jumps and self._callee(i) == _ASSERTION for i in calls)

    def program(self) -> Program:
        binary = self.binary
        accesses = {i: self._accesses(i) for i in self.result.addresses}
        accesses |= {i: self._texels(i) for i in range(len(self.placed)) if i not in accesses}
        instructions = tuple(
            self._instruction(i, accesses.get(i, ())) for i in range(len(self.placed))
        )
        blocks = self._blocks()
        loops = self._loops()
        if self.flow.irreducible:
            self.note("control flow that is no loop is taken to run once", None, "trip count")
        return Program(
            self.binary.arch,
            self.symbols,
            instructions,
            blocks,
            self.flow.order,
            loops,
            self.parameters,
            self.binary.code_bytes,
            tuple(self.assumptions),
            {
                loaded_name(index, word): addresses[0]
                for index, addresses in self.result.addresses.items()
                for word in range(_WORDS)
            },
            {self.variables[v.offset]: v.size for v in binary.variables if v.size},
            frozenset(
                self.variables[v.offset] for v in binary.variables if v.name.startswith(_TABLES)
            ),
        )

    def note(self, text: str, span: SourceSpan | None = None, stands_for: str = "") -> Assumption:
        """Add an assumption once; ``stands_for``: one of :data:`~perfassert.source.STAND_INS`."""
        assumption = Assumption(text, span, stands_for)
        self.assumptions[assumption] = None
        return assumption

    # Instructions

    def _instruction(self, index: int, accesses: tuple[MemoryAccess, ...]) -> ProgramInstruction:
        placed = self.placed[index]
        i, control = placed.instruction, placed.instruction.control
        operation = operation_class(i.opcode, self.binary.arch)
        rests_on: tuple[Assumption, ...] = ()
        if operation is None:
            text = f"opcode {i.base} is unknown; taken for class {UNKNOWN}"
            rests_on = (self.note(text, i.span, "opcode"),)
            operation = UNKNOWN
        elif is_unsourced(i.opcode, self.binary.arch):
            text = f"what {i.base} takes is not known; taken for class {operation}"
            rests_on = (self.note(text, i.span, "opcode"),)
        roles = roles_of(placed, self.binary.arch)
        if Role.CALLS in roles and index not in self.jumps:
            rests_on += self._note_call(index)
        values = self.result.addresses.get(index, ())
        variant = matrix_variant(i) or described_variant(i, self._descriptor(index))
        if roles.issuperset((Role.HOLDS_WARP, Role.ORDERS_MEMORY)):
            self.note(f"what {i.base} takes is not known; a round trip to the L2 is taken", i.span)
        return ProgramInstruction(
            index, variant.name if variant else operation, i.opcode, i.text, i.span, i.inlined,
            _function_name(placed.routine),
            control.stall,
            control.write_barrier if control.write_barrier != NO_BARRIER else -1,
            control.read_barrier if control.read_barrier != NO_BARRIER else -1,
            control.waits(),
            self._register_names(self.code.instruction(index).written_registers()),
            self._register_names(self.code.instruction(index).read_registers()),
            self._guard(index),
            accesses,
            fence=i.base == "BAR" and "ARV" not in i.modifiers,
            address=i.address,
            predicate=_predicate(i),
            rests_on=rests_on,
            roles=roles,
            counted=counted_waits(i) if Role.WAITS_FOR_COUNTS in roles else (),
            closes=closes_group(i),
            meets=barrier_use(i, values, self.symbols),
            bulk=self._bulk(index),
            sleeps=next(iter(values), None) if Role.SLEEPS in roles else None,
            call=placed.calls[-1] if placed.calls else -1,
        )  # fmt: skip

    def _note_call(self, index: int) -> tuple[Assumption, ...]:
        """Note that a call is not followed or, for an assertion's, that the assertion holds."""
        name, span = self._callee(index), self.placed[index].instruction.span
        if name == _ASSERTION:
            self.note("assertions are taken to hold", None)
            return ()
        what = f"{name}()" if name else "a function that the code does not name"
        return (
            self.note(
                f"a call of {what} is not followed: what it takes is not known", span, "call"
            ),
        )

    def _callee(self, index: int) -> str:
        """Return the name of the called function: a label, or the function of the driver whose
        address was loaded: ``MOV R2, 0x38``, ``LDC.64 R2, c[0x4][R2]``, ``CALL.ABS.NOINC R2``."""
        operands = self.placed[index].instruction.operands
        registers = {o.name for o in operands if o.kind == "register"}
        if not registers:
            named = (o.name.rpartition("$")[2] for o in operands if o.kind == "target")
            return demangle(next(named, "")).partition("(")[0]
        for placed in reversed(self.placed[max(index - _NEAR_CALL, 0) : index]):
            if not placed.instruction.operands:
                continue
            first, *rest = placed.instruction.operands
            if first.name not in registers:
                continue
            registers.remove(first.name)
            for operand in chain.from_iterable((o, *o.parts) for o in rest):
                registers.update({operand.name} if operand.kind == "register" else ())
                if operand.kind in ("number", "constant") and operand.value in self.functions:
                    return self.functions[operand.value]
        return ""

    def _register_names(self, registers: Iterable[int]) -> tuple[str, ...]:
        """Return the names of the hardware's registers and predicates, without temporaries."""
        names = self.code.machine.names
        return tuple(names[r] for r in registers if r in names)

    def _guard(self, index: int) -> Expression | None:
        """Return the lanes with an effect, or None; a matrix has as many rows as addresses."""
        if index in self.jumps:
            return None
        guard, s = self.result.predicates.get(index), self.symbols
        rows = [asked.detail[0] for asked in self.code.instruction(index).inputs if asked.detail]
        if not rows or rows[0] == WARP_LANES:
            return guard
        in_rows = s.compare("<", s.variable("laneid"), s.number(rows[0]))
        return in_rows if guard is None else s.logical_and(guard, in_rows)

    def _descriptor(self, index: int) -> int | None:
        """Return the shape descriptor of a ``tcgen05.mma`` if all threads have the same one."""
        values = self.result.addresses.get(index, ())
        here = values if descriptor_operands(self.placed[index].instruction) else ()
        return here[0].constant if here else None

    def _bulk(self, index: int) -> BulkCopy | None:
        """A bulk copy, of bytes with the field that their pointer belongs to."""
        i = self.placed[index].instruction
        values = self.result.addresses.get(index, ())[len(barrier_operands(i)) :]
        copy = bulk_copy(i, values) if copy_operands(i) else None
        if copy is None:
            return None
        placed = (copy.address, *copy.coordinates)
        unresolved = next((reason for v in placed if (reason := self.why_unresolved(v))), "")
        if copy.coordinates:
            return replace(copy, tensor=self._map_of(copy.address), unresolved=unresolved)
        access = self.access(i.text, MemoryOperand(Space.GLOBAL, 0), Kind.LOAD, copy.address)
        return replace(
            copy, address=access.address, field=access.field, unresolved=access.unresolved
        )

    def _map_of(self, address: Expression) -> Argument | None:
        """Return the parameter in which a tensor map lies; None for a map elsewhere."""
        at = self.symbols.sub(address, self.symbols.variable(PARAMETERS)).constant
        for position, p in enumerate(self.binary.parameters):
            if at is not None and p.offset <= at < p.offset + p.size:
                return Argument(position, at - p.offset)
        return None

    def _load_names(self) -> dict[str, tuple[str, SourceSpan | None]]:
        """Return the field and place that each loaded unknown comes from, by its atom's name."""
        names = {}
        for index, addresses in self.result.addresses.items():
            instruction = self.placed[index].instruction
            field, _ = self._base(addresses[0])
            where = field or instruction.base
            for word in range(_WORDS):
                names[loaded_name(index, word)] = (where, instruction.span)
        return names

    def _accesses(self, index: int) -> tuple[MemoryAccess, ...]:
        """Return the accesses of an instruction's memory operations."""
        text, inputs = self.placed[index].instruction.text, self.code.instruction(index).inputs
        return tuple(
            self.access(text, operation.memory, operation.kind, address)
            for operation, address in zip(inputs, self.result.addresses[index], strict=True)
            if operation.memory is not None and operation.memory.bytes
        )

    def _texels(self, index: int) -> tuple[MemoryAccess, ...]:
        instruction = self.placed[index].instruction
        texture = texel(instruction)
        if texture is None:
            return ()
        field, direction, width = texture
        text = f"the layout of a {field} is not known: threads are taken to touch {width} B each, "
        guess = self.note(text + "side by side", instruction.span, "layout")
        address = place_of_thread(self.symbols, width)
        return (
            MemoryAccess(field, "global", direction, width, address,
                         text=instruction.text, rests_on=(guess,)),
        )  # fmt: skip

    def access(
        self, text: str, memory: MemoryOperand, kind: Kind, address: Expression
    ) -> MemoryAccess:
        """Return the access of a memory operation, its address split into field and distance."""
        space = _SPACES[memory.space]
        field, rest = self._base(address) if space == "global" else (space, address)
        inside = self._of_others(address)
        if inside is not None:
            field, space, rest = CLUSTER, "shared", inside
        unresolved = self.why_unresolved(rest)
        if not field:
            field = f"pointer in {self._pointer(address)}"
            unresolved = unresolved or "the pointer is no parameter"
        atomic = kind is Kind.ATOMIC
        stores = kind is Kind.STORE or (atomic and not memory.returned)
        return MemoryAccess(
            field, space, Direction.STORE if stores else Direction.LOAD, memory.bytes,
            rest, atomic, unresolved, text, memory.merged, memory.turn,
        )  # fmt: skip

    def _of_others(self, address: Expression) -> Expression | None:
        """Return the address within another block's shared memory; None for any other address."""
        s = self.symbols
        inside = s.sub(address, s.unknown(CLUSTER))
        mapped = [any(a.name == CLUSTER for a in s.unknowns(v)) for v in (address, inside)]
        return inside if mapped == [True, False] else None

    def _base(self, address: Expression) -> tuple[str, Expression]:
        """Return the field of the pointer that the address starts from, and the distance."""
        s, arguments = self.symbols, []
        for monomial, coefficient in address.terms:
            if len(monomial) == 1 and coefficient == 1:
                name = s.atoms[monomial[0]].name
                if isinstance(name, Argument) and self._may_point(monomial[0], name):
                    arguments.append(name)
                elif isinstance(name, GlobalVariable):
                    field = self.variables.get(name.slot, str(name))
                    return field, s.sub(address, s.variable(name))
        declared = [name for name in arguments if self._member(name).pointer]
        pointers = declared if len(declared) == 1 else arguments
        if len(pointers) == 1:
            return self._member(pointers[0]).name, self._from(pointers[0], address)
        pointer = self._constant_pointer(address)
        return ("", address) if pointer is None else (str(pointer), self._from(pointer, address))

    def _from(self, name: Argument | ConstantWord, address: Expression) -> Expression:
        """Return the distance from a pointer, whose words may have been read one by one."""
        s, pointer = self.symbols, self.symbols.variable(name)
        upper = s.variable(replace(name, offset=name.offset + 4))
        rest = s.scale(s.sub(upper, self.code.words.high(pointer)), WORD)
        distance = s.sub(address, pointer)
        return s.sub(distance, rest) if upper.atoms <= distance.atoms else distance

    def _constant_pointer(self, address: Expression) -> ConstantWord | None:
        """Return the only pointer in constant memory that the address starts from, else None."""
        names = [self.symbols.atoms[m[0]].name for m, c in address.terms if len(m) == 1 and c == 1]
        words = [name for name in names if isinstance(name, ConstantWord)]
        return words[0] if len(words) == 1 else None

    def _may_point(self, atom: int, name: Argument) -> bool:
        """Return True if a parameter, or what lies in one, is a number of 64 bits that may be a
        pointer. In a structure of unknown layout, any word at a place for a pointer may be half of
        one."""
        parameter = self.parameters[name.position]
        open_layout = parameter.size > POINTER_BYTES and not parameter.members
        placed = open_layout and name.offset % POINTER_BYTES == 0
        return placed or self._member(name).pointer or atom in self.code.words.wide

    def _member(self, name: Argument) -> Member:
        """The parameter, or what lies at a byte of it; its name is that of a field."""
        parameter, offset = self.parameters[name.position], name.offset
        known = next((m for m in parameter.members if m.offset == offset), None)
        pointer = parameter.pointer and not offset if known is None else known.pointer
        return Member(parameter.at(offset), offset, parameter.size, pointer)

    def _pointer(self, address: Expression) -> str:
        for atom in self.symbols.unknowns(address):
            if atom.name in self.loads:
                return self.loads[atom.name][0]
        return "memory"

    def why_unresolved(self, value: Expression) -> str:
        """Return the reason why a value has no closed form; empty if it has one."""
        for atom in self.symbols.unknowns(value):
            if atom.name in self.loads:
                where, span = self.loads[atom.name]
                place = f" at {span}" if span else ""
                return f"depends on data loaded from {where}{place}"
            cause = self.code.cause_of(atom)
            return f"depends on {cause}" if cause else "has no closed form"
        return ""

    # Blocks and loops

    def _blocks(self) -> dict[int, ProgramBlock]:
        if never := self.result.never:
            count = sum(self.flow.blocks[b].stop - self.flow.blocks[b].start for b in never)
            self.note(f"slow paths of division and special functions are taken never to be "
                      f"executed: {count / len(self.placed):.0%} of the instructions")  # fmt: skip
        return {
            b.index: ProgramBlock(
                b.index, b.start, b.stop, b.loop, self.result.conditions[b.index],
                "slow path" if b.index in never else "",
                tuple(e.target for e in b.edges if e.target in self.result.conditions),
            )
            for b in self.flow.blocks.values()
            if b.index in self.result.conditions
        }  # fmt: skip

    def _loops(self) -> tuple[ProgramLoop, ...]:
        """Return the loops with their names; copies of one are numbered in code order."""
        natural = self.flow.loops
        spans = [loop_span(x, self.flow, self.placed, self.binary.files) for x in natural]
        order = sorted(range(len(natural)), key=lambda i: natural[i].header)
        names = dict(zip(order, loop_names([spans[i] for i in order]), strict=True))
        return tuple(self._loop(i, spans[i], names[i]) for i in range(len(natural)))

    def _loop(self, index: int, span: SourceSpan | None, name: str) -> ProgramLoop:
        result = self.result.loops.get(index)
        natural = self.flow.loops[index]
        if result is None:
            return ProgramLoop(
                index, natural.parent, natural.header, natural.blocks, self.symbols.one, None,
                "never reached", None, span, name,
            )  # fmt: skip
        if any(
            o.memory is not None and o.memory.merged and o.memory.combine is Combining.COMPARE_SWAP
            for b in natural.blocks
            for i in range(self.flow.blocks[b].start, self.flow.blocks[b].stop)
            for o in self.code.instruction(i).inputs
        ):
            result.trips, result.reason = self.symbols.one, "a retry that is taken not to happen"
        return ProgramLoop(
            index, natural.parent, natural.header, natural.blocks, result.entry, result.trips,
            result.reason, result.last, span, name,
        )  # fmt: skip


def _function_name(label: str) -> str:
    """The name that its author has given to ``"$kernel$_Z3mixff"``: ``"mix(float, float)"``."""
    return demangle(label.rpartition("$")[2])


def _predicate(instruction: Instruction) -> str:
    """The guard as it is written; ``"!PT"`` for an instruction that never has an effect."""
    if instruction.guard is None:
        return ""
    name, negated = instruction.guard
    if name[-1] == "T" and not negated:
        return ""
    return f"!{name}" if negated else name
