"""Compilations in threads of what will be needed soon; compilers run beside as processes.

They only fill the cache. A failed one is forgotten: the caller that needs the kernel compiles it
again and gets the error. If the cache holds everything, no thread starts. What is compiled is not
disassembled here: whoever needs a kernel has nvdisasm read all modules that wait by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar

from perfassert.errors import PerfAssertError
from perfassert.system.process_pool import cores

from . import build as builds
from .binary import Binary, Source
from .cache import Recall, recall_nothing
from .listing import forget_waiting

Wanted = tuple[Source, str]
"""A source, and the architecture to compile it for."""
OnMiss = Callable[[Source, str], None]
"""Function that is told of a source and the architecture it must be compiled for now."""
_on_miss: ContextVar[OnMiss | None] = ContextVar("on_miss", default=None)


class Ahead:
    """Pool of threads that compile; one core is left for the build that the caller waits for."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max(1, cores() - 1), "perfassert-ahead")

    def start(self, wanted: Iterable[Wanted]) -> None:
        """Start to compile these in order, unless the cache holds their machine code."""
        for source, arch in wanted:
            self._pool.submit(builds.compile_for_later, source, arch)

    def close(self) -> None:
        """Cancel compilations that have not started; running ones end by themselves."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        forget_waiting()


@contextmanager
def on_cache_miss(callback: OnMiss) -> Iterator[None]:
    """Call ``callback`` in the block before each compilation that the cache does not hold.

    Callbacks of enclosing blocks are called afterwards.
    """
    outer = _on_miss.get()

    def both(source: Source, arch: str) -> None:
        callback(source, arch)
        if outer is not None:
            outer(source, arch)

    before = _on_miss.set(both)
    try:
        yield
    finally:
        _on_miss.reset(before)


@contextmanager
def build_ahead(wanted: Sequence[Wanted]) -> Iterator[None]:
    """Compile entries of ``wanted`` in threads, once the block compiles one before them."""
    ahead: list[Ahead] = []

    def start_later(source: Source, arch: str) -> None:
        if not ahead and (source, arch) in wanted:
            ahead.append(Ahead())
            ahead[0].start(wanted[wanted.index((source, arch)) + 1 :])

    try:
        with on_cache_miss(start_later):
            yield
    finally:
        for one in ahead:
            one.close()


def compile_together(wanted: Iterable[Wanted]) -> None:
    """Compile one after the other, for one run of nvdisasm that reads the code of all.

    What cannot be compiled is compiled again by the caller that needs it, and gets the error.
    """
    for source, arch in wanted:
        with suppress(PerfAssertError):
            builds.compile_for_later(source, arch)


def build(source: Source, arch: str, recall: Recall = recall_nothing) -> Binary:
    """Build as :func:`perfassert.frontends.toolchain.build.build`, and start expected builds.

    A generator's text starts none, since the generator writes another text for each architecture.
    """
    on_miss = _on_miss.get() if source.content is None else None
    return builds.build(source, arch, on_miss, recall)
