"""Pins: known facts of every kernel of a library, kept in a file, and changes since then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from perfassert.errors import BaselineError
from perfassert.report.files import replace_file
from perfassert.survey.survey import Survey, SurveyRow
from perfassert.toml.tables import read_toml

SCHEMA = 1  # of the file
_NUMBERS = ("registers", "spill_bytes", "stack_bytes", "shared_bytes", "code_bytes")
_HEADER = (
    "# Written by `perfassert survey … --pin`; `--check` compares. To accept a change, pin again.\n"
)


@dataclass(frozen=True, slots=True)
class PinChange:
    """Kernel that differs from its pin.

    ``worse``: at least one number rose, or a finding is new. ``text``: the changes in words.
    """

    kernel: str
    file: str
    worse: bool
    text: str


Key = tuple[str, str, str]


def write_pins(survey: Survey, path: Path) -> None:
    """Write numbers and kinds of findings of every kernel, in the order of names."""
    rows = sorted(survey.rows, key=lambda row: _key(row))
    data = {"schema": SCHEMA, "kernel": [_pin_of(row) for row in rows]}
    replace_file(path, _HEADER + tomli_w.dumps(data))


def compare_pins(survey: Survey, path: Path) -> tuple[PinChange, ...]:
    """Return every kernel that is new, gone or different from its pin, worse ones first.

    Raises :class:`BaselineError` for a file that cannot be read, or has another form.
    """
    pinned = dict(_read(path))
    rows = {_key(row): _pin_of(row) for row in survey.rows}
    changes = [
        *(_compare(key, pinned.get(key), entry) for key, entry in rows.items()),
        *(PinChange(key[1], key[0], True, "is gone") for key in pinned.keys() - rows.keys()),
    ]
    known = [change for change in changes if change is not None]
    return tuple(sorted(known, key=lambda c: (not c.worse, c.file, c.kernel)))


def _key(row: SurveyRow) -> Key:
    return (row.file, row.info.mangled, row.info.arch)


def _pin_of(row: SurveyRow) -> dict[str, Any]:
    info = row.info
    return {
        "file": row.file,
        "name": info.mangled,
        "arch": info.arch,
        **{name: getattr(info, name) for name in _NUMBERS},
        "findings": sorted({finding.kind for finding in row.findings}),
    }


def _read(path: Path) -> Iterator[tuple[Key, Mapping[str, Any]]]:
    _, table = read_toml(path, BaselineError)
    if table.get("schema") != SCHEMA or not isinstance(table.get("kernel"), list):
        raise BaselineError(f"{path}: is no file of `perfassert survey --pin` (schema {SCHEMA})")
    for number, entry in enumerate(table["kernel"], 1):
        try:
            yield (
                (entry["file"], entry["name"], entry["arch"]),
                {
                    **{name: int(entry[name]) for name in _NUMBERS},
                    "findings": [str(kind) for kind in entry["findings"]],
                },
            )
        except KeyError as key:
            raise BaselineError(f"{path}: kernel {number}: {key} is missing") from None
        except (TypeError, ValueError) as error:
            raise BaselineError(f"{path}: kernel {number}: {error}") from None


def _compare(
    key: Key, before: Mapping[str, Any] | None, after: Mapping[str, Any]
) -> PinChange | None:
    file, name, _ = key
    if before is None:
        return PinChange(name, file, True, "is new")
    moved = [n for n in _NUMBERS if before[n] != after[n]]
    words = [f"{n} {before[n]} → {after[n]}" for n in moved]
    new = [k for k in after["findings"] if k not in before["findings"]]
    mended = [k for k in before["findings"] if k not in after["findings"]]
    words += [f"new: {k}" for k in new] + [f"no more: {k}" for k in mended]
    if not words:
        return None
    worse = bool(new) or any(after[n] > before[n] for n in moved if n != "code_bytes")
    return PinChange(name, file, worse, ", ".join(words))
