"""On a terminal tables fit and bars count; piped, nothing is changed."""

import json
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from rich.cells import cell_len

from perfassert.cli import terminal
from perfassert.cli.terminal import progress, say
from perfassert.report.tables import join, table

LONG = "a word and another one " * 8
ROWS = [("FAIL", "time", LONG), ("ok", "", "μ×")]
TEXT = join(["heading", table(("verdict", "metric", "note"), ROWS), "end"])
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def on_terminal(monkeypatch):
    """60 columns wide, with colours. Within the test: another phase captures anew."""
    for stream in ("stdout", "stderr"):
        monkeypatch.setattr(getattr(sys, stream), "isatty", lambda: True, raising=False)
    for name in ("NO_COLOR", "CI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm-256color")


def test_pipes_get_the_text_as_it_is(capsys):
    say(TEXT)
    with progress("work") as bar:
        bar(1, 2)
    assert capsys.readouterr() == (f"{TEXT}\n", "")


def test_tables_fit_the_terminal_and_lose_no_word(capsys, monkeypatch):
    on_terminal(monkeypatch)
    say(TEXT)
    out = capsys.readouterr().out
    plain = ESCAPES.sub("", out)
    assert max(map(cell_len, plain.splitlines())) <= 60
    assert plain.count("another") == LONG.count("another")
    assert re.search(r"\x1b\[1;31mFAIL", out)
    assert "---" not in plain


def test_a_text_that_looks_like_markup_is_text(capsys, monkeypatch):
    on_terminal(monkeypatch)
    say(join(["[red]kernel[/red] :smile:", table(("name",), [("[bold]a[/bold]",)])]))
    out = capsys.readouterr().out
    assert "[red]kernel[/red] :smile:" in out
    assert "[bold]a[/bold]" in out


def test_text_that_looks_like_a_table_is_text(capsys, monkeypatch):
    on_terminal(monkeypatch)
    say("kernel  time\n------  ----\nFAIL    1 ms")
    assert ESCAPES.sub("", capsys.readouterr().out) == "kernel  time\n------  ----\nFAIL    1 ms\n"


def test_lines_around_a_table_are_as_far_apart_as_in_a_pipe(capsys, monkeypatch):
    on_terminal(monkeypatch)
    say(join(["head:\n", table(("a", "b"), [(1, 2)], indent="  "), "\n\nend"], ""))
    assert ESCAPES.sub("", capsys.readouterr().out).split("\n") == [
        "head:", "  a  b", "  1  2", "", "end", "",
    ]  # fmt: skip


def test_colours_can_be_turned_off(capsys, monkeypatch):
    on_terminal(monkeypatch)
    monkeypatch.setenv("NO_COLOR", "1")
    say(TEXT)
    assert "\x1b[1;31m" not in capsys.readouterr().out


def test_a_bar_counts_and_says_what_is_left(capsys, monkeypatch):
    on_terminal(monkeypatch)
    with progress("rows") as bar:
        bar(2, 8)
        bar(4, 8, "clock")
    said = ESCAPES.sub("", capsys.readouterr().err)
    assert "4/8" in said
    assert "clock" in said
    assert re.search(r"\d:\d\d|-:--", said)


def test_a_log_gets_a_line_now_and_then(capsys, monkeypatch):
    monkeypatch.setattr(terminal, "EVERY", 0.05)
    with progress("kernels of k.cu") as bar:
        time.sleep(0.12)
        bar(3, 150, "axpy")
        time.sleep(0.12)
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert lines[0] == "perfassert: kernels of k.cu, 0 s"
    assert lines[-1] == "perfassert: kernels of k.cu: 3 of 150, axpy, 0 s"
    assert 2 <= len(lines) <= 5


def test_a_log_gets_nothing_of_short_work(capsys):
    with progress("rows") as bar:
        bar(1, 2)
    assert capsys.readouterr() == ("", "")
    assert terminal.EVERY == 10.0


def test_a_terminal_shows_work_of_unknown_length_at_once(capsys, monkeypatch):
    on_terminal(monkeypatch)
    with progress("kernels of [k].cu"):
        pass
    said = capsys.readouterr()
    assert said.out == ""
    assert "kernels of [k].cu" in ESCAPES.sub("", said.err)


def test_a_program_that_prints_is_not_drawn_over(capsys, monkeypatch):
    on_terminal(monkeypatch)
    monkeypatch.setattr(terminal, "SOON", 0.02)
    with progress("recording ./app", alone=False):
        time.sleep(0.1)
    assert terminal.SOON <= 2
    assert capsys.readouterr().err == "perfassert: recording ./app, 0 s\n"


def test_work_that_fails_ends_its_lines(capsys, monkeypatch):
    monkeypatch.setattr(terminal, "EVERY", 0.02)
    with pytest.raises(ValueError, match="broken"), progress("rows"):
        raise ValueError("broken")
    time.sleep(0.06)
    assert capsys.readouterr().err == ""
    assert not [t for t in threading.enumerate() if t.name == terminal.THREAD]


SLOW = """
import sys, time
import perfassert.cli.terminal as terminal
from perfassert.cli.main import main
import {module} as module
terminal.EVERY = 0.05
real = module.{name}
def slow(*given, **how):
    time.sleep(0.3)
    return real(*given, **how)
module.{name} = slow
sys.exit(main(sys.argv[1:]))
"""
WORK = [
    ("perfassert.frontends.cuda.inventory", "list_kernels", ["kernels", "{cubin}"]),
    ("perfassert.frontends.cuda.inventory", "list_kernels",
     ["init", "{cubin}", "-o", "{folder}/t.py", "--json"]),
    ("perfassert.comparison.sides", "list_kernels", ["diff", "{cubin}", "{cubin}", "--json"]),
    ("perfassert.facade.session", "predict",
     ["predict", "{sass}", "--device", "a100", "--grid", "8", "--block", "64", "--arg", "n=512",
      "--arg", "a=2", "--json"]),
    ("perfassert.facade.session", "predict",
     ["rank", "{sass}", "--device", "a100", "--domain", "512", "--blocks", "64;128", "--arg",
      "n=512", "--arg", "a=2", "--json"]),
    ("perfassert.comparison.history", "history", ["history", "--json"]),
    ("perfassert.comparison.history", "history", ["bisect", "test_none"]),
    ("subprocess", "run", ["docs", "{folder}/nothing", "-o", "{folder}/page.md"]),
]  # fmt: skip


@pytest.mark.exhaustive(one_in=8)
@pytest.mark.parametrize(("module", "name", "words"), WORK, ids=lambda value: str(value)[:24])
def test_long_work_says_so_on_standard_error(tmp_path, module, name, words):
    fixtures = Path(__file__).parents[1] / "frontends" / "fixtures"
    places = {
        "cubin": fixtures / "loop.cubin", "sass": fixtures / "saxpy.sass", "folder": tmp_path
    }  # fmt: skip
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], cwd=tmp_path, check=True)
    command = [sys.executable, "-c", SLOW.format(module=module, name=name)]
    command += [word.format(**places) for word in words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert re.search(r"^perfassert: .*, \d+ s$", done.stderr, re.MULTILINE), done.stderr
    assert not re.search(r"^perfassert: .*, \d+ s$", done.stdout, re.MULTILINE)
    if "--json" in words and done.returncode == 0:
        json.loads(done.stdout)
