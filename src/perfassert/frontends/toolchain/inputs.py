"""Files behind a compiled result: recorded while compilers run, compared before a result is reused.

An entry of the cache is found in two steps. Its key (source, options, tools) leads to *records*:
for each earlier compilation the state of every file that the compiler's process opened, looked for
or started. The record whose states are the present ones leads to the result. Example, for a source
with ``#if __has_include("fast.h")``::

    key of k.cu  →  record 1: k.cu = 3fc1…, fast.h absent    → result 1
                    record 2: k.cu = 3fc1…, fast.h = 9ab0…   → result 2

Where the system does not report files (see :mod:`perfassert.system.watched_files`), the record has
what :mod:`.includes` follows in the text.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

from perfassert.system.processes import SYSTEM_FOLDERS, python_folders
from perfassert.system.watched_files import FileWatch, can_watch

from . import cache

T = TypeVar("T")
LOG = logging.getLogger("perfassert.toolchain")
ABSENT, SPECIAL = "absent", "special"
_RECORDS = 16  # records of one key, the latest last
_DIGEST = re.compile("[0-9a-f]{64}")
_DIGESTED = 4 << 20  # bytes: larger files are programs and libraries, known by size and time
_SETTINGS = ("/proc/", "/sys/", "/etc/")
"""Folders without code; ``/etc`` has the linker's cache, which any installation rewrites."""
_DEVICES = ("/dev/", "/run/")
"""Folders of devices and sockets; they have regular files if a checkout lies in memory."""
_SYSTEM = tuple(f"{folder}{os.sep}" for folder in SYSTEM_FOLDERS)
_SETTLED_NS = 2_000_000_000
"""Nanoseconds after which a folder's time tells its next change apart: file systems that count
seconds round to one or two of them."""
_SAME = "same content: "
"""Prefix of a record's entry that states which of some paths are the same file."""


class FilesChanged(Exception):
    """A file changed during its compilation, so the result belongs to no single state."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class FileStates:
    """States of files, each read once; the cache key already identifies the ``fixed`` folders."""

    def __init__(self, fixed: Iterable[Path] = (), by_time: Iterable[Path] = ()) -> None:
        self._identified = tuple(fixed)
        self._by_time = (*_SYSTEM, *(f"{folder}{os.sep}" for folder in by_time))
        self._known: dict[str, str] = {}
        self._real_folders: dict[str, str] = {}

    @cached_property
    def _fixed(self) -> tuple[str, ...]:
        """Fixed folders, each as it is named and with links resolved."""
        folders = (*map(str, self._identified), *python_folders())
        named = (*map(os.path.abspath, folders), *map(os.path.realpath, folders))
        return tuple(f"{folder}{os.sep}" for folder in dict.fromkeys(named))

    def get(self, path: str) -> str:
        """Return the state of a file at the time when this object was first asked."""
        if path not in self._known:
            self._known[path] = self.look(path)
        return self._known[path]

    def match(self, record: Record, recall: cache.Recall) -> bool:
        """Return True if each file has the state that the record has of it.

        ``recall`` keeps which files a folder lacks.
        """
        return all(self.get(path) == state for path, state in record.others.items()) and all(
            _has_none(folder, names, recall)
            or all(self.get(os.path.join(folder, name)) == ABSENT for name in names)
            for folder, names in record.absent.items()
        )

    def look(self, path: str) -> str:
        """Return the present state of a file: a digest, size and time, or a word for non-files."""
        if path.startswith(_SAME):
            return _identities(json.loads(path.removeprefix(_SAME)))
        try:
            info = os.stat(path)
            if stat.S_ISDIR(info.st_mode):
                return "folder"
            if not stat.S_ISREG(info.st_mode):
                return SPECIAL
            if info.st_size > _DIGESTED or path.startswith(self._by_time):
                return f"{info.st_size} {info.st_mtime_ns}"
            with open(path, "rb") as file:
                return digest(file.read())
        except (OSError, ValueError):
            return ABSENT

    def of(self, path: str, content: bytes) -> str:
        """Return the state of a file that was read just now."""
        if len(content) > _DIGESTED or path.startswith(self._by_time):
            return self.look(path)
        return digest(content)

    def counts(self, path: str) -> bool:
        """Return False for a file that cannot change a result, or whose change changes the key.

        A link counts wherever it leads, since the link can be replaced.
        """
        if path.startswith(_SETTINGS):
            return False
        if path.startswith(_DEVICES):
            return self.get(path) != SPECIAL
        inside = path.startswith(self._fixed) and os.pardir not in path.split(os.sep)
        return not inside or not self._real_path(path).startswith(self._fixed)

    def _real_path(self, path: str) -> str:
        """Return a path with links resolved; each folder is resolved once."""
        if os.path.islink(path):
            return os.path.realpath(path)
        folder, name = os.path.split(path)
        if folder not in self._real_folders:
            self._real_folders[folder] = os.path.realpath(folder)
        return os.path.join(self._real_folders[folder], name)

    def alike(self, files: Mapping[str, str]) -> dict[str, str]:
        """Return, for each group of files with the same content, which of them are one file.

        ``#pragma once`` compares identities and times: a copy is another file, a link is not.
        """
        groups: dict[str, list[str]] = {}
        for path, state in sorted(files.items()):
            if _DIGEST.fullmatch(state) and not path.startswith(_SAME):
                groups.setdefault(state, []).append(path)
        several = (f"{_SAME}{json.dumps(paths)}" for paths in groups.values() if len(paths) > 1)
        return {entry: self.look(entry) for entry in several}


def _has_none(folder: str, names: tuple[str, ...], recall: cache.Recall) -> bool:
    """Return True if a folder has no entry of these names, False if that is not known.

    Creations and removals change the folder's time, so that an answer can be recalled by it.
    """
    try:
        info = os.stat(folder)
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return False
    if time.time_ns() - info.st_mtime_ns < _SETTLED_NS:  # an entry could be new at the same time
        return False
    state = f"{folder} {info.st_dev} {info.st_ino} {info.st_mtime_ns} {names}"
    known: bool = recall(
        state, lambda: not any(os.path.lexists(os.path.join(folder, name)) for name in names)
    )
    return known


def _identities(paths: list[str]) -> str:
    """Return a number for each file by identity, and one for the time of its last change."""
    try:
        statuses = [os.stat(path) for path in paths]
    except OSError:
        return ABSENT
    files = [(info.st_dev, info.st_ino) for info in statuses]
    times = [info.st_mtime_ns for info in statuses]
    return str([(files.index(f), times.index(t)) for f, t in zip(files, times, strict=True)])


def digest(content: bytes) -> str:
    """Return the state of a file with this content."""
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True, eq=False)
class Record:
    """States of the files behind one result.

    A compiler looks for each header in several system folders, in vain in all but one. Files that
    such a folder lacks are not looked for again until the folder has changed.
    """

    files: Mapping[str, str]

    @cached_property
    def absent(self) -> Mapping[str, tuple[str, ...]]:
        """Files that are absent, by the system folder in which they were looked for."""
        names: dict[str, tuple[str, ...]] = {}
        for path, state in self.files.items():
            if state == ABSENT and path.startswith(_SYSTEM):
                folder, _, name = path.rpartition(os.sep)
                names[folder] = *names.get(folder, ()), name
        return names

    @cached_property
    def others(self) -> Mapping[str, str]:
        """The other files with their states."""
        return {
            path: state
            for path, state in self.files.items()
            if not (state == ABSENT and path.startswith(_SYSTEM))
        }

    def entry(self, key: str) -> str:
        """Return the key of the result that one of this key has with these files."""
        return cache.key([key, self._encoded])

    @cached_property
    def _encoded(self) -> str:
        return json.dumps(sorted(self.files.items()))


class Inputs:
    """Record of the files behind one result, gathered while the result is made.

    ``why_unknown`` has the reason if some files are unknown; such a result is not cached.
    """

    def __init__(self, states: FileStates, fallback: Callable[[], Mapping[str, str] | str]) -> None:
        self._states = states
        self._fallback = fallback
        """Function for the states of files by the source's text, or the reason if it has none."""
        self._private: tuple[str, ...] = ()
        self.files: dict[str, str] = {}
        self.why_unknown = ""

    def begin_part(self) -> Inputs:
        """Return an empty record with the same states, for a part that is cached by itself."""
        return Inputs(self._states, dict)

    def add(self, files: Mapping[str, str]) -> None:
        """Add files in the states that a part of the result was made from."""
        for path, state in files.items():
            counts = path.startswith(_SAME) or self._states.counts(path)
            if counts and self.files.setdefault(path, state) != state:
                raise FilesChanged(path)

    def watch(self, folder: str | Path | None) -> FileWatch | None:
        """Return a watch for one tool, which works in a private folder."""
        if folder is not None:
            self._private = (*self._private, os.path.realpath(folder), str(folder))
        return FileWatch(self._note_state) if can_watch() else None

    def finish(self, watch: FileWatch | None) -> None:
        """Complete the record after a tool; files that were not watched come from the text."""
        if watch is not None and watch.complete:
            return
        suggested = self._fallback()
        if isinstance(suggested, str):
            self.why_unknown = suggested
        else:
            self.add(suggested)

    def check(self) -> None:
        """Raise :class:`FilesChanged` if a file is no longer what was compiled."""
        for path, state in self.files.items():
            if self._states.look(path) != state:
                raise FilesChanged(path)

    def _note_state(self, path: str) -> None:
        known = path in self.files or path.startswith(self._private)
        if not known and self._states.counts(path):
            state = self._states.look(path)
            self.files[path] = state
            if state == SPECIAL:
                self.why_unknown = f"{path} is no regular file"


def remember(
    key: str,
    inputs: Inputs,
    make: Callable[[], T],
    read: Callable[[Any], T],
    write: Callable[[T], object],
    outer: Inputs | None = None,
    recall: cache.Recall = cache.recall_nothing,
) -> T:
    """Return the result that the cache has for the present files, else make and store it.

    Args:
        key: key of all that the result depends on except files; see :func:`.cache.key`.
        inputs: empty; gathers the files while ``make`` runs.
        make: makes the result and lets ``inputs`` see the files.
        read: makes a result of what ``write`` has made of one.
        outer: inputs of the result that this one is a part of.
        recall: keeps in memory what was read from the cache.

    Raises:
        FilesChanged: a file was changed while ``make`` ran.
    """

    def find_or_make() -> T:
        records: list[Record] = cache.load(key, _records, recall) or []
        for record in reversed(records):
            if inputs._states.match(record, recall):
                entry = record.entry(key)
                value: T | None = recall(entry, partial(cache.load, entry, read))
                if value is not None:
                    inputs.files = dict(record.files)
                    return value
        value = make()
        inputs.files |= inputs._states.alike(inputs.files)
        inputs.check()
        if inputs.why_unknown:
            _warn_once(inputs.why_unknown)
        else:
            cache.store(Record(inputs.files).entry(key), write(value))
            others = [r.files for r in records if r.files != inputs.files]
            cache.store(key, [*others[1 - _RECORDS :], inputs.files])
        return value

    value, files, unknown = cache.exclusively(
        key, lambda: (find_or_make(), inputs.files, inputs.why_unknown)
    )
    if outer is not None:
        outer.add(files)
        outer.why_unknown = outer.why_unknown or unknown
    return value


def _records(data: Any) -> list[Record]:
    return [Record({str(path): str(state) for path, state in files.items()}) for files in data]


_logged_reasons: set[str] = set()


def _warn_once(why: str) -> None:
    if why not in _logged_reasons:
        _logged_reasons.add(why)
        LOG.warning("%s: its code is compiled again each time", why)
