"""What executing a sample of a launch's blocks found out, where no closed form is proven."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isqrt
from typing import TYPE_CHECKING

from perfassert.kernel.memo import Memo
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
"""Of every address; what is left of a word numbers the executed blocks."""


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
        numbers: npt.NDArray[np.int64] = self.keys[start:stop] & ((1 << ADDRESS_BITS) - 1)
        return numbers


@dataclass(frozen=True, eq=False, slots=True)
class Visits:
    """What some blocks touched by one memory instruction, execution by execution.

    ``keys``: as of :class:`Pieces`, in no order, and ``times``: which execution of its warp it was,
    from ``first`` to ``last``, left out, of as many as the busiest warp has, ``most``. ``apart``:
    of the executed blocks, every so many-th. ``share``: of all that a block asks for.
    """

    grain: int
    keys: npt.NDArray[np.int64]
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


@dataclass(frozen=True, slots=True)
class Sampled:
    """Which blocks of a launch were executed, of ``total``: ``spread`` evenly over the grid, and a
    ``run`` of them that follow one another, or stretches of a wave where no more was afforded."""

    spread: tuple[int, ...]
    run: tuple[int, ...]
    total: int

    @property
    def whole(self) -> bool:
        """Whether every block was."""
        return len(self.run) >= self.total


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
    meeting: Mapping[int, float] = field(default_factory=dict)
    visits: Visits | None = None
    counted: Memo = field(default_factory=Memo, repr=False)


_FULLEST = 256  # addresses that are kept: the fullest one is wanted


def meeting(
    addresses: npt.NDArray[np.int64], blocks: npt.NDArray[np.intp], looked_at: int, total: int
) -> dict[int, float]:
    """Operations on single addresses over a launch of ``total`` blocks, on the fullest ones.

    ``addresses``, ``blocks``: of every operation in the blocks that were looked at. What several
    of them touch is common to all.
    """
    import numpy as np

    places, of, counts = np.unique(addresses, return_inverse=True, return_counts=True)
    pairs = np.unique(of.reshape(-1).astype(np.int64) * looked_at + blocks)
    sharers = np.bincount(pairs // looked_at, minlength=len(places))
    over_all = np.where(sharers > 1, counts * (total / looked_at), counts)
    fullest = np.argsort(-over_all, kind="stable")[:_FULLEST]
    return {int(places[i]): float(over_all[i]) for i in fullest}


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
    means of both. ``issued``: by byte address. ``sides``: of conditional jumps, by their addresses,
    that some warp took; with True it jumped.
    """

    counts: Mapping[int, tuple[float, ...]]
    blocks: tuple[float, ...]
    longest: tuple[float, ...]
    issued: Mapping[int, IssueCounts] = field(default_factory=dict)
    sides: frozenset[tuple[int, bool]] = frozenset()

    @property
    def uneven(self) -> bool:
        """Whether some blocks do more than others."""
        return len({*self.blocks}) > 1 or len({*self.longest}) > 1


@dataclass(frozen=True, eq=False)
class Executed:
    """``loops``, ``accesses``: by byte address of a loop's first and of a memory instruction.

    ``blocks`` of ``of`` were executed; ``outside``: what left a buffer, in words. ``touched``: by
    byte address and space (``"global"``, ``"shared"``), with ``sampled`` beside it for
    instructions that touched nothing, and ``work``; None where unknown content decided what is
    executed. ``on_chip``: where a single block stands for all, in its place for on-chip memory.
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
    def sample(self) -> str:
        """``"8 executed blocks of 512"``."""
        return f"{self.blocks} executed block{'s' * (self.blocks != 1)} of {self.of}"
