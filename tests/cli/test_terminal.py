"""On a terminal tables fit and bars count; piped, nothing is changed."""

import re
import sys

from rich.cells import cell_len

from perfassert.cli.terminal import parted, progress, say
from perfassert.report.tables import table

LONG = "a word and another one " * 8
ROWS = [("FAIL", "time", LONG), ("ok", "", "μ×")]
TEXT = "\n\n".join(["heading", table(("verdict", "metric", "note"), ROWS), "end"])
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


def test_a_table_is_found_with_all_of_its_cells():
    lines, found = [], []
    for part in parted(TEXT):
        (lines if isinstance(part, str) else found).append(part)
    assert [line for line in lines if line] == ["heading", "end"]
    rows = [["verdict", "metric", "note"], ["FAIL", "time", LONG.strip()], ["ok", "", "μ×"]]
    assert found == [rows]


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
    say("[red]kernel[/red] :smile:\n\nname\n------\n[bold]a[/bold]")
    assert "[red]kernel[/red] :smile:" in capsys.readouterr().out


def test_a_rule_alone_is_no_table():
    text = "\n-----\nx\n\n-----"
    assert list(parted(text)) == text.split("\n")


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
