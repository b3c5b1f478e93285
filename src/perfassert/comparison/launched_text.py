"""Code and launches of two sides together: text, Markdown, plain data, annotations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perfassert.comparison import kernel_text
from perfassert.comparison import text as times_text
from perfassert.comparison.github import annotation
from perfassert.comparison.kernel_changes import CodeDiff
from perfassert.comparison.launched import LaunchComparison
from perfassert.report.markdown_parts import LIMIT, words
from perfassert.report.tables import Text, join

_LISTED, _LONGEST = 40, 300  # failures in a comment, characters of each


def text(code: CodeDiff, times: LaunchComparison) -> Text:
    """Return the output of the command for changes in code and in launches."""
    launches = join(("launches: ", times_text.text(times.comparison)), "")
    return join((kernel_text.text(code), launches, *_statements(times)))


def _statements(times: LaunchComparison) -> tuple[str, ...]:
    return (*times.failures, *times.changed, *times.unknown)


def markdown(code: CodeDiff, times: LaunchComparison, failed: bool, link: str = "") -> str:
    """Return a comment for a pull request; code and launches have a share of the length each."""
    statements = _statements(times)
    bullets = "".join(f"\n- {words(failure)[:_LONGEST]}" for failure in statements[:_LISTED])
    room = (LIMIT - len(bullets) - 40) // 2
    launches = times_text.markdown(times.comparison, failed, room)
    more = f"\n- … and {len(statements) - _LISTED} more" if len(statements) > _LISTED else ""
    return f"{launches}{bullets}{more}\n\n{kernel_text.markdown(code, failed, room, link)}"


def to_dict(code: CodeDiff, times: LaunchComparison) -> dict[str, Any]:
    """Return plain data that JSON can hold; ``launches`` as ``perfassert compare`` has them."""
    document = kernel_text.to_dict(code)
    lists = ("failures", "unknown", "changed")
    statements = {name: list(getattr(times, name)) for name in lists}
    document["launches"] = {**times_text.to_dict(times.comparison), **statements}
    return document


def warnings(code: CodeDiff, times: LaunchComparison) -> Iterator[str]:
    """Yield GitHub workflow commands, one line each."""
    yield from times_text.warnings(times.comparison)
    yield from (annotation("a launch moves too much", failure) for failure in times.failures)
    yield from kernel_text.warnings(code)
