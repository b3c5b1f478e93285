"""What a device is: immutable, exactly what its file holds.

Every number comes from a TOML file with a source and a grade; see ``docs/devices.md``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from perfassert.errors import DeviceFileError, check_kind, close_matches
from perfassert.hardware.checks import check_consistency
from perfassert.hardware.entries import (
    SYNONYMS,
    CapacityCurve,
    Operation,
    Provenance,
    Scope,
    key_parts,
)
from perfassert.hardware.matrix import Derived, MatrixVariant, derived, listed, nearest
from perfassert.hardware.schema import VALUES
from perfassert.quantity import to_real

_TIMES = ("l2_latency", "dram_latency", "l2_atomic_cycles")
"""Counted in cycles, but not of the units' clock."""
_TABLES = ("operations", "matrix", "pipelines", "curves", "references", "provenance")
_KINDS: dict[str, type] = {
    "name": str, "arch": str, "capacity_fits": str, "aliases": tuple,
    "operations": Mapping, "matrix": Mapping, "pipelines": Mapping, "curves": Mapping,
}  # fmt: skip
"""What :meth:`Device.replace` takes for what is no number."""
_ENTRIES: dict[str, type | tuple[type, ...]] = {
    "operations": Operation, "matrix": (int, float), "pipelines": Scope, "curves": CapacityCurve,
}  # fmt: skip


def _rebuild(values: dict[str, Any]) -> Device:
    return Device(**values)


@dataclass(frozen=True)
class Device:
    """One GPU. Units: cycles of ``clock_hz``, bytes, bytes per second, seconds.

    ``operations`` maps a class such as ``"fp32"`` to its :class:`Operation`; ``matrix`` unit and
    types of matrix instructions, ``"tensor.f16.f32"``, to dense multiply-adds per cycle;
    ``pipelines`` maps a pipeline to its :class:`Scope`; ``curves`` the capacity curves
    (``l1_load l2_layer l2_load l2_store``); ``provenance`` every key of the file to where
    its value comes from; ``references`` keys of the file to the keys of ``[values]`` that they
    refer to.
    """

    name: str
    arch: str
    capacity_fits: str
    aliases: tuple[str, ...]
    digest: str
    compute_units: int
    warp_size: int
    schedulers_per_unit: int
    clock_hz: float
    sustained_clock_hz: float
    max_threads_per_block: int
    max_block_z: int
    max_threads_per_unit: int
    max_blocks_per_unit: int
    registers_per_unit: int
    max_registers_per_thread: int
    register_allocation_unit: int
    shared_bytes_per_unit: int
    shared_bytes_per_block: int
    shared_reserved_bytes: int
    shared_allocation_unit: int
    shared_banks: int
    shared_bank_bytes: int
    l1_bytes: int
    l1_line_bytes: int
    l1_bytes_per_cycle: int
    l1_tag_banks: int
    l1_tag_cycles: float
    l1_fill_cycles: float
    shared_access_cycles: float
    shared_atomic_cycles: float
    cluster_latency: float
    cluster_bytes_per_cycle: float
    sector_bytes: int
    l2_bytes: int
    l2_partitions: int
    l2_bandwidth: float
    l2_port_bytes_per_cycle: float
    l2_atomic_cycles: float
    dram_bandwidth: float
    dram_alone_factor: float
    dram_knee: float
    dram_latency_growth: float
    dram_latency_spread: float
    dram_granularity: int
    tlb_page_bytes: int
    l1_latency: float
    l2_latency: float
    dram_latency: float
    shared_latency: float
    constant_latency: float
    memory_issue_cycles: float
    memory_queue_depth: int
    launch_overhead: float
    block_dispatch_cycles: float
    block_launch_cycles: float
    block_drain_cycles: float
    instruction_cache_bytes: int
    instruction_fetch_share: float
    instruction_fetch_bytes_per_cycle: float
    operations: Mapping[str, Operation]
    matrix: Mapping[str, float]
    pipelines: Mapping[str, Scope]
    curves: Mapping[str, CapacityCurve]
    references: Mapping[str, str]
    provenance: Mapping[str, Provenance] = field(repr=False)

    def __post_init__(self) -> None:
        for name in _TABLES:
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def __hash__(self) -> int:
        return hash(self.digest)

    def __reduce__(self) -> tuple[Any, ...]:
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return (_rebuild, ({k: dict(v) if k in _TABLES else v for k, v in values.items()},))

    @property
    def max_warps_per_unit(self) -> int:
        """Warps that one compute unit holds at most."""
        return self.max_threads_per_unit // self.warp_size

    @property
    def l2_effective_bytes(self) -> int:
        """Capacity that reuse can count on: one partition (Warpspeed §3)."""
        return self.l2_bytes // self.l2_partitions

    def operation(self, name: str) -> Operation:
        """The class ``name`` or its synonym, or a matrix variant, which may be :meth:`derived`.

        Raises :class:`DeviceFileError` with near names.
        """
        found = self._listed(name)
        if found is None and (variant := MatrixVariant.named(name)):
            made = self._derive(variant)
            found = made.operation if made else None
        if found is None:
            hint = close_matches(name, [*self.operations, *SYNONYMS])
            raise DeviceFileError(f"{self.name}: no operation class {name!r}{hint}")
        return found

    def derived(self, variant: MatrixVariant) -> Derived | None:
        """A matrix variant that the file does not list, from one that it lists, and how.

        None where it is listed, or the file has no matrix instructions. In one that says of its
        class ``tensor`` not which variant that is, all of them cost the same.
        """
        return None if self._listed(variant.name) else self._derive(variant)

    def _listed(self, name: str) -> Operation | None:
        """The class of a name, a synonym or a matrix variant."""
        found = self.operations.get(name) or self.operations.get(SYNONYMS.get(name, ""))
        return found or listed(name, self.operations.values())

    def _derive(self, variant: MatrixVariant) -> Derived | None:
        source = nearest(variant, self.operations.values())
        if source is None:
            one = self.operations.get("tensor")
            said = f"{variant.name} counts as any other matrix instruction"
            return None if one is None else Derived(one, said)
        scope = self.pipelines[source.pipeline]
        width = self.shared_banks * self.shared_bank_bytes
        return derived(variant, source, self.matrix, scope, width)

    def replace(self, **changes: object) -> Device:
        """A variant: a hypothetical or clocked-down GPU, ``replace(clock_hz=765e6)``.

        The values are checked as a file's are, and what refers to one of them changes with it; the
        latencies of L2 and DRAM are times, so at another clock they are other numbers of cycles.
        The variant's digest differs.
        """
        names = {f.name for f in dataclasses.fields(self)} - {"digest", "provenance", "references"}
        for key in changes:
            if key not in names:
                hint = close_matches(key, names)
                raise DeviceFileError(f"{self.name}: replace() knows no {key!r}{hint}")
        numbers = {
            k: to_real(v, f"{self.name}.replace(): {k}", DeviceFileError)
            for k, v in changes.items()
            if k in VALUES
        }
        for key, kind in _KINDS.items():
            if key in changes:
                self._check_replaced(key, kind, changes[key])
        changes |= numbers
        changed = ", ".join(f"{k}={changes[k]!r}" for k in sorted(changes))
        digest = f"{self.digest}+{changed}"
        whole = (k for k, v in numbers.items() if VALUES[k].integer and v == int(v))
        changes |= {k: int(numbers[k]) for k in whole}
        clock = numbers.get("clock_hz", self.clock_hz) / self.clock_hz
        times = {key: getattr(self, key) * clock for key in _TIMES} if clock != 1 else {}
        all_changes: dict[str, Any] = {"digest": digest, **self._followed(times | changes)}
        variant = dataclasses.replace(self, **all_changes)
        variant.check(f"{self.name}.replace({changed})")
        return variant

    def _check_replaced(self, key: str, kind: type, value: Any) -> None:
        """Raise :class:`DeviceFileError` for what a table or text of the device cannot be."""
        where = f"{self.name}.replace(): {key}"
        check_kind(value, kind, where, DeviceFileError)
        for name, entry in value.items() if kind is Mapping else ():
            check_kind(name, str, f"{where}: a name", DeviceFileError)
            check_kind(entry, _ENTRIES[key], f"{where}[{name!r}]", DeviceFileError)
        if key == "curves" and (missing := self.curves.keys() - value.keys()):
            raise DeviceFileError(f"{where} has no {', '.join(sorted(missing))}")

    def check(self, where: str) -> None:
        """Raise :class:`DeviceFileError`, which names ``where``, if values contradict another."""
        check_consistency(self.values(), self.operations, self.matrix, self.pipelines, where)

    def values(self) -> dict[str, float]:
        """What ``[values]`` holds, in base units."""
        return {key: getattr(self, key) for key in VALUES}

    def _followed(self, changes: Mapping[str, object]) -> dict[str, object]:
        """The changes, and those of what refers to something that they change."""
        result = dict(changes)
        operations = dict(self.operations)
        for key, target in self.references.items():  # what others refer to comes first
            section, name, part = key_parts(key)
            if target in result and section == "values":
                result.setdefault(name, result[target])
            elif target in result:
                change: dict[str, Any] = {part: result[target]}
                operations[name] = dataclasses.replace(operations[name], **change)
        return {"operations": operations, **result}
