"""Choice of the front end that reads a file: the only place that tells front ends apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfassert.errors import KernelSourceError
from perfassert.frontends.plugged import frontend
from perfassert.frontends.toolchain.containers import holds_code
from perfassert.kernel.description import Kernel
from perfassert.source import CUDA_SUFFIXES

_HINTS = ("updates_per_thread", "trip_counts", "assume", "constants", "toolchain")


@dataclass(frozen=True, slots=True)
class FileFrontend:
    """Front end for files of one kind; ``takes``: its arguments besides path and kernel.

    ``name``: the key of its sources in TOML files, ``""`` for those of plug-ins.
    """

    name: str
    suffixes: tuple[str, ...]
    takes: tuple[str, ...]
    make: Callable[..., Kernel]


def _compiled_frontend(name: str) -> Callable[..., Kernel]:
    """Return ``from_<name>``, imported when a kernel is made."""

    def make(path: Path, kernel: str | None, **given: Any) -> Kernel:
        from perfassert.frontends.cuda import kernels

        made: Kernel = getattr(kernels, f"from_{name}")(path, kernel, **given)
        return made

    return make


OWN: Mapping[str, FileFrontend] = {
    name: FileFrontend(name, suffixes, (*_HINTS, *more), _compiled_frontend(name))
    for name, suffixes, more in (
        ("cuda", CUDA_SUFFIXES, ("defines", "include_dirs", "options")),
        ("ptx", (".ptx",), ("options", "parameters")),
        ("cubin", (".cubin", ".sass", ".fatbin", ".o", ".a", ".so"), ("arch", "parameters")),
    )
}
"""perfassert's own, by name."""
_BY_SUFFIX = {suffix: own for own in OWN.values() for suffix in own.suffixes}


def frontend_of(source: str) -> FileFrontend:
    """Return the front end for a file, by suffix; raises :class:`~perfassert.KernelSourceError`.

    Programs have none and libraries many (``.so.1``): these are known by how they begin.
    """
    suffix = Path(source).suffix
    if suffix in _BY_SUFFIX:
        return _BY_SUFFIX[suffix]
    try:
        return FileFrontend("", (suffix,), (), frontend(suffix, source, tuple(_BY_SUFFIX)))
    except KernelSourceError:
        if holds_code(Path(source)):
            return OWN["cubin"]
        raise
