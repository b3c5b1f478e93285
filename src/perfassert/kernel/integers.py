"""Whole-number expressions over named arguments: trip counts. Parsed, never evaluated."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping

from perfassert.errors import PerfAssertError, close_matches

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def evaluate_integer(text: str, names: Mapping[str, int], error: type[PerfAssertError]) -> int:
    """The value of ``"n // 16"`` over ``names``; raises ``error`` with the text and the reason."""
    try:
        return _value(ast.parse(text, mode="eval").body, names)
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
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, names)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left, names), _value(node.right, names))
    raise ValueError("only + - * // % and parentheses over whole numbers are allowed")
