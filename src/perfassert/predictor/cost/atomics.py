"""Atomic operations on global memory: the time that they take in the L2, and what nobody measured.

In one sector they take turns, and so do sectors in one slice of the L2. Measurements distinguish
32-bit integer additions from floating-point additions, increments and decrements, none with a
result. On different addresses all slices serve them beside each other. Other atomics (64-bit
integers, pairs of halves, results, exchanges, compare-and-swap, other operations) are assumed to
take as long as a floating-point addition where they contend, and as long as their traffic where
they do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perfassert.engines.volume.contention import is_measured, slice_cycles
from perfassert.engines.volume.on_chip import AccessCost
from perfassert.kernel.bound import BoundAccess
from perfassert.kernel.description import BoundKernel
from perfassert.kernel.machine import AtomicTurn
from perfassert.predictor.model import Model
from perfassert.shipped import model_number
from perfassert.source import Assumption

_MOSTLY = 0.5  # of the sectors that the L2 is asked for
GUESSED_FROM = model_number("guessed_from")
"""A larger share of instructions, bytes or turns on stand-ins makes a prediction a guess."""


def atomic_cycles(model: Model) -> float:
    """Return the cycles for which atomics keep the L2 busy.

    These are the most of three: its fullest address, its fullest slice, all of its slices.
    """
    contention = model.bound_launch.estimate.contention
    return max(contention.cycles, contention.slice_cycles, _whole_cycles(model))


def _whole_cycles(model: Model) -> float:
    """Return the cycles of the whole L2 if all slices do the same; 0 if its rate is not known."""
    kernel, device = model.bound_launch.kernel, model.device
    if not device.l2_atomic_lane_cycles or not isinstance(kernel, BoundKernel):
        return 0.0
    costs = model.bound_launch.estimate.accesses
    lanes_in_all = in_slices = 0.0
    for node in kernel.graph.nodes:
        for index in node.touches:
            access, cost = kernel.bound[index], costs.get(index)
            if _is_atomic(access) and cost is not None and is_measured(access.turn, device):
                executions = kernel.graph.executions(node, model.warps)
                turns, lanes = executions * cost.sectors, executions * cost.lanes
                in_slices += slice_cycles(access.turn, access.bytes, turns, lanes, device)
                lanes_in_all += lanes
    cycles = lanes_in_all * device.l2_atomic_lane_cycles
    if device.l2_slices:
        cycles = max(cycles, in_slices / device.l2_slices)
    return cycles * model.bound_launch.working


def unmeasured_atomics(model: Model, kernel: BoundKernel, limiter: str) -> Iterator[Assumption]:
    """Atomics that decide about the time at an assumed rate; whoever limits it, they do."""
    device = model.device
    known = bool(device.l2_atomic_lane_cycles)
    atomic = [
        access
        for access in kernel.bound
        if _is_atomic(access) and not (known and is_measured(access.turn, device))
    ]
    if limiter == "atomics":
        yield from _unmeasured_turns(model, atomic)
    elif limiter in ("l2", "dram") and atomic and _atomic_share(model, kernel) > _MOSTLY:
        for access in atomic:
            text = f"{_opcode(access)} counts as its traffic alone"
            yield Assumption(text, access.span, "rate", 1.0)


def _unmeasured_turns(model: Model, atomic: Sequence[BoundAccess]) -> Iterator[Assumption]:
    """Yield an assumption for each kind of atomic whose turn time was not measured.

    An unmeasured kind counts where such atomics decide the time. A measured one counts where a
    warp's lanes go to several addresses, as neighbours in a sector may wait for each other.
    """
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
    """Return True if all lanes of a warp go to the same address."""
    if access.touched is not None:
        return len(access.touched.meeting.operations) <= 1
    return not any(str(s).rpartition(".")[0] in ("", "threadIdx") for s in access.address.symbols())


def global_sectors(access: BoundAccess, cost: AccessCost | None) -> float:
    """Return the sectors that one execution requests from global memory."""
    if cost is None or access.space != "global":
        return 0.0
    return cost.sectors * max(access.pieces, 1)


def _atomic_share(model: Model, kernel: BoundKernel) -> float:
    """Return the share of atomics in the sectors requested from global memory."""
    graph, costs = kernel.graph, model.bound_launch.estimate.accesses
    everything = atomic = 0.0
    for node in graph.nodes:
        for index in node.touches:
            access = kernel.bound[index]
            asked = graph.executions(node, model.warps) * global_sectors(access, costs.get(index))
            everything += asked
            atomic += asked if access.atomic else 0.0
    return atomic / everything if everything else 0.0
