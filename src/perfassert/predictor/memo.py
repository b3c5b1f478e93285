"""Memory shared by predictions: results of stages, by the content they depend on, in a budget."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

T = TypeVar("T")
DEFAULT_BUDGET = 512 << 20
"""Bytes that a session keeps, as its stages estimate them."""


class SameObjects:
    """A part of a key: objects that are compared by identity, and kept alive by the key."""

    def __init__(self, objects: Iterable[object]) -> None:
        self._objects = tuple(objects)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SameObjects) and (
            [*map(id, self._objects)] == [*map(id, other._objects)]
        )

    def __hash__(self) -> int:
        return hash(tuple(map(id, self._objects)))


class Memo:
    """Results of pure functions by stage and key, the least recently used ones dropped first.

    A result is the same whether it is found or made, so that the budget changes no answer. Threads
    that ask for a key while one of them makes its result wait for that one.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._used = 0
        self._lock = Lock()
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._making: dict[Hashable, Future[Any]] = {}

    def recall(
        self, stage: str, key: Hashable, make: Callable[[], T], size: Callable[[T], int]
    ) -> T:
        """Return the result of a stage for a key.

        Args:
            stage: name of the stage.
            key: of all that the result depends on; None: the result is made each time.
            make: makes the result; None is not kept.
            size: estimates the bytes that a result takes.
        """
        if key is None:
            return make()
        entry = stage, key
        while True:
            with self._lock:
                if entry in self._entries:
                    self._entries.move_to_end(entry)
                    known: T = self._entries[entry][0]
                    return known
                making = self._making.get(entry)
                if making is None:
                    own: Future[T] = Future()
                    self._making[entry] = own
                    break
            with suppress(Exception):  # whoever waits then tries, for an error of its own
                value: T = making.result()
                return value
        try:
            made = make()
        except BaseException as error:
            with self._lock:
                del self._making[entry]
            own.set_exception(error)
            raise
        with self._lock:
            del self._making[entry]
            if made is not None:
                self._keep(entry, made, size(made))
        own.set_result(made)
        return made

    def _keep(self, entry: Hashable, value: object, size: int) -> None:
        if size > self._budget:
            return
        self._entries[entry] = value, size
        self._used += size
        while self._used > self._budget:
            _, (_, freed) = self._entries.popitem(last=False)
            self._used -= freed

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._entries.clear()
            self._used = 0

    def close(self) -> None:
        """Drop everything, and keep nothing from now on."""
        self._budget = 0
        self.clear()

    def share(self, key: str, array: npt.NDArray[Any]) -> npt.NDArray[np.generic]:
        """Return a read-only copy of an array, one for all that have the same content.

        See :data:`perfassert.kernel.buffer.Share`.
        """

        def copy() -> npt.NDArray[Any]:
            kept = array.copy()
            kept.flags.writeable = False
            return kept

        return self.recall("content", key, copy, lambda kept: int(kept.nbytes) + sys.getsizeof(key))
