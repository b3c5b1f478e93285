"""Tests that printed texts of strangers have no control characters or commands to GitHub."""

import io
import os
import re
import subprocess

import pytest

from perfassert.cli.main import main
from perfassert.cli.terminal import PrintableStream, raw

pytestmark = pytest.mark.skipif(os.name != "posix", reason="names that only POSIX allows")
KERNEL = "__global__ void k(float* x) { x[threadIdx.x] = 1; }\n"
BROKEN = "__global__ void k(float* x) { no }\n"
NAMES = [
    "::warning::read me.cu", "\x1b[31mred.cu", "a\n::error::b.cu", "a\r::error::b.cu",
    "\u202egnp.cu", "a\x07.cu", "a\x9b31m.cu", "  ::stop-commands::x.cu", "a\u2028::b.cu",
]  # fmt: skip
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029]")


@pytest.fixture
def sides(tmp_path, monkeypatch):
    """Two folders: the head has a broken file more, whatever its name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    for side in ("base", "head"):
        (tmp_path / side).mkdir()
        (tmp_path / side / "k.cu").write_text(KERNEL)
    return tmp_path


def checked(text, annotations=0):
    """No line is a command but so many of ours, and no letter controls a terminal."""
    assert not CONTROL.search(text), ascii(text)
    lines = [line for line in text.splitlines() if re.match(r"\s*::", line)]
    assert len(lines) <= annotations, lines
    assert all(line.startswith(("::warning file=", "::warning title=")) for line in lines)


@pytest.mark.exhaustive(one_in=8)
@pytest.mark.parametrize("form", [[], ["--markdown"], ["--json"], ["--github"]])
@pytest.mark.parametrize("name", NAMES)
def test_diff(sides, capsys, name, form):
    (sides / "head" / name).write_text(BROKEN)
    assert main(["diff", "base", "head", "--arch", "sm_80", *form]) == 1
    for text in capsys.readouterr():
        checked(text, annotations=2 if form == ["--github"] else 0)
        assert "✅" not in text


def test_a_tick_is_for_what_passes(sides, capsys):
    assert main(["diff", "base", "head", "--arch", "sm_80", "--markdown"]) == 0
    assert "✅" in capsys.readouterr().out
    (sides / "head" / "new.cu").write_text(BROKEN)
    assert main(["diff", "base", "head", "--arch", "sm_80", "--markdown"]) == 1
    assert capsys.readouterr().out.startswith("## ❌")
    (sides / "head" / "new.cu").write_text(KERNEL.replace("k(", "other("))
    assert main(["diff", "base", "head", "--arch", "sm_80", "--markdown", "--fail-on=new"]) == 1
    assert capsys.readouterr().out.startswith("## ❌")


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("command", ["kernels", "init", "predict", "explain"])
def test_errors(sides, capsys, name, command):
    more = {"kernels": ["--arch", "sm_80"], "init": ["--device", "a100"]}
    launch = ["--device", "a100", "--grid", "1", "--block", "32"]
    (sides / name).write_text(BROKEN)
    assert main([command, name, *more.get(command, launch)]) == 2
    for text in capsys.readouterr():
        checked(text)


@pytest.mark.parametrize("words", [["\x1b[31m"], ["diff", "--\x1b[31m=1"], ["devices", "\x1b[2J"]])
def test_usage(capsys, words):
    assert main(words) == 2
    for text in capsys.readouterr():
        checked(text)


def test_refs(sides, capsys):
    """A branch may be called nearly anything."""
    subprocess.run(["git", "init", "--quiet"], check=True)
    assert main(["diff", "::error::x", "\x1b[31mred"]) == 2
    for text in capsys.readouterr():
        checked(text)


def test_a_stream_of_text():
    inner = io.StringIO()
    stream = PrintableStream(inner)
    print("\x1b[31m::error::\n::warning::red\ttab", file=stream)
    assert inner.getvalue() == "\\x1b[31m::error::\n\\::warning::red\ttab\n"
    assert raw(stream) is inner
    assert raw(inner) is inner
    assert not stream.isatty()
