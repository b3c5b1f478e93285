"""Kinds of kernels that take an index apart, and put it together in another way."""

from .draw import NARROW
from .expressions import (
    INT,
    TYPES,
    UNSIGNED,
    Cast,
    Choice,
    Element,
    Extremum,
    Literal,
    MultiplyHigh,
    Narrow,
    Variable,
)
from .program import ITEMS, Assign, Break, Declare, For, If, Load, Store, Target, Text


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
    lane = draw.declared(
        "lane", draw.own("threadIdx", 0) & 31, draw.pick([INT, UNSIGNED, draw.index])
    )
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
                index = (index & Literal((1 << k) - 1)) | (
                    (index >> k) << Literal(k + draw.between(0, 2))
                )
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
    parts = [If(i < count, one()), Assign(i, i + draw.kernel.block[0])]
    again = draw.loop(Literal(per_thread), lambda _: parts, type_=INT, name="v")
    again.unroll = draw.pick([0, None])
    return draw.finish([again])


def _magic(divisor):
    """Multiplier and shift with ``(umulhi(n, multiplier) + n) >> shift == n / divisor``."""
    shift = next(s for s in range(32) if 1 << s >= divisor)
    return ((1 << 32) * ((1 << shift) - divisor)) // divisor + 1, shift


class _Indices:
    """Random expressions of ``leaves``, places and numbers."""

    def __init__(self, draw, leaves):
        self.draw, self.leaves = draw, leaves

    def index(self, depth, more=()):
        """Draw an index of at most ``depth`` levels, which may contain loop counters (``more``)."""
        draw = self.draw
        if depth == 0 or draw.chance(0.15):
            return draw.pick([*self.leaves, *more])
        left = self.index(depth - 1, more)
        how = draw.between(0, 10)
        constant = draw.pick([1, 2, 3, 4, 5, 8, 16, 32])
        if how in (0, 1, 2, 6, 7, 10):
            return self._of_two(how, left, self._name(how), self.index(depth - 1, more))
        if how in (3, 4, 5):
            return self._by_number(how, left, constant)
        if how == 8:
            if draw.chance(0.6):
                return Cast(draw.pick(TYPES), left)
            return Narrow(draw.pick(NARROW), left)
        return draw.pick([left << draw.between(0, 4), left >> draw.between(0, 3), left & 31])

    def _name(self, how):
        return self.draw.pick(["min", "max"]) if how == 6 else "min"

    def _of_two(self, how, left, extremum, right):
        if how <= 2:
            return left + right
        if how == 6:
            return Extremum(extremum, left, right)
        if how == 7:
            return Choice(left < right, left, self.draw.pick([right, *self.leaves]))
        return left - Extremum("min", left, right)

    def _by_number(self, how, left, constant):
        draw = self.draw
        if how == 3:
            return left * draw.pick([Literal(constant), draw.number("f", constant)])
        if how == 4:
            return left // draw.pick([Literal(constant), draw.number("d", constant)])
        return left % draw.pick([Literal(constant + 1), draw.number("d", constant + 1)])

    def load(self, field, more):
        """From a random place, some of them under a random condition."""
        load = self.draw.load(field, self.index(self.draw.between(1, 3), more))
        how = self.draw.between(0, 5)
        if how == 0:
            return If(self.index(1, more) < self.index(2, more), [load])
        if how == 1:
            load.where = self.index(1, more) >= self.index(1, more)
        return load


def mixture(draw):
    """Indices of everything at once: random expressions of places, numbers and loop counters."""
    dimensions = draw.between(1, 3)
    draw.launch(dimensions)
    places = draw.places(dimensions)
    sizes = [
        draw.number("n", max(1, draw.extent(a) - draw.between(0, 7))) for a in range(dimensions)
    ]
    fields = [draw.field("a") for _ in range(draw.between(1, 4))]
    out = draw.field("out", written=True)
    leaves = [*places, *places, draw.own("threadIdx", 0), draw.own("blockIdx", 0)]
    leaves += [draw.number("v", draw.between(1, 9)) for _ in range(2)]
    indices = _Indices(draw, leaves)
    inner = [indices.load(field, ()) for field in fields]
    if draw.chance(0.4):
        trips = draw.between(1, 9)
        bound = Literal(trips) if draw.chance(0.5) else draw.number("trips", trips)
        parts = lambda k: [indices.load(field, (k, k, k)) for field in fields]  # noqa: E731
        inner.append(draw.loop(bound, parts))
    index, stride = places[0], draw.extent(0)
    for axis in range(1, dimensions):
        index = index + places[axis] * stride
        stride *= draw.extent(axis)
    inner.append(draw.store(out, index))
    return draw.finish(draw.guard(list(zip(places, sizes, strict=True)), inner))
