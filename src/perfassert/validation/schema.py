"""The keys of a suite file, and the reading of its entries by type."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NoReturn

from perfassert.errors import SuiteError, close_matches
from perfassert.hardware.model import Device
from perfassert.kernel.integers import integer_names
from perfassert.validation.suite import Expression

TOP = ("title", "source", "data", "select", "group", "device", "filter", "constants", "launch",
       "kernel", "kernels", "metric", "targets", "limits")  # fmt: skip
CUDA = ("kernel", "defines", "include_dirs", "options", "updates_per_thread", "trip_counts",
        "proxies")  # fmt: skip
KERNEL = ("accesses", "cuda", *CUDA, "constants", "launch")
ACCESSES = ("name", "fields", "loads", "stores", "flops", "dtype", "registers", "shared_bytes",
            "updates_per_thread", "ilp", "proxies")  # fmt: skip
FIELD = ("name", "dtype", "shape", "halo", "pitch", "alignment", "offset")
LAUNCH = ("grid", "domain", "block", "args", "shared_bytes", "resident_blocks")
BUFFER = ("shape", "dtype", "alignment")
RIVALS = (("grid", "domain"), ("shared_bytes", "resident_blocks"))
METRIC = ("name", "column", "unit", "scale", "per", "bytes")
_NUMBERS = (f.name for f in dataclasses.fields(Device) if f.type in ("int", "float"))
DEVICE = ("name", "column", *_NUMBERS)


class TableReader:
    """Entries of one file by type; what has the wrong one fails with file and key.

    ``known_names``: constants in sight; other names that an expression uses go to ``uses``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.uses: dict[tuple[str, str], None] = {}
        self.known_names: Collection[str] = ()

    def fail(self, key: str, reason: str) -> NoReturn:
        raise SuiteError(f"{self.path}: {key}: {reason}")

    def known(self, prefix: str, table: Mapping[str, Any], allowed: Collection[str]) -> None:
        for key in table:
            if key not in allowed:
                hint = close_matches(key, allowed) or f"; known: {', '.join(allowed)}"
                self.fail(f"{prefix}.{key}".strip("."), f"unknown key{hint}")

    def section(self, key: str, value: Any) -> dict[str, Any]:
        if value is None:
            self.fail(key, f"missing; add [{key}]")
        if not isinstance(value, dict):
            self.fail(key, f"must be a table, not {value!r}")
        return value

    def string(self, key: str, value: Any) -> str:
        if value is None:
            self.fail(key, "missing")
        if not isinstance(value, str):
            self.fail(key, f"must be a string, not {value!r}")
        return value

    def strings(self, key: str, value: Any) -> tuple[str, ...]:
        items = value if isinstance(value, list) else [value]
        return tuple(self.string(key, item) for item in items)

    def mapping(self, key: str, value: Any) -> dict[str, str]:
        return {k: self.string(f"{key}.{k}", v) for k, v in self.section(key, value).items()}

    def expression(self, key: str, value: Any) -> Expression:
        """A whole number or an expression; its names are noted for the check of the columns."""
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            self.fail(key, f"must be a whole number or an expression over columns, not {value!r}")
        if isinstance(value, str):
            try:
                names = integer_names(value, SuiteError)
            except SuiteError as error:
                self.fail(key, str(error))
            self.uses |= {(key, n): None for n in sorted(names) if n not in self.known_names}
        return value

    def expressions(self, key: str, value: Any) -> Expression | tuple[Expression, ...]:
        if isinstance(value, list):
            return tuple(self.expression(f"{key}[{i}]", v) for i, v in enumerate(value))
        return self.expression(key, value)

    def number(self, key: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self.fail(key, f"must be a number, not {value!r}")
        return float(value)
