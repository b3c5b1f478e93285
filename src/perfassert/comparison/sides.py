"""The kernels of one side: a file, a folder, or those files of it that a pattern chooses."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from perfassert.comparison.kernel_changes import CodeSide, Placed
from perfassert.comparison.revisions import Checkout
from perfassert.errors import KernelSourceError, ToolchainMissing
from perfassert.frontends.cuda.inventory import kernels
from perfassert.frontends.toolchain.containers import holds_code
from perfassert.system.process_pool import Progress, map_in_threads

_BUILT = (".cubin", ".fatbin", ".o", ".obj", ".a", ".so", ".lib", ".dll")
_SOURCES = (".cu", ".ptx")


@dataclass(frozen=True, slots=True)
class Reading:
    """How files are chosen and compiled: ``patterns`` below a folder, ``arch``, and what is said to
    the compiler of CUDA sources. ``sources_first``: a compiled file beside them hides them not."""

    patterns: tuple[str, ...] = ()
    arch: str | None = None
    compilation: Mapping[str, Any] = field(default_factory=dict)
    sources_first: bool = False

    def inside(self, checkout: Checkout) -> Reading:
        """The same in a revision, with its own include folders."""
        folders = [str(checkout.inside(Path(f))) for f in self.compilation.get("include_dirs", ())]
        given = {**self.compilation, **({"include_dirs": folders} if folders else {})}
        return replace(self, compilation=given)


def side(
    path: Path, reading: Reading, name: str = "", progress: Progress | None = None
) -> CodeSide:
    """Read all; what cannot be read is said, and does not hide the rest. ``progress`` is told how
    many files are read, of how many.

    :class:`KernelSourceError` where there is nothing at all to read.
    """
    if not os.path.exists(path):
        raise KernelSourceError(f"{path}: there is no such file or folder")
    folder = path if path.is_dir() else path.parent
    kernels: list[Placed] = []
    broken: dict[str, str] = {}
    files = _files(path, reading) if path.is_dir() else [path]

    def of_file(file: Path) -> tuple[Sequence[Any], str]:
        try:
            return _kernels(file, reading), ""
        except ToolchainMissing:
            raise
        except KernelSourceError as error:
            return (), str(error).replace(f"{folder}{os.sep}", "")  # it may be a worktree of ours

    if progress:
        progress(0, len(files))
    for number, (infos, why) in enumerate(map_in_threads(of_file, files)):
        file = files[number]
        shown = file.relative_to(path).as_posix() if path.is_dir() else ""
        kernels += [Placed(info, shown, file) for info in infos]
        if why:
            broken[shown] = why
        if progress:
            progress(number + 1, len(files))
    return CodeSide(name or str(path), folder, tuple(kernels), broken)


def _kernels(file: Path, reading: Reading) -> Sequence[Any]:
    given = reading.compilation if file.suffix == ".cu" else {}
    return kernels(file, reading.arch, **given)


def from_sources(side: CodeSide) -> bool:
    """Whether the other side is to be read as sources, too."""
    return any(placed.path.suffix in _SOURCES for placed in side.kernels)


def _files(folder: Path, reading: Reading) -> list[Path]:
    """By pattern; else all that is built and, where nothing is, the sources, or the other way."""
    if patterns := reading.patterns:
        chosen = {f for pattern in patterns for f in folder.glob(pattern) if f.is_file()}
        if not chosen:
            raise KernelSourceError(f"{folder}: no file is like {', '.join(patterns)}")
        return sorted(chosen)
    every = sorted(f for f in folder.rglob("*") if f.is_file() and not _is_hidden(f, folder))
    for kinds in (_SOURCES, _BUILT) if reading.sources_first else (_BUILT, _SOURCES):
        if matching := [f for f in every if f.suffix in kinds]:
            return matching
    if matching := [f for f in every if not f.suffix and holds_code(f)]:
        return matching
    raise KernelSourceError(f"{folder}: there is no compiled code and no .cu or .ptx file")


def _is_hidden(file: Path, folder: Path) -> bool:
    """In ``.git``, ``.venv`` and their like, which a revision does not have."""
    return any(part.startswith(".") for part in file.relative_to(folder).parts)


def without_host_code(base: CodeSide, head: CodeSide) -> tuple[CodeSide, CodeSide]:
    """Files of which neither side has a kernel are none of ours: objects of the host.

    What is left of ``broken``: files that had kernels, and sources, which must compile.
    """
    had = {p.file for p in base.kernels}
    old = {f: why for f, why in base.broken.items() if _counts(f)}
    new = {f: why for f, why in head.broken.items() if f in had or _counts(f)}
    return replace(base, broken=old), replace(head, broken=new)


def _counts(file: str) -> bool:
    """Whether it has device code for certain: it was named alone, or is a source."""
    return not file or file.endswith(_SOURCES)
