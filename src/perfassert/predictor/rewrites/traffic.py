"""Rewrites of what a launch moves: accesses that cost less, with addresses left as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import singledispatch

from perfassert.engines.advisor.rewrites import (
    Coalesce,
    HalveTransactions,
    RemoveConflicts,
    Rewrite,
)
from perfassert.engines.volume.on_chip import AccessCost
from perfassert.hardware.model import Device
from perfassert.kernel.description import BoundKernel
from perfassert.prediction.volumes import Volume
from perfassert.predictor.model import BoundLaunch
from perfassert.predictor.rewrites.site import Site
from perfassert.quantity import Quantity


@singledispatch
def rewrite_traffic(rewrite: Rewrite, bound_launch: BoundLaunch, site: Site) -> BoundLaunch:
    """The launch with what it moves after a rewrite; the same where that stays."""
    return bound_launch


@rewrite_traffic.register
def _(rewrite: RemoveConflicts, bound_launch: BoundLaunch, site: Site) -> BoundLaunch:
    return _with_costs(bound_launch, _cheaper(rewrite, bound_launch, site, _without_conflicts))


@rewrite_traffic.register
def _(rewrite: HalveTransactions, bound_launch: BoundLaunch, site: Site) -> BoundLaunch:
    """Volumes alone: what the accesses cost is halved where nodes have costs."""
    halved = _with_costs(bound_launch, _cheaper(rewrite, bound_launch, site, _half))
    accesses = bound_launch.estimate.accesses
    return replace(halved, estimate=replace(halved.estimate, accesses=accesses))


@rewrite_traffic.register
def _(rewrite: Coalesce, bound_launch: BoundLaunch, site: Site) -> BoundLaunch:
    """Executed accesses; those with a closed form have other addresses by now."""
    kernel = bound_launch.kernel
    dense = {
        n: cost
        for n, cost in _cheaper(rewrite, bound_launch, site, _dense).items()
        if isinstance(kernel, BoundKernel) and kernel.bound[n].touched is not None
    }
    return _with_costs(bound_launch, dense, sectors=True)


def _cheaper(
    rewrite: RemoveConflicts | HalveTransactions | Coalesce,
    bound_launch: BoundLaunch,
    site: Site,
    change: Callable[[AccessCost, int, Device], AccessCost],
) -> dict[int, AccessCost]:
    """Costs of the accesses that a rewrite names, by number; none of a kernel without code."""
    kernel, known = bound_launch.kernel, bound_launch.estimate.accesses
    if not isinstance(kernel, BoundKernel):
        return {}
    return {
        n: change(known[n], kernel.bound[n].bytes, site.device)
        for n in site.touched_accesses(rewrite.instructions)
        if n in known
    }


def _with_costs(
    bound_launch: BoundLaunch, changed: Mapping[int, AccessCost], sectors: bool = False
) -> BoundLaunch:
    """Volumes in the ratio of new to old costs; ``sectors``: also those of L2 and DRAM."""
    kernel, estimate = bound_launch.kernel, bound_launch.estimate
    if not changed or not isinstance(kernel, BoundKernel):
        return bound_launch
    times = _executions(kernel)

    def share(chosen: Iterable[int], metric: str) -> float:
        """New over old, summed over executions."""
        pairs = [(times.get(n, 1.0), estimate.accesses[n], changed.get(n)) for n in chosen]
        old = sum(t * getattr(a, metric) for t, a, _ in pairs)
        new = sum(t * getattr(b or a, metric) for t, a, b in pairs)
        return new / old if old else 1.0

    known = [n for n in estimate.accesses if n < len(kernel.bound)]
    shared = [n for n in known if kernel.bound[n].space == "shared"]
    fields: dict[str, list[int]] = {}
    for n in known:
        if kernel.bound[n].space == "global":
            fields.setdefault(kernel.bound[n].field, []).append(n)

    def scale(metric: str, *names: str) -> dict[str, Volume]:
        shares = {f: share(own, metric) for f, own in fields.items()}
        return {name: _scale_fields(getattr(estimate.volumes, name), shares) for name in names}

    volumes = replace(
        estimate.volumes,
        shared_wavefronts=_all(estimate.volumes.shared_wavefronts, share(shared, "wavefronts")),
        **scale("wavefronts", "l1_wavefronts"),
        **scale("cycles", "l1_cycles"),
        **(scale("sectors", "l2_load", "dram_load", "l2_store") if sectors else {}),
    )
    accesses = {**estimate.accesses, **changed}
    return replace(bound_launch, estimate=replace(estimate, volumes=volumes, accesses=accesses))


def _executions(kernel: BoundKernel) -> dict[int, float]:
    """Return how many times a warp executes each access, by the access's number."""
    graph = kernel.graph
    executions: dict[int, float] = {}
    for node in graph.nodes:
        for number in node.touches:
            executions[number] = executions.get(number, 0.0) + graph.times(node)
    return executions


def _without_conflicts(cost: AccessCost, width: int, device: Device) -> AccessCost:
    """Return the cost without bank conflicts: as many wavefronts as the lanes' bytes fill."""
    row = device.shared_banks * device.shared_bank_bytes
    wavefronts = min(cost.wavefronts, max(1.0, width * cost.lanes / row))
    share = wavefronts / cost.wavefronts if cost.wavefronts else 1.0
    return replace(cost, wavefronts=wavefronts, cycles=cost.cycles * share)


def _dense(cost: AccessCost, width: int, device: Device) -> AccessCost:
    """Return the cost with full sectors: as many sectors as the lanes' bytes fill."""
    sectors = min(cost.sectors, max(1.0, width * cost.lanes / device.sector_bytes))
    share = sectors / cost.sectors if cost.sectors else 1.0
    return replace(
        cost, sectors=sectors, wavefronts=max(1.0, cost.wavefronts * share),
        cycles=cost.cycles * share, packets=min(cost.packets * share, sectors), pages=0.0,
    )  # fmt: skip


def _half(cost: AccessCost, width: int, device: Device) -> AccessCost:
    return replace(cost, wavefronts=cost.wavefronts / 2, cycles=cost.cycles / 2)


def _all(volume: Volume, share: float) -> Volume:
    return volume if share == 1 else _scale_volume(volume, share)


def _scale_volume(volume: Volume, share: float) -> Volume:
    return replace(
        volume,
        total=Quantity(float(volume.total) * share, volume.total.unit),
        parts={k: Quantity(float(v) * share, v.unit) for k, v in volume.parts.items()},
        fields={k: _scale_volume(v, share) for k, v in volume.fields.items()},
    )


def _scale_fields(volume: Volume, shares: Mapping[str, float]) -> Volume:
    """Scale each field of a volume by its share, and the parts as the total changes."""
    fields = {k: _scale_volume(v, shares.get(k, 1.0)) for k, v in volume.fields.items()}
    before = sum(float(v.total) for v in volume.fields.values())
    after = sum(float(v.total) for v in fields.values())
    if not before or before == after:
        return volume
    return replace(_scale_volume(volume, after / before), fields=fields)
