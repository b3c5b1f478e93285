"""Cache of results that depend on an immutable object and live as long as it does."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")
_MOST = 512  # results that one owner keeps; a further one replaces the oldest


class Memo:
    """Results that depend only on the owner of the memo, which is immutable, and on a key."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[Hashable, Any] = {}

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the result for a key, which ``make`` computes at the first call."""
        with suppress(KeyError):  # one step, since another thread may remove the key
            known: T = self._found[key]
            return known
        made = make()
        if len(self._found) >= _MOST:
            oldest, *_ = list(self._found)  # one step, since another thread may add a key
            self._found.pop(oldest, None)
        self._found[key] = made
        return made

    def latest(self, what: str, key: Hashable, make: Callable[[], T]) -> T:
        """Return the result for a key; of ``what``, only that of the last key is kept."""
        known: tuple[Hashable, T] | None = self._found.get(what)
        if known is None or known[0] != key:
            self._found[what] = known = (key, make())
        return known[1]
