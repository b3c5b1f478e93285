"""A lattice-Boltzmann step in three dimensions, nineteen directions, as pystencils' assignments."""

from itertools import product

import pystencils as ps
from sympy import Rational

OMEGA = Rational(9, 5)
WEIGHTS = (Rational(1, 3), Rational(1, 18), Rational(1, 36))
"""By how many axes a direction moves along."""
DIRECTIONS = [d for d in product((-1, 0, 1), repeat=3) if sum(map(abs, d)) <= 2]


def pull_and_relax(side):
    """Numbers that stream in are relaxed to their equilibrium, with one rate; floats."""
    extents = ",".join([str(side)] * 3)
    source, target = ps.fields(f"source(19), target(19): float32[{extents}]", layout="fzyx")

    def symbol(name):
        return ps.TypedSymbol(name, "float32")

    pulled = [symbol(f"f_{i}") for i in range(len(DIRECTIONS))]
    density, *velocity = map(symbol, ("density", "u_x", "u_y", "u_z"))
    steps = [
        ps.Assignment(f, source[tuple(-c for c in d)](i))
        for i, (f, d) in enumerate(zip(pulled, DIRECTIONS, strict=True))
    ]
    steps.append(ps.Assignment(density, sum(pulled)))
    for axis, u in enumerate(velocity):
        moving = sum(d[axis] * f for f, d in zip(pulled, DIRECTIONS, strict=True))
        steps.append(ps.Assignment(u, moving / density))
    square = sum(u**2 for u in velocity)
    for i, (f, d) in enumerate(zip(pulled, DIRECTIONS, strict=True)):
        along = sum(c * u for c, u in zip(d, velocity, strict=True))
        even = 1 + 3 * along + Rational(9, 2) * along**2 - Rational(3, 2) * square
        rest = WEIGHTS[sum(map(abs, d))] * density * even
        steps.append(ps.Assignment(target.center(i), (1 - OMEGA) * f + OMEGA * rest))
    return steps
