"""Volumes of a launch, counted from the addresses of every thread.

Nothing of perfassert takes part. What is counted is exact by definition, so a prediction from
compiled code has to agree, whatever the caches do:

- ``l2_load``: unique 32-byte sectors that the loads of a block touch, summed over the blocks. It is
  the part ``compulsory`` of the predicted volume of a field; ``capacity``, a fitted curve's
  share of what is touched again, is not compared.
- ``l2_store``: sectors of every warp instruction that stores, summed. Nothing is fitted there.
- ``dram_load``, ``dram_store``: unique pieces of the device's granularity that all blocks load, and
  sectors that they store, where the grid is a single wave: the parts ``compulsory`` of both.

The engine samples what is large (more than 24 iterations around a store, 1024 warps, 256 blocks):
:func:`check_size` rejects such launches, so that nothing is extrapolated.
"""

from collections import Counter, defaultdict

import numpy as np

from .expressions import Rejected
from .program import For, Store, nested

SECTOR = 32  # bytes
_MOST_ROWS = 1024  # warp instructions of the stores to one field, iterations included
_MOST_ITERATIONS = 24
_MOST_BLOCKS = 256  # where each iteration of a loop may become a block


def sectors_of(touch):
    """Active threads, and the number of the sector that each touches: items are aligned."""
    (threads,) = np.nonzero(touch.active)
    return threads, touch.addresses[threads] // SECTOR


def unique_pairs(groups, numbers):
    """Count the distinct pairs."""
    if not len(groups):
        return 0
    order = np.lexsort((numbers, groups))
    g, n = groups[order], numbers[order]
    return int(1 + np.count_nonzero((g[1:] != g[:-1]) | (n[1:] != n[:-1])))


def count(kernel, run, granularity, by_lap=False):
    """Bytes by (quantity, field); ``granularity``: bytes that DRAM loads at a time; ``by_lap``: a
    block of each iteration of a loop over the grid counts by itself, as documented."""
    volumes = Counter()
    loads = defaultdict(list)
    stores = defaultdict(list)
    blocks, warps = kernel.blocks_of, kernel.warps
    for touch in run.touches:
        threads, sectors = sectors_of(touch)
        if touch.store:
            volumes["l2_store", touch.field] += SECTOR * unique_pairs(warps[threads], sectors)
        own = blocks[threads] + (touch.lap * kernel.blocks if by_lap else 0)
        (stores if touch.store else loads)[touch.field].append((own, sectors))
    for field, found in loads.items():
        groups, sectors = map(np.concatenate, zip(*found, strict=True))
        volumes["l2_load", field] = SECTOR * unique_pairs(groups, sectors)
        grains = np.unique(sectors * SECTOR // granularity)
        volumes["dram_load", field] = granularity * len(grains)
    for field, found in stores.items():
        sectors = np.concatenate([s for _, s in found])
        volumes["dram_store", field] = SECTOR * len(np.unique(sectors))
    return {key: bytes for key, bytes in volumes.items() if bytes}


def check(kernel, run):
    """Rejects what the compiler may change: a thread that stores to an element twice, or loads one
    that it has stored, and kernels that hardly move anything."""
    written = defaultdict(list)
    for touch in run.touches:
        ids = np.nonzero(touch.active)[0] * np.int64(2**40) + touch.addresses[touch.active]
        seen = written[touch.field]
        if any(np.intersect1d(ids, before).size for before in seen):
            raise Rejected(f"a thread stores to {touch.field} and comes back")
        if touch.store:
            seen.append(ids)
    if not any(t.store and t.active.any() for t in run.touches):
        raise Rejected("nothing is stored")
    if not any(not t.store and t.active.any() for t in run.touches):
        raise Rejected("nothing is loaded")


def keep_order(kernel, run):
    """Loops with stores that a warp leaves bit by bit are not unrolled: the threads that are left
    would store in another loop's instructions."""
    for loop in run.uneven:
        if any(isinstance(s, Store) for s in nested(loop.parts)):
            loop.unroll = 1


def check_size(kernel, run):
    """Rejects launches of which the engine looks at a part."""
    rows = Counter()
    executions = Counter()
    for touch in run.touches:
        executions[touch.place, touch.store] += 1
        if touch.store:
            rows[touch.field] += len(np.unique(kernel.warps))
    loops = {id(s) for loop in run.kernel.body for s in _inside_loops(loop)}
    for (place, store), times in executions.items():
        if store and place in loops and times > _MOST_ITERATIONS:
            raise Rejected("too many iterations around a store")
        if kernel.blocks * times > _MOST_BLOCKS and _strided(kernel):
            raise Rejected("too many blocks")
    if any(count > _MOST_ROWS for count in rows.values()):
        raise Rejected("too many stores")
    if kernel.blocks > _MOST_BLOCKS:
        raise Rejected("too many blocks")


def _strided(kernel):
    return any(isinstance(s, For) and s.over_grid for s in nested(kernel.body))


def _inside_loops(statement):
    if isinstance(statement, For):
        yield from nested(statement.parts)
        return
    for part in statement.parts:
        yield from _inside_loops(part)


def is_one_wave(kernel, run, units):
    """Return True if all blocks are resident at a time, one on each unit, loops over the grid
    included."""
    times = Counter((t.place, t.store) for t in run.touches)
    most = max(times.values()) if _strided(kernel) else 1
    return kernel.blocks * most <= units
