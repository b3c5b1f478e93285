"""Stand-ins for values that depend on data, as the author of a test declares them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence

from perfassert.errors import AddressExpressionError, KernelError, close_matches
from perfassert.frontends.binding.arguments import Arguments
from perfassert.kernel.expression import BLOCK, DIMENSIONS, THREAD
from perfassert.kernel.names import Argument, Name
from perfassert.kernel.program import Program, ProgramInstruction
from perfassert.kernel.symbols import Symbols, Value
from perfassert.source import SourceSpan

_COORDINATES = (*THREAD, *BLOCK, *DIMENSIONS)


def read_proxies(
    proxies: Mapping[str, str], program: Program, arguments: Arguments
) -> dict[Name, Value]:
    """The value of each load that a proxy stands in for, by the name of its unknown.

    A key is the parameter that is loaded from, or ``"file:line"`` of the load. Raises
    :class:`KernelError` for a key that names no load.
    """
    if not proxies:
        return {}
    loads = _loads(program)
    found: dict[Name, Value] = {}
    for key, text in proxies.items():
        if key not in loads:
            hint = close_matches(key, loads) or f"; it loads from {', '.join(loads) or 'nothing'}"
            raise KernelError(f"proxy {key!r} stands in for nothing: no load has that name{hint}")
        value = _Reader(key, text, program, arguments).value()
        for load in loads[key]:
            for word in range(8):
                found[f"load {load.index}.{word}"] = value
    return found


def declared(
    proxies: Mapping[str, str], program: Program
) -> Iterator[tuple[str, SourceSpan | None]]:
    """What is taken for granted with them, in words, and the first load that it is about."""
    loads = _loads(program) if proxies else {}
    for key, text in proxies.items():
        place = loads[key][0].span
        where = "at" if place is not None and key == place.short else "from"
        yield f"what is loaded {where} {key} is taken to be {text}", place


def _loads(program: Program) -> Mapping[str, Sequence[ProgramInstruction]]:
    """By the parameter that is loaded from, and by file and line."""
    found: dict[str, list[ProgramInstruction]] = {}
    for instruction in program.instructions:
        for access in instruction.accesses[:1]:
            span = instruction.span
            for key in (access.field, *([span.short] if span is not None else [])):
                found.setdefault(key, []).append(instruction)
    return found


class _Reader:
    def __init__(self, key: str, text: str, program: Program, arguments: Arguments) -> None:
        self.where = f"proxies[{key!r}]"
        self.text = text
        self.symbols: Symbols = program.symbols
        self.parameters = {p.name: i for i, p in enumerate(program.parameters)}
        self.arguments = arguments

    def value(self) -> Value:
        try:
            return self.read(ast.parse(self.text, mode="eval").body)
        except (SyntaxError, ValueError, RecursionError, MemoryError, TypeError):
            raise AddressExpressionError(f"{self.where}: {self.text!r} is no expression") from None

    def read(self, node: ast.expr) -> Value:
        s = self.symbols
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return s.number(node.value)
        if isinstance(node, ast.Name):
            return self.name(node.id)
        if isinstance(node, ast.Attribute) and ast.unparse(node) in _COORDINATES:
            return s.variable(ast.unparse(node))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return s.scale(self.read(node.operand), -1)
        if isinstance(node, ast.BinOp):
            left, right = self.read(node.left), self.read(node.right)
            operations: dict[type[ast.operator], Callable[[Value, Value], Value]] = {
                ast.Add: s.add, ast.Sub: s.sub, ast.Mult: s.mul, ast.FloorDiv: s.div, ast.Mod: s.mod
            }  # fmt: skip
            if type(node.op) in operations:
                return operations[type(node.op)](left, right)
        raise AddressExpressionError(
            f"{self.where}: {self.text!r}: only + - * // % over integers, coordinates, parameters"
        )

    def name(self, name: str) -> Value:
        s = self.symbols
        if name in self.parameters:
            return s.variable(Argument(self.parameters[name]))
        if name in ("x", "y", "z"):
            index = s.mul(s.variable(f"blockIdx.{name}"), s.variable(f"blockDim.{name}"))
            return s.add(index, s.variable(f"threadIdx.{name}"))
        hint = close_matches(name, self.parameters)
        raise AddressExpressionError(f"{self.where}: unknown name {name!r}{hint}")
