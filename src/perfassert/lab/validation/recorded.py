"""Recorded launch of a row, found by program, kernel and shape.

A profiler and the compiler write a kernel's name in two ways (``void f<1, float>(T1 *)`` and
``f<true, float>(float*)``). Therefore the plain name and the template's arguments are compared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perfassert.errors import SuiteError
from perfassert.frontends.toolchain.names import base_name, demangle
from perfassert.kernel.buffer import Buffer
from perfassert.perf_toml.launches import RecordedLaunch, launches

LaunchShape = tuple[tuple[int, ...], tuple[int, ...]]
_CAST = re.compile(r"^\((?:\w+ ?)+\)")
_WORDS = {"true": "1", "false": "0"}


@dataclass(frozen=True, slots=True)
class RecordedSource:
    """Files that ``perfassert record`` wrote: ``path`` below ``folder``, with columns in braces.

    ``column`` holds the kernel's name; it is empty where a row stands for all launches of its file.
    ``contents``: launches keep the contents of buffers and constants.
    """

    folder: Path
    path: str
    column: str
    contents: bool = True

    def find(self, cells: Mapping[str, str], shape: LaunchShape) -> RecordedLaunch:
        """Return the first launch of the row's kernel with that shape; raises SuiteError."""
        path = self._file(cells)
        wanted = cells[self.column]
        named = [x for x in launches(path) if _function_name(x.name) == _function_name(wanted)]
        if not named:
            raise SuiteError(f"{path}: no launch of {wanted!r} was recorded")
        shaped = [x for x in named if _shape(x) == shape]
        if not shaped:
            raise SuiteError(f"{path}: {wanted!r} was not launched as grid, block {shape}")
        alike = [x for x in shaped if template_arguments(x.name) == template_arguments(wanted)]
        if not alike:
            raise SuiteError(f"{path}: {wanted!r} was launched with other template arguments")
        if not template_arguments(wanted) and _doubles(alike[0].name) != _doubles(wanted):
            raise SuiteError(f"{path}: {wanted!r} was built for another precision")
        return self._as_asked(alike[0])

    def find_all(self, cells: Mapping[str, str]) -> tuple[RecordedLaunch, ...]:
        """Return all launches of the row's file; raises SuiteError if there are none."""
        return tuple(self._as_asked(x) for x in launches(self._file(cells)))

    def _file(self, cells: Mapping[str, str]) -> Path:
        path = self.folder / self.path.format_map(cells)
        if not path.is_file():
            raise SuiteError(f"there is no recording {path}; make it by perfassert record")
        return path

    def _as_asked(self, recorded: RecordedLaunch) -> RecordedLaunch:
        return recorded if self.contents else without_contents(recorded)


def without_contents(recorded: RecordedLaunch) -> RecordedLaunch:
    """Return the launch as if written by hand: buffers by their shapes only, and numbers."""
    return replace(recorded, launch=replace(recorded.launch, args=_shapes(recorded.launch.args)))


def _shapes(value: Any) -> Any:
    if isinstance(value, Buffer):
        if value.alias is not None:
            return value
        return Buffer(value.shape, value.dtype, value.alignment, offset=value.offset)
    if isinstance(value, Mapping):
        return {name: _shapes(part) for name, part in value.items()}
    return tuple(_shapes(part) for part in value) if isinstance(value, (list, tuple)) else value


def _shape(launch: RecordedLaunch) -> LaunchShape:
    return tuple(launch.launch.grid), tuple(launch.launch.block)


def _function_name(name: str) -> str:
    return base_name(demangle(name)).split()[-1]


def _doubles(name: str) -> int:
    """Return how often a function's name has ``double``; a template's parameters are ``T1``."""
    return len(re.findall(r"\bdouble", demangle(name)))


def template_arguments(name: str) -> tuple[str, ...]:
    """Return a function's template arguments; ``true`` is 1, casts and suffixes are left out."""
    arguments, depth, inner = [""], 0, False
    for letter in demangle(name):
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and not depth:
            break
        if letter == "<" and depth == 1:
            arguments, inner = [""], True  # of the innermost scope: the last list counts
        elif letter == "," and depth == 1:
            arguments.append("")
        elif depth:
            arguments[-1] += letter
    return tuple(_plain_argument(x) for x in arguments) if inner else ()


def _plain_argument(text: str) -> str:
    plain = _CAST.sub("", text.strip())
    plain = _WORDS.get(plain, plain)
    return plain.rstrip("ul") if plain[:1].isdigit() else plain
