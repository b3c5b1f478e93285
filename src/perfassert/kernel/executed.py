"""What executing a sample of a launch's blocks found out, where no closed form is proven."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


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


@dataclass(frozen=True, eq=False)
class Executed:
    """``loops``, ``accesses``: by byte address of a loop's first and of a memory instruction.

    ``blocks`` of ``of`` were executed; ``outside``: what left a buffer, in words.
    """

    blocks: int
    of: int
    loops: Mapping[int, LoopTrips]
    accesses: Mapping[int, Spread]
    outside: tuple[tuple[int, str], ...] = ()

    @property
    def sample(self) -> str:
        """``"8 executed blocks of 512"``."""
        return f"{self.blocks} executed block{'s' * (self.blocks != 1)} of {self.of}"
