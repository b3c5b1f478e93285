"""Reading of one device file or one table of fits, entry by entry.

A file that extends another may leave entries out, which are not required here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perfassert.errors import DeviceFileError, close_matches
from perfassert.hardware import schema
from perfassert.hardware.entries import CapacityCurve, Grade, Provenance, Scope
from perfassert.hardware.matrix import MatrixVariant
from perfassert.quantity import to_real
from perfassert.shipped import fit_path, read_table
from perfassert.toml.tables import TableReader

_OPERATION = schema.ValueRule({"cycles": 1.0})
_VARIANT = "tensor.m16n8k16.f16.f32"
_RATE = "tensor.f16.f32"


@dataclass(frozen=True, slots=True)
class DeviceEntry:
    """A number in base units, or the key of ``[values]`` that it refers to.

    ``origin`` is None where the reference says nothing of its own; ``path``: the file that it is
    in; ``device``: the one that it was written for, if it is inherited.
    """

    value: float | str
    origin: Provenance | None
    path: Path
    device: str = ""

    def inherit_from(self, device: str, lasting: bool) -> DeviceEntry:
        """Return the entry as a file inherits it that extends the file of ``device``.

        ``lasting``: a documented value is also valid for the inheriting device.
        """
        origin = self.origin and _origin_of_heir(self.origin, lasting)
        return replace(self, origin=origin, device=self.device or device)


@dataclass(frozen=True, slots=True)
class DeviceChoice:
    """A word of ``[values]``, with the same parts as a number."""

    value: str
    origin: Provenance
    device: str = ""

    def inherit_from(self, device: str, lasting: bool) -> DeviceChoice:
        """Return the choice as inherited; see :meth:`DeviceEntry.inherit_from`."""
        origin = _origin_of_heir(self.origin, lasting)
        return replace(self, origin=origin, device=self.device or device)


def _origin_of_heir(origin: Provenance, lasting: bool) -> Provenance:
    """Return the provenance of a value that is inherited from another device.

    A documented value stays documented if ``lasting``; all others are assumed.
    """
    if lasting and origin.grade is Grade.DOCUMENTED:
        return origin
    return replace(origin, grade=Grade.ASSUMED)


@dataclass(frozen=True, slots=True)
class Tables:
    """Entries of one file, or of a file together with those that it extends.

    ``pipeline_of``: operation → pipeline; ``variant_of``: operation → the matrix variant that it
    is; ``costs``: ``(operation, "issue")`` → entry; ``matrix``: unit and types → rate.
    """

    path: Path
    name: str
    arch: str
    aliases: tuple[str, ...]
    capacity_fits: str
    values: Mapping[str, DeviceEntry]
    choices: Mapping[str, DeviceChoice]
    pipelines: Mapping[str, Scope]
    pipeline_of: Mapping[str, str]
    variant_of: Mapping[str, str]
    costs: Mapping[tuple[str, str], DeviceEntry]
    matrix: Mapping[str, DeviceEntry]

    def over(self, base: Tables) -> Tables:
        """Return this file's entries, completed by those of ``base``, the file that it extends.

        A listed matrix variant whose rate only this file states is not inherited: it would keep the
        other chip's λ. It is derived, as any that no file lists.
        """
        arch = self.arch or base.arch
        same = arch == base.arch

        def inherit(entry: DeviceEntry, settled: bool) -> DeviceEntry:
            return entry.inherit_from(base.name, same and settled)

        values = {k: inherit(e, k in schema.ARCHITECTURE) for k, e in base.values.items()}
        choices = {
            key: choice.inherit_from(base.name, same and key in schema.ARCHITECTURE)
            for key, choice in base.choices.items()
        }
        own = {name for name, _ in self.costs}
        outdated = {name for name in base.pipeline_of if name not in own and self._has_rate(name)}
        costs = {k: inherit(e, True) for k, e in base.costs.items() if k[0] not in outdated}
        pipeline_of = {k: p for k, p in base.pipeline_of.items() if k not in outdated}
        matrix = {key: inherit(entry, True) for key, entry in base.matrix.items()}
        return replace(
            self,
            arch=arch,
            capacity_fits=self.capacity_fits or base.capacity_fits,
            values={**values, **self.values},
            choices={**choices, **self.choices},
            pipelines={**base.pipelines, **self.pipelines},
            pipeline_of={**pipeline_of, **self.pipeline_of},
            variant_of={**base.variant_of, **self.variant_of},
            costs={**costs, **self.costs},
            matrix={**matrix, **self.matrix},
        )

    def _has_rate(self, operation: str) -> bool:
        """Return True for a matrix variant whose rate this file gives."""
        variant = MatrixVariant.from_name(operation)
        return variant is not None and variant.rate in self.matrix


class DeviceFileReader(TableReader):
    """Reads a parsed device file, or says what is wrong with it."""

    error = DeviceFileError

    def __init__(self, path: Path, table: Mapping[str, Any]) -> None:
        super().__init__(path)
        self.table = table
        self.partial = "extends" in table
        self.sources: Mapping[str, Any] = {}

    def tables(self) -> Tables:
        """Read the whole file; every section is required unless it extends another file."""
        self.check_keys("", self.table, schema.TOP_LEVEL)
        if self.require("", self.table, "schema") != 1:
            self.fail("schema", "this version reads schema = 1")
        words = {key: self.word(key) for key in ("name", "arch", "capacity_fits")}
        aliases = self.table.get("aliases", [])
        if not isinstance(aliases, list) or any(not isinstance(a, str) for a in aliases):
            self.fail("aliases", "must be a list of strings")
        self.sources = self.top_level("sources")
        values = self.values()
        pipelines = self.pipelines()
        pipeline_of, variant_of, costs = self.operations()
        return Tables(
            path=self.path,
            aliases=tuple(aliases),
            values=values,
            choices=self.choices(),
            pipelines=pipelines,
            pipeline_of=pipeline_of,
            variant_of=variant_of,
            costs=costs,
            matrix=self.matrix(),
            **words,
        )

    def word(self, key: str) -> str:
        if self.partial and key != "name" and key not in self.table:
            return ""
        return self.string(key, self.table.get(key))

    def top_level(self, key: str) -> dict[str, Any]:
        """A table of the file; empty where the file it extends has it."""
        if self.partial and key not in self.table:
            return {}
        return self.section(key, self.table.get(key))

    def require(self, prefix: str, table: Mapping[str, Any], key: str) -> Any:
        if key not in table:
            self.fail(f"{prefix}.{key}".strip("."), "missing")
        return table[key]

    def values(self) -> dict[str, DeviceEntry]:
        table = self.top_level("values")
        self.check_keys("values", table, (*schema.VALUES, *schema.CHOICES))
        rules = schema.VALUES.items()
        if not self.partial:
            for key, rule in rules:
                if rule.off is None:
                    self.require("values", table, key)
        entries = {k: self.entry(f"values.{k}", table[k], rule) for k, rule in rules if k in table}
        return entries if self.partial else self.without() | entries

    def without(self) -> dict[str, DeviceEntry]:
        """The mechanisms that a complete file need not have."""
        origin = Provenance("not in the device file", Grade.ASSUMED, "off")
        rules = schema.VALUES.items()
        return {k: DeviceEntry(r.off, origin, self.path) for k, r in rules if r.off is not None}

    def choices(self) -> dict[str, DeviceChoice]:
        """The words of ``[values]``."""
        table = self.top_level("values")
        off = Provenance("not in the device file", Grade.ASSUMED)
        result = {}
        for key, known in schema.CHOICES.items():
            if key in table:
                result[key] = self.choice(f"values.{key}", table[key], known)
            elif not self.partial:
                result[key] = DeviceChoice(known[0], off)
        return result

    def choice(self, key: str, item: Any, known: tuple[str, ...]) -> DeviceChoice:
        if not isinstance(item, dict):
            self.fail(key, "must be { value, source, grade }")
        self.check_keys(key, item, schema.ENTRY)
        if "unit" in item:
            self.fail(f"{key}.unit", "is none; leave it out")
        value = self.require(key, item, "value")
        if value not in known:
            self.fail(f"{key}.value", f"must be one of: {', '.join(known)}; not {value!r}")
        return DeviceChoice(value, self.origin(key, item))

    def entry(self, key: str, item: Any, rule: schema.ValueRule) -> DeviceEntry:
        if isinstance(item, str):
            return DeviceEntry(self.reference(key, item, rule), None, self.path)
        if not isinstance(item, dict):
            self.fail(key, "must be { value, unit, source, grade }, or a key of [values]")
        self.check_keys(key, item, schema.ENTRY)
        value = self.require(key, item, "value")
        if isinstance(value, str) and value in schema.VALUES:
            if "unit" in item:
                self.fail(f"{key}.unit", f"is that of {value}; leave it out")
            return DeviceEntry(self.reference(key, value, rule), self.origin(key, item), self.path)
        if isinstance(value, str):
            hint = close_matches(value, schema.VALUES)
            self.fail(f"{key}.value", f"must be a number, not {value!r}{hint}")
        where = f"{self.path}: {key}.value"
        value = to_real(value, where, DeviceFileError)
        unit = item.get("unit", "count")
        if unit not in rule.units:
            self.fail(f"{key}.unit", f"{unit!r} is none of: {', '.join(rule.units)}")
        origin = self.origin(key, item)
        scaled = to_real(value * rule.units[unit], where, DeviceFileError)
        if not rule.integer:
            return DeviceEntry(float(scaled), origin, self.path)
        if scaled != int(scaled):
            self.fail(f"{key}.value", f"must be an integer, not {value!r}")
        return DeviceEntry(int(scaled), origin, self.path)

    def real(self, key: str, table: Mapping[str, Any], part: str) -> float:
        value = self.require(key, table, part)
        return float(to_real(value, f"{self.path}: {key}.{part}", DeviceFileError))

    def reference(self, key: str, target: str, rule: schema.ValueRule) -> str:
        if target not in schema.VALUES:
            hint = close_matches(target, schema.VALUES)
            self.fail(key, f"{target!r} is not a key of [values]{hint}")
        target_rule = schema.VALUES[target]
        if target_rule.units != rule.units or (rule.integer and not target_rule.integer):
            units = " or ".join(rule.units)
            self.fail(key, f"is in {units}, so it cannot refer to {target}")
        return target

    def origin(self, key: str, entry: Mapping[str, Any]) -> Provenance:
        source = self.require(key, entry, "source")
        if source not in self.sources:
            hint = close_matches(str(source), self.sources)
            self.fail(f"{key}.source", f"{source!r} is not in [sources]{hint}")
        try:
            grade = Grade(self.require(key, entry, "grade"))
        except ValueError:
            grades = ", ".join(g.value for g in Grade)
            self.fail(f"{key}.grade", f"must be one of: {grades}")
        return Provenance(str(self.sources[source]), grade, str(entry.get("note", "")))

    def pipelines(self) -> dict[str, Scope]:
        scopes: dict[str, Scope] = {}
        for name, scope in self.top_level("pipelines").items():
            try:
                scopes[name] = Scope(scope)
            except ValueError:
                self.fail(f"pipelines.{name}", "must be 'unit' or 'scheduler'")
        return scopes

    def operations(
        self,
    ) -> tuple[dict[str, str], dict[str, str], dict[tuple[str, str], DeviceEntry]]:
        pipeline_of: dict[str, str] = {}
        variant_of: dict[str, str] = {}
        costs: dict[tuple[str, str], DeviceEntry] = {}
        for name, table in self.top_level("operations").items():
            key = f"operations.{name}"
            if not isinstance(table, dict):
                self.fail(key, "must be a table with pipeline, issue and completion")
            self.check_keys(key, table, schema.OPERATION)
            for part in schema.COSTS:
                if part in table:
                    costs[name, part] = self.entry(f"{key}.{part}", table[part], _OPERATION)
            if "pipeline" in table:
                pipeline_of[name] = str(table["pipeline"])
            if variant := self.variant(key, name, table):
                variant_of[name] = variant
        return pipeline_of, variant_of, costs

    def variant(self, key: str, name: str, table: Mapping[str, Any]) -> str:
        """The matrix variant that an operation is, by its key or by its own name."""
        if "variant" not in table:
            return name if MatrixVariant.from_name(name) else ""
        variant = str(table["variant"])
        if MatrixVariant.from_name(variant) is None:
            self.fail(f"{key}.variant", f"{variant!r} is not like {_VARIANT!r}")
        return variant

    def matrix(self) -> dict[str, DeviceEntry]:
        """Rates of matrix units, where the file has any."""
        rates: dict[str, DeviceEntry] = {}
        for name, item in self.table.get("matrix", {}).items():
            key = f"matrix.{name}"
            if name.count(".") != 2:
                self.fail(key, f"is not like {_RATE!r}: unit, input and accumulator")
            rates[name] = self.entry(key, item, schema.MATRIX_RATE)
        return rates


def read_curves(name: str) -> tuple[dict[str, CapacityCurve], dict[str, Provenance]]:
    """The capacity curves of a table of fits, with where each comes from."""
    path = fit_path(name)
    reader = DeviceFileReader(path, read_table(path))
    reader.sources = reader.top_level("sources")
    curves: dict[str, CapacityCurve] = {}
    origins: dict[str, Provenance] = {}
    for curve in schema.CURVES:
        entry = reader.require("", reader.table, curve)
        reader.check_keys(curve, entry, schema.CURVE_KEYS)
        a, b, c = (reader.real(curve, entry, k) for k in "abc")
        reader.require(curve, entry, "r_squared")
        reference = reader.real(curve, {"reference_bytes": 0, **entry}, "reference_bytes")
        curves[curve] = CapacityCurve(a, b, c, reference)
        origins[f"curves.{curve}"] = reader.origin(curve, entry)
    return curves, origins
