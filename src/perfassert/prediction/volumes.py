"""Volumes of a launch: totals, ratios, and what they are made of."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from perfassert.prediction.reading import Data
from perfassert.quantity import Quantity, round_significant


@dataclass(frozen=True, eq=True)
class Volume:
    """One metric of the whole launch.

    ``parts``: totals that sum to ``total``. ``fields``: the same per field. ``threads`` and
    ``updates``: what :attr:`per_thread` and :attr:`per_update` divide by (unmasked threads).
    """

    total: Quantity
    threads: int
    updates: int
    parts: Mapping[str, Quantity] = field(default_factory=dict)
    fields: Mapping[str, Volume] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("parts", "fields"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def __reduce__(self) -> tuple[Any, ...]:
        state = (self.total, self.threads, self.updates, dict(self.parts), dict(self.fields))
        return (Volume, state)

    @property
    def per_thread(self) -> Quantity:
        """Per unmasked thread."""
        return self._over(self.threads, "thread")

    @property
    def per_update(self) -> Quantity:
        """Per update of the unmasked threads."""
        return self._over(self.updates, "update")

    def _over(self, count: int, per: str) -> Quantity:
        return Quantity(round_significant(float(self.total) / count), self.total.unit, per)

    def to_dict(self) -> dict[str, Any]:
        """Plain data; numbers in base units."""
        result: dict[str, Any] = {"total": float(self.total)}
        if self.parts:
            result["parts"] = {k: float(v) for k, v in self.parts.items()}
        if self.fields:
            result["fields"] = {k: v.to_dict() for k, v in self.fields.items()}
        return result

    @classmethod
    def make(
        cls,
        parts: Mapping[str, float],
        unit: str,
        threads: int,
        updates: int,
        fields: Mapping[str, Volume] | None = None,
    ) -> Volume:
        """A volume from its parts, rounded as everything that leaves the model."""
        rounded = {k: Quantity(round_significant(v), unit) for k, v in parts.items()}
        total = Quantity(round_significant(sum(parts.values())), unit)
        return cls(total, threads, updates, rounded, fields or {})

    @classmethod
    def read(cls, data: Data, unit: str, threads: int, updates: int) -> Volume:
        """The inverse of :meth:`to_dict`."""
        fields = data.optional("fields", {})
        return cls(
            data["total"].quantity(unit),
            threads,
            updates,
            data.optional("parts", {}).table(lambda part: part.quantity(unit)),
            fields.table(lambda field: cls._read_field(field, unit, threads, updates)),
        )

    @classmethod
    def _read_field(cls, data: Data, unit: str, threads: int, updates: int) -> Volume:
        if "fields" in data:
            raise data.fail("has fields of its own")
        return cls.read(data, unit, threads, updates)


UNITS = {
    "l1_wavefronts": "", "l1_cycles": "", "shared_wavefronts": "",
    "l2_load": "B", "l2_store": "B", "dram_load": "B", "dram_store": "B",
}  # fmt: skip


@dataclass(frozen=True)
class Volumes:
    """Everything a launch moves; bytes, or counts for the first three."""

    l1_wavefronts: Volume
    l1_cycles: Volume
    shared_wavefronts: Volume
    l2_load: Volume
    l2_store: Volume
    dram_load: Volume
    dram_store: Volume

    def to_dict(self) -> dict[str, Any]:
        """Plain data; numbers in base units."""
        return {f.name: getattr(self, f.name).to_dict() for f in dataclasses.fields(self)}

    @classmethod
    def read(cls, data: Data, threads: int, updates: int) -> Volumes:
        """The inverse of :meth:`to_dict`."""
        return cls(**{k: Volume.read(data[k], unit, threads, updates) for k, unit in UNITS.items()})
