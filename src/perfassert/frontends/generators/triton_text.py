"""Triton functions in a file that others wrote: read as text, checked, then Triton's to compile.

The file is never imported. What Triton evaluates while it compiles a function is what the function
names, so that every name must be the function's own, or one of Triton's language.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from perfassert.errors import KernelSourceError, close_matches
from perfassert.frontends.generators.triton import triton_module
from perfassert.kernel.integers import evaluate_integer
from perfassert.system.confined import read_text

_MODULES = {
    "tl": "triton.language",
    "tl_math": "triton.language.math",
    "libdevice": "triton.language.extra.libdevice",
    "triton_helpers": "perfassert.frontends.generators.triton_helpers",
}
"""What generated text calls a module, and what stands for it: of PyTorch's helpers our own."""
_BUILTINS = frozenset("range min max float int bool len".split())
_OF_VALUES = frozenset(
    "to dtype shape type element_ty primitive_bitwidth is_floating T trans permute reshape "
    "broadcast_to expand_dims cast split sum max min numel ALL NONE".split()
)
"""Attributes of tensors, of their types, of ``tl.PropagateNan``."""
_REFUSED = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.Import, ast.ImportFrom,
    ast.Global, ast.Nonlocal, ast.Try, ast.Delete,
)  # fmt: skip


@dataclass(frozen=True)
class TritonText:
    """``tree``: of the text, with the lines of the file at ``path``."""

    path: Path
    tree: ast.Module

    @classmethod
    def read(cls, path: Path, text: str, line: int = 1) -> TritonText:
        """``line``: where in the file the text begins."""
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            at = (getattr(error, "lineno", None) or 1) + line - 1
            raise KernelSourceError(f"{path}:{at}: is no Python: {error}") from None
        return cls(path, ast.increment_lineno(tree, line - 1))

    @classmethod
    def of_file(cls, path: Path) -> TritonText:
        """The whole file."""
        try:
            return cls.read(path, read_text(path))
        except (OSError, ValueError) as error:  # no UTF-8, or a name with NUL
            raise KernelSourceError(f"{path}: cannot be read: {error}") from None

    @cached_property
    def functions(self) -> Mapping[str, ast.FunctionDef]:
        """Those under ``@triton.jit``."""
        functions = (node for node in self.tree.body if isinstance(node, ast.FunctionDef))
        return {f.name: f for f in functions if any(map(_is_jit, f.decorator_list))}

    def parameters(self, name: str) -> tuple[list[str], frozenset[str]]:
        """Of a function, and which of them are constants."""
        parameters = self.functions[name].args.args
        fixed = (
            a.arg for a in parameters if a.annotation and _unparse(a.annotation) == "tl.constexpr"
        )
        return [a.arg for a in parameters], frozenset(fixed)

    def jit(self, name: str) -> Any:
        """The function as Triton has it; its lines are those of the file.

        Raises :class:`~perfassert.KernelSourceError` for one that reaches beyond the language.
        """
        triton = triton_module()
        modules = {key: import_module(home) for key, home in _MODULES.items()}
        constants = dict(self._constants())
        for function in self.functions.values():
            _Checked(self, function, modules, {*self.functions, *constants}).check()
        space = {key: triton.language.constexpr(value) for key, value in constants.items()}
        space |= {**modules, "triton": triton, "__name__": self.path.stem}
        body = ast.Module([_bare(function) for function in self.functions.values()], [])
        exec(compile(body, str(self.path), "exec", dont_inherit=True), space)
        return space[name]

    def _constants(self) -> Iterator[tuple[str, Any]]:
        """``NAME = tl.constexpr(64)`` beside the functions."""
        for node in self.tree.body:
            if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
                continue
            target, call = node.targets[0], node.value
            if isinstance(target, ast.Name) and _unparse(call.func) == "tl.constexpr" and call.args:
                yield target.id, self.literal(call.args[0])

    def literal(self, node: ast.expr) -> Any:
        """A value that is written out; a call is its keywords, or its argument."""
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
        try:
            return ast.literal_eval(node)
        except ValueError:
            self.refuse(node, f"{_unparse(node)!r} is not written out")

    def integer(self, node: ast.expr, sizes: Mapping[str, int]) -> int:
        """A size; ``sizes``: of what is known when the program runs, by how the text writes it."""
        plain = _Plain(sizes)
        text = _unparse(plain.visit(ast.parse(_unparse(node), mode="eval").body))
        for shown in plain.unknown:
            self.refuse(
                node,
                f"the shape is dynamic: {shown!r} has no value; give sizes={{{shown!r}: 4096}}"
                f"{close_matches(shown, sizes)}",
            )
        try:
            return evaluate_integer(text, {}, KernelSourceError)
        except KernelSourceError as error:
            self.refuse(node, str(error))

    def refuse(self, node: ast.AST, why: str) -> NoReturn:
        """:class:`~perfassert.KernelSourceError` with the line."""
        raise KernelSourceError(f"{self.path}:{getattr(node, 'lineno', 1)}: {why}")


class PutIn(ast.NodeTransformer):
    """Expressions in the place of their names."""

    def __init__(self, expressions: Mapping[str, ast.expr]) -> None:
        self.expressions = expressions

    def visit_Name(self, node: ast.Name) -> ast.expr:
        replacement = self.expressions.get(node.id, node)
        return ast.copy_location(replacement, node)


class _Plain(ast.NodeTransformer):
    """Numbers in the place of what is in ``sizes``; ``unknown``: what has none.
    ``triton.cdiv`` is a quotient rounded up."""

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


@dataclass(frozen=True)
class _Checked:
    """A function, and what it may name."""

    text: TritonText
    function: ast.FunctionDef
    modules: Mapping[str, ModuleType]
    others: set[str]

    def check(self) -> None:
        """Raises :class:`~perfassert.KernelSourceError` for the first that it may not."""
        self._signature()
        nodes = [node for part in self.function.body for node in ast.walk(part)]
        bound = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        known = self.others | bound | {a.arg for a in self.function.args.args} | _BUILTINS
        bases = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
        for node in nodes:
            if isinstance(node, _REFUSED):
                self._refuse(node, f"{type(node).__name__} is no part of Triton's language")
            if isinstance(node, ast.Attribute) and not self._of_language(node):
                self._refuse(
                    node, f"{_unparse(node)!r} is no part of what is known of its language"
                )
            if not isinstance(node, ast.Name) or node.id in known:
                continue
            if node.id not in self.modules or id(node) not in bases:
                self._refuse(node, f"it names {node.id!r}, which is none of its own")

    def _signature(self) -> None:
        """Python evaluates annotations and defaults of a function when it is made."""
        parameters = self.function.args
        if parameters.vararg or parameters.kwarg or parameters.kwonlyargs or parameters.posonlyargs:
            self._refuse(self.function, "its parameters are not plain")
        for argument in parameters.args:
            if argument.annotation and _unparse(argument.annotation) != "tl.constexpr":
                self._refuse(argument, f"the type of {argument.arg!r} is not tl.constexpr")
        for default in parameters.defaults:
            if not isinstance(default, ast.Constant):
                self._refuse(default, f"the default {_unparse(default)!r} is no constant")
        if self.function.returns is not None:
            self._refuse(self.function.returns, "it says what it returns")

    def _of_language(self, node: ast.Attribute) -> bool:
        """``tl.load``, ``tl.math.exp``, ``value.to``; no module, nothing private."""
        base, name = node.value, node.attr
        if isinstance(base, ast.Attribute) and _unparse(base) == "tl.math":
            base = ast.Name("tl_math", ast.Load())
        if not isinstance(base, ast.Name) or base.id not in self.modules:
            return name in _OF_VALUES
        if name.startswith("_"):
            return False
        member = getattr(self.modules[base.id], name, None)
        if isinstance(member, ModuleType):
            return (base.id, name) == ("tl", "math")
        return member is not None

    def _refuse(self, node: ast.AST, why: str) -> NoReturn:
        self.text.refuse(node, f"{self.function.name!r} is not compiled: {why}")


def _is_jit(decorator: ast.expr) -> bool:
    return _unparse(decorator) == "triton.jit"


def _bare(function: ast.FunctionDef) -> ast.FunctionDef:
    """Under ``@triton.jit`` alone: what else decorates it is PyTorch's."""
    made = copy(function)
    made.decorator_list = [d for d in function.decorator_list if _is_jit(d)]
    return made


def _unparse(node: ast.AST) -> str:
    return ast.unparse(node)
