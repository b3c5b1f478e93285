"""Pause of Python's garbage collector while many objects without cycles are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock


class _Pause:
    """Counter of the blocks of code, over all threads, that want garbage collection paused.

    ``interrupted``: the collector was on before the first of these blocks.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self.wanted = 0
        self.interrupted = False

    def begin(self) -> None:
        with self.lock:
            if not self.wanted:
                self.interrupted = gc.isenabled()
                gc.disable()
            self.wanted += 1

    def end(self) -> None:
        with self.lock:
            self.wanted -= 1
            if not self.wanted and self.interrupted:
                gc.enable()


_pause = _Pause()


@contextmanager
def without_collections() -> Iterator[None]:
    """Pause the search for reference cycles in a block, or in the function that this decorates.

    A description of 20,000 instructions is some hundred thousand objects that all stay, and the
    collector would visit them again and again. Objects without references are freed as always.
    """
    _pause.begin()
    try:
        yield
    finally:
        _pause.end()
