"""Kinds of kernels that a place in a grid of one to three dimensions leads through."""

from .expressions import (
    INT,
    LONG,
    SIZE,
    UNSIGNED,
    Call,
    Cast,
    Choice,
    Element,
    Function,
    Literal,
    Logical,
    Type,
    Variable,
    all_of,
)
from .program import Declare, If, Load, Store, Target


class _Stencil:
    """The choices of a stencil before its loads: sizes, strides, and treatment of borders."""

    def __init__(self, draw):
        self.draw = draw
        self.dimensions = draw.between(1, 3)
        draw.launch(self.dimensions)
        self.halo = draw.between(1, 2)
        self.border = draw.pick(["guard", "guard", "shift", "clamp", "where"])
        sizes = self._sizes()
        strides = self._strides(sizes)
        signed = draw.pick([INT, LONG, Type("long long", 64, True)])
        draw.index = signed if draw.chance(0.85) else draw.index
        self.first = draw.places(self.dimensions)
        if self.border == "shift":  # the coordinate starts at the first place with all neighbours
            self.first = [draw.declared("c", Literal(self.halo) + c) for c in self.first]
        named = draw.chance(0.75)
        self.size = [draw.number("n", n) for n in sizes]
        self.step = [
            Literal(s) if s == 1 and named else draw.number("s", s) for s in strides
        ]  # fmt: skip

    def _sizes(self):
        """Return the sizes of the field, or of the part with all neighbours and the halo around
        it."""
        draw, block = self.draw, self.draw.kernel.block
        own = [
            max(2 * self.halo + 1, draw.extent(a) - draw.between(0, block[a] - 1))
            for a in range(self.dimensions)
        ]
        return [n + 2 * self.halo for n in own] if self.border == "shift" else own

    def _strides(self, sizes):
        draw = self.draw
        stride = draw.between(1, 2) if draw.chance(0.15) else 1
        strides = []
        for size in sizes:
            strides.append(stride)
            stride *= size
            stride += draw.pick([0, 0, 1, 2, 32 - stride % 32])
        if draw.chance(0.15):
            strides[-1] *= draw.pick([1024, 100_003])
        if self.dimensions > 1 and draw.chance(0.15):
            draw.random.shuffle(strides)
        return strides

    def offsets(self):
        """Draw the offsets of the neighbours: a star, or some of a box."""
        draw, halo, axes = self.draw, self.halo, range(self.dimensions)
        star = draw.chance(0.7)
        found = [(0,) * self.dimensions]
        for axis in axes:
            for d in range(1, halo + 1):
                for sign in (-1, 1):
                    found.append(tuple(sign * d if i == axis else 0 for i in axes))
        if not star:
            found += [tuple(draw.between(-halo, halo) for _ in axes) for _ in range(3)]
        return draw.random.sample(found, max(1, len(found) // 2)) if draw.chance(0.3) else found

    def index(self, coordinates):
        total = None
        for c, s in zip(coordinates, self.step, strict=True):
            term = c if isinstance(s, Literal) and s.number == 1 else c * s
            total = term if total is None else total + term
        return total

    def neighbour(self, axis, d):
        """A coordinate that is ``d`` further on, or at the border."""
        moved = shifted(self.first[axis], d)
        if self.border == "clamp" and d:
            return self.draw.clamped(moved, Literal(0), self.size[axis] - 1)
        return moved

    def inside(self, offset):
        """Return the condition that a neighbour lies in the field, if the code checks each of
        them."""
        tests = [
            self.first[x] + d < self.size[x] if d > 0 else self.first[x] >= -d
            for x, d in enumerate(offset)
            if d
        ]
        return all_of(tests) if tests and self.border == "where" else None

    def guarded(self, inner):
        pairs = list(zip(self.first, self.size, strict=True))
        if self.border == "guard":
            low = [Logical("&&", c >= self.halo, c < n - self.halo) for c, n in pairs]
            return [If(all_of(low), inner)]
        margin = self.halo if self.border == "shift" else 0
        return self.draw.guard([(c, n - margin if margin else n) for c, n in pairs], inner)


def shifted(place, d):
    """``place + 2``, ``place - 1``, ``place``."""
    return place if not d else place + Literal(d) if d > 0 else place - Literal(-d)


def stencil(draw):
    """A sum of neighbours in one to three dimensions, borders left out, guarded or clamped."""
    own = _Stencil(draw)
    a = draw.field("a")
    out = draw.field("out", written=True)
    offsets = own.offsets()
    centre = own.index(own.first)
    flat = own.border in ("guard", "shift") and draw.chance(0.4)
    inner = []
    if flat:  # offsets are added to one index
        base = Declare(draw.new("centre"), draw.index, centre)
        inner.append(base)
        centre = base.variable
    for offset in offsets:
        if flat:
            place = centre
            for d, s in zip(offset, own.step, strict=True):
                if d:
                    place = place + s * d if d > 0 else place - s * -d
        else:
            place = own.index([own.neighbour(axis, d) for axis, d in enumerate(offset)])
        inner.append(draw.load(a, place, where=None if flat else own.inside(offset)))
    inner.append(draw.store(out, centre))
    return draw.finish(own.guarded(inner))


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
        for c, s, d in zip(coordinates, strides, offsets, strict=False):
            term = shifted(c, d) * s
            total = term if total is None else total + term
        return total

    offsets = [
        (0, 0, 0),
        *((d if i == x else 0 for i in range(3)) for x in range(3) for d in (-1, 1)),
    ]
    inner = [Load(Target(a, at(list(o)))) for o in offsets]
    inner.append(Store(Target(out, at((0, 0, 0)))))
    kernel.restrict = draw.chance(0.8)
    return draw.finish(
        [If(all_of([c < e for c, e in zip(coordinates, ends, strict=False)]), inner)]
    )


def numba(draw):
    """64-bit indices, each of which wraps around where it is negative, and shapes as arguments."""
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
        for c, n, s in zip(coordinates, sizes, strides, strict=False):
            wrapped = Choice(c < 0, c + n, c)
            total = wrapped * s if total is None else wrapped * s + total
        return total

    a, out = draw.field("a"), draw.field("out", written=True)
    inner = [draw.load(a, at(places))]
    for _ in range(draw.between(0, 3)):
        moved = [p - draw.between(0, 2) for p in places]
        inner.append(draw.load(a, at(moved)))
    inner.append(draw.store(out, at(places)))
    return draw.finish(draw.guard(list(zip(places, sizes, strict=False)), inner))


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
    for c, s in zip(parameters, steps, strict=False):
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
    return draw.finish(draw.guard(list(zip(places, ends, strict=False)), inner))
