"""Weighing of a change of code without a launch, by cycles, spills, occupancy and widths.

Each number counts for what it does to time. Registers and shared memory count by the occupancy that
they leave; instructions by the cycles for which they occupy pipelines, that of the L1 among them.
How often a loop runs is unknown, so cycles count where both their sum and their sum for each byte
of global memory have moved: a loop that is unrolled four times has four times the cycles, and four
times the bytes. Narrower accesses outweigh fewer cycles and more occupancy, which are not worth
what memory then takes: bf16 stores of 2 B in place of 16 B made kernels 4 times slower with 21 %
fewer registers (https://github.com/NVIDIA/cutlass/issues/3463).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from perfassert.frontends.cuda.inventory import KernelInfo
from perfassert.hardware.model import Device
from perfassert.hardware.occupancy import occupancy_or_none
from perfassert.kernel.access import narrowest_width

SLIGHT = 0.05
"""Share of the cycles that is not worth a word: rare paths count as much as all others."""
BLOCKS = (64, 128, 256, 512, 1024)
"""Threads of the blocks whose occupancy counts."""
_LESS = 0.9  # so much of the bytes are as many as before


def weigh(before: KernelInfo, after: KernelInfo, device: Device | None) -> Iterator[int]:
    """Yield a number above 0 for each thing that is better, and below 0 for each that is worse.

    Args:
        before: the kernel of the base.
        after: that of the head.
        device: of the kernel's architecture; without one, registers and shared memory count for
            themselves.
    """
    yield _sign(before.spill_bytes - after.spill_bytes)
    widths = [
        _widening(_global_bytes(before, direction), _global_bytes(after, direction))
        for direction in ("load", "store")
    ]
    yield from widths
    if min(widths) < 0:
        return
    if device is None:
        yield _sign(before.registers - after.registers)
        yield _sign(before.shared_bytes - after.shared_bytes)
        return
    yield _fewer_cycles(before, after, device)
    yield _sign(mean_occupancy(after, device) - mean_occupancy(before, device))


def issue_cycles(info: KernelInfo, device: Device) -> float:
    """Sum the cycles that a warp's instructions occupy pipelines of its scheduler, each once.

    An access occupies the L1 pipe, which all schedulers share, too: by its bytes, and for the least
    that any access takes. Eight stores of 16 B take 4 cycles each, 64 of 2 B one each.
    """
    known = device.operations
    arithmetic = sum(count * known[c].issue for c, count in info.mix.items() if c in known)
    lanes = device.warp_size / device.l1_bytes_per_cycle  # cycles of an access, for each byte
    pipe = sum(
        count * max(device.l1_access_cycles, _width(access) * lanes)
        for access, count in info.accesses.items()
    )
    return arithmetic + device.schedulers_per_unit * pipe


def _width(access: str) -> int:
    """Return the bytes per thread of an access: 16 of ``"global_load 16 B"``."""
    return int(access.split()[1])


def occupancy_of(info: KernelInfo, block: int, device: Device) -> float | None:
    """Return the share of warp slots in use; None where no such block fits."""
    return occupancy_or_none(device, block, max(info.registers, 1), info.shared_bytes)


def mean_occupancy(info: KernelInfo, device: Device, blocks: Sequence[int] = BLOCKS) -> float:
    """Return the mean occupancy of usual blocks, up to the largest that launch bounds allow."""
    usual = [b for b in blocks if not info.max_threads or b <= info.max_threads] or [blocks[0]]
    return sum(occupancy_of(info, block, device) or 0.0 for block in usual) / len(usual)


def _fewer_cycles(before: KernelInfo, after: KernelInfo, device: Device) -> int:
    whole = [issue_cycles(info, device) for info in (before, after)]
    moved = [sum(_all_bytes(info)) or 1 for info in (before, after)]
    sums = _moved_sign(*whole)
    per_byte = _moved_sign(*(cycles / size for cycles, size in zip(whole, moved, strict=True)))
    return sums if sums == per_byte else 0


def _moved_sign(before: float, after: float) -> int:
    """Return 1 if a number fell by more than :data:`SLIGHT`, -1 if it rose so, else 0."""
    return 0 if abs(after - before) <= SLIGHT * before else _sign(before - after)


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def _all_bytes(info: KernelInfo) -> Iterator[int]:
    for direction in ("load", "store"):
        yield from _global_bytes(info, direction).values()


def _global_bytes(info: KernelInfo, direction: str) -> dict[int, int]:
    """Return the bytes that a thread moves by instructions of each access width."""
    sizes: dict[int, int] = {}
    for access, count in info.accesses.items():
        if access.startswith(f"global_{direction} "):
            width = _width(access)
            sizes[width] = sizes.get(width, 0) + width * count
    return sizes


def _widening(before: Mapping[int, int], after: Mapping[int, int]) -> int:
    """Return a number below 0 if as many bytes as before are accessed in narrower pieces."""
    if not before or not after:
        return 0
    change = _sign(narrowest_width(after) - narrowest_width(before))
    fewer = sum(after.values()) < _LESS * sum(before.values())
    return 0 if change < 0 and fewer else change
