"""Cache on disk, found by content: modules, listings and kernels that tools made, and answers.

Each entry is a file with a checksum and zlib-compressed JSON. It is written under another name and
moved into place, so parallel test runs may share a folder. An entry that is damaged or not what was
written is dropped. If the folder cannot be written, nothing is cached. ``PERFASSERT_CACHE_DIR``
sets the folder. ``PERFASSERT_CACHE_SIZE`` limits it in bytes, up to a few small entries; the least
recently used entries are removed first.

Answers of questions are stored by :mod:`perfassert.predictor.stored`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar, cast

from perfassert.system.environment import environment_number
from perfassert.version import VERSION

T = TypeVar("T")
Recall = Callable[[str, Callable[[], Any]], Any]
"""Function that returns the value for a key, recalled or else made by the second argument."""
DEFAULT_SIZE = 512 << 20  # bytes
_FORMAT = 21
_LEVEL = 1  # level of zlib; 1 already shrinks listings to a tenth
_UNSEEN = 1 / 64  # share of the bound that is written between two scans of the folder, on average
_SUFFIX = ".kernel"
_in_the_making: dict[str, Future[Any]] = {}
if hasattr(os, "register_at_fork"):  # threads that make entries stay in the parent
    os.register_at_fork(after_in_child=_in_the_making.clear)


def key(parts: Sequence[str]) -> str:
    """Return the key of an entry; ``parts`` has everything that the result depends on."""
    text = json.dumps([_FORMAT, VERSION, *parts])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def remember(
    entry: str | None,
    make: Callable[[], T],
    read: Callable[[Any], T],
    write: Callable[[T], object],
) -> T:
    """Return the entry's content, decoded by ``read``; else make, store and return it.

    ``write`` encodes the value for the file. ``None`` is never remembered.
    """
    if entry is None:
        return make()

    def load_or_make() -> T:
        value = load(entry, read)
        if value is None:
            value = make()
            store(entry, write(value))
        return value

    return exclusively(entry, load_or_make)


def exclusively(entry: str, make: Callable[[], T]) -> T:
    """Call ``make`` in one thread at a time; threads that wait meanwhile get its result.

    If ``make`` fails, the next thread calls it again, so that each gets its own error.
    """
    while True:
        own: Future[T] = Future()
        making = _in_the_making.setdefault(entry, own)
        if making is not own:
            with contextlib.suppress(Exception):
                return cast(T, making.result())
            continue
        try:
            value = make()
        except BaseException as error:
            _in_the_making.pop(entry)
            own.set_exception(error)
            raise
        _in_the_making.pop(entry)
        own.set_result(value)
        return value


def has(entry: str) -> bool:
    """Return True if the file of the entry exists, whether or not it can be read."""
    return (folder() / (entry + _SUFFIX)).exists()


def recall_nothing(key: str, make: Callable[[], Any]) -> Any:
    """A :data:`Recall` that keeps nothing."""
    return make()


def load(entry: str, read: Callable[[Any], T], recall: Recall = recall_nothing) -> T | None:
    """Return what ``read`` makes of the entry, which becomes the most recently used.

    The result is ``None`` if there is no entry. An entry that cannot be read is removed. ``recall``
    keeps the result by the checksum of what was stored.
    """
    path = folder() / (entry + _SUFFIX)
    try:
        with path.open("rb") as file:
            if _seal is not None and not _seal.trusts(path.name, os.fstat(file.fileno())):
                return None
            content = file.read()
        checksum, stored = _verify(entry, content)
        value: T = recall(checksum, lambda: read(json.loads(zlib.decompress(stored))))
    except OSError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, zlib.error):
        with contextlib.suppress(OSError):
            path.unlink()
        return None
    with contextlib.suppress(OSError):
        os.utime(path)
        if _seal is not None:
            _seal.trust(path.name, os.stat(path))
    return value


def store(entry: str, data: object) -> None:
    """Store plain JSON data; do nothing if the folder cannot be written."""
    bound = _size_limit()
    content = zlib.compress(json.dumps(data).encode(), _LEVEL)
    content = _checksum(entry, content) + content
    home = folder()
    aside = None
    try:
        home.mkdir(parents=True, exist_ok=True)
        handle, aside = tempfile.mkstemp(dir=home, suffix=".new")
        with open(handle, "wb") as file:
            file.write(content)
        os.replace(aside, home / (entry + _SUFFIX))
        if _seal is not None:
            _seal.trust(entry + _SUFFIX, os.stat(home / (entry + _SUFFIX)))
    except OSError:
        if aside is not None:
            with contextlib.suppress(OSError):
                os.unlink(aside)
        return
    # For example, with a bound of 512 MiB 1 in 682 entries of 12 KiB triggers a scan.
    if zlib.crc32(entry.encode()) % max(1, int(bound * _UNSEEN) // len(content)) == 0:
        _evict(home, bound)


def _checksum(entry: str, content: bytes) -> bytes:
    """Return a checksum of name and content, so that exchanged files are detected, too."""
    return hashlib.sha256(entry.encode() + content).digest()


def _verify(entry: str, stored: bytes) -> tuple[str, bytes]:
    """Return the checksum in hexadecimal, and the content without it."""
    size = hashlib.sha256().digest_size
    checksum, content = stored[:size], stored[size:]
    if checksum != _checksum(entry, content):
        raise ValueError("the entry is not what was written")
    return checksum.hex(), content


class _Seal:
    """Trusted entries: those from before an untrusted build, and those that this process wrote.

    An entry that another process has written since has another inode or change time, which only the
    system sets.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, int]] = {}
        with contextlib.suppress(OSError), os.scandir(folder()) as items:
            for item in items:
                with contextlib.suppress(OSError):
                    self.trust(item.name, item.stat(follow_symlinks=False))

    def trust(self, name: str, info: os.stat_result) -> None:
        self._known[name] = (info.st_ino, info.st_ctime_ns)

    def trusts(self, name: str, info: os.stat_result) -> bool:
        return self._known.get(name) == (info.st_ino, info.st_ctime_ns)


_seal: _Seal | None = None


@contextlib.contextmanager
def seal_entries() -> Iterator[None]:
    """Restrict reads in the block to entries that exist now or that this process writes."""
    global _seal
    before, _seal = _seal, _Seal()
    try:
        yield
    finally:
        _seal = before


def folder() -> Path:
    """Return the folder of the cache."""
    env = os.environ
    if named := env.get("PERFASSERT_CACHE_DIR"):
        return Path(named)
    if sys.platform == "win32" and env.get("LOCALAPPDATA"):
        return Path(env["LOCALAPPDATA"], "perfassert", "cache")
    if base := env.get("XDG_CACHE_HOME"):
        return Path(base, "perfassert")
    return Path(os.path.expanduser("~"), ".cache", "perfassert")


def _size_limit() -> int:
    return environment_number(
        "PERFASSERT_CACHE_SIZE", DEFAULT_SIZE, "bytes from 0 on", 0, sys.maxsize
    )


def _evict(home: Path, bound: int) -> None:
    """Remove old entries down to 90 % of the bound, so that the next calls need not remove any."""
    entries = []
    with contextlib.suppress(OSError), os.scandir(home) as items:
        for item in items:
            if item.name.endswith((_SUFFIX, ".new")):
                with contextlib.suppress(OSError):  # another process evicts too
                    stat = item.stat()
                    entries.append((stat.st_mtime_ns, stat.st_size, item.path))
    total = sum(size for _, size, _ in entries)
    if total <= bound:
        return
    for _, size, path in sorted(entries):
        if total <= bound * 9 // 10:
            return
        with contextlib.suppress(OSError):
            os.unlink(path)
        total -= size
