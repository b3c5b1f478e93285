"""The user's files that a compilation may read: the source and all that it may include."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perfassert.errors import KernelSourceError
from perfassert.system.confined import (
    FOLDER,
    INCLUDE,
    confining,
    has_trigraph,
    included_names,
    is_source,
    outside,
    reaches_outside,
    splice_lines,
)

MOST_FILES = 20_000  # that a compilation may read
MOST_BYTES = 256 << 20  # bytes of all files together
MOST_LOOKUPS = 1_000_000  # names looked up, each once in a folder
_BLANK = rb"(?:\s|/\*(?:[^*]|\*(?!/)){0,4096}\*/)*"
_PROBE = re.compile(
    rb"__has_(?:include(?:_next)?|embed)" + _BLANK + rb"\(" + _BLANK + rb"([^)]{0,4096})"
)
_ASKED = re.compile(rb"__has_(?:include|embed)")
_PASTED = re.compile(rb"##|%:%:")
_NAMED = re.compile(rb'"([^"\n]+)"|<([^>\n]+)>')
_CUT_OFF = "includes were followed no further"
_LINE = 200  # bytes checked before a directive; behind more bytes it counts as one


@dataclass(frozen=True, slots=True)
class Closure:
    """Files that a source may include.

    ``files`` maps path to content. ``around`` does so for files in the environment's folders, which
    are no user sources. ``unknown`` has the reason if the text does not name all files that it
    reads. A path is the resolved folder with the unresolved name in it: a link to a file stays a
    link, because compilers search its includes beside the link. ``looked_up`` has every file name
    that was searched for, found or not.
    """

    files: dict[Path, bytes]
    unknown: str
    around: dict[Path, bytes] = field(default_factory=dict)
    looked_up: tuple[str, ...] = ()


def closure(
    path: Path,
    content: bytes,
    folders: Sequence[Path],
    extra: Iterable[str],
    around: Sequence[Path] = (),
) -> Closure:
    """Return every file that an include of ``path`` may mean, in any of the folders.

    Conditions and comments are ignored, as an extra file only costs a compilation. ``extra`` has
    files included from the command line, ``around`` the environment's folders. Other system headers
    are not followed. Each file is read once.
    """
    search = _Search(path, content)
    searched, environment = tuple(map(str, folders)), tuple(map(str, around))
    files, others = search.files, search.around
    directives: dict[Path, list[str]] = {}
    try:
        for name in extra:
            search.reach(name, searched, files)
        while search.queue:
            current = search.queue.pop()  # again if it turns out to be the user's
            own = files if current in files else others
            if current not in directives:
                directives[current], followed = _directives(own[current])
                search.unknown = search.unknown or followed
            parent = (str(current.parent),)
            for name in directives[current]:
                search.reach(name, parent, own)
                search.reach(name, searched, files)
                search.reach(name, environment, others)
    except _Exceeded as exceeded:
        search.unknown = f"{_CUT_OFF} {exceeded}"
    return Closure(files, search.unknown, others, tuple(search.places))


class _Exceeded(Exception):
    """The search met more includes than it follows."""


class _Search:
    """State of a search: the files found, and those still to be read."""

    def __init__(self, path: Path, content: bytes) -> None:
        self.files = {path: content}
        self.around: dict[Path, bytes] = {}
        self.queue = [path]
        self.unknown = ""
        self.places: dict[str, Path | None] = {}
        self._asked: set[tuple[str, tuple[str, ...], bool]] = set()
        self._bytes = len(content)
        self._real: dict[str, str] = {}

    def reach(self, name: str, folders: tuple[str, ...], files: dict[Path, bytes]) -> None:
        """Add the files that ``name`` means in ``folders`` to ``files``."""
        asked = (name, folders, files is self.files)
        if asked in self._asked:
            return
        self._asked.add(asked)
        for folder in folders:
            path = self._place(os.path.join(folder, name))
            if path is None or path in files:
                continue
            content = self.files.get(path, self.around.get(path))
            if content is None and (content := self._read(path)) is None:
                continue
            files[path] = content
            self.queue.append(path)

    def _place(self, name: str) -> Path | None:
        """Return the resolved place of a name such as ``"../d/b.h"``; ``None`` if it is missing."""
        if name in self.places:
            return self.places[name]
        if len(self.places) >= MOST_LOOKUPS:
            raise _Exceeded(f"after {MOST_LOOKUPS} lookups of names in folders")
        path = None
        folder, base = os.path.split(name)
        if _exists(name):
            if folder not in self._real:
                self._real[folder] = os.path.realpath(folder)
            path = Path(self._real[folder], base)
        self.places[name] = path
        return path

    def _read(self, path: Path) -> bytes | None:
        """Return the content of a regular file; None for other files, which may have no end."""
        if len(self.files) + len(self.around) >= MOST_FILES:
            raise _Exceeded(f"after {MOST_FILES} files")
        left = MOST_BYTES - self._bytes
        try:
            if not stat.S_ISREG(os.stat(path).st_mode):
                self.unknown = f"{path} is no regular file"
                return b""
            with path.open("rb") as file:
                content = file.read(left + 1)
        except OSError:
            return None
        if len(content) > left:
            raise _Exceeded(f"after {MOST_BYTES >> 20} MiB of files")
        self._bytes += len(content)
        return content


def _exists(name: str) -> bool:
    """Return True if the name can be included: it is any file but a folder."""
    try:
        return not stat.S_ISDIR(os.stat(name).st_mode)
    except (OSError, ValueError):
        return False


def _directives(content: bytes) -> tuple[list[str], str]:
    """Return the names that a text includes or tests, and why there may be others, or ``""``.

    The names are complete if every directive and ``__has_include`` has a literal name, and no macro
    uses ``##``, which could make such words.
    """
    names: list[str] = []
    unknown = "has a trigraph" if has_trigraph(content) else ""
    for text in splice_lines(content):
        if _PASTED.search(text) or len(_PROBE.findall(text)) < len(_ASKED.findall(text)):
            unknown = "may ask for files by __has_include that it does not name literally"
        includes = [
            (match[1], _begins_line(text, match.start())) for match in INCLUDE.finditer(text)
        ]
        for part, counts in (*includes, *((probe, True) for probe in _PROBE.findall(text))):
            name = _NAMED.match((part or b"").strip())
            if name is not None:
                names.append((name[1] or name[2]).decode("utf-8", "surrogateescape"))
            elif counts:
                unknown = "includes a file that it does not name literally"
    return names, unknown


def _begins_line(text: bytes, at: int) -> bool:
    """Return True if only blanks and comments may stand before a position in its line."""
    before = text[max(0, at - _LINE) : at]
    line = before[max(before.rfind(b"\n"), before.rfind(b"\r")) + 1 :]
    blank = not line.removeprefix(b"\xef\xbb\xbf").strip()
    return blank or b"*/" in line or len(line) == _LINE


def check_confined(files: Closure, folders: Sequence[Path]) -> None:
    """Raise :class:`KernelSourceError` for sources that leave the folder they are confined to.

    All files and all searched folders must lie in it, since a file is code and names its includes.
    """
    if confining() is None:
        return
    for folder in folders:
        if why := outside(folder):
            raise KernelSourceError(f"include folder: {why}")
    if files.unknown.startswith(_CUT_OFF):
        raise KernelSourceError(f"#include: {files.unknown}; {FOLDER} is set")
    inside = {path: content for path, content in files.files.items() if not outside(path)}
    real = {path.resolve() for path in inside}
    for path, content in inside.items():
        if path.suffix and not is_source(path):
            raise KernelSourceError(f"#include: {path} is no source file; {FOLDER} is set")
        if b"\0" in content:  # compilers skip NUL, even in a directive
            raise KernelSourceError(f"#include: {path} has a NUL byte; {FOLDER} is set")
        probes = [part.strip() for text in splice_lines(content) for part in _PROBE.findall(text)]
        unnamed = [part for part in probes if _NAMED.fullmatch(part) is None]
        if unfollowed := reaches_outside(content) or b" ".join(unnamed).decode(errors="replace"):
            raise KernelSourceError(
                f"{path}: {unfollowed[:60]!r} cannot be followed; {FOLDER} is set"
            )
        asked = [part[1:-1].decode("utf-8", "surrogateescape") for part in probes]
        for name in (*included_names(content), *asked):
            upwards = Path(name).is_absolute() or ".." in Path(name).parts
            places = ((at / name).resolve() for at in (path.parent, *folders))
            if upwards and real.isdisjoint(places):
                raise KernelSourceError(
                    f"{path}: #include of {name!r} leads out of what {FOLDER} allows"
                )
    for path in files.files.keys() - inside.keys():  # reached by a link or named by an option
        raise KernelSourceError(f"#include: {outside(path)}")
