"""Whole-number expressions over named arguments: trip counts. Parsed, never evaluated."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from perfassert.errors import PerfAssertError, close_matches


def evaluate_integer(text: str, names: Mapping[str, int], error: type[PerfAssertError]) -> int:
    """The value of ``"n // 16"`` over ``names``; raises ``error`` with the text and the reason."""

    def fail(reason: str) -> PerfAssertError:
        return error(f"{text!r}: {reason}")

    def value(node: ast.expr) -> int:
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        if isinstance(node, ast.Name):
            if node.id in names:
                return names[node.id]
            hint = close_matches(node.id, names) or "; give it in Launch.args"
            raise fail(f"unknown name {node.id!r}{hint}")
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -value(node.operand)
        if isinstance(node, ast.BinOp):
            return apply(node.op, value(node.left), value(node.right))
        raise fail("only + - * // % and parentheses over whole numbers are allowed")

    def apply(operator: ast.operator, left: int, right: int) -> int:
        if isinstance(operator, ast.Add):
            return left + right
        if isinstance(operator, ast.Sub):
            return left - right
        if isinstance(operator, ast.Mult):
            return left * right
        if isinstance(operator, (ast.FloorDiv, ast.Mod)):
            if right == 0:
                raise fail("division by zero")
            return left // right if isinstance(operator, ast.FloorDiv) else left % right
        raise fail("only + - * // % and parentheses over whole numbers are allowed")

    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise fail("not an expression") from None
    return value(tree)
