"""The channels of one block in the reference engine: who has arrived, who waits for which phase."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Waiter = TypeVar("Waiter")


@dataclass(slots=True)
class _Phase(Generic[Waiter]):
    """``copies``: expected and not complete."""

    arrived: int = 0
    copies: int = 0
    complete: bool = False
    waiters: list[Waiter] = field(default_factory=list)


class Channels(Generic[Waiter]):
    """Of a block; ``arrivals``: per channel, those that complete a phase."""

    def __init__(self, arrivals: Sequence[int]) -> None:
        self._arrivals = arrivals
        self._phases: dict[tuple[int, int], _Phase[Waiter]] = {}

    def expect(self, channel: int, phase: int, copies: int) -> None:
        """An arrival is under way, after which so many copies must be complete."""
        self._phase(channel, phase).copies += copies

    def arrive(self, channel: int, phase: int) -> list[Waiter]:
        """Count the arrival of a warp; returns the waiters of the phase that it completes."""
        self._phase(channel, phase).arrived += 1
        return self._complete_phase(channel, phase)

    def complete_copy(self, channel: int, phase: int) -> list[Waiter]:
        """Count a complete copy; returns the waiters of the phase that it completes."""
        self._phase(channel, phase).copies -= 1
        return self._complete_phase(channel, phase)

    def waits(self, channel: int, phase: int, waiter: Waiter) -> bool:
        """Whether the phase is not complete yet, so that the waiter will be released later."""
        if phase < 0 or self._phase(channel, phase).complete:
            return False
        self._phase(channel, phase).waiters.append(waiter)
        return True

    def _phase(self, channel: int, phase: int) -> _Phase[Waiter]:
        return self._phases.setdefault((channel, phase), _Phase())

    def _complete_phase(self, channel: int, number: int) -> list[Waiter]:
        """Complete a phase where no arrival or copy is missing; returns its waiters."""
        phase = self._phase(channel, number)
        if phase.arrived < self._arrivals[channel] or phase.copies:
            return []
        phase.complete = True
        waiters, phase.waiters = phase.waiters, []
        return waiters
