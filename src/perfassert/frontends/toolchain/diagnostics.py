"""A compiler's complaints → one :class:`KernelSourceError` with its place."""

from __future__ import annotations

import re
from collections.abc import Mapping

from perfassert.errors import KernelSourceError

_CUDA = re.compile(
    r"^(?P<file>.+?)\((?P<line>\d+)\): (?:catastrophic |fatal )?error(?: #[\w-]+)?: (?P<text>.*)$"
)
_GCC = re.compile(r"^(?P<file>.+?):(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<text>.*)$")
_PTX = re.compile(r"^ptxas (?P<file>.+?), line (?P<line>\d+); (?:error|fatal)\s*: (?P<text>.*)$")
_FEATURE = re.compile(
    r"cannot be compiled for architecture|not supported on \.target|requires \.target"
)
_PLAIN = re.compile(r"^(?P<tool>ptxas|nvrtc|nvcc|nvdisasm)\b.*?(?:error|fatal)\s*: (?P<text>.*)$")


def failure(
    tool: str, log: str, where: str, texts: Mapping[str, str] | None = None
) -> KernelSourceError:
    """``file:line: message`` of the first error, with its source line and the count of the rest.

    The compiler's own source line and caret are kept; else ``texts`` (file → text) has the line.
    ``where`` is the place if the log names none.
    """
    lines = log.splitlines()
    found = [
        (i, m) for i, line in enumerate(lines) for p in (_CUDA, _PTX, _GCC) if (m := p.match(line))
    ]
    if not found:
        plain = next((m for line in lines if (m := _PLAIN.match(line))), None)
        said = (
            f"{plain['tool']}: {plain['text']}" if plain else f"{tool}: {log.strip() or 'failed'}"
        )
        return KernelSourceError(f"{where}: {said}")
    at, first = found[0]
    shown = _following(lines[at + 1 :]) or _quoted(texts or {}, first["file"], int(first["line"]))
    rest = f"\n({len(found) - 1} more)" if len(found) > 1 else ""
    place = f"{first['file']}:{first['line']}: {first['text'].strip()}"
    hint = "\noption -arch=sm_…a (or f) compiles for features of one architecture"
    rest += hint if _FEATURE.search(first["text"]) else ""
    return KernelSourceError("\n".join([place, *shown]) + rest)


def _following(lines: list[str]) -> list[str]:
    """What a front end prints below its message: the line and a caret, up to a blank line."""
    shown: list[str] = []
    for line in lines[:6]:
        if not line.startswith(" "):
            break
        shown.append(line.rstrip())
    return shown


def _quoted(texts: Mapping[str, str], file: str, line: int) -> list[str]:
    lines = texts.get(file, "").split("\n")
    return [f"  {lines[line - 1].strip()}"] if 0 < line <= len(lines) and lines[line - 1] else []
