"""Baselines as text: one TOML table per test, name and device, in one form only.

Sorted, one value to a line, exact numbers with what people read beside them, so that the diff of
a pull request reads as the change.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

from perfassert.baseline.entry import (
    CHECKSUM,
    COUNTS,
    EXTENTS,
    PROVENANCE,
    RANKING,
    RANKING_KEYS,
    TEXTS,
    BaselineKey,
    Entry,
    Leaf,
    Path,
    is_volume,
    leaves,
    stored_metrics,
    unit_of,
)
from perfassert.errors import BaselineError, close_matches
from perfassert.expect.metrics import Kind
from perfassert.prediction.prediction import LIMITERS
from perfassert.quantity import format_quantity
from perfassert.report.tables import percent
from perfassert.toml.tables import TOMLDecodeError, loads
from perfassert.toml.text import format_key, format_value
from perfassert.version import MODEL_VERSION

FORMAT = 1  # of the file; a new reader refuses older ones
_HEADER = f"""\
# Predicted performance that perf.no_regression() compares with; kept by pytest --perf-update.
# Every number is in base units (seconds, bytes); comments are made from them.
format = {FORMAT}
"""
_CONFLICT = re.compile(r"(<<<<<<<|=======|>>>>>>>|\|\|\|\|\|\|\|)(\s|$)")
_RESTORE = "restore the file from version control, or delete it and run pytest --perf-update"
_REMAKE = "undo the edit, or delete the table and run pytest --perf-update"


Remarks = Mapping[tuple[str, ...], Sequence[str]]
"""Comments that people wrote on lines of their own, by the table or key that they stand above."""


def format_file(entries: Mapping[BaselineKey, Entry], remarks: Remarks | None = None) -> str:
    """The whole file; the same for the same entries, in whatever order they come."""
    kept = remarks or {}
    tables = (_table(key, entries[key], kept) for key in sorted(entries))
    first, last = (_block(kept.get(at, ())) for at in (("format",), ()))
    parts = [first + _HEADER, *(_block(lines) for lines in tables), last]
    return "\n".join(part for part in parts if part)


def _block(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _table(key: BaselineKey, entry: Entry, remarks: Remarks) -> list[str]:
    """The table with its checksum; one that did not fit before still does not."""
    last = [] if CHECKSUM in entry else [f'{CHECKSUM} = "{_checksum(entry)}"']
    above = list(remarks.get((*key, CHECKSUM), ())) if last else []
    own = {at: lines for at, lines in remarks.items() if at != (*key, CHECKSUM) or not last}
    return [*format_entry(key, entry, own), *above, *last]


def _checksum(entry: Entry) -> str:
    """Return the checksum of the values of a table, as they are written."""
    written = "\n".join(
        f"{_dotted_key(path)} = {format_value(value)}" for path, value in leaves(entry)
    )
    return hashlib.sha256(written.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def format_entry(key: BaselineKey, entry: Entry, remarks: Remarks | None = None) -> list[str]:
    """The table of one baseline, line by line; remarks on keys that are gone stand above it."""
    updates = entry.get("updates", 0)
    above = dict(remarks or {})
    lines: list[str] = []
    for path, value in leaves(entry):
        comment = _comment(path, value, updates)
        lines += above.pop((*key, *path), ())
        lines.append(f"{_dotted_key(path)} = {format_value(value)}{comment and f'  # {comment}'}")
    left = [line for at in sorted(above) if at[: len(key)] == tuple(key) for line in above[at]]
    return [*left, f"[{_dotted_key(key)}]", *lines]


def remarks_of(text: str) -> Remarks:
    """Return the comments on lines of their own, by the key that they stand above."""
    own = set(_HEADER.splitlines())
    remarks: dict[tuple[str, ...], list[str]] = {}
    waiting: list[str] = []
    header: tuple[str, ...] = ()
    for line in text.splitlines():
        begin = line.lstrip()[:1]
        if begin == "#":
            waiting += [line.strip()] if line not in own else []
            continue
        here = _path_of(line) if waiting or begin == "[" else ()
        if not here:
            continue
        if begin == "[":
            header, here = here, ()
        if waiting:
            remarks.setdefault((*header, *here), []).extend(waiting)
            waiting = []
    return {**remarks, (): waiting} if waiting else remarks


def _dotted_key(path: tuple[str, ...]) -> str:
    return ".".join(map(format_key, path))


def _comment(path: Path, value: Leaf, updates: Any) -> str:
    unit = unit_of(path)
    if not unit or isinstance(value, (str, tuple)):
        return ""
    if unit == "%":
        return percent(value, signed=False)
    written = format_quantity(float(value), unit)
    if is_volume(path) and isinstance(updates, int) and updates > 0 and value:
        written += f", {format_quantity(value / updates, unit, 'update')}"
    return "" if written == f"{value} {unit}" else written


def parse_file(content: bytes, place: str) -> dict[BaselineKey, Entry]:
    """The entries of a file; ``place`` names it in errors.

    Raises :class:`~perfassert.BaselineError` with line and next step for anything that this
    module would not have written: conflicts of a merge, duplicates, truncated or edited tables.
    Entries of another version of the model are only looked at for what tells that they are.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BaselineError(f"{place}:{line}: this is not UTF-8 text; {_RESTORE}") from None
    for line, written in enumerate(text.split("\n"), 1):
        if _CONFLICT.match(written):
            raise BaselineError(
                f"{place}:{line}: a merge left a conflict here; keep either side and then run "
                "pytest --perf-update"
            )
    try:
        data = loads(text)
    except TOMLDecodeError as error:
        raise BaselineError(_syntax_error_text(place, str(error), text)) from None
    return _File(place, text).entries(data)


def _syntax_error_text(place: str, message: str, text: str) -> str:
    """``file:line: message; next step`` from the parser's own words."""
    match = re.fullmatch(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", message, re.S)
    if match is None:
        return f"{place}: {message}; {_RESTORE}"
    what, line = match[1], match[2] or text.rstrip("\n").count("\n") + 1
    if what.startswith(("Cannot overwrite", "Cannot declare")):
        return (
            f"{place}:{line}: a key or table is there twice; keep one of the two and then run "
            "pytest --perf-update"
        )
    return f"{place}:{line}: {what[:1].lower()}{what[1:]}; {_RESTORE}"


class _File:
    """File that is read, with the places of its keys for errors."""

    def __init__(self, place: str, text: str) -> None:
        self.place = place
        self.lines = text.split("\n")
        self.metrics = {m.name: m for m in stored_metrics()}
        self.names = {m.name: m.names for m in self.metrics.values() if m.kind is Kind.NAME}

    def entries(self, data: dict[str, Any]) -> dict[BaselineKey, Entry]:
        version = data.pop("format", None)
        if version is None:
            reason = "is empty or truncated" if not data else "has no 'format', as the first key is"
            raise BaselineError(f"{self.place}:1: the file {reason}; {_RESTORE}")
        if version != FORMAT or isinstance(version, bool):
            raise BaselineError(
                f"{self.place}:{self.line(('format',))}: format {version!r} is not {FORMAT}, which "
                "this version of perfassert reads; install the one that wrote it, or delete the "
                "file and run pytest --perf-update"
            )
        return {key: self.check_entry(key, entry) for key, entry in self.tables(data)}

    def tables(self, data: dict[str, Any]) -> Iterator[tuple[BaselineKey, dict[str, Any]]]:
        for test, names in data.items():
            for name, devices in self.inside((test,), names).items():
                for device, entry in self.inside((test, name), devices).items():
                    yield (
                        BaselineKey(test, name, device),
                        self.inside((test, name, device), entry),
                    )

    def inside(self, path: Path, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.error(path, "stands outside of a table [test.name.device]")
        return value

    def check_entry(self, key: BaselineKey, entry: dict[str, Any]) -> Entry:
        """The entry; its checksum stays in it where the values are not those that were written."""
        stored = entry.pop(CHECKSUM, None)
        if stored is not None and not isinstance(stored, str):
            raise self.error((*key, CHECKSUM), "must be a string")
        self.check_all(key, entry)
        damaged = {} if stored in (None, _checksum(entry)) else {CHECKSUM: stored}
        return entry | damaged

    def check_all(self, key: BaselineKey, entry: dict[str, Any]) -> None:
        for name in PROVENANCE:
            if name not in entry:
                raise self.error(key, f"has no {name}: it is truncated or was edited")
            if not isinstance(entry[name], str):
                raise self.error((*key, name), "must be a string")
        if RANKING in entry:
            self.check_ranking(key, entry)
            return
        current = entry["model_version"] == MODEL_VERSION
        if "time" not in entry:
            raise self.error(key, "has no time: it is truncated or was edited")
        for path, value in leaves(entry):
            if current or path[0] in (*self.metrics, *TEXTS):
                self.check(key, path, value, current)

    def check_ranking(self, key: BaselineKey, entry: dict[str, Any]) -> None:
        """Check the baseline of a ranking: names in order, and a share for each."""
        for name in entry:
            if name not in (RANKING, *PROVENANCE):
                raise self.error((*key, name), "is not a key of a ranking's baseline")
        table = self.inside((*key, RANKING), entry[RANKING])
        if sorted(table) != sorted(RANKING_KEYS):
            raise self.error((*key, RANKING), f"must have {', '.join(RANKING_KEYS)}")
        order, within = table["order"], table["within"]
        names = isinstance(order, list) and order and all(isinstance(o, str) for o in order)
        if not names or len({*order}) < len(order) or table["best"] != order[0]:
            raise self.error((*key, RANKING, "order"), "must name candidates once, the best first")
        if not isinstance(within, list) or [*map(_is_amount, within)] != [True] * len(order):
            raise self.error((*key, RANKING, "within"), "must have a share for each candidate")

    def check(self, key: BaselineKey, path: Path, value: Any, current: bool) -> None:
        """Check a value; ``current``: its name is one that this version of the model gives."""
        name, wanted = path[0], ""
        if name in self.names and (current or not isinstance(value, str)):
            if value not in self.names[name]:
                wanted = f"must be one of {', '.join(self.names[name])}"
        elif name in TEXTS or name in self.names:
            wanted = "" if isinstance(value, str) else "must be a string"
        elif name in EXTENTS:
            whole = isinstance(value, tuple) and len(value) == 3 and all(map(_is_integer, value))
            wanted = "" if whole else "must be three integers"
        else:
            self.check_name(key, path)
            wanted = "" if _is_amount(value) else "must be a number that is not negative"
        if wanted:
            raise self.error((*key, *path), wanted)

    def check_name(self, key: BaselineKey, path: Path) -> None:
        known = [*self.metrics, *COUNTS, *TEXTS, *EXTENTS]
        nested = {"bounds": 2, "fields": 4}
        depth = nested.get(path[0], 1 if path[0] in known else 0)
        if len(path) != depth or (path[0] == "bounds" and path[1] not in LIMITERS):
            hint = close_matches(path[0], [*known, *nested]) if not depth else ""
            raise self.error((*key, *path), f"is not a key of a baseline{hint}")

    def error(self, path: tuple[str, ...], reason: str) -> BaselineError:
        shown = _dotted_key(path[3:] or path)
        return BaselineError(f"{self.place}:{self.line(path)}: {shown} {reason}; {_REMAKE}")

    def line(self, path: tuple[str, ...]) -> int:
        """The line that comes nearest to a path: of its key, else of its table."""
        best, longest, header = 1, (), ()  # type: tuple[int, Path, Path]
        for number, line in enumerate(self.lines, 1):
            here = _path_of(line)
            if line.lstrip().startswith("["):
                header, here = here, ()
            whole = (*header, *here)
            if whole and len(whole) > len(longest) and path[: len(whole)] == whole:
                best, longest = number, whole
        return best


def _path_of(line: str) -> tuple[str, ...]:
    """The keys that a line's header or assignment spells, none where it has none."""
    text = line.strip()
    if not text or text.startswith("#"):
        return ()
    try:
        table: Any = loads(text)
    except TOMLDecodeError:
        return ()
    keys = []
    while isinstance(table, dict) and len(table) == 1:
        key, table = next(iter(table.items()))
        keys.append(key)
    return tuple(keys)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_amount(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return isfinite(value) and value >= 0
