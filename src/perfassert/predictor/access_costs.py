"""Costs of the accesses of compiled code, by instruction."""

from __future__ import annotations

from collections.abc import Mapping

from perfassert.hardware.model import Device
from perfassert.kernel.description import BoundKernel, CompiledKernel, Kernel
from perfassert.kernel.executed import IssueCounts
from perfassert.kernel.launch import Launch
from perfassert.predictor.session import DEFAULT
from perfassert.source import Assumption


def access_costs(
    kernel: Kernel, launch: Launch, device: Device
) -> tuple[dict[int, list[tuple[float, float]]], tuple[Assumption, ...], Mapping[int, IssueCounts]]:
    """Return costs per access, assumptions of the binding and issue counts of compiled code.

    Costs are the wavefronts and sectors per warp instruction of each access, by the instruction's
    number in the program. Issue counts tell by address what executed warps did; they are empty
    where no sample of blocks was executed.
    """
    if not isinstance(kernel, CompiledKernel):
        return {}, (), {}
    bound_launch = DEFAULT.bound_launch(DEFAULT.ask(kernel, launch, device))
    known = bound_launch.estimate.accesses
    assert isinstance(bound_launch.kernel, BoundKernel)
    costs = {
        n.program: [(known[i].wavefronts, known[i].sectors) for i in n.touches if i in known]
        for n in bound_launch.kernel.graph.nodes
        if n.touches
    }
    work = bound_launch.kernel.work
    return costs, bound_launch.kernel.assumptions, {} if work is None else work.issued
