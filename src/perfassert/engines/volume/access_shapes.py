"""Widths of the accesses to global memory, and the cost factor of bank conflicts, of a launch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from perfassert.engines.volume.groups import AccessGroup
from perfassert.engines.volume.on_chip import AccessCost
from perfassert.engines.volume.reuse import AnyGroup
from perfassert.hardware.model import Device
from perfassert.kernel.access import Direction, narrowest_width


def access_shapes(
    global_groups: Iterable[AnyGroup],
    shared_groups: Iterable[AnyGroup],
    costs: Mapping[int, AccessCost],
    device: Device,
) -> dict[str, float]:
    """Compute ``load_width``, ``store_width`` and ``bank_conflicts`` of a launch.

    A width is that of the narrowest access that carries at least a tenth of the bytes of its
    direction. Bulk copies are not counted, since no thread moves their data. ``bank_conflicts`` is
    the number of wavefronts of shared memory, divided by the smallest number that could carry the
    same bytes. A key is missing if the kernel has no such access.
    """
    moved: dict[Direction, dict[int, float]] = {d: defaultdict(float) for d in Direction}
    for group in global_groups:
        if isinstance(group, AccessGroup) and group.bulk:
            continue
        for cost in _costs_of(group, costs):
            carried = group.item_bytes * cost.lanes * cost.executions
            moved[group.direction][group.item_bytes] += carried
    # For example, 32 lanes read 4 bytes each, which fill one row of 32 banks of 4 bytes: 1
    # wavefront would do. If all lanes read from one bank, the access takes 32, and
    # ``bank_conflicts`` is 32.
    row = device.shared_banks * device.shared_bank_bytes
    wavefronts = least = 0.0
    for group in shared_groups:
        for cost in _costs_of(group, costs):
            wavefronts += cost.wavefronts * cost.executions
            fewest = max(1.0, group.item_bytes * cost.lanes / row)
            least += min(cost.wavefronts, fewest) * cost.executions
    widths = {
        f"{d.value}_width": float(narrowest_width(by))
        for d, by in moved.items()
        if any(by.values())
    }
    return {**widths, **({"bank_conflicts": wavefronts / least} if least else {})}


def _costs_of(group: AnyGroup, costs: Mapping[int, AccessCost]) -> Iterator[AccessCost]:
    return (costs[number] for number in group.members if number in costs)
