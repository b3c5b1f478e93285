"""``from_helion``: a kernel and its launch from the Triton code that Helion prints.

The layout is that of helion/_compiler/generate_ast.py and device_function.py, 0.2 to 1.5.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfassert.errors import KernelSourceError, close_matches
from perfassert.frontends.generators.triton import from_triton
from perfassert.frontends.generators.triton_text import PutIn, TritonText
from perfassert.kernel.description import CompiledKernel
from perfassert.kernel.launch import Launch
from perfassert.kernel.machine import WARP_LANES

_LAUNCHER = "_launcher"


def from_helion(
    path: str | Path,
    signature: Mapping[str, str],
    *,
    kernel: str | None = None,
    sizes: Mapping[str, int] | None = None,
    updates_per_thread: int = 1,
    trip_counts: Mapping[str, int] | None = None,
    assume: Mapping[str, str] | None = None,
) -> tuple[CompiledKernel, Launch]:
    """Read a kernel and its launch from the Triton code that Helion prints.

    The file has what ``kernel.bind(args).to_triton_code(config)`` gives, or what
    ``HELION_PRINT_OUTPUT_CODE=1`` prints. It is read as text; neither Helion nor PyTorch is
    imported.

    Args:
        path: the file.
        signature: Triton's types of pointers, and of parameters that are no integers:
            ``{"x": "*fp16"}``.
        kernel: name of the kernel. Default (None): the only one.
        sizes: extents of dynamic shapes, by their text: ``{"x.size(0)": 4096}``. Default: none.
        updates_per_thread: results that one thread makes. Default: 1.
        trip_counts: iterations of loops whose end depends on data, as for :func:`from_cuda`.
        assume: assumed values loaded through a parameter, as for :func:`from_cuda`.

    Returns:
        The kernel and the :class:`Launch` with which the text starts it.

    Raises:
        KernelSourceError: with file and line: no code of Helion's, a dynamic shape without a size,
            or code that reaches beyond Triton's language.
        ToolchainMissing: Triton is not installed.

    Example:
        >>> import perfassert as pa
        >>> types = {"x": "*fp32", "y": "*fp32", "out": "*fp32"}
        >>> kernel, launch = pa.from_helion("helion_exponents.py", types)  # doctest: +SKIP
        >>> kernel.name, launch.grid, launch.block  # doctest: +SKIP
        ('_helion_scaled_sum', (4096, 1, 1), (256, 1, 1))
    """
    text = TritonText.of_file(Path(path))
    launch = _choose_launch(text, tuple(_find_launches(text)), kernel)
    launch.check(signature)
    types, args, constants = launch.parameters(signature, sizes or {})
    warps = launch.option("num_warps") or 4
    made = from_triton(
        text.jit(launch.name, constants),
        types,
        constants,
        num_warps=warps,
        num_stages=launch.option("num_stages"),
        maxnreg=launch.option("maxnreg"),
        updates_per_thread=updates_per_thread,
        trip_counts=trip_counts,
        assume=assume,
    )
    return made, Launch(launch.grid(sizes or {}), warps * WARP_LANES, args)


@dataclass(frozen=True)
class _Launched:
    """A launch, ``_launcher(kernel, grid, arguments, num_warps=4)``, with known numbers put in."""

    text: TritonText
    name: str
    call: ast.Call

    def option(self, name: str) -> int | None:
        """Return an option that Triton gets beside the arguments, or None."""
        values = (k.value for k in self.call.keywords if k.arg == name)
        return next((self.text.integer(value, {}) for value in values), None)

    def check(self, signature: Mapping[str, str]) -> None:
        """Raise if arguments and parameters differ in number, or a typed name is no parameter."""
        names, _ = self.text.parameters(self.name)
        if len(names) != len(self.call.args) - 2:
            self.text.refuse(self.call, f"{self.name!r} has the parameters {', '.join(names)}")
        for name in signature:
            if name not in names:
                self.text.refuse(
                    self.call,
                    f"{self.name!r} has no parameter {name!r}{close_matches(name, names)}",
                )

    def parameters(
        self, signature: Mapping[str, str], sizes: Mapping[str, int]
    ) -> tuple[dict[str, str], dict[str, int], dict[str, Any]]:
        """Return types of parameters, arguments of the launch, and values of constants."""
        names, fixed = self.text.parameters(self.name)
        types, args, constants = dict(signature), {}, {}
        for name, argument in zip(names, self.call.args[2:], strict=True):
            if name in fixed:
                constants[name] = self._constant(argument, sizes)
            elif name not in signature:
                args[name] = self._number(name, argument, sizes)
                types[name] = "i32" if abs(args[name]) < 2**31 else "i64"
        return types, args, constants

    def _constant(self, expression: ast.expr, sizes: Mapping[str, int]) -> Any:
        if isinstance(expression, ast.Constant):
            return expression.value
        return self.text.integer(expression, sizes)

    def _number(self, name: str, expression: ast.expr, sizes: Mapping[str, int]) -> int:
        if isinstance(expression, ast.Name) and expression.id not in sizes:
            self.text.refuse(
                expression,
                f"parameter {name!r} of {self.name!r} needs a type in the signature, such as "
                f"'*fp16', or where it is a number a value: sizes={{{expression.id!r}: 4096}}",
            )
        return self.text.integer(expression, sizes)

    def grid(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the extents of the grid in blocks."""
        grid = self.call.args[1]
        axes = grid.elts if isinstance(grid, ast.Tuple) else [grid]
        return tuple(self.text.integer(axis, sizes) for axis in axes)


def _find_launches(text: TritonText) -> Iterator[_Launched]:
    """Yield the launches in functions beside the kernels, with assigned numbers inserted."""
    for function in text.tree.body:
        if not isinstance(function, ast.FunctionDef) or function.name in text.functions:
            continue
        known: dict[str, ast.expr] = {}
        for node in ast.walk(function):
            target = node.targets[0] if isinstance(node, ast.Assign) else None
            if isinstance(target, ast.Name) and isinstance(node, ast.Assign):
                known |= {target.id: node.value} if _is_number(node.value) else {}
            call = node.value if isinstance(node, (ast.Expr, ast.Assign)) else None
            if isinstance(call, ast.Call) and ast.unparse(call.func) == _LAUNCHER:
                name = ast.unparse(call.args[0]) if call.args else ""
                if name in text.functions and len(call.args) > 1:
                    yield _Launched(text, name, PutIn(known).visit(call))


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def _choose_launch(
    text: TritonText, launches: tuple[_Launched, ...], kernel: str | None
) -> _Launched:
    names = [launch.name for launch in launches]
    if not launches:
        raise KernelSourceError(
            f"{text.path}: launches no Triton kernel with {_LAUNCHER}(...); write what Helion "
            "prints with HELION_PRINT_OUTPUT_CODE=1 into the file"
        )
    fits = [
        launch
        for launch in launches
        if kernel in (None, launch.name, launch.name.removeprefix("_helion_"))
    ]
    if len(fits) != 1:
        raise KernelSourceError(f"{text.path}: name one of its kernels: {', '.join(names)}")
    return fits[0]
