"""Front ends of plug-ins, found by the suffix of the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from perfassert.errors import KernelSourceError, PluginError
from perfassert.kernel.description import Kernel
from perfassert.plugins import Contributions, gather, wrap_errors

Frontend = Callable[[Path, "str | None"], Kernel]


def frontend(suffix: str, source: str, own: Sequence[str]) -> Frontend:
    """Return the front end for a suffix; raises :class:`KernelSourceError` if there is none."""
    frontends = _plugged_frontends(own)
    make = frontends.get(suffix) if suffix else None
    if make is None:
        known = ", ".join((*own, *frontends.by_name))
        raise KernelSourceError(
            f"{source}: no front end reads {suffix or 'files without suffix'}; known: {known}; a "
            f"plug-in may add one{frontends.note()}"
        )
    return make


def _plugged_frontends(own: Sequence[str]) -> Contributions[Frontend]:
    return gather("perfassert_frontends", _read_frontends, own)


def _read_frontends(plugin: str, makers: Mapping[str, Any]) -> Iterator[tuple[str, Frontend]]:
    for suffix, make in makers.items():
        if not (isinstance(suffix, str) and suffix.startswith(".") and len(suffix) > 1):
            raise ValueError(f"{suffix!r} is not a suffix, as in '.ir'")
        if not callable(make):
            raise TypeError(f"{suffix}: {make!r} is not a function")
        yield suffix, _check_frontend(plugin, suffix, make)


def _check_frontend(plugin: str, suffix: str, make: Callable[..., Any]) -> Frontend:
    what = f"the front end of {suffix} files"
    run = wrap_errors(plugin, what, make)

    def kernel(path: Path, name: str | None) -> Kernel:
        made = run(path, name)
        if not isinstance(made, Kernel):
            raise PluginError(f"plug-in {plugin}: {what} gave {made!r}, which is no Kernel")
        return made

    return kernel
