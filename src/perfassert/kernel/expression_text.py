"""Parsing of the arithmetic that users write: addresses, trip counts, sizes, generators.

Python's parser (:mod:`ast`) reads the text. The tree is then walked node by node, and everything
but integer arithmetic is rejected. The text is never evaluated as Python.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import NoReturn, Union

from perfassert.kernel.expression import BinaryOperation, Constant, ExpressionTree, Variable

Literal = Union[ExpressionTree, str, float, None, tuple["Literal", ...]]
"""An argument in a call: an expression, a text, a number, None, or a tuple of these."""
_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%",
}  # fmt: skip
_UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)


class NotAnExpression(ValueError):
    """A text cannot be read as an expression; ``column``: place of the error, from 0."""

    def __init__(self, reason: str, column: int = 0) -> None:
        super().__init__(reason)
        self.column = column


class Reader:
    """Parser of one text; subclasses decide what names and array elements mean.

    ``allowed``: message of the error for everything else. ``functions``: names that the text may
    call.
    """

    allowed = "only + - * // % and parentheses over integers are allowed"
    functions: tuple[str, ...] = ()

    def __init__(self, text: str, origin: str = "") -> None:
        self.text = text
        self.origin = origin

    def read(self) -> ExpressionTree:
        """Parse the whole text; raise :class:`NotAnExpression` if it is not an expression."""
        try:
            return self.expression(self.tree())
        except RecursionError:
            raise NotAnExpression("not an expression: nested too deeply") from None

    def tree(self) -> ast.expr:
        """Return the syntax tree of Python's parser."""
        try:
            return ast.parse(self.text, mode="eval").body
        except SyntaxError as error:
            raise NotAnExpression(
                f"not an expression: {error.msg}", (error.offset or 1) - 1
            ) from None
        except _UNREADABLE as error:
            raise NotAnExpression(f"not an expression: {error}") from None

    def fail(self, reason: str, node: ast.expr) -> NoReturn:
        """Raise :class:`NotAnExpression` at the place of ``node`` in the text."""
        before = self.text.encode()[: node.col_offset]
        raise NotAnExpression(reason, len(before.decode(errors="ignore")))

    def expression(self, node: ast.expr) -> ExpressionTree:
        """Convert a node of the syntax tree to an expression."""
        if isinstance(node, ast.Constant):
            if type(node.value) is not int:
                self.fail(f"only integers are allowed, not {node.value!r}", node)
            return Constant(node.value)
        if isinstance(node, ast.Name):
            return self.variable(node.id, node)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            return self.variable(f"{node.value.id}.{node.attr}", node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            sign = "-" if isinstance(node.op, ast.USub) else "+"
            return self.operation(sign, Constant(0), self.expression(node.operand), node, node)
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            left, right = self.expression(node.left), self.expression(node.right)
            return self.operation(_OPERATORS[type(node.op)], left, right, node, node.right)
        if isinstance(node, ast.Subscript):
            return self.element(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and self.functions:
            return self.call(node, node.func.id)
        self.fail(self.allowed, node)

    def variable(self, name: str, node: ast.expr) -> ExpressionTree:
        """Convert a name: ``n`` or ``threadIdx.x``."""
        return Variable(name, node.col_offset, self.origin)

    def element(self, node: ast.Subscript) -> ExpressionTree:
        """Convert an array element, ``index[x]``; this class rejects it."""
        self.fail(self.allowed, node)

    def operation(
        self,
        operator: str,
        left: ExpressionTree,
        right: ExpressionTree,
        node: ast.expr,
        second: ast.expr,
    ) -> ExpressionTree:
        """Return ``left operator right``.

        ``node``: place of the operation, to which errors refer. In products and quotients they
        refer to ``second``, the place of ``right``.
        """
        place = second if operator in ("*", "//", "%") else node
        return BinaryOperation(operator, left, right, place.col_offset, self.origin)

    def call(self, node: ast.Call, name: str) -> ExpressionTree:
        """Convert a call: ``ceil_div(a, b)``."""
        if name not in self.functions:
            known = ", ".join(f"{f}(a, b)" for f in self.functions)
            self.fail(f"unknown function {name!r}; there is only {known}", node)
        if len(node.args) != 2 or node.keywords:
            self.fail(f"{name} takes two arguments, a numerator and a denominator", node)
        left, right = map(self.expression, node.args)
        return self.operation(name, left, right, node, node)


class NumberReader(Reader):
    """Parser of integer expressions over named arguments, with ``ceil_div``."""

    allowed = "only + - * // %, ceil_div(a, b) and parentheses over integers are allowed"
    functions = ("ceil_div",)

    def variable(self, name: str, node: ast.expr) -> ExpressionTree:
        if "." in name:
            self.fail(self.allowed, node)
        return super().variable(name, node)


@dataclass(frozen=True, slots=True)
class ParsedCall:
    """A parsed call ``function(given, …, name=value, …)``."""

    function: str
    given: tuple[Literal, ...]
    named: dict[str, Literal]


def read_call(text: str) -> ParsedCall:
    """Parse a call whose arguments are expressions, texts, numbers or tuples.

    Raises :class:`NotAnExpression` for anything else.

    >>> read_call("Buffer(65, fill='arange')").named
    {'fill': 'arange'}
    """
    reader = NumberReader(text)
    node = reader.tree()
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise NotAnExpression("not a call")
    if any(k.arg is None for k in node.keywords):
        reader.fail(reader.allowed, node)
    return ParsedCall(
        node.func.id,
        tuple(_literal(reader, a) for a in node.args),
        {str(k.arg): _literal(reader, k.value) for k in node.keywords},
    )


def _literal(reader: Reader, node: ast.expr) -> Literal:
    if isinstance(node, ast.Constant) and type(node.value) in (str, float, bool, type(None)):
        return node.value  # type: ignore[return-value]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _literal(reader, node.operand)
        if isinstance(inner, float):
            return -inner
    if isinstance(node, (ast.Tuple, ast.List)):
        return tuple(_literal(reader, e) for e in node.elts)
    return reader.expression(node)
