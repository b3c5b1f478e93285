"""Mechanical edits of CUDA source; None where they find no place.

They change no result, ``__restrict__`` as long as no two pointers meet.
"""

from __future__ import annotations

import re

_LOOP = re.compile(r"\s*(?:for|while)\b")
_UNROLL = re.compile(r"\s*#\s*pragma\s+unroll\b")
_BOUNDS = r"__launch_bounds__\s*\([^)]*\)"


def unroll_loop(text: str, line: int, factor: int) -> str | None:
    """``#pragma unroll factor`` before the loop that begins on that line."""
    lines = text.splitlines(keepends=True)
    if not 0 < line <= len(lines) or not _LOOP.match(lines[line - 1]):
        return None
    indent = re.match(r"[ \t]*", lines[line - 1])
    pragma = f"{indent.group() if indent else ''}#pragma unroll {factor}\n"
    before = line - 2
    if before >= 0 and _UNROLL.match(lines[before]):
        if lines[before] == pragma:
            return None
        lines[before] = pragma
    else:
        lines.insert(line - 1, pragma)
    return "".join(lines)


def relocate(place: str, before: str, after: str) -> str:
    """``"a.cu:42=128"`` of the text before → where that line is in the text after."""
    file, colon, rest = place.partition("=")[0].rpartition(":")
    number = re.match(r"\d+", rest)
    if not colon or number is None:
        return place
    old, new = before.splitlines(), after.splitlines()
    pairs = enumerate(zip(old, new, strict=False))
    edited = next((i for i, (one, other) in pairs if one != other), len(old))
    shift = len(new) - len(old) if int(number[0]) > edited else 0
    return f"{file}:{int(number[0]) + shift}{place[len(file) + 1 + number.end() :]}"


def add_launch_bounds(text: str, kernel: str, threads: int) -> str | None:
    """``__launch_bounds__(threads)`` on a kernel that states none."""
    declaration = _declaration(text, kernel)
    if declaration is None or re.search(_BOUNDS, declaration.group()):
        return None
    place = declaration.start("name")
    return f"{text[:place]}__launch_bounds__({threads}) {text[place:]}"


def add_restrict(text: str, kernel: str) -> str | None:
    """``__restrict__`` on every pointer among the kernel's parameters."""
    declaration = _declaration(text, kernel)
    if declaration is None:
        return None
    start = declaration.end()
    stop = _closing(text, start)
    parameters = text[start:stop]
    made = ",".join(map(_restrict, parameters.split(",")))
    return None if made == parameters else f"{text[:start]}{made}{text[stop:]}"


def _restrict(parameter: str) -> str:
    if "*" not in parameter or "__restrict" in parameter or "(" in parameter:
        return parameter
    head, _, name = parameter.rpartition("*")
    return f"{head}* __restrict__ {name.lstrip()}"


def _declaration(text: str, kernel: str) -> re.Match[str] | None:
    """Up to the opening parenthesis of its parameters."""
    name = re.escape(re.sub(r"<.*", "", kernel).split("(")[0].rpartition("::")[2].strip())
    return re.search(
        rf"__global__[^;{{}}]*?\bvoid\s+(?:{_BOUNDS}\s*)?(?P<name>{name})\s*\(", text
    )  # fmt: skip


def _closing(text: str, start: int) -> int:
    """The parenthesis that closes the one before ``start``."""
    depth = 1
    for place in range(start, len(text)):
        depth += (text[place] == "(") - (text[place] == ")")
        if not depth:
            return place
    return start
