"""Text printed for an internal error: enough to report the bug, without data of the user."""

from __future__ import annotations

import os
import platform
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

from perfassert.version import MODEL_VERSION, VERSION

DEBUG = "PERFASSERT_DEBUG"
_OWN = Path(__file__).parents[1]
_MOST_FRAMES = 40  # in a report that a user sends


def wants_debug() -> bool:
    """Return True if the environment asks for the full traceback."""
    return os.environ.get(DEBUG, "") not in ("", "0")


def internal_error_text(error: BaseException, arguments: Sequence[str], debug: bool) -> str:
    """Version, command, Python, platform and places; with ``debug`` messages and code, too.

    Values of arguments, messages of exceptions and lines of code are left out: they may be the
    user's. So are the folders of files that are not perfassert's.
    """
    lines = [
        f"perfassert: internal error: {type(error).__name__}",
        "This is a mistake of perfassert. Please report it where you got perfassert (SECURITY.md",
        "says how, if it may be a weakness) with the lines below, which hold none of your code.",
        f"  perfassert {VERSION}, model {MODEL_VERSION}",
        f"  command: {_command(arguments)}",
        f"  Python {platform.python_version()} ({platform.python_implementation()}), "
        f"{platform.system()} {platform.release()} {platform.machine()}",
    ]
    if debug:
        return "\n".join([*lines, "".join(traceback.format_exception(error)).rstrip()])
    lines += [f"  {line}" for line in _places(error)]
    return "\n".join([*lines, f"With --debug, or {DEBUG}=1, messages and code are printed, too."])


def _command(arguments: Sequence[str]) -> str:
    """Return the command and its options; files are replaced by their kind."""
    words = ["perfassert"]
    command = next((word for word in arguments if not word.startswith("-")), "")
    for word in arguments:
        if word.startswith("-") and not word[1:2].isdigit():
            words.append(word.partition("=")[0] if word.startswith("--") else word[:2])
        elif word == command and word.replace("-", "").isalpha():
            words.append(word)
        else:
            suffix = Path(word).suffix
            words.append(f"…{suffix}" if suffix[1:].isalnum() and len(suffix) < 8 else "…")
    return " ".join(words)


def _places(error: BaseException, depth: int = 3) -> Iterator[str]:
    """Yield the frames of an error, innermost last, after those of the errors that led to it."""
    earlier = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if earlier is not None and depth:
        yield from _places(earlier, depth - 1)
        yield "which led to"
    frames = list(_frames(error.__traceback__))
    if len(frames) > _MOST_FRAMES:
        half = _MOST_FRAMES // 2
        frames = [*frames[:half], f"… {len(frames) - 2 * half} more", *frames[-half:]]
    yield from frames
    yield type(error).__name__


def _frames(here: TracebackType | None) -> Iterator[str]:
    for frame, line in traceback.walk_tb(here):
        file, own = _shorten_path(frame.f_code.co_filename)
        yield f"{file}:{line}" + (f" in {frame.f_code.co_name}" if own else "")


def _shorten_path(file: str) -> tuple[str, bool]:
    """Return a shortened path, and True if function names in the file may be shown.

    A path starts at perfassert's package, or at a library's folder; else only the file's name is
    kept.
    """
    path = Path(file)
    if path.is_relative_to(_OWN):
        return path.relative_to(_OWN.parent).as_posix(), True
    libraries = (p for p in map(Path, sys.path) if p.name in ("site-packages", "dist-packages"))
    for folder in (*libraries, Path(os.__file__).parent):
        if path.is_relative_to(folder):
            return path.relative_to(folder).as_posix(), True
    return f"…/{path.name}", False
