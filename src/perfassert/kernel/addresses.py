"""Address expressions: ``"src[z, y, x + 1]"`` → :class:`Access`.

Python's own grammar reads the text (:mod:`ast`); the tree is then walked, node by node, and
anything but integer arithmetic is refused. Nothing is evaluated.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import NoReturn

from perfassert.errors import (
    AddressExpressionError,
    KernelError,
    check_kind,
    close_matches,
    in_short,
)
from perfassert.kernel.access import Access, Direction
from perfassert.kernel.expression import (
    AXES,
    Constant,
    Expression,
    Operation,
    Variable,
    varies,
)
from perfassert.kernel.field import Field
from perfassert.quantity import to_list
from perfassert.source import Assumption, SourceSpan, caret

_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%",
}  # fmt: skip
_BUILTIN = ("threadIdx", "blockIdx", "blockDim", "gridDim")
MAX_LENGTH = 4096


def read_accesses(
    fields: Sequence[Field],
    loads: Sequence[str],
    stores: Sequence[str],
    proxies: Mapping[str, str],
) -> tuple[tuple[Access, ...], tuple[Assumption, ...]]:
    """Parse every load and store; report which proxies were used."""
    given = to_list(fields, "fields", KernelError)
    for one in given:
        check_kind(one, Field, "each of the fields", KernelError)
    check_kind(proxies, Mapping, "proxies", KernelError)
    by_name = {f.name: f for f in given}
    if len(by_name) != len(given):
        raise KernelError("two fields have the same name")
    for what, texts in (("loads", loads), ("stores", stores)):
        if isinstance(texts, str):
            raise KernelError(f"{what} must be a list of expressions, not one string")
    loads = to_list(loads, "loads", KernelError)
    stores = to_list(stores, "stores", KernelError)
    if not loads and not stores:
        raise KernelError("a kernel needs at least one load or store")
    stand_ins = {_normal(text): proxy for text, proxy in proxies.items()}
    used: dict[str, Assumption] = {}
    accesses = [
        _Parser(text, SourceSpan(f"{kind.value}s[{i}]"), by_name, stand_ins, used).access(kind)
        for kind, texts in ((Direction.LOAD, loads), (Direction.STORE, stores))
        for i, text in enumerate(texts)
    ]
    for key in stand_ins:
        if key not in used:
            raise KernelError(f"proxy {key!r} stands in for nothing: no access contains it")
    return tuple(accesses), tuple(used.values())


def _normal(text: str) -> str:
    check_kind(text, str, "what a proxy stands in for", AddressExpressionError)
    try:
        return ast.unparse(ast.parse(text.strip(), mode="eval"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise AddressExpressionError(f"proxy {text!r} is no expression") from None


class _Parser:
    """One text; every error shows it with a caret below the column."""

    def __init__(
        self,
        text: str,
        span: SourceSpan,
        fields: Mapping[str, Field],
        proxies: Mapping[str, str],
        used: dict[str, Assumption],
        own_text: bool = True,
    ) -> None:
        if not isinstance(text, str):
            raise AddressExpressionError(f"{span}: must be a string, not {in_short(text)}")
        self.text = text
        self.span = span
        self.fields = fields
        self.proxies = proxies
        self.used = used
        self.origin = "" if own_text else text  # what later errors about a node show

    def access(self, direction: Direction) -> Access:
        tree = self.tree()
        if not isinstance(tree, ast.Subscript) or not isinstance(tree.value, ast.Name):
            self.fail("an access is a field with subscripts, as in src[z, y, x]", tree)
        field = self.fields.get(tree.value.id)
        if field is None:
            hint = close_matches(tree.value.id, self.fields)
            self.fail(f"unknown field {tree.value.id!r}{hint}", tree.value)
        items = tree.slice.elts if isinstance(tree.slice, ast.Tuple) else [tree.slice]
        if len(items) != len(field.shape):
            reason = f"{field.name!r} has {len(field.shape)} axes, not {len(items)}"
            self.fail(reason, tree.slice)
        subscripts = tuple(self.expression(item) for item in items)
        return Access(field.name, direction, subscripts, self.text, self.span)

    def tree(self) -> ast.expr:
        if len(self.text) > MAX_LENGTH:
            self.fail(f"longer than {MAX_LENGTH} characters")
        try:
            return ast.parse(self.text, mode="eval").body
        except SyntaxError as error:
            self.fail(f"not an expression: {error.msg}", column=(error.offset or 1) - 1)
        except (ValueError, RecursionError, MemoryError) as error:
            self.fail(f"not an expression: {error}")

    def fail(self, reason: str, node: ast.expr | None = None, column: int = 0) -> NoReturn:
        if node is not None:
            column = len(self.text.encode()[: node.col_offset].decode(errors="ignore"))
        raise AddressExpressionError(f"{self.span}: {reason}\n{caret(self.text, column)}")

    def expression(self, node: ast.expr) -> Expression:
        if isinstance(node, ast.Constant):
            if type(node.value) is not int:
                self.fail(f"only whole numbers are allowed, not {node.value!r}", node)
            return Constant(node.value)
        if isinstance(node, ast.Name):
            return self.name(node)
        if isinstance(node, ast.Attribute):
            return self.attribute(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            operator = "-" if isinstance(node.op, ast.USub) else "+"
            inner = self.expression(node.operand)
            return Operation(operator, Constant(0), inner, node.col_offset, self.origin)
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return self.operation(node)
        if isinstance(node, ast.Subscript):
            return self.proxy(node)
        self.fail("only + - * // % and parentheses over integers are allowed", node)

    def name(self, node: ast.Name) -> Expression:
        if node.id in self.fields:
            self.fail(f"{node.id!r} is a field; its value depends on data", node)
        if node.id in _BUILTIN:
            self.fail(f"{node.id} needs .x, .y or .z", node)
        return Variable(node.id, node.col_offset, self.origin)

    def attribute(self, node: ast.Attribute) -> Expression:
        base = node.value.id if isinstance(node.value, ast.Name) else "?"
        if base not in _BUILTIN or node.attr not in AXES:
            known = ", ".join(f"{b}.x" for b in _BUILTIN)
            self.fail(f"unknown name {base}.{node.attr}; known: {known} and their .y .z", node)
        return Variable(f"{base}.{node.attr}", node.col_offset, self.origin)

    def operation(self, node: ast.BinOp) -> Expression:
        left, right = self.expression(node.left), self.expression(node.right)
        operator = _OPERATORS[type(node.op)]
        if operator == "*" and varies(left) and varies(right):
            self.fail("a product of two coordinates is not affine", node.right)
        if operator in ("//", "%"):
            if varies(right):
                self.fail("the divisor must be the same for all threads", node.right)
            if right == Constant(0):
                self.fail("division by zero", node.right)
        column = node.right.col_offset if operator in ("*", "//", "%") else node.col_offset
        return Operation(operator, left, right, column, self.origin)

    def proxy(self, node: ast.Subscript) -> Expression:
        key = ast.unparse(node)
        if key not in self.proxies:
            advice = f"declare a stand-in: proxies={{{key!r}: ...}}"
            self.fail(f"{key} depends on data; {advice}", node)
        proxy = self.proxies[key]
        self.used[key] = Assumption(f"{key} is taken to be {proxy}", self.span)
        others = {k: v for k, v in self.proxies.items() if k != key}
        span = SourceSpan(f"proxies[{key!r}]")
        inner = _Parser(proxy, span, self.fields, others, self.used, own_text=False)
        return inner.expression(inner.tree())
