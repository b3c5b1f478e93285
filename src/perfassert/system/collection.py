"""Python's collector of reference cycles, which pauses while much is made that has none."""

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
    """No reference cycles are looked for in the block, or in the function that this decorates.

    A description of 20,000 instructions is some hundred thousand objects, all of which stay: the
    collector would visit them again and again. What has no reference any more is freed as always.
    """
    _pause.begin()
    try:
        yield
    finally:
        _pause.end()
