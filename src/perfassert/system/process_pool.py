"""Where work on many rows runs: a pool of processes, or any executor like one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")
Progress = Callable[[int, int], None]
"""Is told how much of some work is done, and how much there is."""


class Submitter(Protocol):
    """What an executor must have: ``concurrent.futures``, a Dask client and their like do."""

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Any:
        """Start ``fn(*args)`` somewhere; what comes back has ``result()``."""


@contextmanager
def process_pool(jobs: int | None = None) -> Iterator[Submitter | None]:
    """A pool of ``jobs`` fresh processes (default: one per usable core); none for one job."""
    count = jobs or cores()
    if count == 1:
        yield None
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as pool:
        yield pool


def map_in_threads(function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """``map`` for what mostly waits for other processes: as many at a time as there are cores.

    Results come in order; after an error nothing more is started.
    """
    count = min(cores(), len(items))
    if count <= 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(count) as pool:
        waiting = [pool.submit(function, item) for item in items]
        try:
            for future in waiting:
                yield future.result()
        finally:
            for future in waiting:
                future.cancel()


def cores() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
