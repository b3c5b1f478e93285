"""Tests that run the snippets of the documentation, page by page, in one namespace per page.

An HTML comment above a block changes that: ``file: NAME`` writes it to the page's own directory,
``run: exit N`` runs its ``$ command``, ``raises: NAME`` wants that exception and takes its message
for the output, ``output`` is the output of the block before, ``holds: NAME`` is what that file has,
``skip`` skips it. In output and files, ``...`` stands for anything.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

import perfassert

ROOT = Path(__file__).parents[2]
PAGES = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")})
BLOCK = re.compile(r"(?:^<!-- ([^\n]+) -->\n)?^```(\w+)\n(.*?)^```$", re.M | re.S)
VARYING = re.compile(r"platform |rootdir: |configfile: |plugins: |=+ .* in [\d.]+s")
COMMANDS = {
    "pytest": ["-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly"],
    "perfassert": ["-c", "from perfassert.cli.main import run; run()"],
    "python": [],
}
ENVIRONMENT = {"COLUMNS": "80", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1", "CI": ""}


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": page.stem}
    output = ""
    for mark, language, text in BLOCK.findall(page.read_text("utf-8")):
        kind, _, argument = mark.partition(": ")
        assert kind in ("", "file", "run", "raises", "output", "holds", "skip"), mark
        if kind == "file":
            Path(argument).write_text(text, "utf-8")
        elif kind == "run":
            command, *shown = text.removeprefix("$ ").splitlines()
            output = console(command, int(argument.removeprefix("exit ")))
            assert_shown([line for line in shown if not VARYING.match(line)], output)
        elif kind == "output":
            assert_shown([text], output)
        elif kind == "holds":
            assert_shown([text], Path(argument).read_text("utf-8"))
        elif language == "python" and kind != "skip":
            output = python(text, names, argument)


def python(text: str, names: dict[str, Any], raises: str) -> str:
    with redirect_stdout(StringIO()) as printed:
        if not raises:
            exec(text, names)
            return printed.getvalue()
        with pytest.raises(getattr(perfassert, raises)) as caught:
            exec(text, names)
    return str(caught.value)


def console(command: str, expected: int) -> str:
    words = shlex.split(command)
    variables = dict(word.split("=", 1) for word in takewhile(lambda word: "=" in word, words))
    program, *arguments = words[len(variables) :]
    call = [sys.executable, *COMMANDS[program], *arguments]
    environment = os.environ | ENVIRONMENT | variables
    done = subprocess.run(call, env=environment, capture_output=True, encoding="utf-8")
    assert done.returncode == expected, done.stdout + done.stderr
    return done.stdout + done.stderr


def assert_shown(parts: list[str], output: str) -> None:
    for part in parts:
        pattern = ".*".join(re.escape(piece) for piece in part.rstrip().split("..."))
        assert re.search(pattern, output, re.S), f"{part}\n\nis not in the output:\n\n{output}"
