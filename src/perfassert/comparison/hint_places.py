"""Places of hints in the code of two sides.

A hint of a launches file names a loop or a load by its file and line. Another side's code has the
same loop elsewhere, or another loop there. The text of the line identifies it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

from perfassert.baseline.identity import machine_code
from perfassert.frontends.binding.binder import loop_keys
from perfassert.frontends.cuda.kernels import BuiltCode, Hints
from perfassert.source import SourceSpan
from perfassert.system.confined import may_be_shown, open_file

_SHOWN = 80  # characters of a line
Value = TypeVar("Value")


class UndecidedHint(Exception):
    """Error for a hint of one side whose place in the other side's code is not determined."""


@dataclass(frozen=True, slots=True)
class Place:
    """Loop or load in the code.

    ``keys`` are the names that a hint may use for it, the most specific first. ``text`` is its line
    with single blanks, empty if the line cannot be read.
    """

    keys: tuple[str, ...]
    file: str = ""
    line: int = 0
    text: str = ""

    @property
    def name(self) -> str:
        """Most specific name of the place; empty if there is none."""
        return self.keys[0] if self.keys else ""

    @property
    def position(self) -> tuple[str, int, str]:
        """Key for the order of the text."""
        return self.file, self.line, self.name

    def hint(self, table: Mapping[str, Value]) -> str | None:
        """Return the key of the hint that applies to it; None without one."""
        return next((key for key in self.keys if key in table), None)

    def of(self, table: Mapping[str, Value]) -> Value | None:
        """Return the value of the hint that applies to it; None without one."""
        key = self.hint(table)
        return None if key is None else table[key]


@dataclass(frozen=True, slots=True)
class CodePlaces:
    """Loops and loads of one side's kernel, in the order of its program.

    ``side``: its name; ``code``: the machine code; ``lines``: file → its lines.
    """

    side: str
    code: Sequence[str]
    loops: Sequence[Place]
    loads: Sequence[Place]
    lines: Mapping[str, Sequence[str]]


def has_places(hints: Hints) -> bool:
    """Return True if a hint may name a line."""
    return bool(hints.trip_counts) or any(":" in key for key in hints.assume)


def find_places(code: BuiltCode, side: str, folder: Path, other: Path) -> CodePlaces:
    """Find the loops and loads of a kernel.

    Args:
        code: the kernel, compiled.
        side: the name of its side.
        folder: that of the side.
        other: that of the other side: a file in both folders has the text of one side only.
    """
    program, binary = code.program(), code.built
    loads = [i.span for i in program.instructions if i.accesses]
    spans = [*(loop.span for loop in program.loops), *loads]
    lines = {
        file: _read_lines(file, binary.files, folder, other)
        for file in {span.file for span in spans if span is not None}
    }
    return CodePlaces(
        side,
        machine_code(binary.listing),
        [_place(loop_keys(loop), loop.span, lines) for loop in program.loops],
        [_place((span.short,) if span else (), span, lines) for span in loads],
        lines,
    )


def _read_lines(file: str, known: Mapping[str, str], folder: Path, other: Path) -> list[str]:
    """Return a file's lines as compilers count them: split at line feeds only."""
    if file in known:
        return known[file].split("\n")
    path = Path(file).resolve()
    inside = [path.is_relative_to(one.resolve()) for one in (folder, other)]
    if inside != [True, False] or not may_be_shown(path) or not path.is_file():
        return []
    with open_file(path) as content:
        return content.read().decode(errors="replace").split("\n")


def _place(
    keys: tuple[str, ...], span: SourceSpan | None, lines: Mapping[str, Sequence[str]]
) -> Place:
    if span is None:
        return Place(keys)
    return Place(keys, span.file, span.line, _statement(lines[span.file], span.line))


def _statement(lines: Sequence[str], line: int) -> str:
    """Return a line, and the lines after it until its parentheses are closed.

    >>> _statement(["for (int i = 0;", "     i < n; ++i) {", "}"], 1)
    'for (int i = 0; i < n; ++i) {'
    """
    parts: list[str] = []
    opened = 0
    for text in lines[line - 1 :] if line else ():
        parts += text.split()
        opened += text.count("(") - text.count(")")
        if opened <= 0:
            break
    return " ".join(parts)


def move_hints(hints: Hints, old: CodePlaces, new: CodePlaces) -> Hints:
    """Move hints for the code of one side to the lines of the other side's code.

    Args:
        hints: what is said about the old code.
        old: the code that the hints are for.
        new: the code to which they move.

    Raises:
        UndecidedHint: the line of a hint is not in the new code, or is not the only one of its
            text, or the lines of hints are in another order.
    """
    sides = (old, new)
    trips = _Move("trip_counts", "loop", hints.trip_counts, sides, (old.loops, new.loops))
    assumed = _Move("assume", "load", hints.assume, sides, (old.loads, new.loads))
    return replace(hints, trip_counts=trips.table_of_new_code(), assume=assumed.table_of_new_code())


def stated_otherwise(right: Hints, stated: Hints, code: CodePlaces) -> str:
    """Return the right tables, as TOML, of those that state something else about the code."""
    texts = []
    for what, places in (("trip_counts", code.loops), ("assume", code.loads)):
        table, other = getattr(right, what), getattr(stated, what)
        unread = other.keys() - table.keys() - {k for place in places for k in place.keys}
        if unread or any(place.of(table) != place.of(other) for place in places):
            entries = (f"{json.dumps(k)} = {json.dumps(v)}" for k, v in table.items())
            texts.append(f"{what} = {{ {', '.join(entries)} }}")
    return ", ".join(texts)


class _Move(Generic[Value]):
    """A table of hints that moves. ``what``: its name; ``kind``: of the places that it names."""

    def __init__(
        self, what: str, kind: str, table: Mapping[str, Value],
        sides: tuple[CodePlaces, CodePlaces], places: tuple[Sequence[Place], Sequence[Place]],
    ) -> None:  # fmt: skip
        self.what, self.kind, self.table = what, kind, table
        self.old, self.new = sides
        self.before, self.after = places

    def table_of_new_code(self) -> dict[str, Value]:
        """Return the table for the new code; keys that name no place stay."""
        keys = [place.hint(self.table) for place in self.before]
        if not any(keys):
            return dict(self.table)
        is_same = self.old.code == self.new.code and len(self.before) == len(self.after)
        wanted = keys if is_same else self._keys_by_text(keys)
        result = {key: value for key, value in self.table.items() if key not in keys}
        values = [None if key is None else self.table[key] for key in wanted]
        of_line: dict[tuple[str, ...], set[Value | None]] = {}
        for place, value in zip(self.after, values, strict=True):
            of_line.setdefault(place.keys[-1:], set()).add(value)
        by_place = sorted(zip(self.after, values, strict=True), key=lambda one: one[0].position)
        for place, value in by_place:
            if value is not None and place.keys:
                result[place.keys[-1 if len(of_line[place.keys[-1:]]) == 1 else 0]] = value
        for place, key, value in zip(self.after, wanted, values, strict=True):
            if place.of(result) != value:
                clash = key or next(k for k in keys if k)
                raise self._undecided_hint(clash, f"{place.name} has several {self.kind}s")
        return result

    def _keys_by_text(self, keys: Sequence[str | None]) -> list[str | None]:
        """Return each new place's key of a hint, if any, found by the text of its line."""
        hinted = {p.text: k for p, k in zip(self.before, keys, strict=True) if k is not None}
        result: list[str | None] = [hinted.get(place.text) for place in self.after]
        for text, key in hinted.items():
            old, new = (
                [n for n, place in enumerate(places) if place.text == text]
                for places in (self.before, self.after)
            )
            if not text:
                raise self._undecided_hint(key, "the text of its line is not known")
            if not new:
                raise self._undecided_hint(
                    key, f"no {self.kind} in {self.new.side} is on such a line"
                )
            if len({None if (k := keys[n]) is None else self.table[k] for n in old}) > 1:
                by_line = self._keys_by_line(old, new, keys)
                if by_line is None:
                    raise self._undecided_hint(key, f"several {self.kind}s are on such lines")
                for n in new:
                    result[n] = by_line[self.after[n].line]
        orders = [_first_lines(places, hinted) for places in (self.before, self.after)]
        for before, after in zip(*orders, strict=True):
            if before != after:
                why = "the lines of hints are in another order"
                raise self._undecided_hint(hinted[before], why)
        return result

    def _keys_by_line(
        self, old: Sequence[int], new: Sequence[int], keys: Sequence[str | None]
    ) -> dict[int, str | None] | None:
        """Return line of the new code → its key, for equal lines between which nothing has changed.

        The result is None if something has, or if places on one line have different hints.
        """
        regions = []
        for numbers, places, side in ((old, self.before, self.old), (new, self.after, self.new)):
            lines = [places[n].line for n in numbers]
            files = {places[n].file for n in numbers}
            text = side.lines[next(iter(files))][min(lines) - 1 : max(lines)]
            regions.append((min(lines), len(files), [" ".join(line.split()) for line in text]))
        if regions[0][1:] != regions[1][1:] or regions[0][1] > 1:
            return None
        shift = regions[1][0] - regions[0][0]
        by_line: dict[int, str | None] = {}
        for n in old:
            line = self.before[n].line + shift
            if by_line.setdefault(line, keys[n]) != keys[n]:
                return None
        return by_line if by_line.keys() >= {self.after[n].line for n in new} else None

    def _undecided_hint(self, key: str, why: str) -> UndecidedHint:
        text = next(p.text for p in self.before if p.hint(self.table) == key)
        line = f" ({text[:_SHOWN]}{'…' * (len(text) > _SHOWN)})" if text else ""
        names = sorted({place.keys[-1] for place in self.after if place.keys})
        return UndecidedHint(
            f"{self.what}[{key!r}] of {self.old.side}{line} belongs to no certain line of "
            f"{self.new.side}: {why}; {self.kind}s of {self.new.side}: {', '.join(names) or 'none'}"
        )


def _first_lines(places: Sequence[Place], texts: Mapping[str, str]) -> list[str]:
    """Return the texts in the order of the first lines that have them."""
    ordered = sorted(places, key=lambda place: place.position)
    return list(dict.fromkeys(place.text for place in ordered if place.text in texts))
