"""Cost of a warp's accesses for the advisor, and the least cost of the bytes of its lanes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from perfassert.engines.advisor.case import AccessFacts
from perfassert.engines.volume.on_chip import AccessCost
from perfassert.hardware.model import Device
from perfassert.kernel.bound import BoundAccess
from perfassert.kernel.description import AccessKernel, BoundKernel
from perfassert.kernel_kind import KernelKind
from perfassert.predictor.model import Model
from perfassert.predictor.rewrites.rewritten_accesses import neighbours, read_by_all
from perfassert.predictor.rewrites.widening import widening, widening_site

_ASSUMED = ("address", "layout")


def access_facts(model: Model) -> dict[int, AccessFacts]:
    """Return the facts of accesses, by instruction of compiled code or node of a sketch."""
    facts = dict(_facts_by_access(model))
    compiled = model.bound_launch.kernel.kind is KernelKind.COMPILED
    return {
        node.program if compiled else node.index: facts[number]
        for node in model.graph.nodes
        for number in node.touches
        if number in facts
    }


def _facts_by_access(model: Model) -> Iterable[tuple[int, AccessFacts]]:
    kernel, device = model.bound_launch.kernel, model.device
    known: Mapping[int, AccessCost] = model.bound_launch.estimate.accesses
    if isinstance(kernel, BoundKernel):
        narrow = widening_site(model)
        how = narrow and widening(narrow, device.compute_units)
        widths = dict.fromkeys((*how.accesses, *how.joined), how.width) if how else {}
        for number, access in enumerate(kernel.bound):
            if number in known:
                facts = _facts(known[number], access.bytes, device)
                assumed, together = _is_assumed(kernel, access), widths.get(number, 1)
                yield number, replace(facts, assumed=assumed, neighbours=together)
    elif isinstance(kernel, AccessKernel):
        side_by_side, same = neighbours(kernel, model.launch), read_by_all(kernel)
        for number, written in enumerate(kernel.accesses):
            if number in known and not written.assumed:
                width = kernel.fields[written.field].item_bytes
                facts = _facts(known[number], width, device)
                together = side_by_side.get(number, 1)
                yield number, replace(facts, neighbours=together, same=number in same)


def _is_assumed(kernel: BoundKernel, access: BoundAccess) -> bool:
    """Return True if the address depends on unknown data and rests on a stand-in.

    Lookups in tables of mathematical functions count, as they may go anywhere.
    """
    in_table = kernel.program is not None and access.field in kernel.program.tables
    guessed = any(a.stands_for in _ASSUMED for a in access.rests_on)
    return access.touched is None and (in_table or guessed)


def _facts(cost: AccessCost, width: int, device: Device) -> AccessFacts:
    bytes_ = width * cost.lanes
    return AccessFacts(
        cost.sectors,
        max(1.0, bytes_ / device.sector_bytes),
        cost.wavefronts,
        max(1.0, bytes_ / (device.shared_banks * device.shared_bank_bytes)),
    )
