"""Layouts of tiles in shared memory that remove bank conflicts, checked on all their addresses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from perfassert.engines.volume.bank_layouts import Swizzle, TileAccess, find_layouts
from perfassert.engines.volume.binding import space_groups
from perfassert.engines.volume.warps import lane_addresses, middle_block
from perfassert.kernel.access import Direction
from perfassert.kernel.description import BoundKernel
from perfassert.kernel.launch import Launch
from perfassert.predictor.model import Model
from perfassert.predictor.rewrites.site import Site

_WORTH = 0.5  # of the conflicts: a layout that leaves more is not proposed
_Member = tuple[int, TileAccess]  # the number of the access


def better_layouts(
    model: Model, site: Site, instructions: frozenset[int]
) -> tuple[str, str] | None:
    """Say how tiles that these instructions access are laid out without conflicts, and the proof.

    None where data decides on an address, or where no layout removes most of the conflicts.
    """
    kernel = model.bound_launch.kernel
    if not isinstance(kernel, BoundKernel):
        return None
    if any(a.space == "shared" and a.touched is not None for a in kernel.bound):
        return None
    chosen, texts, proofs = site.touched_accesses(instructions), [], []
    end = model.bound_launch.shared_bytes
    for size, members in _tiles(_members(kernel, model), end):
        if chosen.isdisjoint(number for number, _ in members):
            continue
        layouts = find_layouts([access for _, access in members], size, model.device)
        checked = [
            c for c in (layouts.padding, layouts.swizzle)
            if c is not None and c.conflicts <= _WORTH * layouts.conflicts
        ]  # fmt: skip
        if not checked:
            return None
        for one in checked:
            swizzle = one.layout if isinstance(one.layout, Swizzle) else None
            texts.append(
                f"element i at {swizzle.index} (CuTe's {swizzle})" if swizzle else str(one.layout)
            )
            proofs.append(str(one))
    return (
        (", or with ".join(dict.fromkeys(texts)), "; ".join(dict.fromkeys(proofs)))
        if texts
        else None
    )


def _members(kernel: BoundKernel, model: Model) -> Iterator[_Member]:
    """Accesses to shared memory by the warps of a block in the middle, by instruction."""
    launch: Launch = model.bound_launch.effective_launch
    for group in space_groups(kernel, launch, "shared"):
        lanes = lane_addresses(group, [middle_block(launch)], launch, model.device.warp_size)
        rows, active = lanes.addresses[lanes.some], lanes.active[lanes.some]
        for number, offset in zip(group.members, group.offsets.tolist(), strict=True):
            if len(rows):
                loads = group.direction is Direction.LOAD
                yield number, TileAccess(rows + offset, active, group.item_bytes, loads)


def _tiles(members: Iterable[_Member], end: int) -> Iterator[tuple[int, Sequence[_Member]]]:
    """Accesses whose addresses overlap are of one tile: its bytes, and them from its start."""
    reach = sorted(
        ((int(a.addresses.min()), int(a.addresses.max()) + a.item_bytes, n, a) for n, a in members),
        key=lambda one: one[:3],
    )
    tiles: list[tuple[int, int, list[_Member]]] = []
    for low, high, number, access in reach:
        if tiles and low < tiles[-1][1]:
            start, stop, own = tiles[-1]
            tiles[-1] = start, max(stop, high), [*own, (number, access)]
        else:
            tiles.append((low, high, [(number, access)]))
    for (start, _, own), following in zip(tiles, [*(t[0] for t in tiles[1:]), end], strict=True):
        yield following - start, [(n, replace(a, addresses=a.addresses - start)) for n, a in own]
