"""Items that one block of a launch executes, in program order: instructions and loops."""

from __future__ import annotations

from dataclasses import dataclass, field

from perfassert.kernel.graph import Signal
from perfassert.kernel.program import BarrierUse, ProgramInstruction
from perfassert.source import Assumption


@dataclass(slots=True, eq=False)
class GraphItem:
    """An instruction, or a loop with ``body``.

    ``each``: trips of every warp, where they differ. ``rests_on``: what was assumed about whether
    it is executed, or how often. ``barriers``: those that it means, over the iterations of its
    loops, as (kind, number or address); ``use``: what it does there; ``parity`` and ``threads``: as
    far as they are known. ``sleep``: nanoseconds.
    """

    instruction: ProgramInstruction | None = None
    warps: frozenset[int] | None = None
    active: bool = True
    trips: int = 0
    each: tuple[int, ...] = ()
    body: list[GraphItem] = field(default_factory=list)
    number: int = -1
    rests_on: tuple[Assumption, ...] = ()
    barriers: frozenset[tuple[str, int]] = frozenset()
    parity: int | None = None
    threads: int | None = None
    use: BarrierUse | None = None
    signal: Signal | None = None
    order: int = -1
    sleep: int = 0

    @property
    def signals(self) -> bool:
        """Return True if something in a loop arrives at a barrier or waits for one."""
        return any(i.signals if i.instruction is None else i.signal is not None for i in self.body)
