"""Draws random kernels: ``generate(seed, number)`` is always the same one.

Each is of a kind that occurs in practice (:data:`KINDS`), with types, strides, guards, loops, items
and launch drawn at random. What turns out to be no valid kernel is drawn again.
"""

from random import Random

from . import oracle
from .expressions import (
    INT,
    LONG,
    SIZE,
    TYPES,
    UNSIGNED,
    Binary,
    Call,
    Cast,
    Choice,
    Element,
    Extremum,
    Function,
    Literal,
    Logical,
    MultiplyHigh,
    Rejected,
    Type,
    Variable,
    all_of,
)
from .program import (
    ITEMS,
    Assign,
    Break,
    Declare,
    Exchange,
    Field,
    For,
    If,
    Kernel,
    Load,
    Pointer,
    Return,
    Shared,
    Store,
    Structure,
    Synchronise,
    Target,
    Text,
)

_MOST_THREADS = 8192
_ATTEMPTS = 400
LINES = [(32,), (64,), (128,), (256,), (96,), (33,), (48,), (100,), (16,), (1,)]
PLANES = [(32, 4), (16, 16), (32, 8), (8, 8), (64, 2), (7, 5), (16, 4), (4, 32), (1, 64)]
CUBES = [(16, 2, 4), (8, 4, 4), (4, 4, 4), (32, 2, 2), (5, 3, 2), (1, 8, 16), (64, 1, 2)]
SCALARS = ["float", "float", "float", "double", "double", "int", "short", "unsigned char", "long long"]
VECTORS = ["float2", "float4", "double2", "int4"]


class Draw:
    """What all kinds draw from. ``kernel`` is what has been drawn so far."""

    def __init__(self, seed, number, attempt, kind):
        self.random = Random(f"{seed}/{number}/{attempt}/{kind}")
        self.kernel = Kernel(f"k{number}", kind, (1, 1, 1), (1, 1, 1))
        self.kernel.restrict = self.chance(0.6)
        self.names = 0
        self.numbers_as = self.pick(["argument", "argument", "constant", "member", "template", "any"])
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

    def loop(self, bound, parts, *, start=None, step=None, type_=None, name="i"):
        type_ = type_ or self.pick([INT, UNSIGNED, self.index])
        start = Literal(0) if start is None else start
        unroll = self.unroll()
        if unroll == 0 and not isinstance(bound, Literal):
            unroll = None
        return For(self.new(name), type_, start, lambda i: i < bound, step, parts, unroll)

    def finish(self, statements):
        self.kernel.body.extend(statements)
        return self.kernel


# Kinds


def stencil(draw):
    """A sum of neighbours in one to three dimensions, borders left out, guarded or clamped."""
    dimensions = draw.between(1, 3)
    draw.launch(dimensions)
    halo = draw.between(1, 2)
    border = draw.pick(["guard", "guard", "shift", "clamp", "where"])
    sizes = []
    for axis in range(dimensions):
        sizes.append(max(2 * halo + 1, draw.extent(axis) - draw.between(0, draw.kernel.block[axis] - 1)))
    if border == "shift":  # the coordinate starts at the first place with all neighbours
        sizes = [n + 2 * halo for n in sizes]
    stride = draw.between(1, 2) if draw.chance(0.15) else 1
    strides = []
    for axis in range(dimensions):
        strides.append(stride)
        stride *= sizes[axis]
        stride += draw.pick([0, 0, 1, 2, 32 - stride % 32])
    if draw.chance(0.15):
        strides[-1] *= draw.pick([1024, 100_003])
    if dimensions > 1 and draw.chance(0.15):
        draw.random.shuffle(strides)
    signed = draw.pick([INT, LONG, Type("long long", 64, True)])
    draw.index = signed if draw.chance(0.85) else draw.index
    first = draw.places(dimensions)
    if border == "shift":
        first = [draw.declared("c", Literal(halo) + c) for c in first]
    named = draw.chance(0.75)
    size = [draw.number("n", n) for n in sizes]
    step = []
    for axis, s in enumerate(strides):
        step.append(Literal(s) if s == 1 and named else draw.number("s", s))
    a = draw.field("a")
    out = draw.field("out", written=True)
    star = draw.chance(0.7)
    offsets = [(0,) * dimensions]
    for axis in range(dimensions):
        for d in range(1, halo + 1):
            for sign in (-1, 1):
                offsets.append(tuple(sign * d if i == axis else 0 for i in range(dimensions)))
    if not star:
        offsets += [tuple(draw.between(-halo, halo) for _ in range(dimensions)) for _ in range(3)]
    if draw.chance(0.3):
        offsets = draw.random.sample(offsets, max(1, len(offsets) // 2))

    def index(coordinates):
        total = None
        for c, s in zip(coordinates, step):
            term = c if isinstance(s, Literal) and s.number == 1 else c * s
            total = term if total is None else total + term
        return total

    def neighbour(axis, d):
        c = first[axis]
        if border == "clamp" and d:
            moved = c + Literal(d) if d > 0 else c - Literal(-d)
            return draw.clamped(moved, Literal(0), size[axis] - 1)
        return c if not d else c + Literal(d) if d > 0 else c - Literal(-d)

    centre = index(first)
    flat = border in ("guard", "shift") and draw.chance(0.4)
    inner = []
    if flat:
        base = Declare(draw.new("centre"), draw.index, centre)
        inner.append(base)
    for offset in offsets:
        where = None
        if flat:
            place = base.variable
            for d, s in zip(offset, step):
                if d:
                    place = place + s * d if d > 0 else place - s * -d
        else:
            place = index([neighbour(axis, d) for axis, d in enumerate(offset)])
            if border == "where":
                tests = [
                    first[x] + d < size[x] if d > 0 else first[x] >= -d
                    for x, d in enumerate(offset) if d
                ]  # fmt: skip
                where = all_of(tests) if tests else None
        inner.append(draw.load(a, place, where=where))
    inner.append(draw.store(out, base.variable if flat else index(first)))
    if border == "guard":
        low = [(Logical("&&", c >= halo, c < n - halo)) for c, n in zip(first, size)]
        return draw.finish([If(all_of(low), inner)])
    margin = halo if border == "shift" else 0
    return draw.finish(draw.guard([(c, n - margin if margin else n) for c, n in zip(first, size)], inner))


def wide_stencil(draw):
    """The stencil of code generators: 64-bit coordinates, strides as arguments, one offset each."""
    draw.launch(draw.between(2, 3))
    kernel = draw.kernel
    sizes = [draw.extent(a) - draw.between(0, 3) for a in range(3)]
    sizes = [max(1, n) for n in sizes]
    pitch = [1, sizes[0] + 2 + draw.between(0, 7)]
    pitch.append(pitch[1] * (sizes[1] + 2))
    draw.numbers_as = draw.pick(["argument", "argument", "member"])
    order = [0, 1, 2] if draw.chance(0.5) else [2, 1, 0]  # which coordinate is along z
    coordinates = []
    for axis in order:
        block, thread = draw.own("blockIdx", axis), draw.own("threadIdx", axis)
        own = Cast(LONG, block) * Cast(LONG, draw.own("blockDim", axis)) + Cast(LONG, thread)
        coordinates.append(draw.declared("c", Literal(1) + own, LONG))
    strides = [draw.number("s", pitch[a], LONG) for a in order]
    ends = [draw.number("e", sizes[a] + 1, LONG) for a in order]
    item = draw.pick(["float", "double"])
    a, out = draw.field("t", item), draw.field("u", item, written=True)

    def at(offsets):
        total = None
        for c, s, d in zip(coordinates, strides, offsets):
            term = (c + Literal(d) if d > 0 else c - Literal(-d) if d else c) * s
            total = term if total is None else total + term
        return total

    offsets = [(0, 0, 0), *((d if i == x else 0 for i in range(3)) for x in range(3) for d in (-1, 1))]
    inner = [Load(Target(a, at(list(o)))) for o in offsets]
    inner.append(Store(Target(out, at((0, 0, 0)))))
    kernel.restrict = draw.chance(0.8)
    return draw.finish([If(all_of([c < e for c, e in zip(coordinates, ends)]), inner)])


def rows_and_columns(draw):
    """An index taken apart by division and remainder, put together with other strides."""
    draw.launch(1)
    i = draw.declared("i", draw.place(0))
    n = draw.extent(0) - draw.between(0, draw.kernel.block[0] - 1)
    size = draw.number("n", max(1, n))
    parts, left = [], i
    for _ in range(draw.between(1, 3)):
        by = draw.pick([2, 3, 4, 7, 8, 10, 16, 31, 32, 33, 64, 100, 128])
        power = by & (by - 1) == 0
        if power and draw.chance(0.5):
            rest, more = left & Literal(by - 1), left >> Literal(by.bit_length() - 1)
        else:
            divisor = draw.number("d", by)
            rest = left % divisor if draw.chance(0.7) else left - left // divisor * divisor
            more = left // divisor
        parts.append((draw.declared("part", rest), by))
        left = draw.declared("rest", more)
    parts.append((left, 1))
    fields = [draw.field("a") for _ in range(draw.between(1, 3))]
    out = draw.field("out", written=True)
    inner = []
    for field in fields:
        order = list(parts)
        draw.random.shuffle(order)
        index, stride = None, draw.pick([1, 1, 2, 3])
        for part, by in order:
            term = part if stride == 1 else part * draw.number("s", stride)
            index = term if index is None else index + term
            stride *= max(by, 2) + draw.pick([0, 0, 1])
        if draw.chance(0.25):
            index = index + draw.number("first", draw.between(0, 40))
        inner.append(draw.load(field, index))
    inner.append(draw.store(out, i))
    return draw.finish(draw.guard([(i, size)], inner))


def bits(draw):
    """Shifts, masks and exclusive or, as in swizzled layouts."""
    draw.launch(draw.pick([1, 1, 2]))
    i = draw.declared("i", draw.place(0))
    lane = draw.declared("lane", draw.own("threadIdx", 0) & 31, draw.pick([INT, UNSIGNED, draw.index]))
    fields = [draw.field("a") for _ in range(draw.between(1, 3))]
    out = draw.field("out", written=True)
    inner = []
    for field in fields:
        index = i
        for _ in range(draw.between(1, 3)):
            k = draw.between(1, 4)
            how = draw.between(0, 6)
            if how == 0:
                index = index ^ draw.pick([Literal(draw.between(1, 31)), lane, lane >> 1])
            elif how == 1:
                index = (index & Literal((1 << k) - 1)) | ((index >> k) << Literal(k + draw.between(0, 2)))
            elif how == 2:
                index = index >> k
            elif how == 3:
                index = (index << k) + lane
            elif how == 4:
                index = index & draw.number("mask", draw.pick([31, 63, 127, 0xFF0, 1023, 0x5555]))
            elif how == 5:
                index = (index ^ (index >> k)) | 1
            else:
                index = (index & ~15 & 0xFFFF) + ((index + lane * draw.between(1, 3)) & 15)
        inner.append(draw.load(field, index))
    row = draw.own("blockIdx", 1) * draw.own("blockDim", 1) + draw.own("threadIdx", 1)
    place = i + row * draw.number("pitch", draw.extent(0) + draw.between(0, 3))
    inner.append(draw.store(out, place))
    size = draw.number("n", max(1, draw.extent(0) - draw.between(0, 20)))
    return draw.finish(draw.guard([(i, size)], inner))


def grid_stride(draw):
    """Loops over the grid, over elements or over rows and columns."""
    draw.launch(1)
    kernel = draw.kernel
    times = draw.between(1, 5)
    n = max(1, draw.extent(0) * times - draw.between(0, draw.extent(0)))
    size = draw.number("n", n)
    step = draw.own("gridDim", 0) * draw.own("blockDim", 0)
    if draw.chance(0.4):
        step = draw.declared("step", step)
    fields = [draw.field("a") for _ in range(draw.between(1, 3))]
    out = draw.field("out", written=True)
    pitch = draw.pick([1, 1, 2, 3])
    columns = draw.number("columns", draw.pick([16, 32, 33, 100]))
    far = draw.number("far", draw.between(0, 100))

    def parts(i):
        inner = [Text("sum = 0.0f;")]
        for field in fields:
            index = draw.pick([
                i, i * pitch, i + far, i // columns, i % columns, i % columns * 64 + i // columns,
                Extremum("min", i + 1, size - 1),
            ])  # fmt: skip
            inner.append(draw.load(field, index))
        return [*inner, draw.store(out, i)]

    if kernel.block_size * kernel.blocks * times > 16384:
        raise Rejected("too large")
    return draw.finish([draw.loop(size, parts, start=draw.place(0), step=step, type_=draw.index)])


def loops(draw):
    """Each thread loops, over constant and given bounds, with bounds that depend on its place."""
    draw.launch(draw.pick([1, 1, 2]))
    i = draw.declared("i", draw.place(0))
    size = max(1, draw.extent(0) - draw.between(0, 9))
    n = draw.number("n", size)
    trips = draw.between(1, 20)
    bound = Literal(trips) if draw.chance(0.4) else draw.number("trips", trips)
    fields = [draw.field("a") for _ in range(draw.between(1, 3))]
    out = draw.field("out", written=True)
    row = draw.own("blockIdx", 1) * draw.own("blockDim", 1) + draw.own("threadIdx", 1)
    shape = draw.pick(["rows", "columns", "both", "triangle", "skip", "nest", "while", "store"])
    m = draw.number("m", draw.pick([7, 16, 64, 100]))

    def index(k, field):
        return draw.pick([
            i * trips + k, k * n + i, (i + k * 3) % m, i + k, (k + row) * n + i, i // 4 * m + k,
        ])  # fmt: skip

    def body(k):
        inner = [draw.load(field, index(k, field)) for field in fields]
        if shape == "skip":
            test = (k & 1).equals(0) if draw.chance(0.5) else k + i < m + 20
            return [If(test, inner)]
        if shape == "nest":
            again = draw.between(1, 5)
            more = Literal(again) if draw.chance(0.5) else draw.number("again", again)
            return [*inner, draw.loop(more, lambda j: [
                draw.load(fields[0], i + k * m + j * draw.pick([1, 5, 32]))], name="j")]  # fmt: skip
        if shape == "store":
            return [*inner, draw.store(out, k * n + i if draw.chance(0.6) else i * trips + k)]
        return inner

    start, end, step = Literal(0), bound, None
    if shape == "triangle":
        end = draw.pick([
            Extremum("min", i + 1, bound), draw.own("threadIdx", 0) % 7 + 1, i % 5 + 1,
            draw.own("blockIdx", 0) % 4 + 1,
        ])  # fmt: skip
    elif shape == "columns":
        step = draw.pick([Literal(2), Literal(3), draw.number("step", 2)])
    elif shape == "rows" and draw.chance(0.3):
        start = draw.number("start", draw.between(0, 3))
    inner = [draw.loop(end, body, start=start, step=step)]
    if shape != "store":
        inner.append(draw.store(out, i + row * draw.number("pitch", draw.extent(0) + 5)))
    return draw.finish(draw.guard([(i, n)], inner))


def block_per_row(draw):
    """A block goes along a row in steps of its width."""
    draw.launch(1)
    columns = draw.between(1, 4) * draw.kernel.block[0] - draw.between(0, 20)
    width = draw.number("columns", max(1, columns))
    pitch = draw.number("pitch", max(1, columns) + draw.pick([0, 1, 16]))
    a, out = draw.field("a"), draw.field("out", written=True)
    b = draw.field("b") if draw.chance(0.5) else None
    row = draw.own("blockIdx", 0)
    if draw.chance(0.6):
        row = draw.declared("row", row)
    pointer = None
    if draw.chance(0.5):
        pointer = Pointer(draw.new("line"), a, row * pitch)
        draw.kernel.body.append(pointer)

    def parts(c):
        place = c if pointer else row * pitch + c
        inner = [draw.load(a, place, pointer.name if pointer else "")]
        if b:
            inner.append(draw.load(b, c))
        return [*inner, draw.store(out, row * pitch + c)]

    start = draw.own("threadIdx", 0)
    step = draw.own("blockDim", 0)
    if draw.chance(0.3):
        step = Literal(draw.kernel.block[0])
    return draw.finish([draw.loop(width, parts, start=start, step=step, name="c")])


def tiled(draw):
    """Tiles in shared memory: a product of matrices, a transposition, a line with halo."""
    shape = draw.pick(["product", "transpose", "line"])
    side = draw.pick([8, 16, 4, 32])
    kernel = draw.kernel
    x, y = draw.own("threadIdx", 0), draw.own("threadIdx", 1)
    if shape == "line":
        draw.launch(1)
        width = kernel.block[0]
        tile = Shared("tile", width + 2)
        i = draw.declared("i", draw.place(0))
        n = draw.number("n", draw.extent(0) - draw.between(0, width - 1))
        a, out = draw.field("a"), draw.field("out", written=True)
        t = draw.declared("t", x, INT)
        clear = Text("sum = 0.0f;")
        left, right = draw.load(a, i), draw.load(a, Extremum("max", i, Literal(1)) - 1)
        return draw.finish([
            tile, If(i < n, [left]), Exchange(tile, t + 1, True), clear,
            If(all_of([t.equals(0), i < n]), [right, Exchange(tile, Literal(0), True)]),
            Synchronise(), clear,
            If(i < n, [Exchange(tile, t, False), Exchange(tile, t + 1, False), draw.store(out, i)]),
        ])  # fmt: skip
    tiles = draw.between(1, 3)
    rows = side if shape == "product" or side < 8 else draw.pick([side, side // 4])
    kernel.block = (side, rows, 1)
    kernel.grid = (draw.between(1, 3), draw.between(1, 3), 1)
    tile = Shared("tile", side * (side + 1))
    column = draw.declared("column", draw.own("blockIdx", 0) * Literal(side) + x)
    row = draw.declared("row", draw.own("blockIdx", 1) * Literal(side) + y)
    if shape == "transpose":
        width, height = side * kernel.grid[0], side * kernel.grid[1]
        w, h = draw.number("w", width), draw.number("h", height)
        a, out = draw.field("a"), draw.field("out", written=True)
        inside = lambda j: [  # noqa: E731
            Text("sum = 0.0f;"), draw.load(a, (row + j) * w + column),
            Exchange(tile, (y + j) * (side + 1) + x, True),
        ]  # fmt: skip
        from_x = draw.declared("fx", draw.own("blockIdx", 1) * Literal(side) + x)
        from_y = draw.declared("fy", draw.own("blockIdx", 0) * Literal(side) + y)
        outside = lambda j: [  # noqa: E731
            Text("sum = 0.0f;"), Exchange(tile, x * (side + 1) + y + j, False),
            draw.store(out, (from_y + j) * h + from_x),
        ]  # fmt: skip
        step = Literal(rows)
        return draw.finish([
            tile, draw.loop(Literal(side), inside, step=step), Synchronise(),
            draw.loop(Literal(side), outside, step=step),
        ])  # fmt: skip
    other = Shared("other", side * (side + 1))
    inner = draw.number("inner", side * tiles)
    width = draw.number("width", side * kernel.grid[0])
    a, b, out = draw.field("a", "float"), draw.field("b", "float"), draw.field("out", written=True)
    one, two = Declare("unused", INT, Literal(0)), Text("float part = 0.0f, more = 0.0f;")

    def body(k):
        first = Load(Target(a, row * inner + (k * side + x)), into="part")
        second = Load(Target(b, (k * side + y) * width + column), into="more")
        add = draw.loop(Literal(side), lambda j: [
            Exchange(tile, y * (side + 1) + j, False), Exchange(other, j * (side + 1) + x, False),
        ], name="j")  # fmt: skip
        return [
            two, first, second, Exchange(tile, y * (side + 1) + x, True, "part"),
            Exchange(other, y * (side + 1) + x, True, "more"), Synchronise(), add, Synchronise(),
        ]  # fmt: skip

    count = Literal(tiles) if draw.chance(0.3) else inner // side
    return draw.finish([
        tile, other, one, draw.loop(count, body, type_=INT, name="k"),
        draw.store(out, row * width + column),
    ])  # fmt: skip


def numba(draw):
    """64-bit indices, each of which wraps around where it is negative, bounds by shape arguments."""
    dimensions = draw.between(1, 2)
    draw.launch(dimensions)
    draw.index, draw.numbers_as = LONG, "argument"
    places = [
        draw.declared("i", Cast(LONG, draw.own("blockIdx", a)) * draw.own("blockDim", a)
                      + draw.own("threadIdx", a)) for a in range(dimensions)
    ]  # fmt: skip
    shape = [max(1, draw.extent(a) - draw.between(0, 5)) for a in range(dimensions)]
    sizes = [draw.number("shape", n, LONG) for n in shape]
    pitch = [1, shape[0] + draw.pick([0, 3])]
    strides = [draw.number("stride", s, LONG) for s in pitch[:dimensions]]

    def at(coordinates):
        total = None
        for c, n, s in zip(coordinates, sizes, strides):
            wrapped = Choice(c < 0, c + n, c)
            total = wrapped * s if total is None else wrapped * s + total
        return total

    a, out = draw.field("a"), draw.field("out", written=True)
    inner = [draw.load(a, at(places))]
    for _ in range(draw.between(0, 3)):
        moved = [p - draw.between(0, 2) for p in places]
        inner.append(draw.load(a, at(moved)))
    inner.append(draw.store(out, at(places)))
    return draw.finish(draw.guard(list(zip(places, sizes)), inner))


def layout(draw):
    """Layouts and views as libraries have them: strides in a structure, an index by a function."""
    dimensions = draw.between(2, 3)
    draw.launch(dimensions)
    type_ = draw.pick([INT, LONG, SIZE, UNSIGNED])
    draw.index = draw.pick([type_, INT, UNSIGNED])
    shape = [draw.extent(a) for a in range(dimensions)]
    strides, stride = [], 1
    for n in shape:
        strides.append(stride)
        stride = (n + draw.pick([0, 0, 5])) * stride
    if draw.chance(0.5):
        draw.random.shuffle(strides)
    structure = draw.structure()
    pointers = draw.chance(0.5)
    tables = draw.chance(0.5)
    if tables:
        structure.members += [(type_, "extents", shape), (type_, "strides", strides)]
        ends = [Element("p.extents", Literal(x), type_) for x in range(dimensions)]
        steps = [Element("p.strides", Literal(x), type_) for x in range(dimensions)]
    else:
        structure.members += [(type_, f"n{x}", v) for x, v in enumerate(shape)]
        structure.members += [(type_, f"s{x}", v) for x, v in enumerate(strides)]
        ends = [Variable(f"p.n{x}", type_) for x in range(dimensions)]
        steps = [Variable(f"p.s{x}", type_) for x in range(dimensions)]
    parameters = tuple(Variable(f"c{x}", type_) for x in range(dimensions))
    body = None
    for c, s in zip(parameters, steps):
        body = c * s if body is None else body + c * s
    function = Function(
        f"at_{draw.kernel.name}", parameters, type_, body, f"const {structure.kind} &p", "p"
    )
    draw.kernel.functions.append(function)
    a = draw.field("a", member="p" if pointers else "")
    out = draw.field("out", written=True, member="p" if pointers else "")
    places = draw.places(dimensions)
    inner = [draw.load(a, Call(function, places))]
    if draw.chance(0.6):
        inner.append(draw.load(a, Call(function, [c // 2 for c in places])))
    if draw.chance(0.4):
        other = draw.field("b", member="p" if pointers else "")
        inner.append(draw.load(other, Call(function, [c & 7 for c in places])))
    inner.append(draw.store(out, Call(function, places)))
    return draw.finish(draw.guard(list(zip(places, ends)), inner))


def offset_calculator(draw):
    """PyTorch's TensorIterator: division by multiplier and shift, in a loop over dimensions."""
    draw.launch(1)
    dims = draw.between(1, 4)
    sizes = [draw.pick([2, 3, 5, 8, 16, 33, 64]) for _ in range(4)]
    total = 1
    for n in sizes[:dims]:
        total *= n
    total = min(total, draw.extent(0) * draw.between(1, 4))
    magic = [_magic(n) for n in sizes]
    item = draw.pick(["float", "double", "short"])
    scale = draw.pick([1, ITEMS[item].bytes])  # strides count items or bytes
    strides = []
    for tensor in range(2):
        stride, own = scale, []
        for n in sizes:
            own.append(stride if tensor == 0 or draw.chance(0.8) else 0)
            stride *= n
        if tensor == 1 and draw.chance(0.5):
            draw.random.shuffle(own)
        strides.append(own)
    structure = draw.structure()
    structure.members += [
        (INT, "dims", dims), (UNSIGNED, "sizes", sizes),
        (UNSIGNED, "multiplier", [m for m, _ in magic]), (UNSIGNED, "shift", [s for _, s in magic]),
        (UNSIGNED, "first", strides[0]), (UNSIGNED, "second", strides[1]),
    ]  # fmt: skip
    count = draw.number("count", total, draw.pick([INT, UNSIGNED]))
    out, a = draw.field("out", item, written=True), draw.field("a", item)
    linear = draw.declared("linear", Literal(0, UNSIGNED), UNSIGNED)
    to, of = draw.declared("to", Literal(0), UNSIGNED), draw.declared("of", Literal(0), UNSIGNED)
    quotient = Variable("quotient", UNSIGNED)
    rest = Variable("rest", UNSIGNED)

    def element(name, d):
        return Element(f"p.{name}", d, UNSIGNED)

    def step(d):
        high = MultiplyHigh(linear, element("multiplier", d))
        return [
            *([Break(d.equals(Variable("p.dims", INT)))] if unrolled else []),
            Declare("quotient", UNSIGNED, (high + linear) >> element("shift", d)),
            Declare("rest", UNSIGNED, linear - quotient * element("sizes", d)),
            Assign(linear, quotient),
            Assign(to, to + rest * element("first", d)),
            Assign(of, of + rest * element("second", d)),
        ]

    unrolled = draw.chance(0.7)
    bound = Literal(4) if unrolled else Variable("p.dims", INT)
    per_thread = draw.pick([1, 1, 2, 4])
    own = draw.place(0, INT)
    i = draw.declared("i", own if per_thread == 1 else
                      draw.own("blockIdx", 0) * (draw.kernel.block[0] * per_thread)
                      + draw.own("threadIdx", 0), INT)  # fmt: skip

    def one(_=None):
        loop = For(draw.new("d"), INT, Literal(0), lambda d: d < bound, None, step,
                   0 if unrolled else None)  # fmt: skip
        byte = scale != 1
        return [
            Assign(linear, i), Assign(to, Literal(0)), Assign(of, Literal(0)), Text("sum = 0.0f;"),
            loop, Load(Target(a, of, byte=byte)), Store(Target(out, to, byte=byte)),
        ]  # fmt: skip

    if per_thread == 1:
        return draw.finish(draw.guard([(i, count)], one()))
    again = draw.loop(Literal(per_thread), lambda _: [
        If(i < count, one()), Assign(i, i + draw.kernel.block[0])], type_=INT, name="v")  # fmt: skip
    again.unroll = draw.pick([0, None])
    return draw.finish([again])


def _magic(divisor):
    """Multiplier and shift with ``(umulhi(n, multiplier) + n) >> shift == n / divisor``."""
    shift = next(s for s in range(32) if 1 << s >= divisor)
    return ((1 << 32) * ((1 << shift) - divisor)) // divisor + 1, shift


def mixture(draw):
    """Indices of everything at once: random expressions of places, numbers and loop counters."""
    dimensions = draw.between(1, 3)
    draw.launch(dimensions)
    places = draw.places(dimensions)
    sizes = [draw.number("n", max(1, draw.extent(a) - draw.between(0, 7))) for a in range(dimensions)]
    fields = [draw.field("a") for _ in range(draw.between(1, 4))]
    out = draw.field("out", written=True)
    leaves = [*places, *places, draw.own("threadIdx", 0), draw.own("blockIdx", 0)]
    leaves += [draw.number("v", draw.between(1, 9)) for _ in range(2)]

    def random_index(depth, more=()):
        if depth == 0 or draw.chance(0.15):
            return draw.pick([*leaves, *more])
        left = random_index(depth - 1, more)
        how = draw.between(0, 10)
        constant = draw.pick([1, 2, 3, 4, 5, 8, 16, 32])
        if how <= 2:
            return left + random_index(depth - 1, more)
        if how == 3:
            return left * draw.pick([Literal(constant), draw.number("f", constant)])
        if how == 4:
            return left // draw.pick([Literal(constant), draw.number("d", constant)])
        if how == 5:
            return left % draw.pick([Literal(constant + 1), draw.number("d", constant + 1)])
        if how == 6:
            return Extremum(draw.pick(["min", "max"]), left, random_index(depth - 1, more))
        if how == 7:
            return Choice(left < random_index(depth - 1, more), left, random_index(depth - 1, more))
        if how == 8:
            return Cast(draw.pick(TYPES), left)
        if how == 9:
            return draw.pick([left << draw.between(0, 4), left >> draw.between(0, 3), left & 31])
        return left - Extremum("min", left, random_index(depth - 1, more))

    def loads(more=()):
        found = []
        for field in fields:
            load = draw.load(field, random_index(draw.between(1, 3), more))
            how = draw.between(0, 5)
            if how == 0:
                load = If(random_index(1, more) < random_index(2, more), [load])
            elif how == 1:
                load.where = random_index(1, more) >= random_index(1, more)
            found.append(load)
        return found

    inner = loads()
    if draw.chance(0.4):
        trips = draw.between(1, 9)
        bound = Literal(trips) if draw.chance(0.5) else draw.number("trips", trips)
        inner.append(draw.loop(bound, lambda k: loads((k, k, k))))
    index, stride = places[0], draw.extent(0)
    for axis in range(1, dimensions):
        index = index + places[axis] * stride
        stride *= draw.extent(axis)
    inner.append(draw.store(out, index))
    return draw.finish(draw.guard(list(zip(places, sizes)), inner))


KINDS = {
    stencil: 5, wide_stencil: 2, rows_and_columns: 4, bits: 3, grid_stride: 4, loops: 5,
    block_per_row: 2, tiled: 3, numba: 2, layout: 3, offset_calculator: 2, mixture: 6,
}  # fmt: skip


def generate(seed, number):
    """The kernel of that number, with the run of all of its threads."""
    kind = Random(f"{seed}/{number}").choices(list(KINDS), list(KINDS.values()))[0]
    for attempt in range(_ATTEMPTS):
        draw = Draw(seed, number, attempt, kind.__name__)
        try:
            kernel = kind(draw)
            kernel.body.insert(0, Text("float sum = 0.0f;"))
            run = kernel.run()
            oracle.check(kernel, run)
            oracle.keep_order(kernel, run)
            oracle.check_size(kernel, run)
        except Rejected:
            continue
        return kernel, run
    raise RuntimeError(f"no kernel {number} of seed {seed} in {_ATTEMPTS} attempts")


__all__ = ["KINDS", "Binary", "generate"]
