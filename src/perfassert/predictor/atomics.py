"""Atomic operations on global memory that decide about the time: what nobody has measured of them.

Device files have one figure, the turns that 32-bit additions without a result take on one address.
Floating point, 64 bits, results, exchanges and neighbours in a sector are slower by factors that no
source tells, and what the L2 adds up in a second counts as traffic alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from perfassert.engines.volume.on_chip import AccessCost
from perfassert.kernel.bound import BoundAccess
from perfassert.kernel.description import BoundKernel
from perfassert.predictor.model import Model
from perfassert.source import Assumption

_MOSTLY = 0.5  # of the sectors that the L2 is asked for


def unmeasured_atomics(model: Model, kernel: BoundKernel, limiter: str) -> Iterator[Assumption]:
    """Atomics that carry the time at a rate that is a stand-in; whoever limits it, they do."""
    atomic = [a for a in kernel.bound if _is_atomic(a)]
    if limiter == "atomics":
        for access in atomic:
            if not (access.counting and _on_one(access)):
                text = f"{_opcode(access)} counts as an integer addition on one address"
                yield Assumption(text, access.span, "rate", 1.0)
    elif limiter in ("l2", "dram") and atomic and _atomic_share(model, kernel) > _MOSTLY:
        for access in atomic:
            text = f"{_opcode(access)} counts as its traffic alone"
            yield Assumption(text, access.span, "rate", 1.0)


def _is_atomic(access: BoundAccess) -> bool:
    return access.atomic and access.space == "global"


def _opcode(access: BoundAccess) -> str:
    return next(word for word in access.text.split() if not word.startswith("@"))


def _on_one(access: BoundAccess) -> bool:
    """Whether all lanes of a warp go to the same address."""
    if access.touched is not None:
        return len(access.touched.meeting) <= 1
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
