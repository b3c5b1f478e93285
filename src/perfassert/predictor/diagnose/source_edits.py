"""Edits of CUDA source that leave every line where it is; None where they find no place.

They change no result, single-precision literals but in accuracy.
"""

from __future__ import annotations

import re
from collections.abc import Collection

_LOOP = re.compile(r"[^/\"]*?\b(?=(?:for|while|do)\b)")
_UNROLL = re.compile(r"\s*#\s*pragma\s+(?:GCC\s+|clang\s+loop\s+)?(?:no)?unroll\b.*")
_KEPT_APART = re.compile(r"\b__noinline__\b")
_DOUBLE = re.compile(r"(?<![\w.])((?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)(?![\w.])")
_MATH = re.compile(
    r"\b(sqrt|rsqrt|exp|exp2|log|log2|log10|pow|sin|cos|tan|tanh|fabs|floor|ceil|fma|fmin|fmax)"
    r"(?=\s*\()"
)


def unroll_loop(text: str, line: int, factor: int) -> str | None:
    """Ask for ``factor`` copies of the body of the loop that begins on that line."""
    lines = text.splitlines(keepends=True)
    loop = _LOOP.match(lines[line - 1]) if 0 < line <= len(lines) else None
    if loop is None:
        return None
    if line > 1 and _UNROLL.fullmatch(lines[line - 2].rstrip("\r\n")):
        lines[line - 2] = _UNROLL.sub("", lines[line - 2])
    start, rest = loop.group(), lines[line - 1][loop.end() :]
    lines[line - 1] = f'{start}_Pragma("unroll {factor}") {rest}'
    return "".join(lines)


def inline_calls(text: str) -> str | None:
    """Inline every function that the source keeps apart."""
    made = _KEPT_APART.sub("__forceinline__", text)
    return made if made != text else None


def use_single_precision(text: str, lines: Collection[int]) -> str | None:
    """Write literals of double precision on these lines, and mathematical functions, as floats."""
    split = text.splitlines(keepends=True)
    for line in lines:
        if 0 < line <= len(split):
            split[line - 1] = _MATH.sub(r"\1f", _DOUBLE.sub(r"\1f", split[line - 1]))
    made = "".join(split)
    return made if made != text else None
