"""Occupancy: the number of blocks that an SM holds at a time, and its limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from perfassert.errors import LaunchError
from perfassert.hardware.model import Device


@dataclass(frozen=True, slots=True)
class Occupancy:
    """``fraction`` of the unit's warp slots; ``limited_by`` warps, blocks, registers or shared."""

    fraction: float
    resident_blocks: int
    warps_per_unit: int
    limited_by: str


def occupancy(
    device: Device, threads_per_block: int, registers: int, shared_bytes: int
) -> Occupancy:
    """Occupancy after the rules of NVIDIA's ``cuda_occupancy.h``.

    ``registers`` per thread; ``shared_bytes`` per block, static and dynamic. Registers are
    allocated per warp in multiples of ``register_allocation_unit`` and the register file is split
    over the schedulers, so each scheduler's part is filled on its own. Raises
    :class:`LaunchError` where not even one block fits.
    """
    _check_limits(device, threads_per_block, registers, shared_bytes)
    warps = -(-threads_per_block // device.warp_size)
    limits = {
        "warps": device.max_warps_per_unit // warps,
        "blocks": device.max_blocks_per_unit,
        "registers": _warps_by_registers(device, registers) // warps,
        "shared": _blocks_by_shared(device, shared_bytes),
    }
    limited_by = min(limits, key=lambda key: limits[key])
    blocks = limits[limited_by]
    if blocks == 0:
        raise LaunchError.exceeding(
            f"no block fits on {device.name}: {threads_per_block} threads with {registers} "
            f"registers each and {shared_bytes} bytes of shared memory exceed its {limited_by}"
        )
    warps_per_unit = blocks * warps
    return Occupancy(warps_per_unit / device.max_warps_per_unit, blocks, warps_per_unit, limited_by)


def occupancy_or_none(
    device: Device, threads_per_block: int, registers: int, shared_bytes: int
) -> float | None:
    """Return the share of warp slots in use; None where not even one block fits."""
    try:
        return occupancy(device, threads_per_block, registers, shared_bytes).fraction
    except LaunchError:
        return None


def check_block(device: Device, block: Sequence[int], shared_bytes: int) -> None:
    """Raise :class:`LaunchError` for a block that the device cannot run, whatever its kernel is.

    ``shared_bytes`` is the dynamic shared memory. Nothing of the size of a block is made before.
    """
    if block[2] > device.max_block_z:
        raise LaunchError.exceeding(
            f"a block {block[2]} threads deep is more than the {device.max_block_z} that "
            f"{device.name} allows in z"
        )
    _check_limits(device, prod(block), 0, shared_bytes)


def _check_limits(
    device: Device, threads_per_block: int, registers: int, shared_bytes: int
) -> None:
    if threads_per_block < 1:
        raise LaunchError.exceeding(f"a block of {threads_per_block} threads has none to run")
    if threads_per_block > device.max_threads_per_block:
        raise LaunchError.exceeding(
            f"a block of {threads_per_block} threads is larger than the "
            f"{device.max_threads_per_block} that {device.name} allows"
        )
    if registers > device.max_registers_per_thread:
        raise LaunchError.exceeding(
            f"{registers} registers per thread are more than the "
            f"{device.max_registers_per_thread} that {device.name} allows"
        )
    if shared_bytes > device.shared_bytes_per_block:
        raise LaunchError.exceeding(
            f"{shared_bytes} bytes of shared memory per block are more than the "
            f"{device.shared_bytes_per_block} that {device.name} allows"
        )


def _warps_by_registers(device: Device, registers: int) -> int:
    unit = device.register_allocation_unit
    per_warp = -(-registers * device.warp_size // unit) * unit
    per_scheduler = device.registers_per_unit // device.schedulers_per_unit
    return per_scheduler // per_warp * device.schedulers_per_unit


def _blocks_by_shared(device: Device, shared_bytes: int) -> int:
    unit = device.shared_allocation_unit
    per_block = -(-(shared_bytes + device.shared_reserved_bytes) // unit) * unit
    return device.shared_bytes_per_unit // per_block if per_block else device.max_blocks_per_unit
