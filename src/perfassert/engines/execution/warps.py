"""Control state of warps: fragments, convergence barriers, and barriers of a block.

A *fragment* is a place in the code with the lanes of a warp that are at it. A warp runs one
fragment until it ends, waits or yields. Fragments reconverge at a convergence barrier only, as on
the hardware (Volta and later).

The order of execution decides races and the results of atomics, so both engines implement the same
order. The lowest place at which warps can run is next, so that warps that are behind catch up. In
every 64th run the places take turns, so that a spinning warp cannot starve the warp it waits for.
All warps at the place execute the operations one after the other, each in the order of warps and
lanes. They stop at a jump, at a wait, or before the next place of another warp.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from perfassert.engines.execution.collective import Lanes, pack_lanes
from perfassert.engines.execution.words import Words
from perfassert.kernel.distinct import distinct
from perfassert.kernel.machine import WARP_LANES

_ROTATION_PERIOD = 64  # in every 64th run the places take turns; otherwise the lowest runs
NOWHERE = np.iinfo(np.int64).max


@dataclass(slots=True, eq=False)
class Fragment:
    """Lanes of a warp at one place.

    A fragment that waits at a convergence barrier has the mask of the barrier in ``register``, or
    in ``mask`` if the register is -1. ``bits`` holds its lanes as a number.
    """

    place: int
    lanes: Lanes
    register: int = -1
    mask: int = 0
    bits: int = 0


@dataclass(slots=True, eq=False)
class Gathering:
    """A barrier of a block: fragments that wait at it, and their contributions to its result."""

    arrived: int = 0
    count: int = 0
    waiting: list[tuple[int, Fragment]] = field(default_factory=list)
    parts: list[tuple[int, int, int]] = field(default_factory=list)


class Warps:
    """Control state of all warps; ``block_of`` holds the block of each warp."""

    def __init__(self, threads: Lanes, block_of: npt.NDArray[np.int64]) -> None:
        count = len(threads)
        self.block_of = block_of
        self.alive = threads.copy()
        self.alive_bits = pack_lanes(threads)[:, 0]
        self.active = threads.copy()
        self.place = np.where(threads.any(axis=1), 0, NOWHERE)
        self.pending: list[list[Fragment]] = [[] for _ in range(count)]
        self.blocked: list[list[Fragment]] = [[] for _ in range(count)]
        self.gatherings: dict[tuple[int, int], Gathering] = {}
        self.at_barrier = np.zeros(count, np.int64)
        self.released_by_force: set[int] = set()
        self._runs = 0

    def choose(self) -> tuple[int, npt.NDArray[np.intp], int]:
        """Return the next place, the warps at it, and the place before which they must stop.

        They stop before the next higher place of a warp, so that this warp can join.
        """
        # For example, warps are at places 10, 4 and 4: the result is place 4, warps 1 and 2, stop
        # at 10.
        self._runs += 1
        lowest = int(self.place.min())
        if lowest == NOWHERE:
            return -1, np.empty(0, np.intp), 0
        if self._runs % _ROTATION_PERIOD == 0:
            places = distinct(self.place[self.place != NOWHERE])
            lowest = int(places[self._runs // _ROTATION_PERIOD % len(places)])
        rows = np.flatnonzero(self.place == lowest)
        above = self.place[self.place > lowest]
        return lowest, rows, int(above.min()) if len(above) else NOWHERE

    def branch(self, rows: npt.NDArray[np.intp], place: int, target: int, taken: Lanes) -> None:
        """Move lanes in ``taken`` to ``target``, the other active lanes behind ``place``."""
        active = self.active[rows]
        stay = active & ~taken
        some, others = taken.any(axis=1), stay.any(axis=1)
        self.place[rows] = np.where(some, target, place + 1)
        for n in np.flatnonzero(some & others):
            self._split(int(rows[n]), (target, taken[n]), (place + 1, stay[n]))
        if target <= place:
            for n in np.flatnonzero(some & ~others):
                if self.pending[rows[n]] and self._runs % _ROTATION_PERIOD == 0:
                    self.rotate(int(rows[n]))

    def _split(self, warp: int, first: tuple[int, Lanes], second: tuple[int, Lanes]) -> None:
        # For example, lanes 0-15 jump from place 8 to 20 and the others go to 9: the warp runs
        # on at 9, and the fragment at 20 is pending.
        low, high = sorted((first, second), key=lambda side: side[0])
        self.place[warp], self.active[warp] = low
        self.pending[warp].append(Fragment(high[0], high[1].copy()))

    def scatter(self, warp: int, places: npt.NDArray[np.int64]) -> None:
        """Move each active lane to its place in ``places``."""
        lanes = self.active[warp].copy()
        for place in distinct(places[lanes])[::-1]:
            self.pending[warp].append(Fragment(int(place), lanes & (places == place)))
        self._next(warp)

    def rotate(self, warp: int) -> None:
        """Run another pending fragment of the warp."""
        if self.pending[warp]:
            self.pending[warp].insert(0, Fragment(int(self.place[warp]), self.active[warp].copy()))
            self._next(warp)

    def _next(self, warp: int) -> None:
        """Replace the running fragment of a warp, which has ended or waits, by a pending one."""
        if not self.pending[warp] and self.blocked[warp] and not self.at_barrier[warp]:
            self._force(warp)
        if self.pending[warp]:
            fragment = self.pending[warp].pop()
            self.place[warp], self.active[warp] = fragment.place, fragment.lanes
        else:
            self.place[warp] = NOWHERE
            self.active[warp] = False

    def _force(self, warp: int) -> None:
        """Release the lanes that wait at the lowest place, since no other lane can arrive."""
        blocked = self.blocked[warp]
        place = min(f.place for f in blocked)
        self.released_by_force.add(place - 1)
        lanes = np.logical_or.reduce([f.lanes for f in blocked if f.place == place])
        self.blocked[warp] = [f for f in blocked if f.place != place]
        self.pending[warp].append(Fragment(place, lanes))

    def leave(
        self, rows: npt.NDArray[np.intp], place: int, lanes: Lanes, barriers: Barriers
    ) -> None:
        """End ``lanes``; the other active lanes continue after ``place``."""
        self.alive[rows] &= ~lanes
        self.alive_bits[rows] = pack_lanes(self.alive[rows])[:, 0]
        self.active[rows] &= ~lanes
        self.place[rows] = place + 1
        for warp in rows[lanes.any(axis=1)]:
            if self.blocked[warp]:
                self.release(int(warp), barriers)
        for warp in rows[~self.active[rows].any(axis=1)]:
            self._next(int(warp))
        for block in distinct(self.block_of[rows]):
            self._open_complete(int(block))

    def wait(self, warp: int, fragment: Fragment, barriers: Barriers) -> None:
        """Let the running fragment wait for others, merged with one that waits at its place."""
        for waiting in self.blocked[warp]:
            if waiting.place == fragment.place and waiting.register == fragment.register:
                waiting.lanes = waiting.lanes | fragment.lanes
                waiting.bits |= fragment.bits
                fragment = waiting
                break
        else:
            self.blocked[warp].append(fragment)
        self.place[warp] = NOWHERE
        self._join(warp, fragment, barriers)
        if self.place[warp] == NOWHERE:
            self._next(warp)

    def release(self, warp: int, barriers: Barriers) -> None:
        """Release the fragments whose barrier has become complete."""
        for fragment in list(self.blocked[warp]):
            self._join(warp, fragment, barriers)

    def _join(self, warp: int, fragment: Fragment, barriers: Barriers) -> None:
        # For example, a barrier of lanes 0b1111 whose lane 3 has ended: a fragment with lanes
        # 0b0011 waits, as 0b1111 & 0b0111 & ~0b0011 = 0b0100, and is released when lane 2 arrives.
        alive = int(self.alive_bits[warp])
        if barriers.mask(warp, fragment) & alive & ~fragment.bits:
            return
        self.blocked[warp].remove(fragment)
        if fragment.bits & alive:
            lanes = fragment.lanes & self.alive[warp]
            self._continue(warp, Fragment(fragment.place, lanes))

    def _continue(self, warp: int, fragment: Fragment) -> None:
        if self.place[warp] == NOWHERE:
            self.place[warp], self.active[warp] = fragment.place, fragment.lanes
        else:
            self.pending[warp].append(fragment)

    # Barriers of a block

    def arrive(self, warp: int, barrier: int, count: int, fragment: Fragment, waits: bool) -> None:
        """Let the running fragment arrive at a barrier of its block.

        ``count``: number of threads that complete the barrier, 0 for all of the block.
        """
        block = int(self.block_of[warp])
        gathering = self.gathering(block, barrier)
        whole = bool((fragment.lanes == self.alive[warp]).all())
        # For example, a warp with 20 threads left counts as 32 at a barrier with a count of 64,
        # since such counts are multiples of the warp size. At a barrier of all threads it counts as
        # 20.
        gathering.arrived += WARP_LANES if count and whole else int(fragment.lanes.sum())
        gathering.count = count
        if waits:
            gathering.waiting.append((warp, fragment))
            self.at_barrier[warp] += 1
            self.place[warp] = NOWHERE
            self._next(warp)
        else:
            self.place[warp] = fragment.place
        self._open_complete(block)

    def gathering(self, block: int, barrier: int) -> Gathering:
        """Return the state of a barrier of a block."""
        return self.gatherings.setdefault((block, barrier), Gathering())

    def pass_barrier(self, rows: npt.NDArray[np.intp], place: int) -> bool:
        """Let warps pass a barrier that all threads of their blocks reach together; True if so."""
        blocks = distinct(self.block_of[rows])
        if any(block in blocks for block, _ in self.gatherings):
            return False
        here = np.isin(self.block_of, blocks)
        missing = self.alive[here].sum() - self.active[rows].sum()
        if missing:
            return False
        self.place[rows] = place
        return True

    def _open_complete(self, block: int) -> None:
        """Release the fragments that wait at a complete barrier of the block."""
        for (owner, barrier), gathering in list(self.gatherings.items()):
            if owner != block or not gathering.arrived:
                continue
            expected = gathering.count
            if not expected:
                expected = int(self.alive[self.block_of == block].sum())
            if gathering.arrived >= expected:
                self._open((owner, barrier))

    def _open(self, key: tuple[int, int]) -> None:
        gathering = self.gatherings.pop(key)
        for warp, fragment in gathering.waiting:
            self.at_barrier[warp] -= 1
            self._continue(warp, fragment)

    def unlock(self) -> bool:
        """Release all barriers of blocks when no warp can run; return True if there were any."""
        waiting = [key for key, g in self.gatherings.items() if g.waiting]
        for key in waiting:
            for _, fragment in self.gatherings[key].waiting:
                self.released_by_force.add(fragment.place - 1)
            self._open(key)
        return bool(waiting)

    def stop(self, rows: npt.NDArray[np.intp]) -> None:
        """End these warps."""
        self.alive[rows] = False
        self.alive_bits[rows] = 0
        self.active[rows] = False
        self.place[rows] = NOWHERE
        for warp in rows:
            self.pending[warp] = []
            self.blocked[warp] = []
        for block in distinct(self.block_of[rows]):
            self._open_complete(int(block))


class Barriers:
    """Masks of convergence barriers, which are stored in registers of the waiting lanes."""

    def __init__(self, values: list[Words | None]) -> None:
        self._values = values

    def mask(self, warp: int, fragment: Fragment) -> int:
        """Return the lanes that a waiting fragment waits for."""
        if fragment.register < 0:
            return fragment.mask
        masks = self._values[fragment.register]
        lane = (fragment.bits & -fragment.bits).bit_length() - 1
        return 0 if masks is None else int(masks[warp, lane])
