"""Files of others: what a pull request's sources may reach, and whose lines may be shown.

``PERFASSERT_CONFINED`` names the one folder that sources, headers and data may lie in, beside the
tools' own headers. If it is unset, they may lie anywhere. It is an environment variable because the
author of a pull request can edit every file that pytest reads its settings from.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from errno import EACCES
from pathlib import Path
from typing import BinaryIO

from perfassert.errors import PerfAssertError

FOLDER = "PERFASSERT_CONFINED"
_SOURCES = frozenset(
    ".cu .cuh .c .cc .cpp .cxx .h .hh .hpp .hxx .inl .inc .ipp .tpp .def .ptx .py .jl".split()
)
INCLUDE = re.compile(
    rb"(?:#|%:)\s*(?:(?:include(?:_next)?|import|embed)\b\s*(\"[^\"\n]*\"|<[^>\n]*>|[^\n]*)|/\*)"
)
"""Includes in a text, and more: matches in comments, strings and other lines count as well.

A directive with a comment between its parts matches without a name.
"""
_NO_SOURCES = ("/proc", "/sys", "/dev", "/etc", "/run", "/var/run", "/boot")
_TRIGRAPHS = (b"??/", b"??=")
"""Trigraphs of a line's continuation and of ``#``."""
_MOST_LINKS = 40
"""Most links in a path before Linux reports a loop."""
_BLANK_SPLICE = re.compile(rb"\\[ \t\f\v]*(?:\r\n?|\n)")


def confining() -> Path | None:
    """Return the folder that everything must lie in, with links resolved, or None.

    Raises:
        PerfAssertError: the variable leads through a symbolic link that a pull request can change,
            so that the pull request would decide where files are read.
    """
    named = os.environ.get(FOLDER)
    if not named:
        return None
    folder = Path(named)
    for link in _links(folder):
        if _can_replace(link):
            raise PerfAssertError(
                f"{FOLDER}={named}: {link} is a symbolic link in a folder that this job can "
                f"write, so whoever changed it decides what is read; name the folder itself, not "
                "a link"
            )
    return folder.resolve()


def _links(path: Path) -> Iterator[Path]:
    """Yield the symbolic links in a path, each with the real path of its folder."""
    place = Path(os.getcwd())
    parts = [*reversed(path.parts)]
    followed = 0
    while parts and followed < _MOST_LINKS:
        part = parts.pop()
        entry = place.parent if part == ".." else place / part
        if entry.is_symlink():
            yield entry
            followed += 1
            parts += reversed(Path(os.readlink(entry)).parts)
        else:
            place = entry


def leads_elsewhere(path: Path) -> str:
    """Return why a path that the user gave may not be used; empty if it may.

    The path may lie anywhere, but no symbolic link in the confined folder may decide a part of it.
    """
    within = confining()
    if within is None:
        return ""
    for link in _links(path):
        if link.is_relative_to(within):
            return (
                f"{link} is a symbolic link in {within}, which {FOLDER} names, so whoever made it "
                "decides where this is; delete the link or name another path"
            )
    return ""


def _can_replace(link: Path) -> bool:
    """Return False if only an administrator can change a link, as macOS' ``/tmp``."""
    return link.parent != Path(link.anchor) and os.access(link.parent, os.W_OK)


def outside(path: Path) -> str:
    """Return why a file may not be read; empty if it may. Links count as their targets."""
    within = confining()
    if within is None:
        return ""
    real = path.resolve()
    if within != real and within not in real.parents:
        return f"{path} lies outside of {within}, which {FOLDER} allows"
    return ""


def holds_more_than_sources(folder: Path) -> bool:
    """Return True for a folder with more than sources: processes, settings or home folders."""
    real = folder.resolve()
    home = Path.home().resolve()
    return real in (home, *home.parents) or any(real.is_relative_to(top) for top in _NO_SOURCES)


class OutsideFolder(PermissionError):
    """Error for a file outside of the folder that files are confined to."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(EACCES, reason, str(path))


def open_file(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file for reading that others may have named or written.

    Every such file is opened here. Raises :class:`OSError`; :class:`OutsideFolder` is one.
    """
    path = Path(path)
    if reason := outside(path):
        raise OutsideFolder(path, reason.removeprefix(f"{path} "))
    return path.open("rb")


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return the content of a file that others may have named or written."""
    with open_file(path) as file:
        return file.read()


def read_text(path: str | os.PathLike[str], encoding: str = "utf-8", errors: str = "strict") -> str:
    """Return such a file's content as text with one kind of line end."""
    with io.TextIOWrapper(open_file(path), encoding, errors) as file:
        return file.read()


def reaches_outside(content: bytes) -> str:
    """Return the first include in a text that cannot be followed; empty if there is none.

    An include with a path that goes up or starts at the root is followed elsewhere, with the
    folders that are searched.
    """
    if has_trigraph(content):
        return "a trigraph"
    for directive in _includes(content):
        name = (directive[1] or b"").strip()
        if name[:1] not in (b'"', b"<") or len(name) < 2 or b"embed" in directive[0][: -len(name)]:
            return directive[0].decode(errors="replace").strip()
    return ""


def included_names(content: bytes) -> list[str]:
    """Return the names in the ``#include`` directives of a text, without quotes."""
    names = ((directive[1] or b"").strip() for directive in _includes(content))
    return [n[1:-1].decode("utf-8", "surrogateescape") for n in names if n[:1] in (b'"', b"<")]


def has_trigraph(content: bytes) -> bool:
    """Return True if trigraphs in a text may hide an include from :data:`INCLUDE`."""
    return any(mark in text for text in splice_lines(content) for mark in _TRIGRAPHS)


def splice_lines(content: bytes) -> tuple[bytes, ...]:
    """Return the text with continued lines joined, by the rule of all compilers and by GCC's.

    GCC also accepts blanks after the backslash.
    """
    usual = content.replace(b"\\\r\n", b"").replace(b"\\\n", b"")
    return tuple(dict.fromkeys((usual, _BLANK_SPLICE.sub(b"", content))))


def _includes(content: bytes) -> Iterator[re.Match[bytes]]:
    return (directive for text in splice_lines(content) for directive in INCLUDE.finditer(text))


def is_source(file: str | Path) -> bool:
    """Return True if a file, and what its link leads to, has a source's suffix and no dot name."""
    both = (Path(file), Path(os.path.realpath(file)))
    return all(p.suffix.lower() in _SOURCES and not p.name.startswith(".") for p in both)


def may_be_shown(file: str | Path) -> bool:
    """Return True if a file's lines may be shown: line tables of code can name any file."""
    return is_source(file) and not outside(Path(file))
