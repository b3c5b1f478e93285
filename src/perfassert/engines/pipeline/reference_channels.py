"""Channels of one block in the reference engine: arrivals, and the warps that wait for a phase."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Waiter = TypeVar("Waiter")


@dataclass(slots=True)
class _Phase(Generic[Waiter]):
    """A phase of a channel; ``copies``: expected copies that are not complete."""

    arrived: int = 0
    copies: int = 0
    complete: bool = False
    waiters: list[Waiter] = field(default_factory=list)


class Channels(Generic[Waiter]):
    """Channels of a block; ``arrivals``: arrivals that complete a phase, per channel."""

    def __init__(self, arrivals: Sequence[int]) -> None:
        self._arrivals = arrivals
        self._phases: dict[tuple[int, int], _Phase[Waiter]] = {}

    def expect(self, channel: int, phase: int, copies: int) -> None:
        """Note that an arrival was issued, and that ``copies`` copies must complete after it."""
        self._phase(channel, phase).copies += copies

    def arrive(self, channel: int, phase: int) -> list[Waiter]:
        """Count the arrival of a warp; return the waiters if it completes the phase."""
        self._phase(channel, phase).arrived += 1
        return self._complete_phase(channel, phase)

    def complete_copy(self, channel: int, phase: int) -> list[Waiter]:
        """Count a complete copy; return the waiters if it completes the phase."""
        self._phase(channel, phase).copies -= 1
        return self._complete_phase(channel, phase)

    def waits(self, channel: int, phase: int, waiter: Waiter) -> bool:
        """Add a waiter unless the phase is complete; return True if it has to wait."""
        if phase < 0 or self._phase(channel, phase).complete:
            return False
        self._phase(channel, phase).waiters.append(waiter)
        return True

    def _phase(self, channel: int, phase: int) -> _Phase[Waiter]:
        return self._phases.setdefault((channel, phase), _Phase())

    def _complete_phase(self, channel: int, number: int) -> list[Waiter]:
        """Complete a phase if no arrival or copy is missing; return its waiters."""
        # For example, a phase takes 2 arrivals, the first of which expects 1 copy. After both
        # arrivals it is incomplete. When the copy is complete, the waiters are returned.
        phase = self._phase(channel, number)
        if phase.arrived < self._arrivals[channel] or phase.copies:
            return []
        phase.complete = True
        waiters, phase.waiters = phase.waiters, []
        return waiters
