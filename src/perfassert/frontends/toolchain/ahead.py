"""Builds in threads what will be wanted soon: compilers are processes that others can run beside.

The cache is all that comes of it. A build that fails is forgotten: whoever wants the kernel builds
it again, and gets the error where it always was. Where everything is remembered no thread starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar

from perfassert.system.process_pool import cores

from . import build as builds
from .binary import Binary, Source
from .inputs import Recall, make_anew

Wanted = tuple[Source, str]
"""A source, and the architecture that it is to be compiled for."""
OnMiss = Callable[[Source, str], None]
"""Gets a source and the architecture that it has to be compiled for now."""
_on_miss: ContextVar[OnMiss | None] = ContextVar("on_miss", default=None)


class Ahead:
    """Threads that build; one core is left to the thread that wants something now."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max(1, cores() - 1), "perfassert-ahead")

    def start(self, wanted: Iterable[Wanted]) -> None:
        """Build these, in their order, as far as they are not remembered."""
        for source, arch in wanted:
            self._pool.submit(builds.build, source, arch)

    def close(self) -> None:
        """Begin nothing more; what runs ends by itself."""
        self._pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def on_cache_miss(callback: OnMiss) -> Iterator[None]:
    """Within the block, ``callback`` is called before anything is compiled that is not remembered,
    and then what an enclosing block has for that."""
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
    """Within the block, the first one that has to be compiled starts those that come after it."""
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


def build(source: Source, arch: str, recall: Recall = make_anew) -> Binary:
    """As :func:`perfassert.frontends.toolchain.build.build`; what is expected beside it follows.

    Nothing does with the text of a generator, which writes another one for each architecture.
    """
    on_miss = _on_miss.get() if source.content is None else None
    return builds.build(source, arch, on_miss, recall)
