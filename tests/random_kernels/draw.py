"""Drawing of the parts that random kernels of every kind have."""

from random import Random

from .expressions import (
    INT,
    LONG,
    SIZE,
    TYPES,
    UNSIGNED,
    Cast,
    Choice,
    Extremum,
    Literal,
    Logical,
    Variable,
    all_of,
)
from .program import ITEMS, Declare, Field, For, If, Kernel, Load, Return, Store, Structure, Target

_MOST_THREADS = 8192
LINES = [(32,), (64,), (128,), (256,), (96,), (33,), (48,), (100,), (16,), (1,)]
PLANES = [(32, 4), (16, 16), (32, 8), (8, 8), (64, 2), (7, 5), (16, 4), (4, 32), (1, 64)]
CUBES = [(16, 2, 4), (8, 4, 4), (4, 4, 4), (32, 2, 2), (5, 3, 2), (1, 8, 16), (64, 1, 2)]
SCALARS = [
    "float",
    "float",
    "float",
    "double",
    "double",
    "int",
    "short",
    "unsigned char",
    "long long",
]
NARROW = ["unsigned char", "signed char", "short", "unsigned short"]
VECTORS = ["float2", "float4", "double2", "int4"]


class Draw:
    """Source of random choices for all kinds; ``kernel`` is what has been drawn so far."""

    def __init__(self, seed, number, attempt, kind):
        self.random = Random(f"{seed}/{number}/{attempt}/{kind}")
        self.kernel = Kernel(f"k{number}", kind, (1, 1, 1), (1, 1, 1))
        self.kernel.restrict = self.chance(0.6)
        self.names = 0
        self.numbers_as = self.pick(
            ["argument", "argument", "constant", "member", "template", "any"]
        )
        self.index = self.pick([INT, INT, UNSIGNED, LONG, LONG, SIZE, self.pick(TYPES)])

    def chance(self, probability):
        return self.random.random() < probability

    def pick(self, options):
        return self.random.choice(options)

    def between(self, low, high):
        return self.random.randint(low, high)

    def new(self, start):
        self.names += 1
        return f"{start}{self.names}"

    # Launch

    def launch(self, dimensions):
        block = self.pick({1: LINES, 2: PLANES, 3: CUBES}[dimensions])
        size = 1
        for n in block:
            size *= n
        most = min(_MOST_THREADS // size, 100 if dimensions == 1 else 64)
        grid = []
        for _ in range(dimensions):
            grid.append(self.between(1, max(1, min(most, 40 if dimensions == 1 else 5))))
            most //= grid[-1]
        self.kernel.block = (*block, 1, 1)[:3]
        self.kernel.grid = (*grid, 1, 1)[:3]

    def extent(self, axis):
        """Threads along an axis."""
        return self.kernel.grid[axis] * self.kernel.block[axis]

    # Numbers

    def number(self, name, value, type_=None):
        """A number that the kernel is given: as an argument, a member, a constant, …"""
        kernel = self.kernel
        how = self.numbers_as
        how = self.pick(["argument", "constant", "member", "template"]) if how == "any" else how
        type_ = type_ or self.pick([self.index, self.index, INT, self.pick(TYPES)])
        if not type_.signed and value < 0:
            type_ = INT
        name = self.new(name)
        if how == "constant":
            return Literal(value, self.pick([INT, type_]))
        if how == "template" and value >= 0:
            kernel.constants.append((type_, name, value))
            return Variable(name, type_)
        if how == "member":
            self.structure().members.append((type_, name, value))
            return Variable(f"{self.structure().name}.{name}", type_)
        kernel.scalars.append((type_, name, value))
        return Variable(name, type_)

    def structure(self):
        if self.kernel.structure is None:
            self.kernel.structure = Structure(f"Arguments{self.kernel.name}", "p")
        return self.kernel.structure

    def choose_packing(self):
        """Choose whether a structure is given as bytes or by member.

        Structures of eight bytes can only be given as bytes, and are rare.
        """
        structure = self.kernel.structure
        if structure is None:
            return
        if structure.bytes == 8 and len(structure.members) > 1 and self.chance(0.85):
            structure.members.append((INT, "more", 0))
        self.kernel.by_member = structure.bytes > 8 and self.chance(0.3)

    # Coordinates

    def own(self, name, axis):
        return Variable(f"{name}.{'xyz'[axis]}", UNSIGNED)

    def place(self, axis, type_=None):
        """The thread's place along an axis of the grid."""
        type_ = type_ or self.index
        block, thread = self.own("blockIdx", axis), self.own("threadIdx", axis)
        size = self.own("blockDim", axis)
        if self.chance(0.25):
            size = self.number("width", self.kernel.block[axis], self.pick([INT, UNSIGNED, type_]))
        how = self.between(0, 5)
        if how == 0 and type_.bits == 64:
            return Cast(type_, block) * Cast(type_, size) + Cast(type_, thread)
        if how == 1:
            return Cast(type_, block) * size + thread
        if how == 2:
            return thread + size * block
        if how == 3:
            return Cast(type_, block * size + thread)
        return block * size + thread

    def declared(self, name, value, type_=None):
        statement = Declare(self.new(name), type_ or self.index, value)
        self.kernel.body.append(statement)
        return statement.variable

    def places(self, dimensions):
        """The thread's place along every axis, in variables."""
        return [self.declared("xyz"[a], self.place(a)) for a in range(dimensions)]

    # Fields

    def field(self, name, item=None, written=False, member=""):
        items = VECTORS if self.chance(0.2) else SCALARS
        made = Field(self.new(name), ITEMS[item or self.pick(items)], written, member)
        self.kernel.fields.append(made)
        if member:
            self.structure().members.append((made, made.name, None))
        return made

    def target(self, field, index, pointer=""):
        style = self.pick(["[]", "[]", "[]", "*", "[]" if field.written else "__ldg"])
        if self.chance(0.06):
            return Target(field, index * Literal(field.item.bytes), pointer, byte=True)
        return Target(field, index, pointer, style)

    def load(self, field, index, pointer="", where=None):
        form = self.pick(["+", "+", "*", "max"])
        return Load(self.target(field, index, pointer), form=form, where=where)

    def store(self, field, index):
        update = not field.item.members and self.chance(0.25)
        return Store(self.target(field, index), update=update)

    # Conditions

    def below(self, place, size):
        how = self.between(0, 3)
        if how == 0:
            return size > place
        if how == 1 and place.type.signed:
            return Logical("&&", place >= 0, place < size)
        return place < size

    def guard(self, condition_pairs, inner):
        """Statements that run where places are below sizes: by an early return, or inside an if."""
        if self.chance(0.4):
            outside = [place >= size for place, size in condition_pairs]
            first, *others = outside
            if others and self.chance(0.5):
                return [*map(Return, outside), *inner]
            for other in others:
                first = Logical("||", first, other)
            return [Return(first), *inner]
        return [If(all_of([self.below(*pair) for pair in condition_pairs]), inner)]

    def clamped(self, place, low, high):
        """A place no less than ``low`` and no more than ``high``."""
        how = self.between(0, 2)
        if how == 0:
            return Extremum("min", Extremum("max", place, low), high)
        if how == 1:
            return Choice(place < low, low, Choice(place > high, high, place))
        return Extremum("max", low, Extremum("min", high, place))

    def unroll(self):
        return self.pick([None, None, None, 0, 1, 2, 4, 3])

    def loop(self, bound, parts, *, start=None, step=None, type_=None, name="i", **more):
        type_ = type_ or self.pick([INT, UNSIGNED, self.index])
        start = Literal(0) if start is None else start
        unroll = self.unroll()
        if unroll == 0 and not isinstance(bound, Literal):
            unroll = None
        return For(
            self.new(name), type_, start, lambda i: i < bound, step, parts, unroll, **more
        )  # fmt: skip

    def finish(self, statements):
        self.kernel.body.extend(statements)
        return self.kernel
