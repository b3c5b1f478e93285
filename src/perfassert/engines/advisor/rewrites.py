"""Changes that optimizers propose, each of what one stage of a prediction yields.

A rewrite says what changes. How is said once for each class and stage, in
:mod:`perfassert.predictor.rewrites`; stages before it are not run again. Instructions and
loops are those of the :class:`~perfassert.engines.advisor.code.Code`, by number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Rewrite:
    """A change of what a stage yields, and of nothing else.

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
    """Blocks of so many threads, and as many of them as cover the same threads."""

    stage = "question"
    threads: int


@dataclass(frozen=True)
class SetRegisters(Rewrite):
    """So many registers of a thread."""

    stage = "bind"
    registers: int


@dataclass(frozen=True)
class SetSharedBytes(Rewrite):
    """So much shared memory of a block."""

    stage = "bind"
    size: int


@dataclass(frozen=True)
class LimitCode(Rewrite):
    """Code of at most so many bytes that a unit goes through."""

    stage = "bind"
    size: int


class Unspill(OfInstructions):
    """Registers in place of local memory, and none of the instructions that access it."""

    stage = "bind"


class UseConstantMemory(OfInstructions):
    """Operands from constant memory in place of these loads."""

    stage = "bind"


class Coalesce(OfInstructions):
    """Accesses that touch no more sectors than their bytes fill."""

    stage = "bind"


class JoinAccesses(OfInstructions):
    """One access in place of those of neighbouring elements; of address expressions."""

    stage = "question"


class Remove(OfInstructions):
    """None of these instructions."""

    stage = "bind"


@dataclass(frozen=True)
class Reclassify(Rewrite):
    """Instructions that become another operation, by number."""

    stage = "bind"
    classes: Mapping[int, str]


class RemoveConflicts(OfInstructions):
    """Accesses that touch no more rows of banks than their bytes fill."""

    stage = "traffic"


class HalveTransactions(OfInstructions):
    """Every second transaction of these accesses, while their data crosses the L2 as before."""

    stage = "traffic"


class HalveCosts(OfInstructions):
    """Half of λ and Λ of this arithmetic."""


class Unroll(OfLoops):
    """Several copies of the bodies of these loops, scheduled together."""

    stage = "bind"


class Reorder(OfLoops):
    """Instructions of these loops, -1 for those outside of them, in the order of an author who
    loads early."""

    stage = "bind"


class Schedule(OfLoops):
    """Instructions of these loops in a compiler's order, as what kept them apart is gone."""


@dataclass(frozen=True)
class CopyAsynchronously(Rewrite):
    """Stores to shared memory that become part of the load that they are given with."""

    loads: Mapping[int, int]


class BalanceWarps(Rewrite):
    """Equal work of all warps of a block."""


class WorkAlone(Rewrite):
    """No wait of the last warp that works for the others."""


class LoadBeforeBarriers(Rewrite):
    """Loads of what is not written before, issued before barriers."""


WAYS_TO_BALANCE: tuple[tuple[Rewrite, ...], ...] = ((WorkAlone(),), (LoadBeforeBarriers(),))
"""Ways to wait less at barriers besides :class:`BalanceWarps`."""
