"""What a launch moves where some of its accesses cost less, with addresses left as they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from perfassert.engines.advisor.change import Change
from perfassert.engines.volume.estimate import VolumeEstimate
from perfassert.engines.volume.on_chip import AccessCost
from perfassert.hardware.model import Device
from perfassert.kernel.description import BoundKernel
from perfassert.prediction.volumes import Volume
from perfassert.predictor.model import BoundLaunch
from perfassert.quantity import Quantity


def changed_estimate(
    bound_launch: BoundLaunch, change: Change, copies: Mapping[int, tuple[int, ...]]
) -> VolumeEstimate:
    """The estimate with accesses to shared memory free of conflicts, with half as many transactions
    of global ones, and with executed accesses coalesced.

    ``copies``: nodes of the graph by instruction, which say how often each access happens.
    """
    kernel, device, estimate = bound_launch.kernel, bound_launch.device, bound_launch.estimate
    if not isinstance(kernel, BoundKernel):
        return estimate
    times = _executions(kernel)

    def of(instructions: Iterable[int]) -> frozenset[int]:
        nodes = kernel.graph.nodes
        return frozenset(
            t for i in instructions for n in copies.get(i, ()) for t in nodes[n].touches
            if t in estimate.accesses
        )  # fmt: skip

    best = {n: _ideal(estimate.accesses[n], kernel.bound[n].bytes, device)
            for n in of(change.conflict_free)}  # fmt: skip
    fewer = {n: _half(estimate.accesses[n]) for n in of(change.halved)}
    dense = {n: _dense(estimate.accesses[n], kernel.bound[n].bytes, device)
             for n in of(change.coalesced) if kernel.bound[n].touched is not None}  # fmt: skip
    changed = {**best, **fewer, **dense}
    if not changed:
        return estimate
    volumes = estimate.volumes

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
    volumes = replace(
        volumes,
        shared_wavefronts=_all(volumes.shared_wavefronts, share(shared, "wavefronts")),
        l1_wavefronts=_each(
            volumes.l1_wavefronts, {f: share(own, "wavefronts") for f, own in fields.items()}
        ),
        l1_cycles=_each(volumes.l1_cycles, {f: share(own, "cycles") for f, own in fields.items()}),
    )
    if dense:
        less = {f: share(own, "sectors") for f, own in fields.items()}
        volumes = replace(
            volumes, l2_load=_each(volumes.l2_load, less), dram_load=_each(volumes.dram_load, less),
            l2_store=_each(volumes.l2_store, less),
        )  # fmt: skip
    return replace(estimate, volumes=volumes, accesses={**estimate.accesses, **best, **dense})


def _executions(kernel: BoundKernel) -> dict[int, float]:
    """How often a warp executes each access."""
    graph = kernel.graph
    executions: dict[int, float] = {}
    for node in graph.nodes:
        for number in node.touches:
            executions[number] = executions.get(number, 0.0) + graph.times(node)
    return executions


def _ideal(cost: AccessCost, width: int, device: Device) -> AccessCost:
    """Without conflicts: as many wavefronts as the bytes of the lanes fill."""
    row = device.shared_banks * device.shared_bank_bytes
    wavefronts = min(cost.wavefronts, max(1.0, width * cost.lanes / row))
    share = wavefronts / cost.wavefronts if cost.wavefronts else 1.0
    return replace(cost, wavefronts=wavefronts, cycles=cost.cycles * share)


def _dense(cost: AccessCost, width: int, device: Device) -> AccessCost:
    """As many sectors as the bytes of the lanes fill."""
    sectors = min(cost.sectors, max(1.0, width * cost.lanes / device.sector_bytes))
    share = sectors / cost.sectors if cost.sectors else 1.0
    return replace(
        cost, sectors=sectors, wavefronts=max(1.0, cost.wavefronts * share),
        cycles=cost.cycles * share, packets=min(cost.packets * share, sectors),
    )  # fmt: skip


def _half(cost: AccessCost) -> AccessCost:
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


def _each(volume: Volume, shares: Mapping[str, float]) -> Volume:
    """Each field by its own share; parts as the total."""
    fields = {k: _scale_volume(v, shares.get(k, 1.0)) for k, v in volume.fields.items()}
    before = sum(float(v.total) for v in volume.fields.values())
    after = sum(float(v.total) for v in fields.values())
    if not before or before == after:
        return volume
    return replace(_scale_volume(volume, after / before), fields=fields)
