"""Files of baselines on disk: beside the test module, replaced at once, never half."""

from __future__ import annotations

import errno
import os
import platform
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from perfassert.baseline.entry import BaselineKey, Entry
from perfassert.baseline.text import format_file, parse_file, remarks_of
from perfassert.errors import BaselineError
from perfassert.system.confined import outside, read_bytes

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

FOLDER = "__perf__"
_LOCK_TIMEOUT = 10.0  # seconds that another process may hold a file
_HOST = 64  # bytes of a host's name
_LARGEST = 64 << 20  # bytes: some ten thousand baselines


def folder_of(module: Path, name: str = "") -> Path:
    """``__perf__`` beside a test module; ``name``: of alternative baselines, a folder in it."""
    return module.parent / FOLDER / name


def file_of(module: Path, name: str = "") -> Path:
    """``<module>.toml`` in that folder."""
    return folder_of(module, name) / f"{module.stem}.toml"


def alternative(file: Path) -> str:
    """The name of the alternative baselines that a file holds, nothing for the usual ones."""
    return "" if file.parent.name == FOLDER else file.parent.name


def module_of(file: Path) -> Path:
    """The module, without its suffix, that a file of baselines belongs to."""
    return file.parents[1 if file.parent.name == FOLDER else 2] / file.stem


def orphans(folder: Path) -> list[Path]:
    """Files of baselines in ``folder`` whose module is no longer beside it."""
    beside = folder.parent if folder.name == FOLDER else folder.parent.parent
    modules = {p.stem for p in beside.iterdir() if p.is_file()}
    return sorted(p for p in folder.glob("*.toml") if p.stem not in modules)


def read(path: Path) -> dict[BaselineKey, Entry]:
    """The entries of a file, none where it does not exist; :class:`BaselineError` if it is bad."""
    try:
        size = path.stat().st_size
        content = read_bytes(path) if size <= _LARGEST else b""
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BaselineError(f"{path}: cannot be read: {error.strerror}") from None
    if size > _LARGEST:
        raise BaselineError(f"{path}: {size >> 20} MB are more than a file of baselines may have")
    return parse_file(content, str(path))


@dataclass(frozen=True, slots=True)
class Update:
    """Entries to write to one file, and keys to drop from it."""

    written: Mapping[BaselineKey, Entry] = field(default_factory=dict)
    dropped: frozenset[BaselineKey] = frozenset()

    def apply_to(self, entries: Mapping[BaselineKey, Entry]) -> dict[BaselineKey, Entry]:
        """The entries after it."""
        kept = {k: e for k, e in entries.items() if k not in self.dropped}
        return {**kept, **self.written}


def write(path: Path, update: Update) -> None:
    """Apply an update to what the file holds now: another process may have written meanwhile.

    The file is replaced at once; a file that cannot be read is left as it is, and
    :class:`BaselineError` says why. Without entries it goes, and its folder if that is empty. A
    link stays one.
    """
    if reason := outside(path):
        raise BaselineError(reason)
    path = path.resolve() if path.is_symlink() else path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _file_lock(path):
            entries = update.apply_to(read(path))
            if entries:
                old = path.read_text("utf-8-sig") if path.exists() else ""
                _replace(path, format_file(entries, remarks_of(old)))
            else:
                path.unlink(missing_ok=True)
    except OSError as error:
        raise BaselineError(f"{path}: cannot be written: {error.strerror or error}") from None
    if not entries:
        _drop_empty(path.parent)


def _drop_empty(folder: Path) -> None:
    """The folder of alternative baselines, and the one that it lies in."""
    for one in (folder, folder.parent) if folder.name != FOLDER else (folder,):
        if any(one.iterdir()):
            return
        one.rmdir()


def _replace(path: Path, text: str) -> None:
    if path.exists() and path.read_bytes() == text.encode():
        return
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with part.open("xb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            os.chmod(part, path.stat().st_mode & 0o777)
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


@contextmanager
def _file_lock(path: Path, now: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """Hold the lock of a file, so that one process writes it at a time.

    The process creates a lock file and locks it by the system, whose lock ends with the process. A
    lock file that was left by a process on another host is taken over only after a time without
    progress. If the system has no file locks (Windows, some network file systems), a user must
    delete the lock file of a process that was killed.
    """
    lock = path.with_name(f".{path.name}.lock")
    begin, seen = now(), _state(path, lock)
    while (handle := _acquire(lock, waited := now() > begin + _LOCK_TIMEOUT)) is None:
        if (state := _state(path, lock)) != seen:  # others get on: it is our turn later
            begin, seen = now(), state
        elif waited:
            raise BaselineError(
                f"{path}: another process has been writing it for {_LOCK_TIMEOUT:.0f} s; if none "
                f"is, delete {lock} and run the update again"
            )
        time.sleep(0.01)
    try:
        yield
    finally:
        if os.name == "nt":  # which deletes no file that is open
            os.close(handle)
        lock.unlink(missing_ok=True)
        if os.name != "nt":
            os.close(handle)


def _state(*places: Path) -> tuple[tuple[int, int], ...]:
    """Changes when another process has written, or has taken the lock."""
    states = []
    for place in places:
        try:
            status = place.lstat()
            states.append((status.st_ino, status.st_mtime_ns))
        except OSError:
            states.append((0, 0))
    return tuple(states)


def _acquire(lock: Path, waited: bool = False) -> int | None:
    """The open lock file, None while another process has it."""
    try:
        handle = os.open(lock, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
    except FileExistsError:
        return _acquire_abandoned(lock, waited)
    except PermissionError as error:
        if os.name == "nt":
            return None
        if error.errno != errno.EPERM or (waited and not lock.exists()):
            raise
        return _acquire_abandoned(lock, waited)  # what sshfs says of a file that is there
    return _claim(handle, lock, new=True)


def _acquire_abandoned(lock: Path, of_others: bool) -> int | None:
    """The lock file of a process that was killed; ``of_others``: on another host, too.

    Its first bytes are overwritten, so it must be a file that has no other name.
    """
    if fcntl is None:
        return None
    try:
        handle = os.open(lock, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError:
        if lock.is_symlink() or not lock.is_file():
            raise _not_a_lock(lock) from None
        raise
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(handle)
        raise _not_a_lock(lock)
    if of_others or os.read(handle, _HOST) == _host():
        return _claim(handle, lock, new=False)
    os.close(handle)
    return None


def _not_a_lock(lock: Path) -> BaselineError:
    return BaselineError(
        f"{lock}: is a link or no file, so it is no lock and is left alone; delete it and run the "
        "update again"
    )


def _claim(handle: int, lock: Path, new: bool) -> int | None:
    """``handle`` where nobody else has the lock file; without locks, where we made it."""
    owned = new
    try:
        if _exclusive(handle):
            owned = os.path.samestat(os.fstat(handle), lock.lstat())
        if owned:
            os.lseek(handle, 0, os.SEEK_SET)
            os.write(handle, _host())
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:
        os.close(handle)
        if owned:
            lock.unlink(missing_ok=True)
        raise
    os.close(handle)
    return None


def _exclusive(handle: int) -> bool:
    """Return True if the file is locked, False without locks; BlockingIOError if it is taken."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        return False
    return True


def _host() -> bytes:
    """Return this host's name, for locks that a network file system does not share."""
    return platform.node().encode()[:_HOST].ljust(_HOST)
