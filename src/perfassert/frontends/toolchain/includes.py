"""The user's files behind a source: itself, and what its ``#include`` directives may reach."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from perfassert.confined import (
    FOLDER,
    INCLUDE,
    confining,
    is_source,
    named,
    outside,
    reaches_outside,
    readings,
    spelled_otherwise,
)
from perfassert.errors import KernelSourceError

_PROBE = re.compile(rb"__has_include(?:_next)?\s*\(\s*([^)]*)\)")
_NAMED = re.compile(rb'"([^"\n]+)"|<([^>\n]+)>')
_LINE = 200  # bytes before a directive that are looked at: what follows more may be one


@dataclass(frozen=True, slots=True)
class Closure:
    """``files`` is path → content; ``complete`` is false where a directive names no file itself.

    ``around``: the same of files that the environment's folders bring, which are nobody's source.
    """

    files: dict[Path, bytes]
    complete: bool
    around: dict[Path, bytes] = field(default_factory=dict)

    def digest(self) -> str:
        """Changes when a file does, and when one appears or goes in any folder searched."""
        whole = hashlib.sha256()
        for path, content in sorted({**self.around, **self.files}.items()):
            whole.update(f"{path}\0{len(content)}\0".encode("utf-8", "surrogateescape"))
            whole.update(content)
        return whole.hexdigest()


def closure(
    path: Path,
    content: bytes,
    folders: Sequence[Path],
    extra: Iterable[str],
    around: Sequence[Path] = (),
) -> Closure:
    """Every file that an include of ``path`` may mean, in whichever folder it lies.

    Conditions and comments are not looked at: a file too many only costs a compilation.
    ``extra`` are files included from the command line, ``around`` the environment's folders. Other
    system headers are outside ``folders``; they change with the tools.
    """
    found = Closure({path: content}, True)
    queue = [path]
    complete = True
    for name in extra:
        _reach(name, folders, found.files, queue)
    while queue:
        current = queue.pop()
        own = found.files if current in found.files else found.around
        names, followed = _directives(own[current])
        complete &= followed
        for name in names:
            _reach(name, (current.parent,), own, queue)
            _reach(name, folders, found.files, queue)
            _reach(name, around, found.around, queue)
    return replace(found, complete=complete)


def _directives(content: bytes) -> tuple[list[str], bool]:
    """What a text includes or asks for by name, and whether that is all."""
    names: list[str] = []
    followed = not spelled_otherwise(content)
    for text in readings(content):
        said = [(found[1], _begins_line(text, found.start())) for found in INCLUDE.finditer(text)]
        for part, counts in (*said, *((probe, True) for probe in _PROBE.findall(text))):
            name = _NAMED.match((part or b"").strip())
            if name is not None:
                names.append((name[1] or name[2]).decode("utf-8", "surrogateescape"))
            elif counts:
                followed = False
    return names, followed


def _begins_line(text: bytes, at: int) -> bool:
    """Whether nothing but blanks and comments may stand before it."""
    before = text[max(0, at - _LINE) : at]
    line = before[max(before.rfind(b"\n"), before.rfind(b"\r")) + 1 :]
    blank = not line.removeprefix(b"\xef\xbb\xbf").strip()
    return blank or b"*/" in line or len(line) == _LINE


def _reach(name: str, folders: Iterable[Path], files: dict[Path, bytes], queue: list[Path]) -> None:
    for folder in folders:
        path = folder / name
        if path in files:
            continue
        try:
            files[path] = path.read_bytes()
        except (OSError, ValueError):
            continue
        queue.append(path)


def check_confined(found: Closure, folders: Sequence[Path]) -> None:
    """Where sources are confined: every file lies in their folder, is code, and names what it
    includes; raises :class:`KernelSourceError`."""
    if confining() is None:
        return
    real = {path.resolve() for path in found.files}
    for path, content in found.files.items():
        if why := outside(path):
            raise KernelSourceError(f"#include: {why}")
        if path.suffix and not is_source(path):
            raise KernelSourceError(f"#include: {path} is no source file; {FOLDER} is set")
        if said := reaches_outside(content):
            raise KernelSourceError(f"{path}: {said[:60]!r} cannot be followed; {FOLDER} is set")
        for name in named(content):
            upwards = Path(name).is_absolute() or ".." in Path(name).parts
            places = ((at / name).resolve() for at in (path.parent, *folders))
            if upwards and real.isdisjoint(places):
                raise KernelSourceError(
                    f"{path}: #include of {name!r} leads out of what {FOLDER} allows"
                )
