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


@dataclass(frozen=True)
class Unspill(Rewrite):
    """Registers in place of local memory, and none of the instructions that access it."""

    stage = "bind"
    instructions: frozenset[int]


@dataclass(frozen=True)
class UseConstantMemory(Rewrite):
    """Operands from constant memory in place of these loads."""

    stage = "bind"
    instructions: frozenset[int]


@dataclass(frozen=True)
class Coalesce(Rewrite):
    """As few sectors as the bytes of these accesses fill."""

    stage = "bind"
    instructions: frozenset[int]


@dataclass(frozen=True)
class JoinAccesses(Rewrite):
    """One access in place of those of neighbouring elements; of address expressions."""

    stage = "question"
    instructions: frozenset[int]


@dataclass(frozen=True)
class Remove(Rewrite):
    """None of these instructions."""

    stage = "bind"
    instructions: frozenset[int]


@dataclass(frozen=True)
class Reclassify(Rewrite):
    """Instructions that become another operation, by number."""

    stage = "bind"
    classes: Mapping[int, str]


@dataclass(frozen=True)
class RemoveConflicts(Rewrite):
    """As few rows of banks as the bytes of these accesses fill."""

    stage = "traffic"
    instructions: frozenset[int]


@dataclass(frozen=True)
class HalveTransactions(Rewrite):
    """Every second transaction of these accesses, while their data crosses the L2 as before."""

    stage = "traffic"
    instructions: frozenset[int]


@dataclass(frozen=True)
class HalveCosts(Rewrite):
    """Half of λ and Λ of this arithmetic."""

    instructions: frozenset[int]


@dataclass(frozen=True)
class Unroll(Rewrite):
    """Several copies of the bodies of these loops, scheduled together."""

    stage = "bind"
    loops: frozenset[int]


@dataclass(frozen=True)
class Reorder(Rewrite):
    """Instructions of these loops, -1 for those outside of them, in the order of an author who
    loads early."""

    stage = "bind"
    loops: frozenset[int]


@dataclass(frozen=True)
class Schedule(Rewrite):
    """Instructions of these loops in a compiler's order, as what kept them apart is gone."""

    loops: frozenset[int]


@dataclass(frozen=True)
class CopyAsynchronously(Rewrite):
    """Stores to shared memory that become part of the load that they are given with."""

    loads: Mapping[int, int]


@dataclass(frozen=True)
class BalanceWarps(Rewrite):
    """Equal work of all warps of a block."""


@dataclass(frozen=True)
class WorkAlone(Rewrite):
    """No wait of the last warp that works for the others."""


@dataclass(frozen=True)
class LoadBeforeBarriers(Rewrite):
    """Loads of what is not written before, issued before barriers."""


WAYS_TO_BALANCE: tuple[tuple[Rewrite, ...], ...] = ((WorkAlone(),), (LoadBeforeBarriers(),))
"""Ways to wait less at barriers besides :class:`BalanceWarps`."""
