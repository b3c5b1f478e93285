"""A cache under the loads of a few blocks, load by load: the oracle for reuse in loops."""

from collections import OrderedDict
from dataclasses import dataclass
from itertools import product

import numpy as np

SECTOR, LINE, WARP = 32, 128, 32


class LeastRecentlyUsed:
    """Lines of which single sectors are loaded; the line that was used longest ago leaves."""

    def __init__(self, lines):
        self.lines, self.held = lines, OrderedDict()

    def misses(self, sector):
        line, part = divmod(sector, LINE // SECTOR)
        if line not in self.held and len(self.held) >= self.lines:
            self.evict()
        sectors = self.held.setdefault(line, set())
        self.held.move_to_end(line)
        missed = part not in sectors
        sectors.add(part)
        return missed

    def evict(self):
        self.held.popitem(last=False)


class RandomReplacement(LeastRecentlyUsed):
    """The same, but any line leaves."""

    def __init__(self, lines, seed=0):
        super().__init__(lines)
        self.random, self.order = np.random.default_rng(seed), []

    def misses(self, sector):
        line = sector // (LINE // SECTOR)
        new = line not in self.held
        missed = super().misses(sector)
        if new:
            self.order.append(line)
        return missed

    def evict(self):
        place = int(self.random.integers(len(self.order)))
        self.order[place], self.order[-1] = self.order[-1], self.order[place]
        del self.held[self.order.pop()]


@dataclass(frozen=True)
class Program:
    """Loads in a nest of loops, the outermost first; each is executed at the start of an iteration
    of its own innermost loop. ``trips``: loop → iterations."""

    groups: tuple
    trips: dict
    warps: int

    def steps(self):
        """(load, offset, iteration) in program order."""
        for counters in product(*map(range, self.trips.values())):
            values = dict(zip(self.trips, counters, strict=True))
            for group in self.groups:
                if not any(n for loop, n in values.items() if loop not in group.loops):
                    for offset in group.offsets.tolist():
                        yield group, offset, values

    def sectors(self, group, offset, values, block, warp):
        """Return the sectors that a warp requests by one instruction."""
        known = {"threadIdx.x": warp * WARP + np.arange(WARP), "blockIdx.x": block, **values}
        base = (1 + sum(map(ord, group.field))) << 34
        addresses = base + offset + sum(c * known[s] for s, c in group.terms)
        return np.unique(addresses // SECTOR).tolist()


def loaded_bytes(program, blocks, cache, behind=0, seed=None, idle=0, rounds=1):
    """Bytes that miss while blocks advance in turns, an instruction of every warp each; each block
    starts ``behind`` instructions after the one before, or with a seed, chance picks the turn.

    After its loads a block executes ``idle`` instructions that load nothing. Then another block
    takes its place, until there were as many ``rounds``.
    """
    steps = (list(program.steps()) + [None] * idle) * rounds
    each = len(steps) // rounds
    done = [-behind * block for block in range(blocks)]
    chance = np.random.default_rng(seed)
    missed = 0
    while left := [b for b in range(blocks) if done[b] < len(steps)]:
        for block in left if seed is None else chance.choice(left, len(left)).tolist():
            at = done[block]
            if 0 <= at < len(steps) and steps[at]:
                number = block + blocks * (at // each)
                for warp in range(program.warps):
                    for sector in program.sectors(*steps[at], number, warp):
                        missed += cache.misses(sector)
            done[block] += 1
    return missed * SECTOR
