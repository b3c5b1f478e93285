"""What has been found out about something, kept by its owner for as long as that lives."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")
_MOST = 512  # answers of one owner; the oldest goes


class Memo:
    """Answers that depend on the owner, which does not change, and on a key alone."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[Hashable, Any] = {}

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What ``make`` gives, called once for a key."""
        with suppress(KeyError):  # at once, as below
            known: T = self._found[key]
            return known
        made = make()
        if len(self._found) >= _MOST:
            oldest, *_ = list(self._found)  # at once: other threads may add meanwhile
            self._found.pop(oldest, None)
        self._found[key] = made
        return made
