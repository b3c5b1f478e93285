"""Report formats of plug-ins, which convert predictions to text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from perfassert.errors import PluginError, close_matches
from perfassert.plugins import Contributions, gather, wrap_errors

Format = Callable[[Sequence[Mapping[str, Any]]], str]
"""Function that converts results of :meth:`perfassert.Prediction.to_dict` to text."""


def report_format(name: str, own: Iterable[str] = ()) -> Format:
    """Return the format of a plug-in.

    ``own`` are names of formats that the caller has itself; plug-ins must not use them.

    Raises :class:`~perfassert.errors.PluginError` for an unknown name, with close matches.
    """
    own = tuple(own)
    formats = _plugin_formats(own)
    write = formats.get(name)
    if write is None:
        known = (*own, *formats.by_name)
        hint = close_matches(name, known) or (f"; known: {', '.join(known)}" if known else "")
        raise PluginError(f"unknown report format {name!r}{hint}{formats.note()}")
    return write


def _plugin_formats(own: Sequence[str]) -> Contributions[Format]:
    return gather("perfassert_report_formats", _formats_of_plugin, own)


def _formats_of_plugin(plugin: str, given: Mapping[str, Any]) -> Iterator[tuple[str, Format]]:
    for name, write in given.items():
        if not (isinstance(name, str) and name.isidentifier()):
            raise ValueError(f"{name!r} is not a valid name; use an identifier such as 'csv'")
        if not callable(write):
            raise TypeError(f"{name}: {write!r} is not a function")
        yield name, _guard_writer(plugin, name, write)


def _guard_writer(plugin: str, name: str, write: Callable[..., Any]) -> Format:
    run = wrap_errors(plugin, f"report format {name!r}", write)

    def text(predictions: Sequence[Mapping[str, Any]]) -> str:
        written = run(predictions)
        if not isinstance(written, str):
            wrong = f"report format {name!r} returned {written!r}, not a string"
            raise PluginError(f"plug-in {plugin}: {wrong}")
        return written

    return text
