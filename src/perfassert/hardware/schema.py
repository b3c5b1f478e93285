"""The published schema of a device file."""

from __future__ import annotations

from dataclasses import dataclass

from perfassert.quantity import LARGEST


@dataclass(frozen=True, slots=True)
class ValueRule:
    """Rule of a key of ``[values]``: accepted units with their scale to the base unit, limits.

    ``off``: the value that turns a mechanism off, which a file without the key has.
    """

    units: dict[str, float]
    integer: bool = False
    minimum: float = 0.0
    exclusive: bool = True  # the value must lie above `minimum`, not on it
    maximum: float = LARGEST
    off: float | None = None


_COUNT = {"count": 1.0}
_BYTES = {"B": 1.0, "KiB": 1024.0, "MiB": 1024.0**2}
_CYCLES = {"cycles": 1.0}
_HERTZ = {"Hz": 1.0, "MHz": 1e6, "GHz": 1e9}
_BANDWIDTH = {"B/s": 1.0, "GB/s": 1e9, "GiB/s": 1024.0**3, "TB/s": 1e12}
_PER_CYCLE = {"B/cycle": 1.0}
_SECONDS = {"s": 1.0, "us": 1e-6, "ns": 1e-9}

_count = ValueRule(_COUNT, integer=True)
_bytes = ValueRule(_BYTES, integer=True)
_bytes_of_block = ValueRule(_BYTES, integer=True, maximum=2**28)  # which blocks are executed with
_bytes_or_none = ValueRule(_BYTES, integer=True, exclusive=False)
_count_if_any = ValueRule(_COUNT, integer=True, exclusive=False, off=0)
_bytes_if_any = ValueRule(_BYTES, integer=True, exclusive=False, off=0)
_cycles = ValueRule(_CYCLES)
_cycles_if_any = ValueRule(_CYCLES, exclusive=False, off=0.0)

VALUES: dict[str, ValueRule] = {
    "compute_units": _count,
    "warp_size": _count,
    "schedulers_per_unit": _count,
    "clock_hz": ValueRule(_HERTZ),
    "sustained_clock_hz": ValueRule(_HERTZ, exclusive=False, off=0.0),
    "slowest_clock_hz": ValueRule(_HERTZ, exclusive=False, off=0.0),
    "fastest_clock_hz": ValueRule(_HERTZ, exclusive=False, off=0.0),
    "max_threads_per_block": _count,
    "max_block_z": _count,
    "max_threads_per_unit": _count,
    "max_blocks_per_unit": _count,
    "registers_per_unit": _count,
    "max_registers_per_thread": _count,
    "register_allocation_unit": _count,
    "shared_bytes_per_unit": _bytes,
    "shared_bytes_per_block": _bytes_of_block,
    "shared_reserved_bytes": _bytes_or_none,
    "shared_allocation_unit": _bytes,
    "shared_banks": _count,
    "shared_bank_bytes": _bytes,
    "l1_bytes": _bytes,
    "l1_line_bytes": _bytes,
    "l1_bytes_per_cycle": ValueRule(_PER_CYCLE, integer=True),
    "l1_access_cycles": _cycles_if_any,
    "l1_tag_banks": _count,
    "l1_tag_cycles": ValueRule(_CYCLES, off=1.0),
    "l1_fill_cycles": _cycles_if_any,
    "shared_merged_passes": ValueRule(_COUNT, integer=True, off=1),
    "shared_access_cycles": _cycles_if_any,
    "shared_atomic_cycles": _cycles_if_any,
    "cluster_latency": _cycles_if_any,
    "cluster_bytes_per_cycle": ValueRule(_PER_CYCLE, exclusive=False, off=0.0),
    "sector_bytes": _bytes,
    "l2_bytes": _bytes,
    "l2_partitions": _count,
    "l2_bandwidth": ValueRule(_BANDWIDTH),
    "l2_port_bytes_per_cycle": ValueRule(_PER_CYCLE),
    "l2_packet_cycles": _cycles_if_any,
    "l2_port_packet_cycles": _cycles_if_any,
    "l2_atomic_cycles": _cycles_if_any,
    "l2_update_cycles": _cycles_if_any,
    "l2_atomic_lane_cycles": _cycles_if_any,
    "l2_double_cycles": _cycles_if_any,
    "l2_slices": _count_if_any,
    "l2_slice_bytes": _bytes_if_any,
    "dram_bandwidth": ValueRule(_BANDWIDTH),
    "dram_alone_factor": ValueRule(_COUNT, minimum=1, exclusive=False),
    "dram_peak_bandwidth": ValueRule(_BANDWIDTH, exclusive=False, off=0.0),
    "dram_knee": ValueRule(_COUNT),
    "dram_latency_growth": ValueRule(_COUNT, exclusive=False),
    "dram_latency_spread": ValueRule(_COUNT, exclusive=False),
    "dram_granularity": _bytes,
    "dram_activate": ValueRule(_SECONDS, exclusive=False, off=0.0),
    "dram_channels": _count_if_any,
    "dram_page_bytes": _bytes_if_any,
    "dram_queue_depth": _count_if_any,
    "dram_request_bytes": _bytes_if_any,
    "tlb_page_bytes": _bytes,
    "tlb_pages": _count_if_any,
    "tlb_pages_per_cycle": ValueRule(_COUNT, exclusive=False, off=0.0),
    "l1_latency": _cycles,
    "l2_latency": _cycles,
    "dram_latency": _cycles,
    "shared_latency": _cycles,
    "constant_latency": _cycles,
    "memory_issue_cycles": _cycles,
    "memory_queue_depth": _count,
    "launch_overhead": ValueRule(_SECONDS, exclusive=False),
    "block_dispatch_cycles": _cycles_if_any,
    "block_launch_cycles": ValueRule(_CYCLES, exclusive=False),
    "block_drain_cycles": ValueRule(_CYCLES, exclusive=False),
    "instruction_cache_bytes": _bytes,
    "instruction_fetch_share": ValueRule(_COUNT, exclusive=False),
    "instruction_fetch_bytes_per_cycle": ValueRule(_PER_CYCLE, exclusive=False, off=0.0),
}

CHOICES: dict[str, tuple[str, ...]] = {
    "warp_scheduler": ("greedy-then-oldest", "loose-round-robin"),
}
"""Keys of ``[values]`` that are words: what they may say, first what a file without them means."""
MATRIX_RATE = ValueRule({"madd/cycle": 1.0})
"""Of ``[matrix]``: dense multiply-adds per cycle and SM."""
TOP_LEVEL = ("schema", "name", "extends", "arch", "aliases", "capacity_fits", "sources", "values",
             "pipelines", "operations", "matrix")  # fmt: skip
ENTRY = ("value", "unit", "source", "grade", "note")
OPERATION = ("pipeline", "issue", "completion", "variant")
COSTS = ("issue", "completion")
CURVES = ("l1_load", "l2_layer", "l2_load", "l2_store")
CURVE_KEYS = ("a", "b", "c", "reference_bytes", "r_squared", "source", "grade", "note")
ARCHITECTURE = frozenset(
    """warp_size schedulers_per_unit max_threads_per_block max_block_z max_threads_per_unit
    max_blocks_per_unit registers_per_unit max_registers_per_thread register_allocation_unit
    shared_bytes_per_unit shared_bytes_per_block shared_reserved_bytes shared_allocation_unit
    shared_banks shared_bank_bytes shared_atomic_cycles shared_latency constant_latency l1_bytes
    l1_line_bytes l1_bytes_per_cycle l1_tag_banks l1_tag_cycles l1_fill_cycles shared_access_cycles
    l1_latency sector_bytes warp_scheduler shared_merged_passes
    l1_access_cycles""".split()
)
"""Keys that the compute capability settles: what documents say of one device holds for all."""
