"""Whole-number expressions over named arguments: trip counts. Parsed, never evaluated."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import TypeVar

from perfassert.errors import PerfAssertError, close_matches

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_ALLOWED = "only + - * // %, ceil_div(a, b) and parentheses over whole numbers are allowed"
_Result = TypeVar("_Result")


def evaluate_integer(text: str, names: Mapping[str, int], error: type[PerfAssertError]) -> int:
    """The value of ``"n // 16"`` over ``names``; raises ``error`` with the text and the reason.

    Besides ``+ - * // %`` there is ``ceil_div(a, b)``, a quotient rounded up.
    """
    return _read(text, lambda tree: _value(tree, names), error)


def integer_names(text: str, error: type[PerfAssertError]) -> frozenset[str]:
    """The names that an expression rests on; raises ``error`` where it is none."""
    return _read(text, _names, error)


def _read(text: str, read: Callable[[ast.expr], _Result], error: type[PerfAssertError]) -> _Result:
    try:
        return read(ast.parse(text, mode="eval").body)
    except (SyntaxError, RecursionError, MemoryError):
        raise error(f"{text!r}: not an expression") from None
    except ZeroDivisionError:
        raise error(f"{text!r}: division by zero") from None
    except ValueError as reason:
        raise error(f"{text!r}: {reason}") from None


def _value(node: ast.expr, names: Mapping[str, int]) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        if node.id in names:
            return names[node.id]
        hint = close_matches(node.id, names) or "; give it in Launch.args"
        raise ValueError(f"unknown name {node.id!r}{hint}")
    values = [_value(operand, names) for operand in _operands(node)]
    if isinstance(node, ast.UnaryOp):
        return -values[0]
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](values[0], values[1])
    return -(-values[0] // values[1])


def _names(node: ast.expr) -> frozenset[str]:
    if isinstance(node, ast.Name):
        return frozenset((node.id,))
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return frozenset()
    return frozenset().union(*(_names(operand) for operand in _operands(node)))


def _operands(node: ast.expr) -> list[ast.expr]:
    """What a sign, an operator or ``ceil_div`` is applied to; all else is refused."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return [node.operand]
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return [node.left, node.right]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        if node.func.id != "ceil_div":
            raise ValueError(f"unknown function {node.func.id!r}; there is only ceil_div(a, b)")
        if len(node.args) != 2:
            raise ValueError("ceil_div takes two arguments, a numerator and a denominator")
        return node.args
    raise ValueError(_ALLOWED)
