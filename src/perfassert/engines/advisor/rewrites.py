"""Changes that optimizers propose; each changes the result of one stage of a prediction.

A rewrite says what changes. :mod:`perfassert.predictor.rewrites` implements it, once for each class
and stage; earlier stages are not run again. Instructions and loops are those of the
:class:`~perfassert.engines.advisor.code.Code`, by number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Rewrite:
    """A change of the result of a stage.

    Attributes:
        stage: the first one whose result it changes: ``"question"``, ``"bind"``, ``"traffic"`` or
            ``"cost"``.
    """

    stage: ClassVar[str] = "cost"


@dataclass(frozen=True)
class OfInstructions(Rewrite):
    """A change of some instructions."""

    instructions: frozenset[int]


@dataclass(frozen=True)
class OfLoops(Rewrite):
    """A change of some loops."""

    loops: frozenset[int]


@dataclass(frozen=True)
class ResizeBlocks(Rewrite):
    """A change to blocks of ``threads`` threads, as many as cover the same threads."""

    stage = "question"
    threads: int


@dataclass(frozen=True)
class SetRegisters(Rewrite):
    """A change to ``registers`` registers per thread."""

    stage = "bind"
    registers: int


@dataclass(frozen=True)
class SetSharedBytes(Rewrite):
    """A change to ``size`` bytes of shared memory per block."""

    stage = "bind"
    size: int


@dataclass(frozen=True)
class LimitCode(Rewrite):
    """A limit of ``size`` bytes on the code that an SM executes."""

    stage = "bind"
    size: int


class Unspill(OfInstructions):
    """Replacement of local memory by registers, and removal of the instructions that access it."""

    stage = "bind"


class UseConstantMemory(OfInstructions):
    """Replacement of these loads by operands from constant memory."""

    stage = "bind"


class Coalesce(OfInstructions):
    """Reduction of the sectors that these accesses touch to those that their bytes fill."""

    stage = "bind"


class JoinAccesses(OfInstructions):
    """Replacement of accesses of neighbouring elements by one access (address expressions)."""

    stage = "question"


class Remove(OfInstructions):
    """Removal of these instructions."""

    stage = "bind"


@dataclass(frozen=True)
class Reclassify(Rewrite):
    """Replacement of the operations of some instructions, by number."""

    stage = "bind"
    classes: Mapping[int, str]


class RemoveConflicts(OfInstructions):
    """Reduction of the rows of banks that these accesses touch to those that their bytes fill."""

    stage = "traffic"


class HalveTransactions(OfInstructions):
    """Halving of the transactions of these accesses; their data crosses the L2 as before."""

    stage = "traffic"


class HalveCosts(OfInstructions):
    """Halving of λ and Λ of this arithmetic."""


class Unroll(OfLoops):
    """Unrolling of these loops; the copies of a body are scheduled together."""

    stage = "bind"


class Reorder(OfLoops):
    """Reordering of the instructions of these loops by an author, who loads early.

    Loop -1 is the code outside of loops.
    """

    stage = "bind"


class Schedule(OfLoops):
    """Rescheduling of these loops by the compiler, as what separated their instructions is gone."""


@dataclass(frozen=True)
class CopyAsynchronously(Rewrite):
    """Merging of stores to shared memory with the load that is given with each."""

    loads: Mapping[int, int]


class BalanceWarps(Rewrite):
    """Equal work for all warps of a block."""


class WorkAlone(Rewrite):
    """Removal of the waits of the last working warp for the others."""


class LoadBeforeBarriers(Rewrite):
    """Issue of loads before barriers, if their data is not written earlier."""


WAYS_TO_BALANCE: tuple[tuple[Rewrite, ...], ...] = ((WorkAlone(),), (LoadBeforeBarriers(),))
"""Alternatives to :class:`BalanceWarps` that reduce waiting at barriers."""
