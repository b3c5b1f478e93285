"""Devices, immutable: exactly the values of their files.

Every number comes from a TOML file with a source and a grade; see ``docs/reference/devices.md``.
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
from perfassert.hardware.matrix import Derived, MatrixVariant, derive_variant, find_variant, nearest
from perfassert.hardware.schema import CHOICES, VALUES
from perfassert.quantity import to_real

_TIMES = ("l2_latency", "dram_latency", "l2_atomic_cycles", "l2_update_cycles",
          "l2_atomic_lane_cycles", "l2_double_cycles", "l2_packet_cycles")  # fmt: skip
"""Counted in cycles, but not of the units' clock."""
_TABLES = ("operations", "matrix", "pipelines", "curves", "references", "provenance")
_KINDS: dict[str, type] = {
    "name": str, "warp_scheduler": str, "arch": str, "capacity_fits": str, "aliases": tuple,
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
    """A GPU, immutable: the values of its device file, in base units.

    Get one with :func:`perfassert.device`; :meth:`replace` makes variants. Unless a name says
    otherwise, values are in cycles of ``clock_hz``, bytes, bytes per second, hertz or seconds;
    *unit* in a name is the SM. Every value has a source and a grade in :attr:`provenance`.

    Attributes:
        name: in test ids and reports.
        arch: compute capability: ``"sm_80"``.
        capacity_fits: name of the fits that the capacity curves come from.
        aliases: other names.
        digest: identifies the content of the file, and what :meth:`replace` changed.
        compute_units: SMs of the device.
        warp_size: lanes of a warp.
        schedulers_per_unit: warp schedulers of an SM.
        warp_scheduler: which warp a scheduler prefers: ``"greedy-then-oldest"`` or
            ``"loose-round-robin"``, as of :func:`simulate`.
        clock_hz: clock under load, at which the measured values hold.
        sustained_clock_hz: clock while matrix units are busy all the time; 0: no other.
        slowest_clock_hz, fastest_clock_hz: at which boards of this model were seen to run under
            load; 0: at no other than ``clock_hz``.
        max_threads_per_block, max_block_z: largest block, and largest block in z.
        max_threads_per_unit, max_blocks_per_unit: threads and blocks that an SM holds.
        registers_per_unit: 32-bit registers of an SM.
        max_registers_per_thread: most registers of a thread.
        register_allocation_unit: registers are allocated to a warp in multiples of this.
        shared_bytes_per_unit, shared_bytes_per_block: shared memory of an SM, at its largest, and
            the most of a block.
        shared_reserved_bytes: taken by the system from each block.
        shared_allocation_unit: shared memory is allocated in multiples of this.
        shared_banks, shared_bank_bytes: banks of shared memory and of the L1's data; their width.
        l1_bytes: L1 of an SM, shared memory included where they share a store.
        l1_line_bytes: line, the granularity of allocation and of tags.
        l1_bytes_per_cycle: width of the L1 pipe.
        l1_access_cycles: least cycles of an access in the L1 pipe, however few its bytes.
        l1_tag_banks, l1_tag_cycles: banks of the tag stage; cycles of a bank for each line.
        l1_fill_cycles: cycles of the load-store unit for each sector that a load brings into the
            L1.
        shared_merged_passes: passes of a load of 8 or 16 bytes from shared memory that are one
            where pairs of lanes want the same; 1: none.
        shared_access_cycles: least cycles of an access to shared memory in the load-store unit.
        shared_atomic_cycles: cycles for each further lane whose atomic goes to the same bank.
        cluster_latency: cycles of a load from shared memory of another block of the cluster; 0 if
            not given.
        cluster_bytes_per_cycle: of an SM, from and to shared memory of other blocks of the cluster;
            0: no limit.
        sector_bytes: sector, the granularity of transfers.
        l2_bytes, l2_partitions: L2 of the device; partitions that may hold the same data.
        l2_bandwidth: from the L2 to all L1s, in bytes per second.
        l2_port_bytes_per_cycle: from the L2 to one SM.
        l2_packet_cycles: of the whole L2 for each packet from an SM: the request of a load for a
            line, a sector of a store, or which bytes of a line are stored; 0: no limit.
        l2_port_packet_cycles: the same of one SM's port; 0: no limit.
        l2_atomic_cycles: cycles of the L2 for each 32-bit integer addition of a thread on the same
            address.
        l2_update_cycles: the same of floating-point additions, increments and decrements; 0 if
            unknown.
        l2_atomic_lane_cycles: of the whole L2 for each atomic operation of a thread, where
            neighbouring threads go to neighbouring words of 32 bits; 0 if unknown.
        l2_double_cycles: of one slice of the L2 for each floating-point addition of 64 bits.
        l2_slices, l2_slice_bytes: parts of the L2 that serve atomics beside each other, one sector
            at a time; bytes that lie in the same one. 0: all of them serve any target.
        dram_bandwidth: measured, reads and writes together, in bytes per second.
        dram_alone_factor: what reads or writes alone reach, in units of ``dram_bandwidth``.
        dram_peak_bandwidth: nominal, which no launch exceeds, in bytes per second; 0 if unknown.
        dram_knee: exponent of the soft maximum where DRAM takes over; large is sharp.
        dram_latency_growth: by how much of ``dram_latency`` a load from a busy DRAM is slower.
        dram_latency_spread: by how much of ``dram_latency`` latencies of single lines lie about it.
        dram_granularity: bytes that a miss of the L2 loads.
        dram_activate: seconds between two activations of rows in one channel of DRAM, in the long
            run; 0: activations take no time.
        dram_channels: independent channels of DRAM.
        dram_page_bytes: bytes of the row that an activation opens.
        dram_queue_depth, dram_request_bytes: requests that wait for each channel; bytes of one.
        tlb_page_bytes: page that one TLB entry covers.
        tlb_pages: pages that the TLB of an SM covers.
        tlb_pages_per_cycle: pages that the device translates in a cycle for all SMs that miss; 0:
            translation takes no time.
        l1_latency, l2_latency, dram_latency: cycles of a load that hits there, DRAM being idle.
        shared_latency, constant_latency: cycles of a load from shared and from constant memory.
        memory_issue_cycles: cycles between two memory instructions of a scheduler.
        memory_queue_depth: memory instructions that wait for each scheduler.
        launch_overhead: seconds from the call to the first block.
        block_dispatch_cycles: cycles between two blocks that the device starts.
        block_launch_cycles, block_drain_cycles: cycles of the start, and of the end of a block that
            stores.
        instruction_cache_bytes: code that stays near the SM.
        instruction_fetch_share: of the code that does not stay, the fraction that comes from the
            L2.
        instruction_fetch_bytes_per_cycle: such code that reaches an SM; 0: it takes no time.
        operations: class, such as ``"fp32"`` → issue latency λ, completion latency Λ and pipeline.
        matrix: matrix unit and types, ``"tensor.f16.f32"`` → dense multiply-adds per cycle and SM.
        pipelines: pipeline → scope: one for each SM (``unit``) or for each ``scheduler``.
        curves: capacity curves by name: ``l1_load l2_layer l2_load l2_store``.
        references: key of the file → key of ``[values]`` that it refers to.
        provenance: key of the file → source, grade and note of its value.

    Example:
        >>> import perfassert as pa
        >>> a100 = pa.device("a100")
        >>> a100.l2_bytes, a100.operation("fma").pipeline
        (41943040, 'fma')
        >>> a100.provenance["values.dram_bandwidth"].grade.value
        'measured'

    Source:
        The device files name a source for each value; ``docs/reference/devices.md`` explains the
        keys.
    """

    name: str
    arch: str
    capacity_fits: str
    aliases: tuple[str, ...]
    digest: str
    compute_units: int
    warp_size: int
    schedulers_per_unit: int
    warp_scheduler: str
    clock_hz: float
    sustained_clock_hz: float
    slowest_clock_hz: float
    fastest_clock_hz: float
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
    l1_access_cycles: float
    l1_tag_banks: int
    l1_tag_cycles: float
    l1_fill_cycles: float
    shared_merged_passes: int
    shared_access_cycles: float
    shared_atomic_cycles: float
    cluster_latency: float
    cluster_bytes_per_cycle: float
    sector_bytes: int
    l2_bytes: int
    l2_partitions: int
    l2_bandwidth: float
    l2_port_bytes_per_cycle: float
    l2_packet_cycles: float
    l2_port_packet_cycles: float
    l2_atomic_cycles: float
    l2_update_cycles: float
    l2_atomic_lane_cycles: float
    l2_double_cycles: float
    l2_slices: int
    l2_slice_bytes: int
    dram_bandwidth: float
    dram_alone_factor: float
    dram_peak_bandwidth: float
    dram_knee: float
    dram_latency_growth: float
    dram_latency_spread: float
    dram_granularity: int
    dram_activate: float
    dram_channels: int
    dram_page_bytes: int
    dram_queue_depth: int
    dram_request_bytes: int
    tlb_page_bytes: int
    tlb_pages: int
    tlb_pages_per_cycle: float
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
        """Most warps that one SM holds."""
        return self.max_threads_per_unit // self.warp_size

    @property
    def peak_clock_hz(self) -> float:
        """Highest clock that is known of the device, in hertz."""
        return max(self.clock_hz, self.fastest_clock_hz)

    @property
    def peak_dram_bandwidth(self) -> float:
        """Bandwidth of DRAM, in bytes per second: the nominal, or the measured if it is larger."""
        return max(self.dram_peak_bandwidth, self.dram_bandwidth * self.dram_alone_factor)

    @property
    def l2_effective_bytes(self) -> int:
        """Capacity of the L2 that reuse can count on, in bytes: one partition (Warpspeed §3)."""
        return self.l2_bytes // self.l2_partitions

    def operation(self, name: str) -> Operation:
        """Latencies and pipeline of an operation class.

        Args:
            name: a class (``"fp32"``), a synonym of one (``"fma"``), or a variant of matrix
                instructions, which is derived where the file does not list it.

        Raises:
            DeviceFileError: no such class; close matches are listed.
        """
        operation = self._find_operation(name)
        if operation is None and (variant := MatrixVariant.from_name(name)):
            derivation = self._derive(variant)
            operation = derivation.operation if derivation else None
        if operation is None:
            hint = close_matches(name, [*self.operations, *SYNONYMS])
            raise DeviceFileError(f"{self.name}: no operation class {name!r}{hint}")
        return operation

    def derive_variant(self, variant: MatrixVariant) -> Derived | None:
        """Derive a matrix variant that the file does not list from one that it lists.

        None where the file lists it, or has no matrix instructions. In a file that says of its
        class ``tensor`` not which variant it is, all of them cost the same.

        Args:
            variant: shape and types of the instruction.
        """
        return None if self._find_operation(variant.name) else self._derive(variant)

    def _find_operation(self, name: str) -> Operation | None:
        """Find the operation of a class, a synonym or a listed matrix variant."""
        operation = self.operations.get(name) or self.operations.get(SYNONYMS.get(name, ""))
        return operation or find_variant(name, self.operations.values())

    def _derive(self, variant: MatrixVariant) -> Derived | None:
        source = nearest(variant, self.operations.values())
        if source is None:
            tensor = self.operations.get("tensor")
            note = f"{variant.name} counts as any other matrix instruction"
            return None if tensor is None else Derived(tensor, note)
        scope = self.pipelines[source.pipeline]
        width = self.shared_banks * self.shared_bank_bytes
        return derive_variant(variant, source, self.matrix, scope, width)

    def replace(self, **changes: object) -> Device:
        """Variant of the device: a hypothetical or clocked-down GPU.

        Values are checked as a file's are, and what refers to one of them changes with it.
        Latencies of L2 and DRAM are times: at another clock they are other numbers of cycles. A
        clock that is given is known, so that it has no slowest and fastest one. The peak of DRAM
        changes by as much as its bandwidth.

        Args:
            **changes: attribute → value in base units: ``clock_hz=765e6``, ``l2_bytes=80 << 20``.
                All but ``digest``, ``provenance`` and ``references``.

        Returns:
            A device with another ``digest``.

        Raises:
            DeviceFileError: an unknown attribute, or values that cannot hold together.

        Example:
            >>> import perfassert as pa
            >>> a100 = pa.device("a100")
            >>> slow = a100.replace(clock_hz=765e6)
            >>> slow.clock_hz, slow.l2_latency < a100.l2_latency
            (765000000.0, True)
        """
        names = {f.name for f in dataclasses.fields(self)} - {"digest", "provenance", "references"}
        for key in changes:
            if key not in names:
                hint = close_matches(key, names)
                raise DeviceFileError(f"{self.name}: replace() has no parameter {key!r}{hint}")
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
        follow = {key: getattr(self, key) * clock for key in _TIMES} if clock != 1 else {}
        if "clock_hz" in numbers:
            follow |= {"slowest_clock_hz": 0.0, "fastest_clock_hz": 0.0}
        if "dram_bandwidth" in numbers:
            faster = numbers["dram_bandwidth"] / self.dram_bandwidth
            follow["dram_peak_bandwidth"] = self.dram_peak_bandwidth * faster
        all_changes: dict[str, Any] = {"digest": digest, **self._with_references(follow | changes)}
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
        """Raise :class:`DeviceFileError` if values contradict one another.

        Args:
            where: what the message names.
        """
        for key, known in CHOICES.items():
            if (word := getattr(self, key)) not in known:
                choices = ", ".join(known)
                raise DeviceFileError(f"{where}: {key}: must be one of: {choices}; not {word!r}")
        check_consistency(self.values(), self.operations, self.matrix, self.pipelines, where)

    def values(self) -> dict[str, float]:
        """Numbers of the device by the keys of ``[values]``, in base units."""
        return {key: getattr(self, key) for key in VALUES}

    def _with_references(self, changes: Mapping[str, object]) -> dict[str, object]:
        """``changes``, with the values and operations that refer to a changed one."""
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
