"""The file of ``diff --affected``: which commands concern which files and kernels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from perfassert.comparison.affected import CommandPattern
from perfassert.errors import PerfFileError, close_matches
from perfassert.perf_toml.lines import key_lines
from perfassert.toml.tables import read_toml

SCHEMA = 1  # of the file
TABLES = ("files", "kernels")


def read_commands(path: Path) -> tuple[CommandPattern, ...]:
    """Patterns with their commands, in the order of the file; nothing is run.

    :class:`PerfFileError` with line and key for what is no such file.
    """
    return tuple(_CommandsReader(path).patterns())


class _CommandsReader:
    def __init__(self, path: Path) -> None:
        self.path = path
        text, self.table = read_toml(path, PerfFileError)
        self.lines = key_lines(text)

    def patterns(self) -> Iterator[CommandPattern]:
        for key in self.table:
            if key not in ("schema", *TABLES):
                hint = close_matches(key, TABLES) or f"; known: schema, {', '.join(TABLES)}"
                raise self.error(key, f"unknown key{hint}")
        if self.table.get("schema") != SCHEMA:
            raise self.error("schema", f"must be {SCHEMA}: is it a file of this version?")
        if not any(self.table.get(name) for name in TABLES):
            raise self.error("", "maps nothing; add [files] or [kernels]: pattern = command")
        for name in TABLES:
            table = self.table.get(name, {})
            if not isinstance(table, dict):
                raise self.error(name, "must be a table: pattern = command")
            for pattern, value in table.items():
                for command in self.commands(f"{name}.{pattern}", value):
                    yield CommandPattern(name, pattern, command)

    def commands(self, key: str, value: Any) -> list[str]:
        given = value if isinstance(value, list) else [value]
        if not given or not all(isinstance(c, str) and c.strip() for c in given):
            raise self.error(key, f"must be a command, or a list of commands, not {value!r}")
        return given

    def error(self, key: str, message: str) -> PerfFileError:
        place = f"{self.path}:{self.lines.get(key, 1)}"
        return PerfFileError(f"{place}: {key + ': ' if key else ''}{message}")
