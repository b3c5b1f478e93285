"""The user's files behind a source: itself, and what its ``#include`` directives may reach."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from perfassert.confined import FOLDER, confining, is_source, named, outside, reaches_outside
from perfassert.errors import KernelSourceError

_DIRECTIVE = re.compile(rb"^[ \t]*#[ \t]*include(?:_next)?\b[ \t]*(.*)$", re.MULTILINE)
_PROBE = re.compile(rb"__has_include(?:_next)?\s*\(\s*([^)]*)\)")
_NAMED = re.compile(rb'"([^"\n]+)"|<([^>\n]+)>')


@dataclass(frozen=True, slots=True)
class Closure:
    """``files`` is path → content; ``complete`` is false where a directive names no file itself."""

    files: dict[Path, bytes]
    complete: bool

    def digest(self) -> str:
        """Changes when a file does, and when one appears or goes in any folder searched."""
        whole = hashlib.sha256()
        for path in sorted(self.files):
            whole.update(f"{path}\0{len(self.files[path])}\0".encode("utf-8", "surrogateescape"))
            whole.update(self.files[path])
        return whole.hexdigest()


def closure(path: Path, content: bytes, folders: Sequence[Path], extra: Iterable[str]) -> Closure:
    """Every file that an include of ``path`` may mean, in whichever folder it lies.

    Conditions and comments are not looked at: a file too many only costs a compilation.
    ``extra`` are files included from the command line. System headers are outside ``folders``;
    they change with the tools.
    """
    files = {path: content}
    complete = True
    queue = [path]
    for name in extra:
        _reach(name, folders, files, queue)
    while queue:
        current = queue.pop()
        text = files[current].replace(b"\\\r\n", b"").replace(b"\\\n", b"")
        for found in (*_DIRECTIVE.findall(text), *_PROBE.findall(text)):
            named = _NAMED.match(found.strip())
            if named is None:
                complete = False
                continue
            name = (named[1] or named[2]).decode("utf-8", "surrogateescape")
            _reach(name, (current.parent, *folders), files, queue)
    return Closure(files, complete)


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
