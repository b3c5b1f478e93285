"""Checks of what users say about a source file, before anything is read or compiled."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Union

from perfassert.errors import KernelError, KernelSourceError, check_kind, close_matches
from perfassert.frontends.toolchain.architecture import architecture
from perfassert.frontends.toolchain.binary import Source
from perfassert.frontends.toolchain.toolchains import release_of
from perfassert.quantity import to_list

AnyPath = Union[str, "PathLike[str]"]


def source_path(path: AnyPath) -> Path:
    """Return a path that a user gives; :class:`KernelSourceError` for another kind of value."""
    check_kind(path, (str, PathLike), "the path of a kernel", KernelSourceError)
    return Path(path)


def check_source_file(place: Path) -> None:
    """Raise :class:`KernelSourceError` if the file does not exist."""
    if "\n" in str(place) or "{" in str(place):
        line = str(place).strip().splitlines()[0]
        raise KernelSourceError(f"{line!r} …: source text where the path of a file is wanted")
    if os.path.isdir(place):
        raise KernelSourceError(f"{place} is a folder; name a file in it")
    if not os.path.isfile(place):
        near = close_matches(place.name, (p.name for p in place.parent.glob("*"))) if (
            os.path.isdir(place.parent)) else ""  # fmt: skip
        beside = near or f" in {Path.cwd()}" * (not place.is_absolute())
        raise KernelSourceError(f"{place}: no such file{beside}")


def source_of(
    path: Path,
    kind: str,
    kernel: str | None = None,
    *,
    defines: Mapping[str, object] | None = None,
    include_dirs: AnyPath | Sequence[AnyPath] = (),
    options: Sequence[str] = (),
    arch: str | None = None,
    toolchain: str | None = None,
) -> Source:
    """Return a source with checked settings; see :class:`Source` for their meaning.

    Args:
        path: the file.
        kind: how the file is read.
        kernel: name of the kernel.
        defines: macro → value.
        include_dirs: folders of headers; a single one may stand alone.
        options: options of the compiler.
        arch: architecture of a compiled file.
        toolchain: CUDA release.

    Raises:
        KernelSourceError: a setting of another kind, no architecture, or no release.
        KernelError: ``defines`` that are no mapping.
    """
    check_kind("" if kernel is None else kernel, str, "kernel", KernelSourceError)
    check_kind({} if defines is None else defines, Mapping, "defines", KernelError)
    alone = isinstance(include_dirs, (str, PathLike))
    folders = [include_dirs] if alone else _items(include_dirs, "include_dirs", (str, PathLike))
    words = _items(options, "options", (str,))
    if arch is not None:
        architecture(arch)
    if toolchain is not None:
        release_of(toolchain)
    return Source(
        path, kind, kernel, dict(defines or {}), tuple(map(str, folders)), tuple(map(str, words)),
        arch=arch, toolchain=toolchain,
    )  # fmt: skip


def _items(value: object, what: str, kinds: tuple[type, ...]) -> list[object]:
    """Return the items of a list; :class:`KernelSourceError` for items that are of no such kind."""
    items: list[object] = to_list(value, what, KernelSourceError)  # type: ignore[arg-type]
    for item in items:
        check_kind(item, kinds, f"each of {what}", KernelSourceError)
    return items
