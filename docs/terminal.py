"""Draw the terminal of README.md: ``python docs/terminal.py`` writes ``docs/assets/gate.svg``.

The first commit of ``examples/story`` is made, and pytest rejects it; the picture is what pytest
prints from the message on, on a terminal of 100 columns, wrapped at words. A test compares the two.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import wrap

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "assets" / "gate.svg"
sys.path.insert(0, str(ROOT / "examples" / "story"))

COLUMNS = 100
_WIDE, _TALL, _EDGE = 7.25, 17.0, 14.0  # of a character, of a line, around them; size 12
_BACK, _TEXT, _FAINT = "#14171a", "#d6dade", "#8b949e"
_RED, _GREEN, _YELLOW = "#ff7b72", "#56c271", "#e3b341"
_BLANK = "\u00a0"  # one that is not merged with the next
Line = tuple[str, str]
"""A line and its colour."""


def output() -> list[str]:
    """What pytest says of the commit, from the message of the failure to the verdict."""
    import story

    os.environ["COLUMNS"] = str(COLUMNS)
    with TemporaryDirectory() as folder:
        ((_, code, printed), *_) = story.play(Path(folder), "transpose")
    assert code == 1, printed
    said = [line for line in printed.splitlines() if line.startswith("E ")]
    return [line.removeprefix("E").removeprefix(7 * " ") for line in said]


def terminal() -> list[Line]:
    """The whole picture: the change, the command, what it prints."""
    import story

    commit = story.COMMITS[0]
    before = [
        ("$ git diff -U0 | tail -2", _GREEN),
        (f"-constexpr int {commit.old};", _RED),
        (f"+constexpr int {commit.new};", _GREEN),
        ("", _TEXT),
        ("$ pytest --perf-device a100", _GREEN),
    ]
    return [*before, *_coloured(output())]


def _coloured(lines: Iterable[str]) -> Iterator[Line]:
    for line in lines:
        first = line.split(" ", 1)[0]
        color = _YELLOW if "reverting this removes" in line else _TEXT
        color = _RED if first.startswith("perfassert.") or "REGRESSION" in line else color
        color = _FAINT if set(line) <= {"-", " "} else color
        wrapped = [line] if len(line) <= COLUMNS else wrap(line, COLUMNS)
        yield from ((part, color) for part in wrapped)


def svg(lines: list[Line]) -> str:
    """Its text as a picture; dark on every page, as terminals are."""
    width, height = COLUMNS * _WIDE + 2 * _EDGE, len(lines) * _TALL + 2 * _EDGE
    label = "pytest rejects a commit and names the cause of the slowdown"
    rows = [
        f'<text x="{_EDGE:g}" y="{_EDGE + _TALL * (n + 0.75):g}" fill="{color}" '
        f'textLength="{len(line) * _WIDE:g}">{escape(line).replace(" ", _BLANK)}</text>'
        for n, (line, color) in enumerate(lines)
        if line.strip()
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
            f'role="img" aria-label="{label}" font-family="ui-monospace, monospace" '
            'font-size="12">',
            f'<rect width="{width:g}" height="{height:g}" rx="8" fill="{_BACK}"/>',
            *rows,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    PICTURE.write_text(svg(terminal()), "utf-8")
