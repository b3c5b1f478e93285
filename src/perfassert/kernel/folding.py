"""Thread folding: a thread makes several neighbouring updates (Warpspeed §5.4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import NoReturn

from perfassert.errors import KernelError
from perfassert.kernel.access import Access
from perfassert.kernel.affine import bind
from perfassert.kernel.description import AccessKernel
from perfassert.kernel.expression import (
    AXES,
    COORDINATES,
    BinaryOperation,
    Constant,
    ExpressionTree,
    Variable,
    variables,
)

_MAX_UPDATES = 2**12
"""Most updates of a thread; each adds its accesses to the description."""


def fold_kernel(
    kernel: AccessKernel, fold: Sequence[int], names: Mapping[str, int] | None = None
) -> AccessKernel:
    """Return the kernel whose threads make ``fold`` = (x, y, z) neighbouring updates each.

    An element that several updates of a thread load is loaded once. The registers do not change.
    ``names``: values of the arguments that expressions use. Raises
    :class:`~perfassert.errors.KernelError` for a factor below 1, and for expressions over
    ``threadIdx`` and ``blockIdx``, which do not show the axis to fold.
    """
    # fold = (1, 2, 1), loads a[y, x] and a[y + 1, x]: y becomes 2y and 2y + 1, so the accesses are
    # a[2y, x], a[2y + 1, x] (from both updates, kept once) and a[2y + 2, x].
    if len(fold) != len(AXES) or min(fold) < 1:
        raise KernelError(f"folding must be three integers from 1 on, not {tuple(fold)}")
    updates = prod(fold)
    if updates == 1:
        return kernel
    if updates > _MAX_UPDATES:
        raise KernelError(f"folding: {updates} updates of a thread are more than {_MAX_UPDATES}")
    accesses = {
        _meaning(moved, names or {}): moved
        for access in kernel.accesses
        for moved in _folded_accesses(access, fold)
    }
    return replace(
        kernel,
        accesses=tuple(accesses.values()),
        flops=kernel.flops * updates,
        updates_per_thread=kernel.updates_per_thread * updates,
    )


def _folded_accesses(access: Access, fold: Sequence[int]) -> Iterator[Access]:
    """Yield the access once for each update that a thread makes."""
    used = {v.name for subscript in access.subscripts for v in variables(subscript)}
    if own := sorted((used & set(COORDINATES)) - set(AXES)):
        raise KernelError(f"{access.span}: folding needs x, y and z instead of {', '.join(own)}")
    for steps in product(*map(range, fold)):
        places = {a: (f, s) for a, f, s in zip(AXES, fold, steps, strict=True)}
        subscripts = tuple(_substitute(s, places) for s in access.subscripts)
        yield replace(access, subscripts=subscripts)


def _substitute(
    expression: ExpressionTree, places: Mapping[str, tuple[int, int]]
) -> ExpressionTree:
    """Replace coordinates, ``y`` by ``factor * y + step``; ``places``: axis → (factor, step)."""
    if isinstance(expression, BinaryOperation):
        left, right = (_substitute(e, places) for e in (expression.left, expression.right))
        return replace(expression, left=left, right=right)
    if not isinstance(expression, Variable) or expression.name not in places:
        return expression
    at = expression.column, expression.text
    factor, step = places[expression.name]
    first = expression if factor == 1 else BinaryOperation("*", Constant(factor), expression, *at)
    return first if step == 0 else BinaryOperation("+", first, Constant(step), *at)


def _meaning(access: Access, names: Mapping[str, int]) -> tuple[object, ...]:
    """Return a key that is equal for two accesses of the same element, however written."""

    def fail(reason: str, column: int, text: str) -> NoReturn:
        raise KernelError(f"{access.span}: {reason}")

    forms = [bind(subscript, names, fail) for subscript in access.subscripts]
    shape = tuple((form.constant, frozenset(form.terms)) for form in forms)
    return access.field, access.direction, shape
