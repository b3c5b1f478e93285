"""Every snippet of the documentation runs, page by page, in the order in which it is read.

An HTML comment on the line above a block says what happens to it::

    <!-- file: NAME -->     the block becomes a file of the page's own directory
    <!-- run: exit N -->    a console block: its ``$ command`` ends with N and prints what is shown
    <!-- raises: NAME -->   a python block ends with that exception; its output is the message
    <!-- output -->         shows output of the block before
    <!-- skip -->           nothing

Other python blocks share one namespace. ``...`` in shown output stands for anything.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
BLOCK = re.compile(r"(?:^<!-- ([^\n]+) -->\n)?^```(\w+)\n(.*?)^```$", re.M | re.S)
VARYING = re.compile(r"platform |rootdir: |configfile: |plugins: |=+ .* in [\d.]+s")
COMMANDS = {
    "pytest": ["-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly"],
    "perfassert": ["-c", "from perfassert.cli.main import run; run()"],
    "python": [],
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": page.stem}
    output = ""
    for mark, language, text in blocks(page):
        kind, _, argument = mark.partition(": ")
        if kind == "file":
            Path(argument).write_text(text, encoding="utf-8")
        elif kind == "run":
            command, _, shown = text.removeprefix("$ ").partition("\n")
            output = console(command, int(argument.removeprefix("exit ")))
            assert_shown(shown, output)
        elif kind == "output":
            assert_shown(text, output)
        elif language == "python" and kind != "skip":
            output = python(text, names, argument)


def blocks(page: Path) -> Iterator[tuple[str, str, str]]:
    """Mark, language and text of every fenced block."""
    return (match.groups("") for match in BLOCK.finditer(page.read_text("utf-8")))  # type: ignore[return-value]


def python(text: str, names: dict[str, Any], raises: str) -> str:
    with redirect_stdout(StringIO()) as printed:
        try:
            exec(compile(text, "<snippet>", "exec"), names)
        except Exception as error:
            if type(error).__name__ != raises:
                raise
            return str(error)
    assert not raises, f"does not raise {raises}:\n{text}"
    return printed.getvalue()


def console(command: str, expected: int) -> str:
    program, *arguments = shlex.split(command)
    environment = {**os.environ, "COLUMNS": "80", "PYTHONDONTWRITEBYTECODE": "1", "CI": ""}
    call = [sys.executable, *COMMANDS[program], *arguments]
    done = subprocess.run(call, env=environment, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == expected, done.stdout + done.stderr
    return done.stdout + done.stderr


def assert_shown(shown: str, output: str) -> None:
    """Every shown line occurs, save those that name the machine or the time taken."""
    for line in shown.splitlines():
        pattern = ".*".join(re.escape(part) for part in line.rstrip().split("..."))
        assert VARYING.match(line) or re.search(pattern, output), f"not in the output: {line}"
