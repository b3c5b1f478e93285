"""Triton functions in an untrusted file: read as text, checked, then compiled by Triton.

The file is never imported, and Triton gets the checked text instead of the file.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from io import StringIO
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

from perfassert.errors import KernelSourceError, close_matches
from perfassert.frontends.generators.triton import CheckedText, triton_module
from perfassert.frontends.generators.triton_grammar import LARGEST, check_functions, check_size
from perfassert.frontends.generators.triton_language import Language
from perfassert.kernel.integers import evaluate_integer
from perfassert.system.confined import read_text

_numbers = count(1)


@dataclass(frozen=True)
class TritonText:
    """A parsed text; ``tree`` is its syntax tree, with the line numbers of the file ``path``."""

    path: Path
    text: str
    line: int
    tree: ast.Module

    @classmethod
    def read(cls, path: Path, text: str, line: int = 1) -> TritonText:
        """Parse a text that begins at ``line`` of the file."""
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            at = (getattr(error, "lineno", None) or 1) + line - 1
            raise KernelSourceError(f"{path}:{at}: is no Python: {error}") from None
        made = cls(path, text, line, ast.increment_lineno(tree, line - 1))
        check_size(tree, made.refuse)
        return made

    @classmethod
    def of_file(cls, path: Path) -> TritonText:
        """Parse the whole file."""
        try:
            return cls.read(path, read_text(path))
        except (OSError, ValueError) as error:  # no UTF-8, or a name with NUL
            raise KernelSourceError(f"{path}: cannot be read: {error}") from None

    @cached_property
    def functions(self) -> Mapping[str, ast.FunctionDef]:
        """Functions under ``@triton.jit``, by name."""
        functions = (node for node in self.tree.body if isinstance(node, ast.FunctionDef))
        return {f.name: f for f in functions if any(map(_is_jit, f.decorator_list))}

    def parameters(self, name: str) -> tuple[list[str], frozenset[str]]:
        """Return the names of a function's parameters, and those that are ``tl.constexpr``."""
        parameters = self.functions[name].args.args
        fixed = (
            a.arg for a in parameters if a.annotation and _unparse(a.annotation) == "tl.constexpr"
        )
        return [a.arg for a in parameters], frozenset(fixed)

    def jit(self, name: str, constants: Mapping[str, Any]) -> Any:
        """Return the function as an object of Triton's; its lines are those of the file.

        ``constants`` has values of parameters that a launch does not pass.

        Raises :class:`~perfassert.KernelSourceError` for a function that uses more than the checked
        language.
        """
        triton = triton_module()
        own = dict(self._constants())
        reached = check_functions(
            self.functions, name, constants=own, given=constants, refuse=self.refuse
        )
        checked = [_strip_decorators(self.functions[function]) for function in reached]
        space = {key: triton.language.constexpr(value) for key, value in own.items()}
        space |= {**Language().modules, "__name__": "generated", "__builtins__": {}}
        self._define(checked, space)
        return space[name]

    def _define(self, functions: Sequence[ast.FunctionDef], space: dict[str, Any]) -> None:
        """Add the functions to ``space``, in which they find each other.

        Triton reads the source of a function again through ``linecache``, where it gets the checked
        text. The file may differ from that text by escapes, by its encoding, or by a later change.
        """
        file = f"<checked text {next(_numbers)}>"
        lines = StringIO("\n" * (self.line - 1) + self.text, newline=None).readlines()
        checked = CheckedText(file, tuple(lines))
        try:
            exec(compile(ast.Module([*functions], []), file, "exec", dont_inherit=True), space)
            with checked.readable():
                for function in functions:
                    made = space[function.name] = triton_module().JITFunction(space[function.name])
                    made.file_name, made.checked_text = str(self.path), checked
                    if ast.dump(made.parse()) != ast.dump(ast.Module([function], [])):
                        self.refuse(
                            function, f"Triton reads {function.name!r} otherwise than Python"
                        )
        except KernelSourceError:
            raise
        except Exception as error:  # whatever Triton raises for a text that it does not expect
            self.refuse(functions[0], f"Triton cannot read it: {error!r}")

    def _constants(self) -> Iterator[tuple[str, Any]]:
        """Yield constants beside the functions: ``NAME = tl.constexpr(64)``."""
        for node in self.tree.body:
            if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
                continue
            target, call = node.targets[0], node.value
            if isinstance(target, ast.Name) and _unparse(call.func) == "tl.constexpr" and call.args:
                yield target.id, self.literal(call.args[0])

    def literal(self, node: ast.expr) -> Any:
        """Return a literal value; a call yields its first argument, else its keywords."""
        try:
            if isinstance(node, ast.Call):
                if node.args:
                    return self.literal(node.args[0])
                return {k.arg: self.literal(k.value) for k in node.keywords}
            if isinstance(node, ast.Dict) and all(node.keys):
                keys = (self.literal(key) for key in node.keys if key is not None)
                return dict(zip(keys, map(self.literal, node.values), strict=True))
            if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
                return tuple(map(self.literal, node.elts))
            if isinstance(node, (ast.Attribute, ast.Name)):
                return _unparse(node)
            return ast.literal_eval(node)
        except (TypeError, ValueError):  # a key that cannot be one, or what is no literal
            self.refuse(node, f"{_unparse(node)!r} is not written out")

    def integer(self, node: ast.expr, sizes: Mapping[str, int]) -> int:
        """Return a size as an integer.

        ``sizes`` maps the texts of sizes that are only known at run time to numbers. Raises
        :class:`UnknownSize` for a size that depends on anything else.
        """
        plain = _Plain(sizes)
        text = _unparse(plain.visit(ast.parse(_unparse(node), mode="eval").body))
        for shown in plain.unknown:
            raise UnknownSize(
                f"{self.place(node)}: the shape is dynamic: {shown!r} has no value; give "
                f"sizes={{{shown!r}: 4096}}{close_matches(shown, sizes)}",
                ast.parse(shown, mode="eval").body,
            )
        try:
            value = evaluate_integer(text, {}, KernelSourceError)
        except KernelSourceError as error:
            self.refuse(node, str(error))
        if abs(value) >= LARGEST:
            self.refuse(node, "a size has more than 64 bits")
        return value

    def place(self, node: ast.AST) -> str:
        """Return ``file:line`` of a node."""
        return f"{self.path}:{getattr(node, 'lineno', 1)}"

    def refuse(self, node: ast.AST, why: str) -> NoReturn:
        """Raise :class:`~perfassert.KernelSourceError` with the node's line."""
        raise KernelSourceError(f"{self.place(node)}: {why}")


class UnknownSize(KernelSourceError):
    """A size is only known at run time; ``part`` is the unknown part of its expression."""

    def __init__(self, message: str, part: ast.expr) -> None:
        super().__init__(message)
        self.part = part


class PutIn(ast.NodeTransformer):
    """Replacement of names by expressions."""

    def __init__(self, expressions: Mapping[str, ast.expr]) -> None:
        self.expressions = expressions

    def visit_Name(self, node: ast.Name) -> ast.expr:
        replacement = self.expressions.get(node.id, node)
        return ast.copy_location(replacement, node)


class _Plain(ast.NodeTransformer):
    """Replacement of the expressions in ``sizes`` by numbers.

    ``unknown`` lists the names and calls that have no number. ``triton.cdiv`` becomes a quotient
    rounded up.
    """

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = sizes
        self.unknown: list[str] = []

    def visit(self, node: ast.AST) -> Any:
        text = _unparse(node)
        if isinstance(node, ast.expr) and text in self.sizes:
            return ast.Constant(self.sizes[text])
        if isinstance(node, ast.Call) and text.startswith("triton.cdiv("):
            args = [self.visit(arg) for arg in node.args]
            return ast.Call(ast.Name("ceil_div", ast.Load()), args, [])
        if isinstance(node, (ast.Call, ast.Name)):
            self.unknown.append(text)
            return ast.Constant(1)
        return super().visit(node)


def _is_jit(decorator: ast.expr) -> bool:
    return _unparse(decorator) == "triton.jit"


def _strip_decorators(function: ast.FunctionDef) -> ast.FunctionDef:
    """Return the function without decorators, which are PyTorch's or ``triton.jit``."""
    made = copy(function)
    made.decorator_list = []
    return made


def _unparse(node: ast.AST) -> str:
    return ast.unparse(node)
