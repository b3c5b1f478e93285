"""``from_inductor``: candidates from the kernels that ``torch.compile`` wrote to its cache.

The files are read as text: neither they nor PyTorch are imported. Their layout is that of
torch/_inductor/codegen/wrapper.py and triton.py, from 2.4 to 2.9.
"""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from perfassert.errors import KernelSourceError, LaunchError, ToolchainMissing
from perfassert.frontends.generators.inductor_configs import (
    Config,
    blocks_of,
    configurations,
    fits,
)
from perfassert.frontends.generators.triton import from_triton
from perfassert.frontends.generators.triton_text import PutIn, TritonText, UnknownSize
from perfassert.kernel.description import CompiledKernel
from perfassert.kernel.launch import Launch
from perfassert.kernel.machine import WARP_LANES
from perfassert.source import SourceSpan
from perfassert.system.confined import read_text

_MARK = "async_compile.triton("
_KERNEL_PATH = re.compile(r"#\s*kernel path:\s*(\S+)")
_AXES = "xyz"
_MOST_ROWS = 65535  # CUDA's limit of blocks along y
_DIVISIBLE = ("tt.divisibility", 16)
_TYPE = re.compile(r"\*?k?(?:[iu](?:1|8|16|32|64)|fp(?:16|32|64)|bf16|fp8e[45]\w{0,3})|constexpr")
_MALFORMED = (
    AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError, ZeroDivisionError,
)  # fmt: skip
_SHOWN = {"num_warps": "warps", "num_stages": "stages"}


@dataclass(frozen=True)
class InductorKernel:
    """A Triton kernel of ``torch.compile`` for one shape, with its configurations as candidates.

    Attributes:
        name: name of the function.
        span: beginning of its text.
        calls: launches of the kernel in the program.
        candidates: label → kernel and launch, as :func:`perfassert.rank` takes them.
        chosen: label of the configuration used, by the cache; None if the cache has none.
        refused: reason why there is no candidate; None if there is one.

    Example:
        >>> from importlib.resources import files
        >>> import perfassert as pa
        >>> from perfassert.source import SourceSpan
        >>> kernel = pa.from_cubin(files("perfassert.sensitivity") / "saxpy.sass")
        >>> candidates = {"XBLOCK=256": (kernel, pa.Launch(4096, 256, args={"n": 1 << 20}))}
        >>> span = SourceSpan("output_code.py", 12)
        >>> found = pa.InductorKernel("triton_poi_fused_0", span, calls=1, candidates=candidates)
        >>> found.launch.grid
        (4096, 1, 1)
    """

    name: str
    span: SourceSpan
    calls: int
    candidates: Mapping[str, tuple[CompiledKernel, Launch]]
    chosen: str | None = None
    refused: str | None = None

    @property
    def kernel(self) -> CompiledKernel:
        """Kernel with the chosen configuration, else with the first one.

        Raises:
            KernelSourceError: there is no candidate; the message is :attr:`refused`.
        """
        return self._first[0]

    @property
    def launch(self) -> Launch:
        """Launch with the chosen configuration, else with the first one.

        Raises:
            KernelSourceError: there is no candidate; the message is :attr:`refused`.
        """
        return self._first[1]

    @property
    def _first(self) -> tuple[CompiledKernel, Launch]:
        if self.refused:
            raise KernelSourceError(self.refused)
        return self.candidates[self.chosen or next(iter(self.candidates))]


def from_inductor(
    path: str | Path,
    *,
    sizes: Mapping[str, int] | None = None,
    configs: Mapping[str, Sequence[Mapping[str, int]]] | None = None,
    assume: Mapping[str, str] | None = None,
) -> tuple[InductorKernel, ...]:
    """Read the Triton kernels that ``torch.compile`` wrote to its cache.

    Files are read as text; neither are they imported nor is PyTorch. Kernels of libraries and of
    the CPU are left out.

    Args:
        path: an ``output_code.py``, or a folder with such files: that of
            ``TORCHINDUCTOR_CACHE_DIR`` or of ``TORCH_COMPILE_DEBUG=1``.
        sizes: extents of dynamic shapes: ``{"s0": 4096}``. Default: none.
        configs: kernel → configurations to try, ``{"XBLOCK": 1024, "num_warps": 4}``. Default:
            those that Inductor would try.
        assume: assumed values loaded through a parameter, as for :func:`from_cuda`.

    Returns:
        An :class:`InductorKernel` for each kernel and shape, in the order of their launches. One
        with a grid, a heuristic or a helper that is not known has its reason in ``refused``.

    Raises:
        KernelSourceError: with file and line: nothing of Inductor's, no kernel for a GPU, a dynamic
            shape without a size, or ``configs`` of a kernel that is not launched.
        ToolchainMissing: Triton is not installed.

    Example:
        >>> import perfassert as pa
        >>> for kernel in pa.from_inductor("inductor_rows.py"):  # doctest: +SKIP
        ...     print(kernel.name, kernel.calls, len(kernel.candidates))
        triton_poi_fused_add_relu_0 1 2
        triton_per_fused__softmax_1 2 1
    """
    kernels = [
        kernel
        for file in _output_files(Path(path))
        for kernel in _OutputCode(file, sizes or {}, configs or {}, assume).kernels()
    ]
    if not kernels:
        raise KernelSourceError(f"{path}: launches no Triton kernel of a GPU")
    unknown = {*(configs or {})} - {kernel.name for kernel in kernels}
    if unknown:
        raise KernelSourceError(f"{path}: launches no kernel {min(unknown)!r}")
    return tuple(kernels)


def _output_files(path: Path) -> list[Path]:
    if not os.path.exists(path):
        raise KernelSourceError(f"{path}: there is no such file or folder")
    if path.is_file():
        return [path]
    files = [p for p in sorted(path.rglob("*.py")) if _MARK in read_text(p, errors="replace")]
    if not files:
        raise KernelSourceError(
            f"{path}: no file in it calls {_MARK}...); give the folder of TORCHINDUCTOR_CACHE_DIR, "
            "or the output_code.py of TORCH_COMPILE_DEBUG=1"
        )
    return files


@dataclass(frozen=True)
class _OutputCode:
    """A file with kernels as texts, and with the function that launches them."""

    path: Path
    sizes: Mapping[str, int]
    configs: Mapping[str, Sequence[Mapping[str, int]]]
    assume: Mapping[str, str] | None

    def kernels(self) -> Iterator[InductorKernel]:
        """Yield the kernels, one for each function and shape."""
        text = read_text(self.path, errors="replace")
        whole = TritonText.read(self.path, text)
        texts = dict(self._texts(whole.tree))
        if not texts:
            raise KernelSourceError(
                f"{self.path}: has no {_MARK}...); give the output_code.py, which launches kernels"
            )
        launched: dict[tuple[str, tuple[int, ...]], list[ast.Call]] = {}
        for name, call in _calls(whole, texts, self.sizes):
            given = texts[name].numbers(whole, call, self.sizes)
            launched.setdefault((name, given), []).append(call)
        for (name, given), calls in launched.items():
            chosen = _best_config(self.path, text, texts[name].line)
            yield self._kernel(texts[name], given, len(calls), chosen)

    def _texts(self, tree: ast.Module) -> Iterator[tuple[str, _Described]]:
        for node in ast.walk(tree):
            if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
                continue
            call, target = node.value, node.targets[0]
            if ast.unparse(call.func) + "(" != _MARK or not isinstance(target, ast.Name):
                continue
            source = call.args[1] if len(call.args) > 1 else None
            if isinstance(source, ast.Constant) and isinstance(source.value, str):
                described = _Described.read(self.path, source.value, source.lineno)
                if described.device == "cuda":
                    yield target.id, described

    def _kernel(
        self, described: _Described, given: tuple[int, ...], calls: int, chosen: Config | None
    ) -> InductorKernel:
        name = described.name
        span = SourceSpan(str(self.path), described.node.lineno)
        tried = [dict(c) for c in self.configs.get(name, ())] or [*described.configs]
        tried = ([chosen] if chosen else []) + [c for c in tried if c != chosen]
        try:
            candidates = {
                _label(config): described.candidate(config, given, self.assume)
                for config in tried or described.unknown()
            }
        except ToolchainMissing:
            raise
        except LaunchError as error:
            return InductorKernel(name, span, calls, {}, refused=f"{span}: {error}")
        except KernelSourceError as error:
            return InductorKernel(name, span, calls, {}, refused=str(error))
        return InductorKernel(name, span, calls, candidates, _label(chosen) if chosen else None)


@dataclass(frozen=True)
class _Described:
    """A kernel's text, and the launch data in its decorator.

    ``types`` and ``constants`` are by parameter. ``attributes`` are the facts that Triton may rely
    on. ``grid`` has the parameters of the grid if a launch passes them behind the kernel's own.
    """

    text: TritonText
    name: str
    line: int
    heuristic: str
    types: Mapping[str, str]
    constants: Mapping[str, Any]
    attributes: Mapping[tuple[int, ...], Any]
    configs: Sequence[Config]
    grid_type: str
    grid: Sequence[str]
    device: str

    @classmethod
    def read(cls, path: Path, source: str, line: int) -> _Described:
        """Parse a kernel; ``line`` is the line of the file where its string begins."""
        text = TritonText.read(path, source, line)
        for name, function in text.functions.items():
            for decorator in function.decorator_list:
                if isinstance(decorator, ast.Call):
                    return cls._read(text, name, decorator, line)
        raise KernelSourceError(f"{path}:{line}: no function of it is under @triton_heuristics")

    @classmethod
    def _read(cls, text: TritonText, name: str, decorator: ast.Call, line: int) -> _Described:
        heuristic = ast.unparse(decorator.func).rpartition(".")[2]
        given = {str(k.arg): text.literal(k.value) for k in decorator.keywords}
        names, _ = text.parameters(name)
        try:
            meta, more = dict(given.get("triton_meta", {})), dict(given.get("inductor_meta", {}))
            return cls(
                text, name, line, heuristic,
                types=_types(_by_name(names, meta.get("signature", {}))),
                constants=_constants(_by_name(names, meta.get("constants", {}))),
                attributes=_attributes(meta),
                configs=[
                    _check_config(c) for c in configurations(heuristic, given) if fits(c, names)
                ],
                grid_type=str(more.get("grid_type", "Grid1D")),
                grid=_grid(names, more.get("extra_launcher_args", ())),
                device=_device(meta),
            )  # fmt: skip
        except _MALFORMED as error:
            text.refuse(
                decorator,
                f"the arguments of triton_heuristics.{heuristic} are not as Inductor prints them: "
                f"{error!r}",
            )

    @property
    def node(self) -> ast.FunctionDef:
        return self.text.functions[self.name]

    @property
    def parameters(self) -> list[str]:
        return self.text.parameters(self.name)[0]

    @property
    def passed(self) -> list[str]:
        """Parameters that a launch passes; the configuration sets the others as constants."""
        names, fixed = self.text.parameters(self.name)
        return [name for name in names if name not in fixed]

    def numbers(self, whole: TritonText, call: ast.Call, sizes: Mapping[str, int]) -> Any:
        """Return the numbers that a launch passes: scalars, then the extents of a passed grid."""
        wanted = [*self.passed, *self.grid]
        if len(call.args) != len(wanted):
            whole.refuse(
                call, f"{self.name!r} is launched with {len(call.args)} arguments, not {wanted}"
            )
        for keyword in call.keywords:
            value = keyword.value
            if keyword.arg == "grid" and not ast.unparse(value).startswith("grid("):
                whole.refuse(call, f"the grid {ast.unparse(value)} is not known here")
        pointers = {name for name, kind in self.types.items() if kind.startswith("*")}
        pairs = zip(wanted, call.args, strict=True)
        return tuple(whole.integer(arg, sizes) for name, arg in pairs if name not in pointers)

    def unknown(self) -> NoReturn:
        """Raise for a heuristic whose configurations are unknown."""
        self.text.refuse(
            self.node,
            f"what triton_heuristics.{self.heuristic} tries for {self.name!r} is not known; give "
            f"configs={{{self.name!r}: [{{'XBLOCK': 1024, 'num_warps': 4}}]}}",
        )

    def candidate(
        self,
        config: Config,
        given: tuple[int, ...],
        assume: Mapping[str, str] | None,
    ) -> tuple[CompiledKernel, Launch]:
        """Return kernel and launch of one configuration, as Inductor would launch it."""
        types = self.types
        scalars = [n for n in self.passed if not types.get(n, "").startswith("*")]
        values = dict(zip([*scalars, *self.grid], given, strict=True))
        constants = {**self.constants, **dict(blocks_of(config, self.parameters))}
        kernel = from_triton(
            self.text.jit(self.name, constants),
            {n: types[n] for n in self.passed if n in types and n not in constants},
            constants,
            num_warps=config.get("num_warps", 4),
            num_stages=config.get("num_stages"),
            attrs=self.attributes,
            assume=assume,
        )
        args = {name: values[name] for name in scalars if name not in constants}
        grid = self._grid(config, values)
        return kernel, Launch(grid, config.get("num_warps", 4) * WARP_LANES, args)

    def _grid(self, config: Config, values: Mapping[str, int]) -> tuple[int, int, int]:
        kind = self.grid_type
        if self.grid:
            x, y, z = (values[name] for name in self.grid)
            return x, y, z
        sizes = {**self.constants, **values}
        x, y, z = (
            -(-sizes.get(f"{axis}numel", 1) // config.get(f"{axis.upper()}BLOCK", 1))
            for axis in _AXES
        )
        if kind == "Grid2DWithYZOverflow" and y > _MOST_ROWS:
            z = -(-y // _MOST_ROWS)
            return x, -(-y // z), z
        if kind not in ("Grid1D", "Grid2D", "Grid3D", "Grid2DWithYZOverflow"):
            self.text.refuse(self.node, f"the grid of {self.name!r} is a {kind}, not known here")
        return x, y, z


def _by_name(names: Sequence[str], values: Mapping[Any, Any]) -> dict[str, Any]:
    """Return values by the parameter's name; PyTorch up to 2.5 has them by position."""
    return {names[k] if isinstance(k, int) else str(k): v for k, v in dict(values).items()}


def _constants(constants: dict[str, Any]) -> dict[str, Any]:
    """Return the constants after a check that every size is an integer."""
    for name, value in constants.items():
        if name.endswith("numel") and type(value) is not int:
            raise ValueError(f"the size {value!r} of {name!r}")
    return constants


def _grid(names: Sequence[str], axes: Sequence[Any]) -> list[str]:
    grid = [str(axis) for axis in axes]
    if len(grid) not in (0, 3) or {*grid} & {*names}:
        raise ValueError(f"the grid {grid}")
    return grid


def _types(types: dict[str, Any]) -> dict[str, str]:
    for name, kind in types.items():
        if not isinstance(kind, str) or not _TYPE.fullmatch(kind):
            raise ValueError(f"the type {kind!r} of {name!r}")
    return types


def _device(meta: Mapping[str, Any]) -> str:
    """Return the kind of device, which the versions of PyTorch store in different places."""
    device = meta.get("device")
    kind = device.get("type") if isinstance(device, Mapping) else meta.get("device_type")
    return str(kind or "cuda")


def _attributes(meta: Mapping[str, Any]) -> dict[tuple[int, ...], Any]:
    """Return the facts that Triton may rely on, in the form of its ``ASTSource``.

    Three versions of PyTorch spell them in three ways.
    """
    config: Mapping[Any, Any] = next(iter(meta.get("configs", ())), {})
    if all(isinstance(key, tuple) for key in config):
        attributes = {key: [list(pair) for pair in pairs] for key, pairs in config.items()}
    else:
        places = config.get("arg_properties", {}).get(_DIVISIBLE[0])
        places = places or config.get("divisible_by_16", ())
        attributes = {(int(place),): [[*_DIVISIBLE]] for place in places}
    for pairs in attributes.values():
        if any(pair != [*_DIVISIBLE] for pair in pairs):
            raise ValueError(f"the attributes {pairs!r}")
    return attributes


def _calls(
    whole: TritonText, texts: Mapping[str, Any], sizes: Mapping[str, int]
) -> Iterator[tuple[str, ast.Call]]:
    """Yield the launches from top to bottom, with the sizes computed before them inserted."""
    nodes = (n for n in ast.walk(whole.tree) if isinstance(n, (ast.Assign, ast.Expr)))
    computed: dict[str, ast.expr] = {}
    for node in sorted(nodes, key=lambda n: n.lineno):
        value, target = node.value, node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(target, ast.Name) and isinstance(value, (ast.BinOp, ast.UnaryOp)):
            with suppress(KernelSourceError):  # a value that no launch uses may be no size
                computed[target.id] = _compute(whole, PutIn(computed).visit(value), sizes)
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            name = ast.unparse(value.func.value)
            if value.func.attr == "run" and name in texts:
                yield name, PutIn(computed).visit(value)


def _compute(whole: TritonText, node: ast.expr, sizes: Mapping[str, int]) -> ast.expr:
    """Return a size as a number, or the part of it that is unknown.

    An expression built of unknown expressions could become huge.
    """
    try:
        return ast.Constant(whole.integer(node, sizes))
    except UnknownSize as error:
        return error.part


def _best_config(path: Path, text: str, line: int) -> Config | None:
    """Return the tuned configuration in ``HASH.best_config`` beside the kernel's cache file."""
    above = _KERNEL_PATH.findall("\n".join(text.splitlines()[:line]))
    if not above:
        return None
    stem = Path(above[-1]).stem
    for folder in (path.parent.parent / stem[1:3], path.parent):
        file = folder / f"{stem}.best_config"
        if file.is_file():
            return _config(file)
    return None


def _config(path: Path) -> Config:
    try:
        read = json.loads(read_text(path))
        return _check_config({k: v for k, v in read.items() if k.endswith("BLOCK") or k in _SHOWN})
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise KernelSourceError(f"{path}: is no configuration: {error}") from None


def _check_config(config: Mapping[str, Any]) -> Config:
    if not all(type(value) is int and value > 0 for value in config.values()):
        raise ValueError(f"{dict(config)} are not integers above 0")
    return dict(config)


def _label(config: Mapping[str, int]) -> str:
    """Return ``"XBLOCK=1024 warps=4 stages=1"``."""
    return " ".join(f"{_SHOWN.get(name, name)}={value}" for name, value in config.items())
