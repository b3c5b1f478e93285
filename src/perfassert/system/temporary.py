"""Temporary folders that a later process removes if this one is killed.

The process that makes a folder locks it, and the system ends a lock together with its process. A
folder that nobody has locked is therefore abandoned. Where the system has no such locks (Windows,
some network file systems), folders of killed processes stay.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from types import ModuleType

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

_PREFIX = "perfassert-tmp-"
_NO_LOCKS = -1
"""Placeholder for a file descriptor on systems without file locks."""


@contextmanager
def temporary_folder(name: str = "") -> Iterator[Path]:
    """Make a folder, and remove it at the end, whatever happens.

    ``name`` makes its path the same in every run, unless a living process has that folder.
    """
    if name:
        remove_abandoned()
    else:
        _remove_abandoned_once()
    while (lock := lock_folder(folder := _new_folder(name))) is None:
        name = ""  # another process took it for abandoned
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        unlock_folder(lock)


def is_temporary(folder: Path) -> bool:
    """Return True for a path that :func:`temporary_folder` gave, whether or not it still exists."""
    return folder.name.startswith(_PREFIX)


def remove_abandoned() -> None:
    """Remove the temporary folders of this user's processes that were killed."""
    for folder in Path(gettempdir()).glob(f"{_PREFIX}*"):
        lock = lock_folder(folder)
        if lock is None or lock == _NO_LOCKS:
            continue
        if os.fstat(lock).st_uid == os.geteuid():
            shutil.rmtree(folder, ignore_errors=True)
        unlock_folder(lock)


_remove_abandoned_once = lru_cache(maxsize=1)(remove_abandoned)


def lock_folder(folder: Path) -> int | None:
    """Lock a folder until :func:`unlock_folder`; None if another process has it or removed it."""
    if fcntl is None:
        return _NO_LOCKS
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        return None if isinstance(error, FileNotFoundError) else _NO_LOCKS
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(handle), folder.stat()):
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:
        os.close(handle)
        return _NO_LOCKS
    os.close(handle)
    return None


def unlock_folder(lock: int | None) -> None:
    """End what :func:`lock_folder` began."""
    if lock is not None and lock != _NO_LOCKS:
        os.close(lock)


def is_abandoned(folder: Path) -> bool:
    """Return True for a folder that a process had locked until it ended."""
    lock = lock_folder(folder)
    unlock_folder(lock)
    return lock is not None and lock != _NO_LOCKS


def _new_folder(name: str) -> Path:
    if name:
        folder = Path(gettempdir(), f"{_PREFIX}{name}")
        with suppress(OSError):
            folder.mkdir(mode=0o700)
            return folder
    return Path(mkdtemp(prefix=_PREFIX))
