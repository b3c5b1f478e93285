"""Configurations that ``torch.compile`` tries for a kernel, from the kernel's file.

The tiles are those of ``max-autotune`` in PyTorch 2.8 (``pointwise``, ``_reduction_configs`` and
``_persistent_reduction_configs`` of torch/_inductor/runtime/triton_heuristics.py). Other versions
try other tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

Config = dict[str, int]
_FEWEST, _MOST = 256, 1024  # elements of a tile along one axis
_PERSISTENT = 4096  # elements of a tile that holds whole rows
_LONGEST = 2048  # most elements of a row in one tile


def configurations(heuristic: str, keywords: Mapping[str, Any]) -> list[Config]:
    """Return the configurations without repetitions; none for an unknown heuristic.

    ``keywords`` has the arguments of ``triton_heuristics.NAME``.
    """
    options = {k: int(keywords[k]) for k in ("num_warps", "num_stages") if k in keywords}
    if heuristic in _TILES:
        configs = _TILES[heuristic](_hints(heuristic, keywords.get("size_hints", {})))
    elif heuristic in ("template", "foreach"):
        configs = [{}]
    else:  # fixed_config, user_autotune
        configs = [keywords["config"]] if "config" in keywords else [*keywords.get("configs", ())]
    unique = {tuple(sorted({**config, **options}.items())): config for config in configs}
    return [{**config, **options} for config in unique.values()]


def _hints(heuristic: str, given: Any) -> dict[str, int]:
    """Return extents by axis, powers of two; PyTorch up to 2.5 lists them as z, y, x or as x, r."""
    if isinstance(given, Mapping):
        return {str(axis): int(extent) for axis, extent in given.items()}
    extents = tuple(given)
    if "reduction" in heuristic:
        return dict(zip(("x", "r"), extents, strict=False))
    return dict(zip("xyz", reversed(extents), strict=False))


def _pointwise(hints: Mapping[str, int]) -> list[Config]:
    whole = max(_FEWEST, min(prod(hints.values()) // 128, _MOST))
    if len(hints) == 1:
        return [_tile(hints, [whole], 256), _tile(hints, [whole // 2], 64)]
    if len(hints) == 2:
        flat, long = ((32, 32), (64, 64), (256, 16), (16, 256)), ((whole, 1), (1, whole))
        return [_tile(hints, tile, 256) for tile in (*flat, *long)]
    cubes = ((16, 16, 16), (64, 8, 8), (8, 64, 8), (8, 8, 64))
    bars = ((whole, 1, 1), (1, whole, 1), (1, 1, whole))
    return [_tile(hints, tile, 256) for tile in (*cubes, *bars)]


def _tile(hints: Mapping[str, int], tile: Sequence[int], per_warp: int) -> Config:
    """Return a tile cut to the extents, then grown along other axes to as many elements."""
    # Tile 256 × 16 of extents y = 64, x = 4096: cut to 64 × 16, x grown to 64 for 4096 elements.
    wanted = prod(tile) // (8 if prod(hints.values()) < prod(tile) else 1)
    blocks = {axis: min(n, hints[axis]) for axis, n in zip(hints, tile, strict=True)}
    for axis in blocks:
        while blocks[axis] < hints[axis] and prod(blocks.values()) < wanted:
            blocks[axis] *= 2
    elements = prod(blocks.values())
    warps = _warps(elements // per_warp, 4 if elements >= 128 else 1, 8)
    return _block_options(blocks, warps)


def _reduction(hints: Mapping[str, int]) -> list[Config]:
    rows, (axis, length) = hints["x"], _reduced_axis(hints)
    longest = min(length, _LONGEST)
    few = 2 * (256 // length) if length <= 256 else 1
    tiles = [(1, longest), (64, 8), (few, longest), (64, 64), (8, 512)]
    configs = [_row_config(rows, axis, length, x, r, 16) for x, r in tiles]
    return [*configs, {**_row_config(rows, axis, length, 64, 4, 16), "num_warps": 8}]


def _persistent(hints: Mapping[str, int]) -> list[Config]:
    """Return tiles that hold whole rows, so that the row length is no parameter."""
    rows, (axis, length) = hints["x"], _reduced_axis(hints)
    fit = (x for x in (1, 8, 32, 128) if x == 1 or (x <= rows and x * length <= _PERSISTENT))
    return [_row_config(rows, axis, length, x, length, 8) for x in fit]


def _reduced_axis(hints: Mapping[str, int]) -> tuple[str, int]:
    first, *_ = ((axis, extent) for axis, extent in hints.items() if axis.startswith("r"))
    return first


def _row_config(rows: int, axis: str, length: int, x: int, r: int, most: int) -> Config:
    blocks = {"x": min(x, rows), axis: min(r, length)}
    wanted = x * r // (8 if rows * length < x * r else 1)
    for name, extent in (("x", rows), (axis, length)):
        while blocks[name] < extent and prod(blocks.values()) < wanted:
            blocks[name] *= 2
    return _block_options(blocks, _warps(prod(blocks.values()) // 128, 2, most))


def _warps(wanted: int, fewest: int, most: int) -> int:
    """Return the number of warps between the limits, rounded up to a power of two."""
    return 1 << (min(max(wanted, fewest), most) - 1).bit_length()


def _block_options(blocks: Mapping[str, int], warps: int) -> Config:
    """Return a configuration: block ``"x"`` is ``XBLOCK``, block ``"r0_"`` is ``R0_BLOCK``."""
    named = {f"{axis.upper()}BLOCK": block for axis, block in blocks.items()}
    return {**named, "num_warps": warps, "num_stages": 1}


def fits(config: Mapping[str, int], parameters: Sequence[str]) -> bool:
    """Return False if the tile has several rows but the function has one row per block."""
    return "XBLOCK" in parameters or config.get("XBLOCK", 1) == 1


def blocks_of(config: Mapping[str, int], parameters: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield the settings that the function takes as constants."""
    return ((name, value) for name, value in config.items() if name in parameters)


_TILES: Mapping[str, Callable[[Mapping[str, int]], list[Config]]] = {
    "pointwise": _pointwise,
    "reduction": _reduction,
    "persistent_reduction": _persistent,
}
