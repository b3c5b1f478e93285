"""Executors for work on many rows: a pool of isolated processes, or any executor like one."""

from __future__ import annotations

import os
import pickle
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import local
from typing import Any, Protocol, TypeVar

from perfassert.system.pool_worker import receive, send
from perfassert.system.processes import start_python

T = TypeVar("T")
R = TypeVar("R")
Progress = Callable[[int, int], None]
"""Callback that is told the amount of work done, and the whole amount."""


class Submitter(Protocol):
    """Interface of executors: ``concurrent.futures``, a Dask client and similar classes fit."""

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Any:
        """Start ``fn(*args)`` and return an object with ``result()``."""


@contextmanager
def process_pool(jobs: int | None = None) -> Iterator[Submitter | None]:
    """Yield a pool of ``jobs`` isolated processes (default: one per usable core), or None for one.

    They are no processes of :mod:`multiprocessing`, whose children import from the working
    directory.
    """
    count = jobs or cores()
    if count == 1:
        yield None
        return
    pool = _ProcessPool(count)
    try:
        yield pool
    finally:
        pool.close()


class _ProcessPool:
    """Threads that each hand calls to a process of their own, started with their first call."""

    def __init__(self, count: int) -> None:
        self._threads = ThreadPoolExecutor(count, "perfassert-pool")
        self._own = local()
        self._processes: list[subprocess.Popen[bytes]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Future[Any]:
        """Call ``fn(*args)`` in one of the processes; both have to be picklable."""
        return self._threads.submit(self._call, pickle.dumps((fn, args)))

    def _call(self, call: bytes) -> Any:
        process = self._process()
        if process.stdin is None or process.stdout is None:
            raise AssertionError("both are pipes")
        try:
            send(process.stdin, call)
            answer = receive(process.stdout)
        except OSError:
            answer = None
        if answer is None:
            del self._own.process  # the next call of this thread starts another one
            raise RuntimeError(f"a process of the pool ended with status {process.wait()}")
        succeeded, value = pickle.loads(answer)
        if succeeded:
            return value
        raise value

    def _process(self) -> subprocess.Popen[bytes]:
        if not hasattr(self._own, "process"):
            self._own.process = start_python("perfassert.system.pool_worker:main")
            self._processes.append(self._own.process)
        process: subprocess.Popen[bytes] = self._own.process
        return process

    def close(self) -> None:
        """Cancel what has not begun, and end the processes."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for process in self._processes:
            process.kill()
        self._threads.shutdown()
        for process in self._processes:
            with process:  # closes its pipes
                pass


def map_in_threads(function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """Map a function that mostly waits for other processes, with one thread per core.

    Results come in order. After an error no further call is started.
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
    """Return the number of CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
