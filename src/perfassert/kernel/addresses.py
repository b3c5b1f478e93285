"""Address expressions: ``"src[z, y, x + 1]"`` → :class:`Access`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from perfassert.errors import (
    AddressExpressionError,
    KernelError,
    check_kind,
    close_matches,
    in_short,
)
from perfassert.kernel.access import Access, Direction
from perfassert.kernel.expression import AXES, Constant, ExpressionTree, varies
from perfassert.kernel.expression_text import NotAnExpression, Reader
from perfassert.kernel.field import Field
from perfassert.quantity import to_list
from perfassert.source import Assumption, SourceSpan, caret

_BUILTIN = ("threadIdx", "blockIdx", "blockDim", "gridDim")
MAX_LENGTH = 4096  # characters of an expression


def read_accesses(
    fields: Sequence[Field],
    loads: Sequence[str],
    stores: Sequence[str],
    assume: Mapping[str, str],
) -> tuple[tuple[Access, ...], tuple[Assumption, ...]]:
    """Parse all loads and stores; return the accesses and the assumed values that they use."""
    given = to_list(fields, "fields", KernelError)
    for field in given:
        check_kind(field, Field, "each of the fields", KernelError)
    check_kind(assume, Mapping, "assume", KernelError)
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
    assumed = {_normalise_text(text): value for text, value in assume.items()}
    used: dict[str, Assumption] = {}
    accesses = [
        _AddressReader(text, SourceSpan(f"{kind.value}s[{i}]"), by_name, assumed, used).access(kind)
        for kind, texts in ((Direction.LOAD, loads), (Direction.STORE, stores))
        for i, text in enumerate(texts)
    ]
    for key in assumed:
        if key not in used:
            raise KernelError(f"assume: no access contains {key!r}")
    return tuple(accesses), tuple(used.values())


def _normalise_text(text: str) -> str:
    check_kind(text, str, "what a value is assumed of", AddressExpressionError)
    try:
        return ast.unparse(Reader(text.strip()).tree())
    except (NotAnExpression, RecursionError):
        raise AddressExpressionError(f"assume: {text!r} is not an expression") from None


class _AddressReader(Reader):
    """Reader of one address expression, whose errors show the text with a caret at the column."""

    def __init__(
        self,
        text: str,
        span: SourceSpan,
        fields: Mapping[str, Field],
        assume: Mapping[str, str],
        used: dict[str, Assumption],
        own_text: bool = True,
    ) -> None:
        if not isinstance(text, str):
            raise AddressExpressionError(f"{span}: must be a string, not {in_short(text)}")
        super().__init__(text, "" if own_text else text)  # what later errors about a node show
        self.span = span
        self.fields = fields
        self.assume = assume
        self.used = used
        self.assumed = False

    def access(self, direction: Direction) -> Access:
        with self.errors_with_text():
            return self._access(direction)

    @contextmanager
    def errors_with_text(self) -> Iterator[None]:
        """Turn errors of the reader into :class:`AddressExpressionError` that quote the text."""
        try:
            if len(self.text) > MAX_LENGTH:
                raise NotAnExpression(f"longer than {MAX_LENGTH} characters")
            yield
        except RecursionError:
            raise AddressExpressionError(f"{self.span}: nested too deeply") from None
        except NotAnExpression as error:
            where = caret(self.text, error.column)
            raise AddressExpressionError(f"{self.span}: {error}\n{where}") from None

    def _access(self, direction: Direction) -> Access:
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
        return Access(field.name, direction, subscripts, self.text, self.span, self.assumed)

    def variable(self, name: str, node: ast.expr) -> ExpressionTree:
        base, _, axis = name.partition(".")
        if name in self.fields:
            self.fail(f"{name!r} is a field; its value depends on data", node)
        if name in _BUILTIN:
            self.fail(f"{name} needs .x, .y or .z", node)
        if axis and (base not in _BUILTIN or axis not in AXES):
            known = ", ".join(f"{b}.x" for b in _BUILTIN)
            self.fail(f"unknown name {name}; known: {known} and their .y .z", node)
        return super().variable(name, node)

    def operation(
        self,
        operator: str,
        left: ExpressionTree,
        right: ExpressionTree,
        node: ast.expr,
        second: ast.expr,
    ) -> ExpressionTree:
        if operator == "*" and varies(left) and varies(right):
            self.fail("a product of two coordinates is not affine", second)
        if operator in ("//", "%"):
            if varies(right):
                self.fail("the divisor must be the same for all threads", second)
            if right == Constant(0):
                self.fail("division by zero", second)
        return super().operation(operator, left, right, node, second)

    def element(self, node: ast.Subscript) -> ExpressionTree:
        key = ast.unparse(node)
        if key not in self.assume:
            advice = f"give an assumed value: assume={{{key!r}: ...}}"
            self.fail(f"{key} depends on data; {advice}", node)
        value, self.assumed = self.assume[key], True
        self.used[key] = Assumption(f"{key} is taken to be {value}", self.span)
        others = {k: v for k, v in self.assume.items() if k != key}
        span = SourceSpan(f"assume[{key!r}]")
        inner = _AddressReader(value, span, self.fields, others, self.used, own_text=False)
        with inner.errors_with_text():
            return inner.read()
