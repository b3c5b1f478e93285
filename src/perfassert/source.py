"""Where something was written: rides on every access and instruction, up to the advice."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SourceSpan:
    """A place in a text: file (or a label such as ``"loads[3]"``), line, column (1-based)."""

    file: str
    line: int = 0
    column: int = 0

    @property
    def short(self) -> str:
        """``"stencil.cu:42"``: the file without its folders, and the line."""
        return f"{self.file.rpartition('/')[2]}:{self.line}"

    def __str__(self) -> str:
        parts = [self.file]
        if self.line:
            parts.append(str(self.line))
            if self.column:
                parts.append(str(self.column))
        return ":".join(parts)


@dataclass(frozen=True, slots=True)
class Assumption:
    """What the model had to take for granted, with the place that made it necessary."""

    text: str
    span: SourceSpan | None = None

    def __str__(self) -> str:
        return f"{self.text} ({self.span})" if self.span else self.text


def caret(text: str, column: int) -> str:
    """``text`` with a caret below its 0-based ``column``."""
    return f"  {text}\n  {' ' * column}^"
