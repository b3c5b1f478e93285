"""Results of sampled block execution, which replace closed forms that cannot be proven.

Some blocks of a launch are executed on the CPU; their trip counts, addresses and work are taken as
representative of all blocks.
"""

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
    """Trip counts of a loop: executions of its header per entry of a warp, over executed warps.

    Attributes:
        fewest, mean, most: over the warps that were executed to their ends.
        share: entries per execution of the code around the loop, at most 1.
        unknown: names of buffers without known contents that decide the trip count.
        unended: a warp whose execution was cut short had entered the loop, or no warp reached the
            code around the loop.
    """

    fewest: int
    mean: float
    most: int
    share: float = 1.0
    unknown: tuple[str, ...] = ()
    unended: bool = False

    @property
    def known(self) -> bool:
        """True if the counts follow from the data: no unknown contents, no truncated loop."""
        return not self.unknown and not self.unended


@dataclass(frozen=True, slots=True)
class Spread:
    """Locality of one instruction on global memory, over all executed blocks.

    ``sectors`` (of 32 B) and ``lanes`` are means per warp instruction. ``extent``: bytes from the
    lowest to the highest address that the sample touched. ``unknown``: names of buffers without
    known contents that decide the addresses.
    """

    sectors: float
    lanes: float
    extent: int
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Rows:
    """Sample of the executions of one memory instruction: one row per warp instruction.

    Attributes:
        addresses: byte addresses, [n, 32]; different buffers have different addresses.
        lanes: True for lanes that take part, [n, 32]; each row has at least one.
        every: executions per kept row.
    """

    addresses: npt.NDArray[np.int64]
    lanes: npt.NDArray[np.bool_]
    every: float = 1.0

    def __len__(self) -> int:
        return len(self.addresses)


ADDRESS_BITS = 46
"""Bits of an address that keys keep; the higher bits of a 64-bit key number the executed block."""
ADDRESS_MASK = (1 << ADDRESS_BITS) - 1
"""Mask of the kept address bits; only addresses far outside of all buffers have more."""


@dataclass(frozen=True, eq=False, slots=True)
class Pieces:
    """Set of the pieces of memory that each executed block touched.

    A piece is ``grain`` bytes at a multiple of ``grain``. ``keys``, ascending, combine the number
    of the block among those executed (high bits) with the number of the piece.
    """

    # With a grain of 32, block 3 that touched bytes 70 to 99 has pieces 2 and 3, whose keys are
    # (3 << 46) + 2 and (3 << 46) + 3.

    grain: int
    keys: npt.NDArray[np.int64]

    def of(self, first: int, last: int) -> npt.NDArray[np.int64]:
        """Return the piece numbers of the executed blocks from ``first`` to ``last`` (exclusive).

        A piece that several blocks touched occurs several times.
        """
        import numpy as np

        ends = np.array([first, last], np.int64) << ADDRESS_BITS
        start, stop = np.searchsorted(self.keys, ends)
        numbers: npt.NDArray[np.int64] = self.keys[start:stop] & ADDRESS_MASK
        return numbers


@dataclass(frozen=True, eq=False, slots=True)
class Visits:
    """Pieces of memory that one load instruction touched, with the execution that touched each.

    Only a window of the executions of each warp is kept, in some of the executed blocks.

    Attributes:
        grain: bytes of a piece.
        keys: block and piece, as in :class:`Pieces`, unordered.
        warps: for each key, the number of the warp in its block.
        times: for each key, the number of the execution of its warp.
        first, last: the window of executions; ``last`` is exclusive.
        most: executions of the busiest warp.
        apart: step between the numbers of the kept blocks: with 4, blocks 0, 4, 8, …
        share: pieces in the window, as a fraction of those that a block requests.
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
    """Return the number of stretches of a wave into which ``affordable`` blocks are divided.

    It is the square root, so that stretches are about as long as they are numerous. Long stretches
    show what neighbouring blocks share; many of them show how distant parts of the wave differ.

    >>> [stretches(blocks) for blocks in (1, 4, 9, 16, 1000)]
    [1, 2, 3, 4, 8]
    """
    return min(_STRETCHES, isqrt(max(1, affordable)))


_GOLDEN = 2654435769  # 2**32 over the golden ratio: its multiples modulo 2**32 are spread evenly


def spread_blocks(total: int, count: int) -> tuple[int, ...]:
    """Choose ``count`` blocks that are spread over ``total`` blocks; all if there are no more.

    The grid is divided into ``count`` stretches, and one block of each is chosen. Its position
    varies from stretch to stretch, so that the choice does not follow a period of the grid.

    >>> spread_blocks(64, 4)
    (0, 25, 35, 61)
    """
    if total <= count:
        return tuple(range(total))
    # 64 blocks, 4 chosen: stretches start at 0, 16, 32, 48; the positions in them are 0, 9, 3, 13.
    width = total // count
    return tuple(i * total // count + (i * _GOLDEN % (1 << 32) * width >> 32) for i in range(count))


@dataclass(frozen=True, slots=True)
class WorkingBlocks:
    """The blocks of a ``grid`` that have work: the first ``sides`` in each direction.

    They are numbered in launch order. Blocks without work have no number here.

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
        """Return the number in the whole grid of a block with work."""
        x, y, _ = self.sides
        place = number % x, number // x % y, number // (x * y)
        return place[0] + self.grid[0] * (place[1] + self.grid[1] * place[2])

    def numbers(self, in_grid: Iterable[int]) -> tuple[int, ...]:
        """Return the numbers of blocks with work, from their numbers in the whole grid."""
        (x, y, _), (nx, ny, _) = self.sides, self.grid
        return tuple(b % nx + x * (b // nx % ny + y * (b // (nx * ny))) for b in in_grid)


@dataclass(frozen=True, slots=True)
class Sampled:
    """Numbers of the blocks of a launch that were executed, of ``total`` blocks that have work.

    ``spread``: blocks that are spread evenly over the launch. ``run``: consecutive blocks, or
    stretches of a wave if executing a whole wave would cost too much.
    """

    spread: tuple[int, ...]
    run: tuple[int, ...]
    total: int

    @property
    def whole(self) -> bool:
        """True if every block with work was executed."""
        return len(self.run) >= self.total


_FULLEST = 256  # places that are kept, the most contended ones
PART_BYTES = model_integer("slice_bytes")
"""Bytes of a part of memory: consecutive addresses that lie in one slice of an L2."""


class Meeting(NamedTuple):
    """Contention of one atomic instruction over a launch, at the most contended places.

    Attributes:
        operations: operations of threads, by address.
        turns: by sector of 32 B. A warp instruction takes as many turns at a sector as the largest
            number of its lanes that access one address there.
        part_operations, part_turns: sums of the above, by part of :data:`PART_BYTES`.
    """

    operations: Mapping[int, float]
    turns: Mapping[int, float]
    part_operations: Mapping[int, float]
    part_turns: Mapping[int, float]

    def plus(self, other: Meeting) -> Meeting:
        """Return the sum of both, place by place."""
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
    iterations: npt.NDArray[np.int64] | None = None,
    represented: float = 1.0,
) -> Meeting:
    """Count the atomics of a launch of ``total`` blocks that contend for one place of memory.

    ``addresses`` and ``lanes`` [warp instructions, 32] and ``blocks`` [warp instructions] are of
    the ``looked_at`` sampled blocks. A place that several of these touch is assumed to be touched
    by all blocks of the launch, and its count is scaled up. ``iterations`` [warp instructions] are
    the sampled iterations of loops, each of which represents ``represented`` ones. A place that a
    block touches in several of them is assumed to be touched in all.
    """
    # A warp adds 20 times at address 0, 8 times at 4 and 4 times at 32. Its operations are 20, 8
    # and 4 at these addresses; its turns are 20 at sector 0 (bytes 0 to 31) and 4 at sector 1.
    import numpy as np

    from perfassert.kernel.distinct import count_distinct, distinct

    row = np.broadcast_to(np.arange(len(lanes))[:, None], lanes.shape)[lanes]
    places, place = np.unique(addresses[lanes], return_inverse=True)
    together, counts = count_distinct(row * len(places) + place.reshape(-1))
    row, place = together // max(1, len(places)), together % max(1, len(places))
    sector = places[place] // SECTOR_BYTES  # ascending within a row
    first = np.flatnonzero((np.diff(row, prepend=-1) != 0) | (np.diff(sector, prepend=-1) != 0))
    turns = np.maximum.reduceat(counts, first) if len(first) else counts

    def over_all(
        size: int,
        place: npt.NDArray[np.int64],
        counts: npt.NDArray[np.int64],
        row: npt.NDArray[np.int64],
    ) -> dict[int, float]:
        """Sum the counts by pieces of ``size`` bytes."""
        pieces = places // size  # ascending, as addresses are
        starts = np.diff(pieces, prepend=pieces[:1] - 1) != 0
        of = (np.cumsum(starts) - 1)[place]
        pieces = pieces[starts]
        sums = np.bincount(of, counts, len(pieces))
        visits = of * looked_at + blocks[row]
        sharers = np.bincount(distinct(visits) // looked_at, minlength=len(pieces))
        sums = np.where(sharers > 1, sums * (total / looked_at), sums)
        if iterations is not None and represented > 1:
            most = int(iterations.max(initial=0)) + 1
            visits = distinct(visits * most + iterations[row])
            times = np.bincount(visits // (most * looked_at), minlength=len(pieces))
            sums = np.where(times > sharers, sums * represented, sums)
        fullest = np.argsort(-sums, kind="stable")[:_FULLEST]
        return {int(pieces[i]): float(sums[i]) for i in fullest}

    return Meeting(
        over_all(1, place, counts, row),
        over_all(SECTOR_BYTES, place[first], turns, row[first]),
        over_all(PART_BYTES, place, counts, row),
        over_all(PART_BYTES, place[first], turns, row[first]),
    )


@dataclass(frozen=True, eq=False, slots=True)
class Touched:
    """Memory that one instruction touched in the executed blocks.

    Attributes:
        sampled: the executed blocks.
        rows: executions in the blocks that are spread over the launch; None: it touched nothing.
        spread, run: pieces of global memory that the spread and the consecutive blocks touched;
            None: nothing.
        buffer: argument name of the only buffer of global memory that was touched; empty if there
            were several, and for on-chip memory.
        size: bytes of that buffer; None if they are not known.
        meeting: contention of an atomic, counted in the spread blocks.
        visits: executions of a load from global memory, in some of the spread blocks.
        counted: results of engines, kept for later predictions.
    """

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
"""Smallest value, median and largest value over the executed warps."""


@dataclass(frozen=True, slots=True)
class IssueCounts:
    """Counts of one instruction over the executed warps.

    ``executions`` of a warp; mean active ``lanes`` of each warp that executed it; ``sectors`` of
    one execution, for instructions on global memory.
    """

    executions: Extremes
    lanes: Extremes
    sectors: Extremes | None = None


@dataclass(frozen=True, eq=False, slots=True)
class SampleWork:
    """Differences in work between the warps and blocks that were executed.

    Attributes:
        counts: by byte address of an instruction: its executions by each warp of a block, as means
            over the blocks. The warp that executes most instructions of its block comes first.
        blocks: for each executed block, the instructions of all its warps, divided by the mean.
        longest: for each executed block, the instructions of its longest warp, divided by the mean.
        traffic: for each executed block, the bytes of global memory that its instructions touch,
            divided by the mean.
        issued: issue counts, by byte address of the instruction.
        sides: sides of conditional jumps that some warp took, as (address of the jump, True if it
            jumped).
    """

    counts: Mapping[int, tuple[float, ...]]
    blocks: tuple[float, ...]
    longest: tuple[float, ...]
    traffic: tuple[float, ...] = ()
    issued: Mapping[int, IssueCounts] = field(default_factory=dict)
    sides: frozenset[tuple[int, bool]] = frozenset()

    @property
    def uneven(self) -> bool:
        """True if some blocks, or their longest warps, execute more instructions than others."""
        return len({*self.blocks}) > 1 or len({*self.longest}) > 1


_CONFIDENCE = 1.96  # standard errors on each side of the mean, for a confidence of 95 %


def error_of_mean(values: Sequence[float], total: int) -> float:
    """Compute the error of a sample's mean, as a fraction of the mean, with 95 % confidence.

    ``total``: size of the population. The error is 0 if all its values are known.

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
    """Results of sampled block execution.

    Attributes:
        blocks: number of blocks that were executed.
        of: number of blocks that have work.
        loops: trip counts, by byte address of the loop's first instruction.
        accesses: localities on global memory, by byte address of the instruction.
        outside: accesses that left their buffer, as (byte address, message).
        touched: touched memory, by byte address of the instruction and space (``"global"``,
            ``"shared"``).
        sampled: the executed blocks, which also hold for instructions that touched nothing. None
            if unknown contents decided what was executed, or if ``on_chip`` is given.
        work: differences in work; None if unknown contents decided what was executed.
        on_chip: the executed blocks if a single one represents all; it holds for on-chip memory
            only.
        corrections: messages about closed forms that the execution contradicts. If there is one,
            executed results replace all closed forms.
        cut: True if some warps were not executed to their ends.
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
        """Return the executed blocks that are valid for accesses to a space, or None."""
        return self.sampled or (None if space == "global" else self.on_chip)

    @property
    def work_error(self) -> float:
        """Error of the mean instructions of a block, as by :func:`error_of_mean`."""
        return 0.0 if self.work is None else error_of_mean(self.work.blocks, self.of)

    @property
    def traffic_error(self) -> float:
        """Error of the mean bytes of global memory that a block touches, likewise."""
        return 0.0 if self.work is None else error_of_mean(self.work.traffic, self.of)

    @property
    def sample(self) -> str:
        """Size of the sample as text: ``"8 executed blocks of 512"``."""
        return f"{self.blocks} executed block{'s' * (self.blocks != 1)} of {self.of}"
