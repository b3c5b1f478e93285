"""What executing a sample of a launch's blocks found out, where no closed form is proven."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isqrt, prod, sqrt
from statistics import fmean, stdev
from typing import TYPE_CHECKING, NamedTuple

from perfassert.kernel.machine import SECTOR_BYTES
from perfassert.kernel.memo import Memo
from perfassert.shipped import model_integer
from perfassert.source import Assumption

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class LoopTrips:
    """How often a loop's header is executed per entry of a warp: over the executed warps.

    ``share``: entries per execution of what is around the loop. ``unknown``: buffers whose content
    decides it and that nobody described; ``unended``: some warp was still in the loop when its
    instructions were used up, or nobody came near it.
    """

    fewest: int
    mean: float
    most: int
    share: float = 1.0
    unknown: tuple[str, ...] = ()
    unended: bool = False

    @property
    def known(self) -> bool:
        """Whether the counts are those of the data."""
        return not self.unknown and not self.unended


@dataclass(frozen=True, slots=True)
class Spread:
    """Where one memory instruction went: averages per warp instruction, and the whole range.

    ``sectors`` of 32 B and ``lanes`` that take part; ``extent``: bytes from the lowest to the
    highest address that the sample touched; ``unknown``: as in :class:`LoopTrips`.
    """

    sectors: float
    lanes: float
    extent: int
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Rows:
    """Executions of one memory instruction, a warp in each row; one in ``every`` of them.

    ``addresses`` [n, 32] in bytes, no two buffers' alike; ``lanes`` [n, 32]: those that take part,
    at least one.
    """

    addresses: npt.NDArray[np.int64]
    lanes: npt.NDArray[np.bool_]
    every: float = 1.0

    def __len__(self) -> int:
        return len(self.addresses)


ADDRESS_BITS = 46
"""Of every address in a buffer; what is left of a word numbers the executed blocks."""
ADDRESS_MASK = (1 << ADDRESS_BITS) - 1
"""Bits of an address that are kept; one far outside of all buffers has more."""


@dataclass(frozen=True, eq=False, slots=True)
class Pieces:
    """What the executed blocks touched, each piece of ``grain`` bytes once for every block.

    ``keys``, ascending: the block's number among those executed, then the number of the piece.
    """

    grain: int
    keys: npt.NDArray[np.int64]

    def of(self, first: int, last: int) -> npt.NDArray[np.int64]:
        """Numbers of the pieces of some blocks, ``last`` left out; some more than once."""
        import numpy as np

        ends = np.array([first, last], np.int64) << ADDRESS_BITS
        start, stop = np.searchsorted(self.keys, ends)
        numbers: npt.NDArray[np.int64] = self.keys[start:stop] & ADDRESS_MASK
        return numbers


@dataclass(frozen=True, eq=False, slots=True)
class Visits:
    """What some blocks touched by one memory instruction, execution by execution.

    ``keys``: as of :class:`Pieces`, in no order; ``warps``: those of their block; ``times``: which
    execution of its warp it was, from ``first`` to ``last``, left out, of as many as the busiest
    warp has, ``most``. ``apart``: of the executed blocks, every so many-th. ``share``: of all that
    a block asks for.
    """

    grain: int
    keys: npt.NDArray[np.int64]
    warps: npt.NDArray[np.int64]
    times: npt.NDArray[np.int64]
    first: int
    last: int
    most: int
    apart: int
    share: float


_STRETCHES = 8  # of a wave that is executed in part, at most


def stretches(affordable: int) -> int:
    """Into how many stretches of a wave so many blocks are divided: each as long as there are many,
    as neighbours share what stretches far apart do not.

    >>> [stretches(blocks) for blocks in (1, 4, 9, 16, 1000)]
    [1, 2, 3, 4, 8]
    """
    return min(_STRETCHES, isqrt(max(1, affordable)))


_GOLDEN = 2654435769  # 2**32 over the golden ratio: multiples of it fill a circle evenly


def spread_blocks(total: int, count: int) -> tuple[int, ...]:
    """``count`` blocks of ``total``, all of them where there are no more: one of each of so many
    stretches of the grid, at another place in every next one, so that nothing that recurs every so
    many blocks is missed.

    >>> spread_blocks(64, 4)
    (0, 25, 35, 61)
    """
    if total <= count:
        return tuple(range(total))
    width = total // count
    return tuple(i * total // count + (i * _GOLDEN % (1 << 32) * width >> 32) for i in range(count))


@dataclass(frozen=True, slots=True)
class WorkingBlocks:
    """Blocks of a ``grid`` that have something to do: the first ``sides`` in each direction.

    They are numbered in launch order; others have nothing to do and count apart.

    >>> blocks = WorkingBlocks((2, 2, 1), (5, 2, 1))
    >>> [blocks.in_grid(i) for i in range(len(blocks))]
    [0, 1, 5, 6]
    >>> blocks.numbers([1, 5])
    (1, 2)
    """

    sides: tuple[int, int, int]
    grid: tuple[int, int, int]

    def __len__(self) -> int:
        return prod(self.sides)

    def in_grid(self, number: int) -> int:
        """Of a block, its number in the grid."""
        x, y, _ = self.sides
        place = number % x, number // x % y, number // (x * y)
        return place[0] + self.grid[0] * (place[1] + self.grid[1] * place[2])

    def numbers(self, in_grid: Iterable[int]) -> tuple[int, ...]:
        """The numbers of blocks by those that they have in the grid."""
        (x, y, _), (nx, ny, _) = self.sides, self.grid
        return tuple(b % nx + x * (b // nx % ny + y * (b // (nx * ny))) for b in in_grid)


@dataclass(frozen=True, slots=True)
class Sampled:
    """Which blocks of a launch were executed, of ``total`` that have something to do: ``spread``
    evenly over them, and a ``run`` of them that follow one another, or stretches of a wave where no
    more was afforded."""

    spread: tuple[int, ...]
    run: tuple[int, ...]
    total: int

    @property
    def whole(self) -> bool:
        """Whether every block was."""
        return len(self.run) >= self.total


_FULLEST = 256  # places that are kept: the fullest one is wanted
PART_BYTES = model_integer("slice_bytes")
"""Neighbours that are counted together: no more than lie in one slice of an L2 without a gap."""


class Meeting(NamedTuple):
    """Atomics of a launch where most of them meet: ``operations`` of threads, by address;
    ``turns``, by sector: one for each warp instruction that goes there, or as many as it has lanes
    on the same address; both again by part of :data:`PART_BYTES`."""

    operations: Mapping[int, float]
    turns: Mapping[int, float]
    part_operations: Mapping[int, float]
    part_turns: Mapping[int, float]

    def plus(self, other: Meeting) -> Meeting:
        """Both together."""
        return Meeting(*(_sum(one, two) for one, two in zip(self, other, strict=True)))


def _sum(one: Mapping[int, float], other: Mapping[int, float]) -> dict[int, float]:
    return {place: one.get(place, 0.0) + other.get(place, 0.0) for place in {**one, **other}}


NO_MEETING = Meeting({}, {}, {}, {})


def meeting(
    addresses: npt.NDArray[np.int64],
    lanes: npt.NDArray[np.bool_],
    blocks: npt.NDArray[np.int64],
    looked_at: int,
    total: int,
) -> Meeting:
    """Where atomics of a launch of ``total`` blocks meet.

    ``addresses``, ``lanes`` [warp instructions, 32], ``blocks``: of those in the blocks that were
    ``looked_at``. What several of them touch is common to all.
    """
    import numpy as np

    row = np.broadcast_to(np.arange(len(lanes))[:, None], lanes.shape)[lanes]
    places, place = np.unique(addresses[lanes], return_inverse=True)
    together, counts = np.unique(row * len(places) + place.reshape(-1), return_counts=True)
    row, place = together // max(1, len(places)), together % max(1, len(places))
    sectors = places[place] // SECTOR_BYTES  # ascending within a row
    first = np.flatnonzero((np.diff(row, prepend=-1) != 0) | (np.diff(sectors, prepend=-1) != 0))
    turns = np.maximum.reduceat(counts, first) if len(first) else counts

    def over_all(
        places: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], block: npt.NDArray[np.int64]
    ) -> dict[int, float]:
        distinct, of = np.unique(places, return_inverse=True)
        of = of.reshape(-1)
        sums = np.bincount(of, counts, len(distinct))
        pairs = np.unique(of * looked_at + block)
        sharers = np.bincount(pairs // looked_at, minlength=len(distinct))
        sums = np.where(sharers > 1, sums * (total / looked_at), sums)
        fullest = np.argsort(-sums, kind="stable")[:_FULLEST]
        return {int(distinct[i]): float(sums[i]) for i in fullest}

    in_parts = SECTOR_BYTES * sectors[first] // PART_BYTES
    return Meeting(
        over_all(places[place], counts, blocks[row]),
        over_all(sectors[first], turns, blocks[row[first]]),
        over_all(places[place] // PART_BYTES, counts, blocks[row]),
        over_all(in_parts, turns, blocks[row[first]]),
    )


@dataclass(frozen=True, eq=False, slots=True)
class Touched:
    """All that one memory instruction touched: ``rows`` and ``spread`` by the blocks that stand
    for all, ``run`` by those that follow one another; ``buffer``: the only one that it went to,
    by the name of its argument, else ``""``; ``size`` in bytes, None: unknown. Without pieces: it
    touched nothing. ``meeting``: of an atomic, what :func:`meeting` says of the spread blocks.
    ``visits``: of loads from global memory, by some of the spread blocks. ``counted``: what engines
    have counted of it."""

    sampled: Sampled
    rows: Rows | None = None
    spread: Pieces | None = None
    run: Pieces | None = None
    buffer: str = ""
    size: int | None = None
    meeting: Meeting = NO_MEETING
    visits: Visits | None = None
    counted: Memo = field(default_factory=Memo, repr=False)


Extremes = tuple[float, float, float]
"""Fewest, median, most over the executed warps."""


@dataclass(frozen=True, slots=True)
class IssueCounts:
    """How often the executed warps issued an instruction; of those that did, with how many active
    lanes; of a memory instruction, sectors of one execution."""

    executions: Extremes
    lanes: Extremes
    sectors: Extremes | None = None


@dataclass(frozen=True, eq=False, slots=True)
class SampleWork:
    """How warps and blocks of the sample differ.

    ``counts``: by byte address, how often the warps of a block execute the instruction, those that
    execute most first; means over the blocks. ``blocks``, ``longest``: of each executed block, in
    the order of the grid, all that its warps execute and what the longest of them does, over the
    means of both; ``traffic``: the bytes of global memory that its instructions touch, over their
    mean. ``issued``: by byte address. ``sides``: of conditional jumps, by their addresses,
    that some warp took; with True it jumped.
    """

    counts: Mapping[int, tuple[float, ...]]
    blocks: tuple[float, ...]
    longest: tuple[float, ...]
    traffic: tuple[float, ...] = ()
    issued: Mapping[int, IssueCounts] = field(default_factory=dict)
    sides: frozenset[tuple[int, bool]] = frozenset()

    @property
    def uneven(self) -> bool:
        """Whether some blocks do more than others."""
        return len({*self.blocks}) > 1 or len({*self.longest}) > 1


_CONFIDENCE = 1.96  # standard errors on each side of 95 % of what may be


def error_of_mean(values: Sequence[float], total: int) -> float:
    """By how much the mean over a sample of so many may be off, as a share, with 95 % confidence;
    nothing is left to chance where all are known.

    >>> error_of_mean([1.0, 3.0, 1.0, 3.0], 4), round(error_of_mean([1.0, 3.0, 1.0, 3.0], 100), 2)
    (0.0, 0.55)
    """
    count, mean = len(values), fmean(values or (0.0,))
    if count < 2 or not mean:
        return 0.0
    left = max(0.0, 1 - count / total)
    return _CONFIDENCE * stdev(values) * sqrt(left / count) / mean


@dataclass(frozen=True, eq=False)
class Executed:
    """``loops``, ``accesses``: by byte address of a loop's first and of a memory instruction.

    ``blocks`` were executed, of ``of`` that have something to do; ``outside``: what left a buffer,
    in words. ``touched``: by byte address and space (``"global"``, ``"shared"``), with ``sampled``
    beside it for instructions that touched nothing, and ``work``; None where unknown content
    decided what is executed. ``on_chip``: where a single block stands for all, in its place for
    on-chip memory.
    ``corrections``: closed forms that it contradicts, in words; where there are some it decides
    in the place of all of them. ``cut``: some warps were not executed to their ends.
    """

    blocks: int
    of: int
    loops: Mapping[int, LoopTrips]
    accesses: Mapping[int, Spread]
    outside: tuple[tuple[int, str], ...] = ()
    touched: Mapping[tuple[int, str], Touched] = field(default_factory=dict)
    sampled: Sampled | None = None
    work: SampleWork | None = None
    on_chip: Sampled | None = None
    corrections: tuple[Assumption, ...] = ()
    cut: bool = False

    def sampled_for(self, space: str) -> Sampled | None:
        """The blocks that tell where accesses of a space went."""
        return self.sampled or (None if space == "global" else self.on_chip)

    @property
    def work_error(self) -> float:
        """By how much what a block does on average may be off, as :func:`error_of_mean`."""
        return 0.0 if self.work is None else error_of_mean(self.work.blocks, self.of)

    @property
    def traffic_error(self) -> float:
        """The same of the global memory that a block touches."""
        return 0.0 if self.work is None else error_of_mean(self.work.traffic, self.of)

    @property
    def sample(self) -> str:
        """``"8 executed blocks of 512"``."""
        return f"{self.blocks} executed block{'s' * (self.blocks != 1)} of {self.of}"
