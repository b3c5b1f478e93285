"""Volumes of a launch: totals, ratios, and what they are made of."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from perfassert.prediction.reading import DataNode
from perfassert.quantity import Quantity, round_significant


@dataclass(frozen=True, eq=True)
class Volume:
    """A volume or count of the whole launch, with ratios and parts.

    Attributes:
        total: of the launch, in bytes, or a count.
        threads: unmasked threads, the denominator of :attr:`per_thread`.
        updates: results that they make, the denominator of :attr:`per_update`.
        parts: cause → total; they sum to ``total``.
        fields: field → its own volume.
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

    def __deepcopy__(self, copies: dict[int, Any]) -> Volume:
        parts = {name: deepcopy(part, copies) for name, part in self.parts.items()}
        fields = {name: deepcopy(volume, copies) for name, volume in self.fields.items()}
        return Volume(deepcopy(self.total, copies), self.threads, self.updates, parts, fields)

    @property
    def per_thread(self) -> Quantity:
        """Volume per unmasked thread."""
        return self._divide(self.threads, "thread")

    @property
    def per_update(self) -> Quantity:
        """Volume per update of the unmasked threads."""
        return self._divide(self.updates, "update")

    def _divide(self, count: int, per: str) -> Quantity:
        return Quantity(round_significant(float(self.total) / count), self.total.unit, per)

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain data; numbers in base units."""
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
        """Make a volume of its parts, rounded as everything that leaves the model.

        Args:
            parts: cause → total.
            unit: base unit: ``"B"``, or ``""`` for counts.
            threads: unmasked threads of the launch.
            updates: results that they make.
            fields: field → its own volume. Default: none.
        """
        rounded = {k: Quantity(round_significant(v), unit) for k, v in parts.items()}
        total = Quantity(round_significant(sum(parts.values())), unit)
        return cls(total, threads, updates, rounded, fields or {})

    @classmethod
    def read(cls, data: DataNode, unit: str, threads: int, updates: int) -> Volume:
        """Read what :meth:`to_dict` gave.

        Args:
            data: plain data.
            unit: base unit.
            threads: unmasked threads of the launch.
            updates: results that they make.
        """
        fields = data.optional("fields", {})
        return cls(
            data["total"].quantity(unit),
            threads,
            updates,
            data.optional("parts", {}).table(lambda part: part.quantity(unit)),
            fields.table(lambda field: cls._read_field(field, unit, threads, updates)),
        )

    @classmethod
    def _read_field(cls, data: DataNode, unit: str, threads: int, updates: int) -> Volume:
        if "fields" in data:
            raise data.fail("has fields of its own")
        return cls.read(data, unit, threads, updates)


UNITS = {
    "l1_wavefronts": "", "l1_cycles": "", "shared_wavefronts": "",
    "l2_load": "B", "l2_store": "B", "dram_load": "B", "dram_store": "B",
}  # fmt: skip


@dataclass(frozen=True)
class Volumes:
    """Data volumes and counts of a launch, each a :class:`Volume`.

    Attributes:
        l1_wavefronts: wavefronts of the L1's data stage; parts ``loads``, ``stores``.
        l1_cycles: cycles that the L1 pipes are occupied, summed over the SMs: the slowest of data
            stage, tag stage and width; parts ``loads``, ``stores``.
        shared_wavefronts: wavefronts of shared memory; 0 where the kernel is not compiled.
        l2_load: bytes that the L1s read from the L2; parts ``compulsory``, ``capacity``.
        l2_store: bytes that the L1s write to the L2; part ``written_through``.
        dram_load: bytes read from DRAM; parts ``compulsory``, ``overlap_y``, ``overlap_z``,
            ``capacity``, ``store_fill``.
        dram_store: bytes written to DRAM; parts ``compulsory``, ``capacity``.
    """

    l1_wavefronts: Volume
    l1_cycles: Volume
    shared_wavefronts: Volume
    l2_load: Volume
    l2_store: Volume
    dram_load: Volume
    dram_store: Volume

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain data; numbers in base units."""
        return {f.name: getattr(self, f.name).to_dict() for f in dataclasses.fields(self)}

    @classmethod
    def read(cls, data: DataNode, threads: int, updates: int) -> Volumes:
        """Read what :meth:`to_dict` gave.

        Args:
            data: plain data.
            threads: unmasked threads of the launch.
            updates: results that they make.
        """
        return cls(**{k: Volume.read(data[k], unit, threads, updates) for k, unit in UNITS.items()})
