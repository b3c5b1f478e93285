"""Keys of a suite file, and of those entries that other files do not have."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from perfassert.errors import SuiteError
from perfassert.frontends.tables import LAUNCH as SHARED_LAUNCH
from perfassert.frontends.tables import KernelTableReader
from perfassert.hardware.model import Device
from perfassert.lab.validation.suite import ELEMENT, RANDOM

TOP = ("title", "source", "data", "select", "group", "device", "filter", "constants", "launch",
       "kernel", "kernels", "metric", "targets", "limits", "configuration",
       "distinct", "fitted_on", "toolchain")  # fmt: skip
CUDA = ("kernel", "defines", "include_dirs", "options", "updates_per_thread", "trip_counts",
        "assume")  # fmt: skip
KERNEL = ("accesses", "cuda", *CUDA, "recorded", "named", "launches", "constants", "launch", "rows",
          "improves")  # fmt: skip
LAUNCH = (*SHARED_LAUNCH, "resident_blocks")
EXCLUSIVE_KEYS = (("grid", "domain"), ("shared_bytes", "resident_blocks"))
FITTED_ON = ("devices", "values", "sources", "rows", "filter", "metrics", "note")
METRIC = ("name", "column", "unit", "scale", "per", "bytes")
_NUMBERS = (f.name for f in dataclasses.fields(Device) if f.type in ("int", "float"))
DEVICE = ("name", "column", *_NUMBERS)


class SuiteTableReader(KernelTableReader):
    """Reader of a suite's tables; expressions are over its columns and constants."""

    error = SuiteError
    launch_keys = LAUNCH
    exclusive_keys = EXCLUSIVE_KEYS

    def argument(self, key: str, value: Any) -> Any:
        """Return an argument; a buffer may also have the content that it is measured with."""
        if not isinstance(value, dict) or "fill" not in value:
            return super().argument(key, value)
        plain = super().argument(key, {k: v for k, v in value.items() if k != "fill"})
        return {**plain, "fill": self.fill(f"{key}.fill", value["fill"])}

    def fill(self, key: str, value: Any) -> Any:
        """Return a number, ``"random"``, or an expression in which ``i`` counts the elements."""
        if isinstance(value, float) or value == RANDOM:
            return value
        known, self.known_names = self.known_names, {*self.known_names, ELEMENT}
        try:
            return self.expression(key, value)
        finally:
            self.known_names = known

    def accesses(self, key: str, value: Any) -> dict[str, Any]:
        """Return loads and stores; one may be written once for all values of a name, ``each``."""
        if not isinstance(value, dict) or "each" not in value:
            return super().accesses(key, value)
        table = {k: v for k, v in value.items() if k != "each"}
        each = self.section(f"{key}.each", value["each"])
        for name, numbers in each.items():
            if not isinstance(numbers, list) or not all(type(n) is int for n in numbers):
                self.fail(f"{key}.each.{name}", f"must be a list of integers, not {numbers!r}")
        for kind in ("loads", "stores"):
            if kind in table:
                where = f"{key}.{kind}"
                written = self.strings(where, table[kind])
                table[kind] = [
                    one for text in written for one in self.expand_expression(where, text, each)
                ]
        return super().accesses(key, table)

    def rows(self, key: str, value: Any) -> tuple[dict[str, str], ...]:
        """Return a row for each combination of a table's lists; the last list changes fastest."""
        if not isinstance(value, list):
            self.fail(key, f"must be a list of tables, column = value or list, not {value!r}")
        rows: list[dict[str, str]] = []
        for i, entry in enumerate(value):
            table = self.section(f"{key}[{i}]", entry)
            lists = [v if isinstance(v, list) else [v] for v in table.values()]
            for cell in itertools.chain(*lists):
                if isinstance(cell, bool) or not isinstance(cell, (int, float, str)):
                    self.fail(f"{key}[{i}]", f"a cell is a number or a string, not {cell!r}")
            combined = self.combinations(f"{key}[{i}]", lists)
            rows += (dict(zip(table, map(str, cells), strict=True)) for cells in combined)
        return tuple(rows)

    def expand_expression(
        self, key: str, text: str, each: Mapping[str, Sequence[int]]
    ) -> Iterator[str]:
        """Yield the expression for every combination of numbers of the names in ``each``."""
        names = [name for name in each if re.search(rf"\b{re.escape(name)}\b", text)]
        for numbers in self.combinations(key, [each[name] for name in names]):
            expanded = text
            for name, number in zip(names, numbers, strict=True):
                expanded = re.sub(rf"\b{re.escape(name)}\b", f"({number})", expanded)
            yield expanded
