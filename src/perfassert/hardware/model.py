"""What a device is: immutable, exactly what its file holds.

Every number comes from a TOML file with a source and a grade; see ``docs/devices.md``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any

from perfassert.errors import DeviceFileError, close_matches


class Grade(str, Enum):
    """How a value was obtained."""

    MEASURED = "measured"
    DOCUMENTED = "documented"
    FITTED = "fitted"
    ASSUMED = "assumed"


class Scope(str, Enum):
    """Whether a pipeline exists once per compute unit or once per warp scheduler."""

    UNIT = "unit"
    SCHEDULER = "scheduler"


@dataclass(frozen=True, slots=True)
class Provenance:
    """Source (expanded from the file's ``[sources]``), grade, and an optional remark."""

    source: str
    grade: Grade
    note: str = ""


@dataclass(frozen=True, slots=True)
class Operation:
    """Issue latency λ and completion latency Λ in cycles, and the pipeline they occupy."""

    name: str
    issue: float
    completion: float
    pipeline: str


SYNONYMS = {
    "index": "int32", "add": "int32", "loop": "branch",
    "fadd": "fp32", "fmul": "fp32", "ffma": "fp32", "fma": "fp32", "fmadd": "fp32",
    "dadd": "fp64", "dmul": "fp64", "dfma": "fp64",
    "sin": "sfu", "cos": "sfu", "exp": "sfu", "rsqrt": "sfu",
    "mem": "global_load", "memory": "global_load", "load": "global_load", "store": "global_store",
    "local": "shared_load", "shared": "shared_load",
}  # fmt: skip
"""What people call an operation in a graph → the class that device files know it by."""


@dataclass(frozen=True, slots=True)
class CapacityCurve:
    """Miss share of a redundant volume over the oversubscription ``o`` of a cache level.

    ``miss(o) = a · exp(−b · exp(−c · o))`` (Gompertz), Warpspeed §4.5.
    """

    a: float
    b: float
    c: float

    def miss(self, oversubscription: float) -> float:
        """Share of the redundant volume that misses, between 0 and ``a``."""
        from math import exp

        return self.a * exp(-self.b * exp(-self.c * oversubscription))


_TABLES = ("operations", "pipelines", "curves", "provenance")


def _rebuild(values: dict[str, Any]) -> Device:
    return Device(**values)


@dataclass(frozen=True)
class Device:
    """One GPU. Units: cycles of ``clock_hz``, bytes, bytes per second, seconds.

    ``operations`` maps a class such as ``"fp32"`` to its :class:`Operation`;
    ``pipelines`` maps a pipeline to its :class:`Scope`; ``curves`` the capacity curves
    (``l1_load l2_layer l2_load l2_store``); ``provenance`` every key of the file to where
    its value comes from.
    """

    name: str
    arch: str
    aliases: tuple[str, ...]
    digest: str
    compute_units: int
    warp_size: int
    schedulers_per_unit: int
    clock_hz: float
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
    sector_bytes: int
    l2_bytes: int
    l2_partitions: int
    l2_bandwidth: float
    l2_port_bytes_per_cycle: float
    dram_bandwidth: float
    dram_alone_factor: float
    dram_knee: float
    dram_latency_growth: float
    dram_granularity: int
    tlb_page_bytes: int
    l1_latency: float
    l2_latency: float
    dram_latency: float
    shared_latency: float
    constant_latency: float
    stream_cycles: float
    memory_issue_cycles: float
    memory_queue_depth: int
    launch_overhead: float
    block_launch_cycles: float
    block_drain_cycles: float
    instruction_cache_bytes: int
    instruction_fetch_share: float
    operations: Mapping[str, Operation]
    pipelines: Mapping[str, Scope]
    curves: Mapping[str, CapacityCurve]
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
        """The class ``name`` or its synonym; raises :class:`DeviceFileError` with near names."""
        found = self.operations.get(name) or self.operations.get(SYNONYMS.get(name, ""))
        if found is None:
            hint = close_matches(name, [*self.operations, *SYNONYMS])
            raise DeviceFileError(f"{self.name}: no operation class {name!r}{hint}")
        return found

    def replace(self, **changes: object) -> Device:
        """A variant: a hypothetical or clocked-down GPU, ``replace(clock_hz=765e6)``.

        The values are checked as a file's are. The variant's digest differs.
        """
        from perfassert.hardware.schema import check_consistency

        names = {f.name for f in dataclasses.fields(self)} - {"digest", "provenance"}
        for key in changes:
            if key not in names:
                hint = close_matches(key, names)
                raise DeviceFileError(f"{self.name}: replace() knows no {key!r}{hint}")
        changed = ", ".join(f"{k}={changes[k]!r}" for k in sorted(changes))
        digest = f"{self.digest}+{changed}"
        variant = dataclasses.replace(self, digest=digest, **changes)  # type: ignore[arg-type]
        check_consistency(variant, f"{self.name}.replace({changed})")
        return variant
