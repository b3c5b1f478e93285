"""Assumed values of what depends on data, as the author of a test declares them (``assume=``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from perfassert.errors import AddressExpressionError, UnreadOverride, close_matches
from perfassert.kernel.expression import (
    BLOCK,
    DIMENSIONS,
    THREAD,
    Constant,
    ExpressionTree,
    Variable,
)
from perfassert.kernel.expression_pool import Expression, ExpressionPool
from perfassert.kernel.expression_text import NotAnExpression, Reader
from perfassert.kernel.names import Argument, Name, loaded_name
from perfassert.kernel.program import Program, ProgramInstruction
from perfassert.source import SourceSpan

_COORDINATES = (*THREAD, *BLOCK, *DIMENSIONS)


def read_assumed_values(assume: Mapping[str, str], program: Program) -> dict[Name, Expression]:
    """The assumed value of each load that has one, by the name of its unknown.

    A key is the parameter that is loaded from, or ``"file:line"`` of the load. Raises
    :class:`UnreadOverride` for a key that names no load.
    """
    if not assume:
        return {}
    loads = _loads(program)
    values: dict[Name, Expression] = {}
    for key, text in assume.items():
        if key not in loads:
            hint = close_matches(key, loads) or f"; it loads from {', '.join(loads) or 'nothing'}"
            raise UnreadOverride(f"assume: no load has the name {key!r}{hint}")
        value = _Values(key, text, program).value()
        values |= dict.fromkeys(_unknowns(loads[key]), value)
    return values


def check_assumed_values(
    assume: Mapping[str, str], program: Program, known: AbstractSet[Name]
) -> None:
    """Raises :class:`UnreadOverride` for an assumed value that decides about nothing.

    ``known``: the names of unknowns that addresses, trip counts and guards were bound with.
    """
    loads = _loads(program) if assume else {}
    for key in assume:
        if known.isdisjoint(_unknowns(loads[key])):
            raise UnreadOverride(
                f"assume: no address, trip count or branch takes what is loaded from {key!r} as an "
                "integer, so nothing can be assumed of it; leave it out, or give the launch its "
                "content, pa.Buffer(data=...)"
            )


def assumed_value_texts(
    assume: Mapping[str, str], program: Program
) -> Iterator[tuple[str, SourceSpan | None]]:
    """Yield each assumption in words, with the place of the first load that it is about."""
    loads = _loads(program) if assume else {}
    for key, text in assume.items():
        place = loads[key][0].span
        where = "at" if place is not None and key == place.short else "from"
        yield f"what is loaded {where} {key} is taken to be {text}", place


def _unknowns(loads: Iterable[ProgramInstruction]) -> Iterator[Name]:
    """The names of what loads bring, a word at a time."""
    return (loaded_name(load.index, word) for load in loads for word in range(8))


def _loads(program: Program) -> Mapping[str, Sequence[ProgramInstruction]]:
    """Return the loads by the parameter that they read and by file and line."""
    loads: dict[str, list[ProgramInstruction]] = {}
    for instruction in program.instructions:
        for access in instruction.accesses[:1]:
            span = instruction.span
            for key in (access.field, *([span.short] if span is not None else [])):
                loads.setdefault(key, []).append(instruction)
    return loads


class _Values:
    """Reader of the text of an assumed value as an expression."""

    def __init__(self, key: str, text: str, program: Program) -> None:
        self.where = f"assume[{key!r}]"
        self.text = text
        self.symbols: ExpressionPool = program.symbols
        self.parameters = {p.name: i for i, p in enumerate(program.parameters)}

    def value(self) -> Expression:
        """Return the assumed value; raises :class:`AddressExpressionError`."""
        try:
            return self.read(Reader(self.text).read())
        except (NotAnExpression, RecursionError, TypeError) as reason:
            raise AddressExpressionError(f"{self.where}: {self.text!r}: {reason}") from None

    def read(self, expression: ExpressionTree) -> Expression:
        s = self.symbols
        if isinstance(expression, Constant):
            return s.number(expression.value)
        if isinstance(expression, Variable):
            return self.name(expression.name)
        operations: dict[str, Callable[[Expression, Expression], Expression]] = {
            "+": s.add, "-": s.sub, "*": s.mul, "//": s.div, "%": s.mod,
        }  # fmt: skip
        left, right = self.read(expression.left), self.read(expression.right)
        return operations[expression.operator](left, right)

    def name(self, name: str) -> Expression:
        s = self.symbols
        if name in _COORDINATES:
            return s.variable(name)
        if name in self.parameters:
            return s.variable(Argument(self.parameters[name]))
        if name in ("x", "y", "z"):
            index = s.mul(s.variable(f"blockIdx.{name}"), s.variable(f"blockDim.{name}"))
            return s.add(index, s.variable(f"threadIdx.{name}"))
        hint = close_matches(name, self.parameters)
        raise AddressExpressionError(f"{self.where}: unknown name {name!r}{hint}")
