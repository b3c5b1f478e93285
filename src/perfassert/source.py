"""Source positions, which every access and instruction carries up to the advice."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

_CARRIED = re.compile(r"[\"\\\n\r]|%(?=22|5C|0A|0D|25)")
_ENCODED = re.compile(r"%(22|5C|0A|0D|25)")
_OCTAL = re.compile(r"(?:\\[23][0-7]{2})+")


CUDA_SUFFIXES = (".cu", ".cpp", ".cc", ".cxx")
"""Suffixes of CUDA files. Those of C++ belong to programs that also build without CUDA."""


@dataclass(frozen=True, slots=True)
class SourceSpan:
    """A place in a text: file (or a label such as ``"loads[3]"``), line, column (1-based)."""

    file: str
    line: int = 0
    column: int = 0

    @property
    def short(self) -> str:
        """``"stencil.cu:42"``: the file without its folders, and the line where there is one."""
        name = self.file.rpartition("/")[2]
        return f"{name}:{self.line}" if self.line else name

    def __str__(self) -> str:
        parts = [self.file]
        if self.line:
            parts.append(str(self.line))
            if self.column:
                parts.append(str(self.column))
        return ":".join(parts)


def encode_file_name(name: str) -> str:
    """Return a file's name as compilers can carry it; :func:`file_name` decodes the name.

    Compilers do not escape a quote in PTX, and take a backslash for a separator of folders.

    Example:
        >>> encode_file_name('my"kernels/k.cu')
        'my%22kernels/k.cu'
    """
    if os.name == "nt":
        return name
    return _CARRIED.sub(lambda m: f"%{ord(m[0]):02X}", name)


def file_name(text: str) -> str:
    """Decode a file's name in which NVIDIA's tools write bytes beyond ASCII as octal escapes."""
    if os.name == "nt":  # where a backslash is something else
        return text
    text = _ENCODED.sub(lambda m: chr(int(m[1], 16)), text)
    return _OCTAL.sub(lambda m: os.fsdecode(bytes(int(o, 8) for o in m[0].split("\\")[1:])), text)


def without_folder(text: str, folder: str | os.PathLike[str]) -> str:
    """Return a text in which the paths below a folder are relative to it.

    The folder may be relative to the current one; the text then has relative or absolute paths.

    Example:
        >>> without_folder("/a/src/k.cu:1: in /a/src/h.cuh", "/a/src")
        'k.cu:1: in h.cuh'
        >>> without_folder("/a/src/k.cu:1", "src")
        '/a/src/k.cu:1'
    """
    spellings = {os.fspath(folder), os.path.abspath(folder), os.path.realpath(folder)}
    starts = "|".join(re.escape(os.path.join(one, "")) for one in sorted(spellings, reverse=True))
    return re.sub(rf"(?<![^\s'\"`(<\[:,;=])(?:{starts})", "", text)


DISAGREEMENT = "disagreement"
"""Kind of an assumption: executed warps contradict a closed form; no number on it is safe."""
INSTANCE = "instance"
"""Kind of an assumption: a template instance that the source lacks; predictions stay sound."""
CORRECTED = "a closed form differs from executed blocks, which are used instead"
"""Text with which an assumption begins if executed blocks replaced a closed form."""
STAND_INS = (
    "address",
    "layout",
    "sample",
    "trip count",
    "branch",
    "opcode",
    "call",
    "rate",
    DISAGREEMENT,
)
"""Kinds of facts that an assumption can stand in for; numbers that rest on one are guesses."""


@dataclass(frozen=True, slots=True)
class Assumption:
    """Assumption that the model had to make, with the place that made it necessary.

    Attributes:
        text: what is assumed.
        span: the access or line that made it necessary; None where there is none.
        stands_for: which unknown fact of the kernel the assumed value replaces: ``"address"``,
            ``"layout"`` of a texture or tensor that is not described, of what is looked up in
            constant memory, or of what atomics change, ``"sample"`` of a block that was executed in
            part, or of blocks that are few and differ, ``"trip count"``, ``"branch"``,
            ``"opcode"``, ``"call"`` of a function that is not followed, ``"instance"`` of a
            template that its source does not have, ``"rate"`` or ``"disagreement"``; else empty.
        share: fraction of the predicted instructions or bytes, whichever is more, that rests on it;
            0 until a launch is predicted.
    """

    text: str
    span: SourceSpan | None = None
    stands_for: str = ""
    share: float = 0.0

    def __str__(self) -> str:
        return f"{self.text} ({self.span})" if self.span else self.text


def caret(text: str, column: int) -> str:
    """``text`` with a caret below its 0-based ``column``."""
    return f"  {text}\n  {' ' * column}^"
