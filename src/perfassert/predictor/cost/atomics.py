"""Atomic operations on global memory: the time that they take in the L2, and what nobody measured.

In one sector they take turns. Measurements distinguish 32-bit integer additions from
floating-point additions, increments and decrements, none with a result. On different addresses the
whole L2 serves so many lanes in a cycle, measured where neighbouring threads go to neighbouring
addresses; a small target lies in few of its slices, which share that rate equally. Other atomics
(64-bit integers, pairs of halves, results, exchanges, compare-and-swap, other operations, lanes in
sectors of their own) are assumed to take as long as a floating-point addition where they contend,
and as long as their traffic where they do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perfassert.engines.volume.contention import is_measured
from perfassert.engines.volume.on_chip import AccessCost
from perfassert.hardware.model import Device
from perfassert.kernel.bound import BoundAccess
from perfassert.kernel.description import BoundKernel
from perfassert.kernel.machine import AtomicTurn
from perfassert.predictor.model import Model
from perfassert.source import Assumption

_LINES = 16  # as few as a launch went to whose rate was measured
_MOSTLY = 0.5  # of the sectors that the L2 is asked for
GUESSED_FROM = 0.05
"""A larger share of instructions, bytes or turns on stand-ins makes a prediction a guess."""


def atomic_cycles(model: Model) -> float:
    """For which the L2 is busy with atomics: on the fullest address, or with all of them."""
    return max(model.bound_launch.estimate.contention.cycles, _lane_cycles(model))


def _lane_cycles(model: Model) -> float:
    """Cycles of all lanes whose rate was measured; 0 of integers that go to fewer lines than the
    measured ones did, and then of other numbers, too, where the slices of the L2 are not known."""
    kernel, device = model.bound_launch.kernel, model.device
    if not device.l2_atomic_lane_cycles or not isinstance(kernel, BoundKernel):
        return 0.0
    estimate = model.bound_launch.estimate
    moved, integers, others = 0.0, 0.0, 0.0
    for node in kernel.graph.nodes:
        for index in node.touches:
            access, cost = kernel.bound[index], estimate.accesses.get(index)
            if _is_atomic(access) and cost and _has_lane_rate(access, cost, device):
                lanes = kernel.graph.executions(node, model.warps) * cost.lanes
                moved += lanes * access.bytes
                if access.turn is AtomicTurn.ADDITION:
                    integers += lanes
                else:
                    others += lanes
    working = model.bound_launch.working
    touched = moved * working / max(1.0, estimate.contention.operations)
    few = touched < _LINES * device.l1_line_bytes
    integers = 0.0 if few else integers
    if device.l2_slices:
        others *= device.l2_slices / _busy_slices(estimate.contention.sectors, device)
    elif few:
        others = 0.0
    return device.l2_atomic_lane_cycles * working * (integers + others)


def _busy_slices(sectors: int, device: Device) -> float:
    """Return how many slices of the L2 the sectors that atomics touch lie in.

    An RTX 3080 has 40 of 512 bytes: 256 doubles lie in 4, so that the other 36 are idle. Integers
    are served by the sector: 512 of them, in 4 slices, at the rate of doubles in 40.
    """
    touched = sectors * device.sector_bytes
    return min(float(device.l2_slices), max(1.0, touched / device.l2_slice_bytes))


def _has_lane_rate(access: BoundAccess, cost: AccessCost | None, device: Device) -> bool:
    """Whether it was measured: lanes lie side by side, each on its own address, and the kind is
    known."""
    if cost is None or not is_measured(access.turn, device):
        return False
    filled = cost.lanes * access.bytes
    return filled / 2 < cost.sectors * device.sector_bytes <= filled


def unmeasured_atomics(model: Model, kernel: BoundKernel, limiter: str) -> Iterator[Assumption]:
    """Atomics that decide about the time at an assumed rate; whoever limits it, they do."""
    device, costs = model.device, model.bound_launch.estimate.accesses
    measured = _lane_cycles(model) > 0
    atomic = [
        access
        for index, access in enumerate(kernel.bound)
        if _is_atomic(access)
        and not (measured and _has_lane_rate(access, costs.get(index), device))
    ]
    if limiter == "atomics":
        yield from _unmeasured_turns(model, atomic)
    elif limiter in ("l2", "dram") and atomic and _atomic_share(model, kernel) > _MOSTLY:
        for access in atomic:
            text = f"{_opcode(access)} counts as its traffic alone"
            yield Assumption(text, access.span, "rate", 1.0)


def _unmeasured_turns(model: Model, atomic: Sequence[BoundAccess]) -> Iterator[Assumption]:
    """Of a kind that was not measured, where those decide, or on more than one address of a warp,
    as neighbours in a sector may wait for each other."""
    device = model.device
    contention = model.bound_launch.estimate.contention
    decides = contention.unmeasured > GUESSED_FROM * atomic_cycles(model)
    slower = AtomicTurn.UPDATE if device.l2_update_cycles else AtomicTurn.ADDITION
    for access in atomic:
        measured = is_measured(access.turn, device)
        if not _on_one(access) if measured else decides:
            counted = access.turn if access.turn is AtomicTurn.ADDITION else slower
            text = f"{_opcode(access)} counts as {counted.value} in one sector"
            yield Assumption(text, access.span, "rate", 1.0)


def _is_atomic(access: BoundAccess) -> bool:
    return access.atomic and access.space == "global"


def _opcode(access: BoundAccess) -> str:
    return next(word for word in access.text.split() if not word.startswith("@"))


def _on_one(access: BoundAccess) -> bool:
    """Whether all lanes of a warp go to the same address."""
    if access.touched is not None:
        return len(access.touched.meeting.operations) <= 1
    return not any(str(s).rpartition(".")[0] in ("", "threadIdx") for s in access.address.symbols())


def global_sectors(access: BoundAccess, cost: AccessCost | None) -> float:
    """What one execution asks global memory for, as it was counted."""
    if cost is None or access.space != "global":
        return 0.0
    return cost.sectors * max(access.pieces, 1)


def _atomic_share(model: Model, kernel: BoundKernel) -> float:
    """Of the sectors that global memory is asked for."""
    graph, costs = kernel.graph, model.bound_launch.estimate.accesses
    everything = atomic = 0.0
    for node in graph.nodes:
        for index in node.touches:
            access = kernel.bound[index]
            asked = graph.executions(node, model.warps) * global_sectors(access, costs.get(index))
            everything += asked
            atomic += asked if access.atomic else 0.0
    return atomic / everything if everything else 0.0
