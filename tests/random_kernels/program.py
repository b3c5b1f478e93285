"""Statements, and kernels made of them: printed as CUDA C++, and run for all threads at once."""

import ctypes
from dataclasses import dataclass, field

import numpy as np

from .expressions import Binary, Expression, Literal, Rejected, State, Type, Variable, converted

_MOST_ITERATIONS = 600
_MOST_BYTES = 2**36  # of a buffer
PREAMBLE = """typedef long int64_t;
typedef unsigned long uint64_t;
typedef int int32_t;
typedef unsigned uint32_t;
"""


@dataclass(frozen=True)
class Item:
    """Type of a field's elements: its name in C, bytes, and the members of a vector."""

    name: str
    bytes: int
    members: str = ""


ITEMS = {
    i.name: i
    for i in (
        Item("unsigned char", 1), Item("short", 2), Item("float", 4), Item("int", 4),
        Item("double", 8), Item("long long", 8), Item("float2", 8, "xy"),
        Item("float4", 16, "xyzw"), Item("double2", 16, "xy"), Item("int4", 16, "xyzw"),
    )
}  # fmt: skip


@dataclass(frozen=True)
class Field:
    """A buffer behind a pointer; ``member``: of which structure it is a member."""

    name: str
    item: Item
    written: bool = False
    member: str = ""

    def __str__(self):
        return f"{self.member}.{self.name}" if self.member else self.name


@dataclass(frozen=True)
class Touch:
    """An execution of a memory instruction by all threads.

    ``addresses``: bytes from the buffer's start, of active threads; ``lap``: iteration of a loop
    over the grid.
    """

    field: str
    store: bool
    bytes: int
    addresses: np.ndarray
    active: np.ndarray
    place: int
    lap: int = 0


class Run:
    """The execution of a kernel: a :class:`State` and what it touched."""

    def __init__(self, kernel):
        self.kernel, self.touches, self.uneven, self.lap = kernel, [], set(), 0
        self.threads = kernel.threads
        self.warp = kernel.warps
        self.pointers, self.arrays = {}, set()
        values, tables = kernel.arguments()
        self.state = State({**values, **kernel.coordinates()}, tables, np.ones(self.threads, bool))

    def whole(self, values):
        return np.broadcast_to(values, (self.threads,))

    def touch(self, place, target, index, store, unit=0):
        if target.pointer and target.pointer not in self.pointers:
            raise Rejected(f"{target.pointer} is not declared")
        base = self.pointers[target.pointer] if target.pointer else 0
        size = target.field.item.bytes
        addresses = self.whole(index).astype(np.int64) * (unit or size) + base
        active = self.state.active
        used = addresses[active]
        if len(used) and (used.min() < 0 or used.max() + size > _MOST_BYTES):
            raise Rejected(f"{target.field} is accessed at bytes {used.min()} to {used.max()}")
        if np.any(used % size):
            raise Rejected(f"{target.field} is accessed at odd bytes")
        self.touches.append(
            Touch(str(target.field), store, size, addresses, active.copy(), place, self.lap)
        )


@dataclass(frozen=True)
class Target:
    """An element of a field: ``pointer`` is what is indexed, the field's own or one into it.

    ``style``: how that is written. ``byte``: the index counts bytes.
    """

    field: Field
    index: Expression
    pointer: str = ""
    style: str = "[]"
    byte: bool = False

    def __str__(self):
        pointer, name = self.pointer or str(self.field), self.field.item.name
        const = "" if self.field.written else "const "
        if self.byte:
            return f"*({const}{name}*)(({const}char*){pointer} + {self.index})"
        if self.style == "*":
            return f"*({pointer} + {self.index})"
        if self.style == "__ldg":
            return f"__ldg({pointer} + {self.index})"
        return f"{pointer}[{self.index}]"

    def touch(self, run, place, store):
        run.touch(place, self, self.index.evaluate(run.state), store, unit=self.byte)


class Statement:
    """``lines(indent)`` prints it, ``run(run)`` does what it says."""

    parts = ()


def printed(statements, indent):
    return [line for s in statements for line in s.lines(indent)]


def execute(statements, run):
    for statement in statements:
        statement.run(run)


def nested(statements):
    """Yield the statements, also those inside others."""
    for statement in statements:
        yield statement
        yield from nested(statement.parts)


class Declare(Statement):
    def __init__(self, name, type_, value):
        self.variable, self.value = Variable(name, type_), value

    def lines(self, indent):
        return [f"{indent}{self.variable.type.name} {self.variable} = {self.value};"]

    def run(self, run):
        value = converted(self.value.evaluate(run.state), self.variable.type)
        run.state.values[self.variable.name] = run.whole(value).copy()


class Assign(Statement):
    """``variable = value``, or ``variable += value`` with an operator."""

    def __init__(self, variable, value):
        self.variable, self.value = variable, value

    def lines(self, indent):
        return [f"{indent}{self.variable} = {self.value};"]

    def run(self, run):
        value = converted(self.value.evaluate(run.state), self.variable.type)
        old = self.variable.evaluate(run.state)
        run.state.values[self.variable.name] = np.where(run.state.active, value, old)


class Pointer(Statement):
    """``const float *row = a + y * pitch;``."""

    def __init__(self, name, target_field, offset):
        self.name, self.field, self.offset = name, target_field, offset

    def lines(self, indent):
        const = "" if self.field.written else "const "
        kind = f"{const}{self.field.item.name}"
        return [f"{indent}{kind} *{self.name} = {self.field} + {self.offset};"]

    def run(self, run):
        offset = run.whole(self.offset.evaluate(run.state)).astype(np.int64)
        run.pointers[self.name] = offset * self.field.item.bytes


class Load(Statement):
    """Adds what is loaded to ``into``; ``where``: only if that holds, else nothing."""

    def __init__(self, target, into="sum", form="+", where=None):
        self.target, self.into, self.form, self.where = target, into, form, where

    def lines(self, indent):
        item = self.target.field.item
        if item.members:
            parts = " + ".join(f"(float)v.{m}" for m in item.members)
            text = f"{{ {item.name} v = {self.target}; {self._into(f'({parts})')} }}"
            return [f"{indent}if ({self.where}) {text}" if self.where else f"{indent}{text}"]
        value = f"(float){self.target}"
        return [indent + self._into(f"({self.where} ? {value} : 1.0f)" if self.where else value)]

    def _into(self, value):
        by = {"+": f"{self.into} += {value};", "*": f"{self.into} = {self.into} * 0.5f + {value};",
              "max": f"{self.into} = fmaxf({self.into} + 1.0f, {value});"}  # fmt: skip
        return by[self.form]

    def run(self, run):
        before = run.state
        if self.where is not None:
            run.state = before.narrowed(self.where.evaluate(before))
        self.target.touch(run, id(self), store=False)
        run.state = before


class Store(Statement):
    """Writes ``what``; with ``update``, what was there is read first."""

    def __init__(self, target, what="sum", update=False):
        self.target, self.what, self.update = target, what, update

    def lines(self, indent):
        item = self.target.field.item
        if item.members:
            kind = {"float": "float", "double": "double", "int": "int"}[item.name[:-1]]
            parts = ", ".join(f"({kind})({self.what} + {n})" for n in range(len(item.members)))
            return [f"{indent}{self.target} = make_{item.name}({parts});"]
        operator = "+=" if self.update else "="
        return [f"{indent}{self.target} {operator} ({item.name}){self.what};"]

    def run(self, run):
        if self.update:
            self.target.touch(run, id(self), store=False)
        self.target.touch(run, id(self), store=True)


class If(Statement):
    def __init__(self, condition, parts):
        self.condition, self.parts = condition, parts

    def lines(self, indent):
        inner = printed(self.parts, indent + "    ")
        return [f"{indent}if ({self.condition}) {{", *inner, f"{indent}}}"]

    def run(self, run):
        before = run.state
        run.state = before.narrowed(self.condition.evaluate(before))
        execute(self.parts, run)
        run.state = before


class Return(Statement):
    """``if (condition) return;`` at the outermost level."""

    def __init__(self, condition):
        self.condition = condition

    def lines(self, indent):
        return [f"{indent}if ({self.condition}) return;"]

    def run(self, run):
        run.state = run.state.narrowed(~self.condition.evaluate(run.state))


class Break(Statement):
    """``if (condition) break;`` at the outermost level of a loop."""

    def __init__(self, condition):
        self.condition = condition

    def lines(self, indent):
        return [f"{indent}if ({self.condition}) break;"]

    def run(self, run):
        leaves = self.condition.evaluate(run.state)
        run.state = run.state.narrowed(~leaves)


class For(Statement):
    """``for (type name = start; condition; name += step)``; with ``operator`` another one than
    ``+``. ``unroll``: of the pragma, ``None`` without one, 0 without a number. ``over_grid``: an
    iteration is the width of the grid further on."""

    def __init__(
        self, name, type_, start, condition, step, parts, unroll=None, operator="+", over_grid=False
    ):
        self.variable = Variable(name, type_)
        self.start, self.condition, self.step = start, condition(self.variable), step
        self.operator, self.over_grid = operator, over_grid
        self.parts, self.unroll = parts(self.variable), unroll

    def lines(self, indent):
        pragma = "" if self.unroll is None else f"#pragma unroll {self.unroll or ''}".rstrip()
        own = self.variable
        step = f"++{own}" if self.step is None else f"{own} {self.operator}= {self.step}"
        head = f"for ({own.type.name} {own} = {self.start}; {self.condition}; {step}) {{"
        inner = printed(self.parts, indent + "    ")
        return [*([indent + pragma] if pragma else []), indent + head, *inner, f"{indent}}}"]

    def run(self, run):
        before, name = run.state, self.variable.name
        Declare(name, self.variable.type, self.start).run(run)
        run.state = before.narrowed(self._holds(run))
        step = Literal(1) if self.step is None else self.step
        advance = Binary(self.operator, self.variable, step)
        for _ in range(_MOST_ITERATIONS):
            if not run.state.active.any():
                break
            came = run.state.active
            run.lap += self.over_grid
            execute(self.parts, run)
            Assign(self.variable, advance).run(run)
            run.state = run.state.narrowed(self._holds(run))
            self._note_uneven(run, came)
        else:
            raise Rejected("a loop takes too long")
        run.state, run.lap = before, 0 if self.over_grid else run.lap

    def _holds(self, run):
        return run.whole(self.condition.evaluate(run.state))

    def _note_uneven(self, run, came):
        """Notes a loop that threads of one warp leave at different times."""
        stay = run.state.active
        leaves = np.bincount(run.warp, came & ~stay) > 0
        stays = np.bincount(run.warp, stay) > 0
        if np.any(leaves & stays):
            run.uneven.add(self)


class Synchronise(Statement):
    def lines(self, indent):
        return [f"{indent}__syncthreads();"]

    def run(self, run):
        counts = np.bincount(run.kernel.blocks_of, run.state.active)
        if np.any((counts > 0) & (counts < run.kernel.block_size)):
            raise Rejected("not all threads of a block come to a barrier")


class Shared(Statement):
    """An array in shared memory."""

    def __init__(self, name, size):
        self.name, self.size = name, size

    def lines(self, indent):
        return [f"{indent}__shared__ float {self.name}[{self.size}];"]

    def run(self, run):
        run.arrays.add(self.name)


class Exchange(Statement):
    """A load from shared memory or a store to it, which is only looked at for its bounds."""

    def __init__(self, array, index, store, into="sum"):
        self.array, self.index, self.store, self.into = array, index, store, into

    def lines(self, indent):
        place = f"{self.array.name}[{self.index}]"
        text = f"{place} = {self.into};" if self.store else f"{self.into} += {place};"
        return [indent + text]

    def run(self, run):
        if self.array.name not in run.arrays:
            raise Rejected(f"{self.array.name} is not declared")
        index = run.whole(self.index.evaluate(run.state)).astype(np.int64)
        run.state.check((index < 0) | (index >= self.array.size), "beyond shared memory")


class Text(Statement):
    """A statement on which no address depends."""

    def __init__(self, text):
        self.text = text

    def lines(self, indent):
        return [indent + self.text]

    def run(self, run):
        pass


@dataclass
class Structure:
    """An argument by value; members are (type or pointer's field, name, value or values)."""

    kind: str
    name: str
    members: list = field(default_factory=list)

    def definition(self):
        lines = [f"    {self._declared(*m)};" for m in self.members]
        return "\n".join([f"struct {self.kind} {{", *lines, "};\n"])

    def _declared(self, type_, name, value):
        if isinstance(type_, Field):
            const = "" if type_.written else "const "
            return f"{const}{type_.item.name} *{name}"
        size = f"[{len(value)}]" if isinstance(value, (list, tuple)) else ""
        return f"{type_.name} {name}{size}"

    @property
    def bytes(self):
        return ctypes.sizeof(self.packed())

    def packed(self):
        """Return the structure as ``ctypes.Structure``; pointers are null."""
        listed = []
        for type_, name, value in self.members:
            if isinstance(type_, Field):
                listed.append((name, ctypes.c_void_p))
                continue
            base = {4: (ctypes.c_uint32, ctypes.c_int32), 8: (ctypes.c_uint64, ctypes.c_int64)}
            kind = base[type_.bits // 8][type_.signed]
            listed.append((name, kind * len(value) if isinstance(value, (list, tuple)) else kind))
        made = type(self.kind, (ctypes.Structure,), {"_fields_": listed})()
        for type_, name, value in self.members:
            if isinstance(type_, Field):
                setattr(made, name, None)
            elif isinstance(value, (list, tuple)):
                getattr(made, name)[:] = list(value)
            else:
                setattr(made, name, value)
        return made

    def mapping(self):
        """Return the structure as a mapping by member, without pointers."""
        found = {}
        for type_, name, value in self.members:
            if not isinstance(type_, Field):
                many = isinstance(value, (list, tuple))
                found |= {f"{name}[{i}]": v for i, v in enumerate(value)} if many else {name: value}
        return found


@dataclass
class Kernel:
    """A kernel with the launch that it is predicted for.

    ``scalars``: (type, name, value) of arguments; ``constants``: the same of template parameters.
    """

    name: str
    kind: str
    grid: tuple
    block: tuple
    fields: list = field(default_factory=list)
    scalars: list = field(default_factory=list)
    constants: list = field(default_factory=list)
    structure: Structure | None = None
    functions: list = field(default_factory=list)
    body: list = field(default_factory=list)
    restrict: bool = True
    by_member: bool = False

    # The threads of the launch, block by block, x fastest

    @property
    def block_size(self):
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def blocks(self):
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def threads(self):
        return self.blocks * self.block_size

    @property
    def blocks_of(self):
        return np.arange(self.threads) // self.block_size

    @property
    def warps(self):
        """The number of each thread's warp in the launch."""
        each = -(-self.block_size // 32)
        return self.blocks_of * each + np.arange(self.threads) % self.block_size // 32

    def coordinates(self):
        found = {}
        number = {
            "blockIdx": self.blocks_of,
            "threadIdx": np.arange(self.threads) % self.block_size,
        }
        for name, lengths in (("blockIdx", self.grid), ("threadIdx", self.block)):
            left = number[name]
            for axis, length in zip("xyz", lengths, strict=True):
                found[f"{name}.{axis}"] = (left % length).astype(np.uint32)
                left = left // length
        for name, lengths in (("gridDim", self.grid), ("blockDim", self.block)):
            found |= {
                f"{name}.{a}": np.array(n, np.uint32) for a, n in zip("xyz", lengths, strict=False)
            }
        return found

    def arguments(self):
        """Values of all that is given by name, and tables."""
        values = {n: np.array(v, t.dtype) for t, n, v in (*self.scalars, *self.constants)}
        tables = {}
        for type_, name, value in self.structure.members if self.structure else ():
            if isinstance(type_, Type):
                into = tables if isinstance(value, (list, tuple)) else values
                into[f"{self.structure.name}.{name}"] = np.array(value, type_.dtype)
        return values, tables

    # Text

    def parameters(self):
        restrict = "__restrict__ " if self.restrict else ""
        listed = [
            f"{'' if f.written else 'const '}{f.item.name} *{restrict}{f.name}"
            for f in self.fields
            if not f.member
        ]
        if self.structure:
            listed.append(f"const {self.structure.kind} {self.structure.name}")
        return ", ".join([*listed, *(f"{t.name} {n}" for t, n, _ in self.scalars)])

    def body_lines(self):
        return printed(self.body, "    ")

    def source(self):
        head = f"__global__ void {self.name}({self.parameters()})"
        more = ""
        if self.constants:
            listed = ", ".join(f"{t.name} {n}" for t, n, _ in self.constants)
            more = f"template __global__ void {self.instance()}({self.parameters()});\n"
            head = f"template <{listed}>\n{head}"
        else:
            head = f'extern "C" {head}'
        start = "".join([self.structure.definition() if self.structure else "",
                         *map(str, self.functions)])  # fmt: skip
        return "\n".join([f"{start}{head} {{", *self.body_lines(), "}", more])

    def instance(self):
        """The name to ask for."""
        if not self.constants:
            return self.name
        return f"{self.name}<{', '.join(str(v) for _, _, v in self.constants)}>"

    def given(self):
        """Arguments of the launch, by name."""
        found = {name: value for _, name, value in self.scalars}
        if self.structure:
            packed = self.structure.mapping() if self.by_member else self.structure.packed()
            found[self.structure.name] = packed
        return found

    def run(self):
        """Run all threads and return their touches; raise :class:`Rejected` for an invalid
        kernel."""
        run = Run(self)
        with np.errstate(over="ignore"):
            execute(self.body, run)
        return run
