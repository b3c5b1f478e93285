"""Code and launches of two sides together: text, Markdown, plain data, annotations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perfassert.comparison import github, kernel_text
from perfassert.comparison import text as times_text
from perfassert.comparison.kernel_changes import CodeDiff
from perfassert.comparison.launched import Launched
from perfassert.report.markdown_parts import LIMIT, words
from perfassert.report.tables import Text, join

_LISTED, _LONGEST = 40, 300  # failures in a comment, characters of each


def text(code: CodeDiff, times: Launched | None) -> Text:
    """What the command prints."""
    parts: list[str | Text] = [kernel_text.text(code)]
    if times is not None:
        launches = join(("launches: ", times_text.text(times.comparison)), "")
        parts += [launches, *_statements(times)]
    return join(parts)


def _statements(times: Launched) -> tuple[str, ...]:
    return (*times.failures, *times.changed, *times.unknown)


def markdown(code: CodeDiff, times: Launched | None, failed: bool) -> str:
    """A comment for a pull request; each part takes its share."""
    if times is None:
        return kernel_text.markdown(code, failed)
    statements = _statements(times)
    bullets = "".join(f"\n- {words(failure)[:_LONGEST]}" for failure in statements[:_LISTED])
    room = (LIMIT - len(bullets) - 4) // 2
    launches = times_text.markdown(times.comparison, failed, room)
    return f"{launches}{bullets}\n\n{kernel_text.markdown(code, failed, room)}"


def to_dict(code: CodeDiff, times: Launched | None) -> dict[str, Any]:
    """Plain data that JSON can hold; ``launches`` as ``perfassert compare`` has them."""
    document = kernel_text.to_dict(code)
    if times is not None:
        lists = ("failures", "unknown", "changed")
        statements = {name: list(getattr(times, name)) for name in lists}
        document["launches"] = {**times_text.to_dict(times.comparison), **statements}
    return document


def warnings(code: CodeDiff, times: Launched | None) -> Iterator[str]:
    """Workflow commands, one line each."""
    if times is not None:
        yield from github.warnings(times.comparison)
        yield from (github.annotation("a launch moves too much", f) for f in times.failures)
    yield from kernel_text.warnings(code)
