"""Compiled kernels on disk, found again by content.

One zlib-compressed JSON file per entry, written aside and moved into place, so that parallel test
runs may share a folder. An entry that cannot be read is a miss; a folder that cannot be written is
no cache. ``PERFASSERT_CACHE_DIR`` moves it, ``PERFASSERT_CACHE_SIZE`` bounds it, in bytes: the
entries that were not used for longest go first.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path

from perfassert.version import VERSION

from .binary import Binary, from_dict, to_dict

DEFAULT_SIZE = 512 << 20  # bytes
_FORMAT = 1
_SUFFIX = ".kernel"


def key(parts: Sequence[str]) -> str:
    """Of everything that the result depends on."""
    text = json.dumps([_FORMAT, VERSION, *parts])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def load(entry: str) -> Binary | None:
    """The entry, which now counts as used last; ``None`` where there is none to be read."""
    path = folder() / (entry + _SUFFIX)
    try:
        binary = from_dict(json.loads(zlib.decompress(path.read_bytes())))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, zlib.error):
        return None
    with contextlib.suppress(OSError):
        os.utime(path)
    return binary


def store(entry: str, binary: Binary) -> None:
    """Does nothing where the folder cannot be written."""
    content = zlib.compress(json.dumps(to_dict(binary)).encode(), 6)
    home = folder()
    aside = None
    try:
        home.mkdir(parents=True, exist_ok=True)
        handle, aside = tempfile.mkstemp(dir=home, suffix=".new")
        with open(handle, "wb") as file:
            file.write(content)
        os.replace(aside, home / (entry + _SUFFIX))
    except OSError:
        if aside is not None:
            with contextlib.suppress(OSError):
                os.unlink(aside)
        return
    _evict(home)


def folder() -> Path:
    """Where the entries lie."""
    env = os.environ
    if named := env.get("PERFASSERT_CACHE_DIR"):
        return Path(named)
    if sys.platform == "win32" and env.get("LOCALAPPDATA"):
        return Path(env["LOCALAPPDATA"], "perfassert", "cache")
    if base := env.get("XDG_CACHE_HOME"):
        return Path(base, "perfassert")
    return Path(os.path.expanduser("~"), ".cache", "perfassert")


def _evict(home: Path) -> None:
    """Down to nine tenths of the bound, so that not every store has to."""
    try:
        bound = int(os.environ.get("PERFASSERT_CACHE_SIZE", DEFAULT_SIZE))
    except ValueError:
        bound = DEFAULT_SIZE
    entries = []
    with contextlib.suppress(OSError), os.scandir(home) as found:
        for item in found:
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
