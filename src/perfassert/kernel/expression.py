"""Integer expressions over thread coordinates and named numbers, as trees.

:mod:`perfassert.kernel.expression_text` reads them from text. :mod:`perfassert.kernel.affine` binds
a tree to a launch. :func:`evaluate` computes a tree whose names all have values.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Union

AXES = ("x", "y", "z")
THREAD = tuple(f"threadIdx.{a}" for a in AXES)
BLOCK = tuple(f"blockIdx.{a}" for a in AXES)
COORDINATES = (*AXES, *THREAD, *BLOCK)
"""Names whose values differ between threads: global, thread and block coordinates."""
DIMENSIONS = tuple(f"{name}.{a}" for name in ("blockDim", "gridDim") for a in AXES)
"""Names whose values the launch fixes: extents of blocks and grid."""


@dataclass(frozen=True, slots=True)
class Constant:
    """An integer."""

    value: int


@dataclass(frozen=True, slots=True)
class Variable:
    """A coordinate, a launch dimension, or a name in ``Launch.args``.

    ``text``: the text in which ``column`` counts, if it is that of an assumed value; else empty.
    """

    name: str
    column: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True)
class BinaryOperation:
    """An operation ``left operator right``.

    Operators are ``+ - * // %``, rounding down as in Python, and ``ceil_div``, a quotient rounded
    up.
    """

    operator: str
    left: ExpressionTree
    right: ExpressionTree
    column: int = 0
    text: str = ""


ExpressionTree = Union[Constant, Variable, BinaryOperation]


def variables(expression: ExpressionTree) -> Iterator[Variable]:
    """Yield the variables of the tree, from left to right."""
    if isinstance(expression, Variable):
        yield expression
    elif isinstance(expression, BinaryOperation):
        yield from variables(expression.left)
        yield from variables(expression.right)


def varies(expression: ExpressionTree) -> bool:
    """Return True if the value can differ between threads."""
    return any(v.name in COORDINATES for v in variables(expression))


def evaluate(expression: ExpressionTree, names: Mapping[str, int]) -> int:
    """Compute the value; ``names`` gives the value of each variable.

    Raises ``KeyError`` for a name that is not among ``names``, and ``ZeroDivisionError``.

    >>> evaluate(BinaryOperation("ceil_div", Variable("n"), Constant(16)), {"n": 100})
    7
    """
    if isinstance(expression, Constant):
        return expression.value
    if isinstance(expression, Variable):
        return names[expression.name]
    left, right = evaluate(expression.left, names), evaluate(expression.right, names)
    return _FUNCTIONS[expression.operator](left, right)


_FUNCTIONS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv,
    "%": operator.mod, "ceil_div": lambda a, b: -(-a // b),
}  # fmt: skip


def to_text(expression: ExpressionTree) -> str:
    """Return the tree as text, with parentheses only where they are needed."""
    if isinstance(expression, Constant):
        return str(expression.value)
    if isinstance(expression, Variable):
        return expression.name
    level = _LEVEL[expression.operator]
    left = _in_brackets(expression.left, level)
    right = _in_brackets(expression.right, level + (expression.operator != "+"))
    return f"{left} {expression.operator} {right}"


_LEVEL = {"+": 1, "-": 1, "*": 2, "//": 2, "%": 2}


def _in_brackets(expression: ExpressionTree, level: int) -> str:
    text = to_text(expression)
    if isinstance(expression, BinaryOperation) and _LEVEL[expression.operator] < level:
        return f"({text})"
    return f"({text})" if isinstance(expression, Constant) and expression.value < 0 else text
