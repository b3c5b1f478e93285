"""Rewrites of what a kernel is when it is bound: registers, memories, accesses, arithmetic."""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch

from perfassert.engines.advisor.rewrites import (
    Coalesce,
    LimitCode,
    Reclassify,
    Remove,
    Reorder,
    Rewrite,
    SetRegisters,
    SetSharedBytes,
    Unroll,
    Unspill,
    UseConstantMemory,
)
from perfassert.kernel.description import BoundKernel, Description
from perfassert.kernel.launch import Launch
from perfassert.kernel.machine import REGISTER_BYTES
from perfassert.kernel.roles import node_space
from perfassert.predictor.rewrites.changed_accesses import coalesce
from perfassert.predictor.rewrites.list_scheduling import IN_FLIGHT
from perfassert.predictor.rewrites.scheduling import registers_of_reordering
from perfassert.predictor.rewrites.site import Site
from perfassert.predictor.rewrites.unrolling import unroll_factor

_FLOATING = ("fp32", "fp64", "fp16")


@singledispatch
def rewrite_kernel(
    rewrite: Rewrite, kernel: Description, launch: Launch, site: Site
) -> Description:
    """The bound kernel after a rewrite; the same where it changes nothing of it."""
    return kernel


@rewrite_kernel.register
def _(rewrite: SetRegisters, kernel: Description, launch: Launch, site: Site) -> Description:
    return replace(kernel, registers=rewrite.registers)


@rewrite_kernel.register
def _(rewrite: SetSharedBytes, kernel: Description, launch: Launch, site: Site) -> Description:
    return replace(kernel, shared_bytes=rewrite.size - min(launch.shared_bytes, rewrite.size))


@rewrite_kernel.register
def _(rewrite: LimitCode, kernel: Description, launch: Launch, site: Site) -> Description:
    if not isinstance(kernel, BoundKernel):
        return kernel
    return replace(kernel, code_bytes=min(kernel.code_bytes, rewrite.size))


@rewrite_kernel.register
def _(rewrite: Unspill, kernel: Description, launch: Launch, site: Site) -> Description:
    kernel = _hold(kernel, (kernel.spill_bytes or 0) // REGISTER_BYTES, site)
    if not isinstance(kernel, BoundKernel):
        return kernel
    local = {n for n, a in enumerate(kernel.bound) if a.space == "local"}
    return _move_accesses(replace(kernel, spill_bytes=0), local, "register")


@rewrite_kernel.register
def _(rewrite: UseConstantMemory, kernel: Description, launch: Launch, site: Site) -> Description:
    return _move_accesses(kernel, site.touched_accesses(rewrite.instructions), "constant")


@rewrite_kernel.register
def _(rewrite: Coalesce, kernel: Description, launch: Launch, site: Site) -> Description:
    if not isinstance(kernel, BoundKernel):
        return kernel
    return coalesce(kernel, site.touched_accesses(rewrite.instructions), launch)


@rewrite_kernel.register
def _(rewrite: Remove, kernel: Description, launch: Launch, site: Site) -> Description:
    """Return the kernel with its flops reduced by the share of the removed instructions."""
    if not isinstance(kernel, BoundKernel):
        return kernel
    before = after = 0.0
    for node in kernel.graph.nodes:
        if node.operation in _FLOATING:
            times = kernel.graph.times(node)
            before += times
            after += times * (node.instruction not in rewrite.instructions)
    return replace(kernel, flops=kernel.flops * after / before) if before else kernel


@rewrite_kernel.register
def _(rewrite: Reclassify, kernel: Description, launch: Launch, site: Site) -> Description:
    """The type of most flops."""
    if not isinstance(kernel, BoundKernel) or "fp32" not in rewrite.classes.values():
        return kernel
    return replace(kernel, arithmetic="fp32")


@rewrite_kernel.register
def _(rewrite: Reorder, kernel: Description, launch: Launch, site: Site) -> Description:
    """Registers for what is loaded earlier."""
    if kernel.spill_bytes or site.program is None:
        return kernel
    loops = site.loops(rewrite.loops)
    needed = registers_of_reordering(
        site.model.graph, loops, site.device, site.program, site.accesses
    )
    return _hold(kernel, min(max(0, needed - kernel.registers), IN_FLIGHT), site)


@rewrite_kernel.register
def _(rewrite: Unroll, kernel: Description, launch: Launch, site: Site) -> Description:
    """Registers for what copies of the bodies load."""
    if kernel.spill_bytes:
        return kernel
    loaded = max((_loaded_by_copies(loop, site) for loop in site.loops(rewrite.loops)), default=0)
    return _hold(kernel, min(loaded, IN_FLIGHT), site)


def _loaded_by_copies(loop: int, site: Site) -> int:
    graph = site.model.graph
    nodes = [n for n in graph.nodes if n.loop == loop and n.produces]
    loads = [n for n in nodes if node_space(n) == "global"]
    return (unroll_factor(graph, loop) - 1) * len(loads)


def _hold(kernel: Description, more: int, site: Site) -> Description:
    """The kernel with so many more values in registers."""
    most = site.device.max_registers_per_thread
    return replace(kernel, registers=min(kernel.registers + more, most)) if more else kernel


def _move_accesses(
    kernel: Description, chosen: frozenset[int] | set[int], space: str
) -> Description:
    """The kernel with these accesses to another memory."""
    if not chosen or not isinstance(kernel, BoundKernel):
        return kernel
    bound = tuple(replace(a, space=space) if n in chosen else a for n, a in enumerate(kernel.bound))
    return replace(kernel, bound=bound)
