"""Events of a simulated unit; the simulator emits them, and listeners evaluate them.

Times are in ticks. ``block`` is the number of a block in the grid, ``warp`` the number of a warp in
its block. Only the in-order machine reports stalls. It reports them just before the issue that ends
them, in the order in which they occurred.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol, Union

from perfassert.engines.pipeline.program import ProgramNode


class Stall(Enum):
    """Reason why a warp did not issue."""

    STALL_COUNT = "the stall count of the instruction before"
    DEPENDENCE = "a producer was not complete"
    BARRIER = "the block, or what has to come before a barrier"
    NOT_SELECTED = "another warp took the slot"
    PIPELINE = "ready, but the pipeline was taken"


@dataclass(frozen=True, slots=True)
class Launched:
    """A block was launched into a slot."""

    time: int
    block: int


@dataclass(frozen=True, slots=True)
class Stalled:
    """A warp has waited before ``node``; ``producer``: the graph node it waited for, or -1."""

    block: int
    warp: int
    node: ProgramNode
    reason: Stall
    ticks: int
    producer: int = -1


@dataclass(frozen=True, slots=True)
class Issued:
    """A warp's scheduler issued ``node``."""

    time: int
    block: int
    warp: int
    scheduler: int
    node: ProgramNode


@dataclass(frozen=True, slots=True)
class Served:
    """An instruction occupied a server for ``ticks``."""

    server: int
    ticks: int


@dataclass(frozen=True, slots=True)
class Completed:
    """The result of ``node`` is available."""

    time: int
    block: int
    warp: int
    node: ProgramNode


@dataclass(frozen=True, slots=True)
class Barrier:
    """The last warp of a block has arrived at ``node``."""

    time: int
    block: int
    warp: int
    node: ProgramNode


@dataclass(frozen=True, slots=True)
class Drained:
    """A warp that had issued all its instructions has waited for the end of its block."""

    block: int
    warp: int
    ticks: int


@dataclass(frozen=True, slots=True)
class Retired:
    """A block that was launched at ``since`` is complete."""

    time: int
    block: int
    since: int


Event = Union[Launched, Stalled, Issued, Served, Completed, Barrier, Drained, Retired]


class Listener(Protocol):
    """A receiver of events."""

    def hear(self, event: Event) -> None:
        """Process an event; called for every event, in order."""
