"""Where work on many rows runs: a pool of processes, or any executor like one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, Protocol

Progress = Callable[[int, int], None]
"""Is told how much of some work is done, and how much there is."""


class Submitter(Protocol):
    """What an executor must have: ``concurrent.futures``, a Dask client and their like do."""

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Any:
        """Start ``fn(*args)`` somewhere; what comes back has ``result()``."""


@contextmanager
def process_pool(jobs: int | None = None) -> Iterator[Submitter | None]:
    """A pool of ``jobs`` fresh processes (default: one per usable core); none for one job."""
    count = jobs or _cores()
    if count == 1:
        yield None
        return
    with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as pool:
        yield pool


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
