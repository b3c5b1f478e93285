"""Changes in the form that plug-ins of version 0.3 use, converted to rewrites.

The form is accepted for one more release.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from perfassert.engines.advisor import rewrites as rw
from perfassert.errors import in_short


@dataclass(frozen=True, slots=True)
class Change:
    """A set of changes that are made together; empty fields change nothing.

    New code uses :mod:`~perfassert.engines.advisor.rewrites`. ``removed``: instructions to delete.
    ``classes``: instructions that become another operation. ``cheaper``: arithmetic whose λ and Λ
    are halved. ``unspilled``: registers replace local memory. ``constant``: loads that become
    operands from constant memory. ``halved``: accesses with half of the transactions; their data
    crosses the L2 as before. ``joined``: accesses of neighbouring elements that become one access.
    ``coalesced``, ``conflict_free``: accesses with as few sectors, or rows of banks, as their bytes
    fill. ``unrolled``: loops to unroll. ``reordered``: loops, or -1 for the code outside of them,
    whose instructions an author reorders. ``scheduled``: loops that the compiler schedules again,
    since what separated their instructions is gone. ``asynchronous``: stores to shared memory that
    become part of the load given with them. ``balanced``: warps share their work evenly. ``alone``:
    the last working warp does not wait for the others. ``early``: loads of data that is not written
    before are issued before barriers. ``registers`` are per thread, ``shared_bytes`` and
    ``threads`` per block. ``code_bytes``: code that an SM executes.
    """

    removed: frozenset[int] = frozenset()
    classes: Mapping[int, str] = field(default_factory=dict)
    cheaper: frozenset[int] = frozenset()
    unspilled: bool = False
    constant: frozenset[int] = frozenset()
    halved: frozenset[int] = frozenset()
    joined: frozenset[int] = frozenset()
    coalesced: frozenset[int] = frozenset()
    conflict_free: frozenset[int] = frozenset()
    unrolled: frozenset[int] = frozenset()
    reordered: frozenset[int] = frozenset()
    scheduled: frozenset[int] = frozenset()
    asynchronous: Mapping[int, int] = field(default_factory=dict)
    balanced: bool = False
    alone: bool = False
    early: bool = False
    registers: int | None = None
    shared_bytes: int | None = None
    threads: int | None = None
    code_bytes: int | None = None


def read_change(change: Change) -> tuple[rw.Rewrite, ...]:
    """Convert a change to rewrites, in the order in which they are made.

    Raises ``TypeError`` if ``change`` is not a :class:`Change`.
    """
    if not isinstance(change, Change):
        raise TypeError(f"{in_short(change)} is no Change; state rewrites=(Remove(…),)")
    stated: list[tuple[object, rw.Rewrite]] = [
        (change.threads, rw.ResizeBlocks(change.threads or 0)),
        (change.coalesced, rw.Coalesce(change.coalesced)),
        (change.joined, rw.JoinAccesses(change.joined)),
        (change.constant, rw.UseConstantMemory(change.constant)),
        (change.unspilled, rw.Unspill(frozenset())),
        (change.code_bytes is not None, rw.LimitCode(change.code_bytes or 0)),
        (change.balanced, rw.BalanceWarps()),
        (change.alone, rw.WorkAlone()),
        (change.early, rw.LoadBeforeBarriers()),
        (change.classes, rw.Reclassify(change.classes)),
        (change.removed, rw.Remove(change.removed)),
        (change.asynchronous, rw.CopyAsynchronously(change.asynchronous)),
        (change.unrolled, rw.Unroll(change.unrolled)),
        (change.reordered, rw.Reorder(change.reordered)),
        (change.scheduled, rw.Schedule(change.scheduled)),
        (change.conflict_free, rw.RemoveConflicts(change.conflict_free)),
        (change.halved, rw.HalveTransactions(change.halved)),
        (change.cheaper, rw.HalveCosts(change.cheaper)),
        (change.registers is not None, rw.SetRegisters(change.registers or 0)),
        (change.shared_bytes is not None, rw.SetSharedBytes(change.shared_bytes or 0)),
    ]
    return tuple(rewrite for given, rewrite in stated if given)
