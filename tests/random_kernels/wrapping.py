"""Kinds of kernels whose integers wrap around, change sign or are cut to fewer bits.

Machine code does that in a fixed number of bits, closed forms in the integers: executed blocks
often contradict them. Every kernel here is valid CUDA without undefined behaviour.
"""

from .draw import NARROW
from .expressions import INT, LONG, SIZE, UNSIGNED, Cast, Extremum, Literal, Narrow
from .program import If


def _line(draw, index):
    """The thread's place in a line, and a factor of it."""
    draw.launch(1)
    draw.index = index
    return draw.declared("i", draw.place(0)), draw.pick([1, 2, 3, 5])


def _one_of_each(draw, i, index, condition=None):
    """A load at an index, where a condition holds, and a store at the thread's place."""
    load = draw.load(draw.field("a"), index)
    statement = load if condition is None else If(condition, [load])
    return draw.finish([statement, draw.store(draw.field("out", written=True), i)])


def remainder_in_loop(draw):
    """A remainder of signed numbers, by an argument, of a sum with the counter of a loop."""
    i, factor = _line(draw, draw.pick([INT, INT, LONG]))
    draw.numbers_as = "argument"
    modulus = draw.number("m", draw.between(5, 200), i.type)
    trips = draw.number("trips", draw.between(1, 20), i.type)
    a, out = draw.field("a"), draw.field("out", written=True)
    loop = draw.loop(
        trips, lambda k: [draw.load(a, (i + k * factor) % modulus)], type_=i.type,
        step=draw.pick([None, Literal(2), Literal(3)]),
    )  # fmt: skip
    return draw.finish([loop, draw.store(out, i)])


def wrapped_difference(draw):
    """A difference that wraps around below 0, then its remainder, quotient or upper bits."""
    i, factor = _line(draw, draw.pick([INT, UNSIGNED, LONG, SIZE]))
    difference = Cast(UNSIGNED, i * factor - Literal(draw.between(1, 200), i.type))
    how = draw.pick(["%", "/", ">>"])
    if how == ">>":
        index = difference >> draw.between(4, 20)
    elif how == "/":
        index = difference // draw.number("d", draw.between(7, 3000), UNSIGNED)
    else:
        index = difference % draw.number("m", draw.between(5, 200), UNSIGNED)
    return _one_of_each(draw, i, index)


def _narrow(draw, i, factor):
    """A product that is cut to one or two bytes, and what makes it no less than 0 if added."""
    name = draw.pick(NARROW)
    two_bytes = name.endswith("short")
    value = Narrow(name, i * (draw.between(300, 2000) if two_bytes else factor))
    return value, 0 if name.startswith("unsigned") else 1 << (15 if two_bytes else 7)


def narrow_product(draw):
    """A place that is a product of few bits, some of them with a sign."""
    i, factor = _line(draw, draw.pick([INT, UNSIGNED, LONG, SIZE]))
    value, first = _narrow(draw, i, factor)
    stride = draw.pick([1, 1, 3])
    return _one_of_each(draw, i, value * stride + stride * first)


def narrow_guard(draw):
    """A comparison of a product of few bits."""
    i, factor = _line(draw, draw.pick([INT, UNSIGNED, LONG]))
    value, _ = _narrow(draw, i, factor)
    return _one_of_each(draw, i, i, value < draw.number("m", draw.between(1, 200), INT))


def both_bounds_at_once(draw):
    """``(unsigned)(i - c) < m`` for ``c <= i && i < c + m``."""
    i, factor = _line(draw, draw.pick([LONG, LONG, SIZE, INT]))
    difference = i * factor - Literal(draw.between(1, 60), i.type)
    size = draw.number("m", draw.between(1, 400), draw.pick([UNSIGNED, i.type]))
    return _one_of_each(draw, i, i, Cast(UNSIGNED, difference) < size)


def mixed_clamps(draw):
    """Places held within bounds, of which some are signed and some are not."""
    i, _ = _line(draw, draw.pick([INT, UNSIGNED, LONG, SIZE]))
    size = draw.number("n", draw.between(5, 600), draw.pick([LONG, SIZE]))
    last, index = Cast(SIZE, size - 1), Literal(0, SIZE)
    far = Literal(draw.between(1, 60), i.type)
    for sign in draw.pick([(-1,), (1, -1), (-1, 1), (-1, -1)]):
        place = Cast(LONG, i + far if sign > 0 else i - far)
        if draw.chance(0.3):
            inside = Extremum("min", Cast(SIZE, Extremum("max", place, Literal(0, LONG))), last)
        else:
            inside = Extremum("max", Literal(0, SIZE), Extremum("min", last, Cast(SIZE, place)))
        index = index * draw.pick([1, 8]) + inside
    return _one_of_each(draw, i, index)


KINDS = {
    remainder_in_loop: 1, wrapped_difference: 1, narrow_product: 1, narrow_guard: 1,
    both_bounds_at_once: 1, mixed_clamps: 1,
}  # fmt: skip
