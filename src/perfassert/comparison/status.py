"""Status of a prediction or a kernel: its change from the base to the head."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import Enum


class Status(str, Enum):
    """The order is that of reports; a kernel is ``worse``, ``mixed`` or ``better``, a prediction
    ``slower`` or ``faster``."""

    SLOWER = "slower"
    BROKEN = "broken"
    GONE = "gone"
    WORSE = "worse"
    MIXED = "mixed"
    INCOMPARABLE = "incomparable"
    FASTER = "faster"
    BETTER = "better"
    NEW = "new"
    WITHIN = "within tolerance"
    SAME = "same"


MARKS = {
    Status.SLOWER: "🔴", Status.BROKEN: "❌", Status.GONE: "⚫", Status.WORSE: "🟠",
    Status.MIXED: "🟡", Status.INCOMPARABLE: "⚠️", Status.FASTER: "🟢", Status.BETTER: "🟢",
    Status.NEW: "🆕", Status.WITHIN: "✅", Status.SAME: "✅",
}  # fmt: skip
"""Emoji of each status, for comments on pull requests."""
ORDER = {status: place for place, status in enumerate(Status)}


def count(statuses: Iterable[Status]) -> Mapping[Status, int]:
    """Status → how often, for those that occur."""
    counted = Counter(statuses)
    return {status: counted[status] for status in Status if counted[status]}
