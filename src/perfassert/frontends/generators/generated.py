"""Parts that the generators' front ends share: sources made per architecture, and kernels."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any

from perfassert.errors import LaunchError, PerfAssertWarning, ToolchainMissing
from perfassert.frontends.cuda.kernels import CompiledCode, Hints
from perfassert.frontends.toolchain.binary import Source
from perfassert.frontends.toolchain.signature import Declared
from perfassert.kernel.description import CompiledKernel
from perfassert.kernel.launch import Launch

C_TYPES = {
    "bool": "bool", "int8": "signed char", "uint8": "unsigned char", "int16": "short",
    "uint16": "unsigned short", "int32": "int", "uint32": "unsigned int", "int64": "long long",
    "uint64": "unsigned long long", "float16": "__half", "float32": "float", "float64": "double",
}  # fmt: skip
"""Numpy's name of a number's type → its C type."""


TestedReleases = tuple[tuple[int, ...], tuple[int, ...]]
"""Oldest and newest release of a generator that the tests have run with."""


@dataclass(frozen=True, eq=False)
class Generator:
    """Writer of a source for an architecture, which writes each source once.

    Warnings of a generator are about itself, so they are no errors even where warnings are.
    """

    write: Callable[[str], Source]
    _written: dict[str, Source] = field(default_factory=dict, repr=False)

    def __call__(self, arch: str) -> Source:
        if arch not in self._written:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._written[arch] = self.write(arch)
        return self._written[arch]


def generated_kernel(
    name: str,
    write: Callable[[str], Source],
    hints: Hints,
    parameters: tuple[Declared, ...] = (),
    spelled_out: Callable[[Launch], Launch] | None = None,
) -> CompiledKernel:
    """Return a kernel whose source ``write`` makes for each architecture."""
    return CompiledKernel(
        name=name,
        updates_per_thread=hints.updates_per_thread,
        compiled=CompiledCode(Generator(write), hints, parameters),
        spelled_out=spelled_out,
    )


def ptx_source(text: str | bytes, where: str, options: tuple[str, ...] = ()) -> Source:
    """Return a source of PTX in memory; ``where`` names its origin in errors.

    The kernel in the text may have any name.
    """
    content = text.encode() if isinstance(text, str) else text
    return Source(Path(where), "ptx", options=options, content=content)


def package(name: str, extra: str, tested: TestedReleases, distribution: str) -> ModuleType:
    """Import the generator's package; :class:`ToolchainMissing` has the command for pip."""
    try:
        module = import_module(name)
    except ImportError as error:
        raise ToolchainMissing(
            f"{name} cannot be imported ({error}); {_install_hint(extra)}"
        ) from None
    warn_if_untested(extra, tested, distribution)
    return module


def warn_if_untested(extra: str, tested: TestedReleases, *distributions: str) -> None:
    """Warn of each installed distribution in a release that no test has run with.

    No distribution is imported.
    """
    for distribution in distributions:
        try:
            installed = version(distribution)
        except PackageNotFoundError:
            continue
        numbers = _version_numbers(installed)
        if not all(_is_ordered(*pair) for pair in ((tested[0], numbers), (numbers, tested[1]))):
            oldest, newest = (".".join(map(str, numbers)) for numbers in tested)
            warnings.warn(
                f"{distribution} {installed} is untested; {oldest} to {newest} are tested; if "
                f"something fails, {_install_hint(extra)}",
                PerfAssertWarning,
                stacklevel=3,
            )


def _is_ordered(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
    """Return True if the first release is not newer, as far as both are written out."""
    return all(a == b for a, b in zip(first, second, strict=False)) or first < second


def _install_hint(extra: str) -> str:
    return f'install it with: pip install "perfassert[{extra}]"'


def _version_numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:3] if part.isdigit())


def by_name(launch: Launch, names: list[str], kernel: str) -> Mapping[str, Any]:
    """Return the launch's arguments by the names of the generator's own parameters."""
    if isinstance(launch.args, Mapping):
        return launch.args
    if len(launch.args) > len(names):
        raise LaunchError(
            f"{len(launch.args)} arguments for {kernel!r}, whose parameters are: {', '.join(names)}"
        )
    return dict(zip(names, launch.args, strict=False))


def with_args(launch: Launch, args: Mapping[str, Any]) -> Launch:
    """Return the launch with other arguments."""
    return Launch(
        launch.grid, launch.block, args, launch.shared_bytes, domain=launch.domain,
        cluster=launch.cluster,
    )  # fmt: skip
