"""What an optimizer would change of a kernel, in the model's own terms.

Optimizers state it; whoever holds the model carries it out and simulates again. Instructions and
loops are those of the :class:`~perfassert.engines.advisor.code.Code`, by number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Change:
    """All of it at once; what is left empty stays.

    ``removed``: instructions that are gone; ``classes``: those that become another operation;
    ``cheaper``: arithmetic of half the λ and Λ; ``unspilled``: nothing lives in local memory,
    and registers hold it. ``constant``: loads of what is an operand from constant memory
    instead; ``halved``: accesses of which every second transaction is left, while their data
    crosses the L2 as before; ``joined``: accesses of neighbouring elements that become one;
    ``coalesced``, ``conflict_free``: accesses that touch as few sectors, or rows of banks, as
    their bytes fill. ``unrolled``: loops; ``reordered``: loops, or -1 for the code outside of
    them, whose instructions an author reorders; ``scheduled``: those that the compiler schedules
    anew, as what kept instructions apart is gone; ``asynchronous``: stores to
    shared memory that are part of the load they are given with. ``balanced``: warps share their
    work evenly; ``alone``: the last one that works does not wait for the others; ``early``: loads
    of what is not written before are issued before barriers. ``registers`` of a thread,
    ``shared_bytes`` and ``threads`` of a block, ``code_bytes`` that a unit goes through.
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
