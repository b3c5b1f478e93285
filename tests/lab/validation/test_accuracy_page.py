import json
from datetime import date

import pytest
from copy_suite import ROWS, SUITE, write

from perfassert.cli.main import main
from perfassert.errors import PerfAssertError
from perfassert.lab.validation.accuracy import accuracy_page, page_date
from perfassert.lab.validation.data import read_rows
from perfassert.lab.validation.read import read_suite
from perfassert.lab.validation.run import validate

DAY = date(2025, 12, 31)
TARGETS = """
[targets.time]
median = "0 %"
mean = "99 %"
spearman = 0.5

[targets.dram_load]
percentile_90 = "3 %"
"""
LIMITS = '''limits = ["""
The time of a copy in a grid that is small, because nothing of the cost of a launch is in the
prediction and a small grid has little else.""", "Reads."]
'''


def validated(folder, text=SUITE, rows=ROWS):
    suite = read_suite(write(folder, text, rows))
    return validate(suite, read_rows(suite))


@pytest.fixture
def slow(tmp_path):
    """Measured times that grow against the prediction, so that no error is 0."""
    rows = [(k, m, t, u * (1 + i / 10), b) for i, (k, m, t, u, b) in enumerate(ROWS)]
    return validated(tmp_path, f"{LIMITS}{SUITE}{TARGETS}", rows)


def test_the_page_has_a_section_for_each_suite(tmp_path, slow):
    plain = validated(tmp_path, SUITE.replace('"Copies"', '"More copies"'))
    text = accuracy_page([slow, plain], DAY)
    assert text.startswith("# Accuracy\n")
    assert f"Model version {slow.model_version}, 2025-12-31, all rows." in text
    assert text.index("\n## How to read") < text.index("\n## Copies\n")
    assert text.index("\n## Copies\n") < text.index("\n## More copies\n")
    assert text.index("\n## More copies\n") < text.index("\n## What this does not say\n")
    assert "`copies.toml`: 12 rows of `copies.csv`.\n" in text
    assert text.endswith("\n")
    assert "\n\n\n" not in text
    assert max(map(len, text.splitlines())) < 130


def test_every_metric_has_every_figure(slow):
    table = [
        line for line in accuracy_page([slow], DAY).splitlines() if line.startswith("| `time`")
    ]
    time = slow.metric("time").summary
    cells = [cell.strip() for cell in table[0].strip("|").split("|")]
    assert cells[:2] == ["`time`", "12"]
    assert cells[2] == f"{time.median * 100:.1f} %"
    assert cells[5:7] == [f"{time.spearman:.3f}", f"{time.kendall:.3f}"]
    assert cells[8] == f"{time.pairs_right * 100:.1f} %"


def test_targets_are_met_or_missed(slow):
    lines = accuracy_page([slow], DAY).splitlines()
    verdicts = {
        cells[2].strip(): (cells[3].strip(), cells[5].strip())
        for cells in (line.split("|") for line in lines if "≥ " in line or "≤ " in line)
        if len(cells) == 7
    }
    assert verdicts == {
        "median": ("≤ 0.0 %", "**missed**"),
        "mean": ("≤ 99.0 %", "met"),
        "Spearman": ("≥ 0.500", "met"),
        "90th percentile": ("≤ 3.0 %", "met"),
    }


def test_limits_are_bullets_within_the_line(slow):
    text = accuracy_page([slow], DAY)
    limits = text.partition("Where it is wrong, and why:\n\n")[2].partition("\n\n")[0].splitlines()
    assert limits[0].startswith("- The time of a copy in a grid that is small, because")
    assert limits[1].startswith("  prediction and a small grid")
    assert limits[2:] == ["- Reads."]
    assert max(map(len, limits)) <= 100


def test_a_sentence_that_ends_in_a_number_begins_no_list(tmp_path):
    """A line is full before 16, and Markdown would read "16. " as the first of a list."""
    sentence = "words " * 16
    text = accuracy_page([validated(tmp_path, f'limits = ["{sentence}16. Next."]\n{SUITE}')], DAY)
    assert "\n  16\\. Next.\n" in text


def test_a_suite_without_targets_and_limits_has_neither(tmp_path):
    text = accuracy_page([validated(tmp_path)], DAY, rows=5)
    assert "at most 5 rows of each suite, evenly spread" in text
    assert "| found" not in text
    assert "Where it is wrong" not in text


def test_rows_without_prediction_are_counted(tmp_path):
    rows = [(k, m, 4096 if i < 2 else t, u, b) for i, (k, m, t, u, b) in enumerate(ROWS)]
    text = accuracy_page([validated(tmp_path, rows=rows)], DAY)
    assert "12 rows of `copies.csv`, 2 without a prediction." in text


def test_granularity_and_source_are_shown(tmp_path):
    text = SUITE.replace(
        'name = "dram_load"', 'name = "dram_load"\nper = "warp_memory_instruction"'
    )
    text = text.replace('data = "copies.csv"', 'data = "copies.csv"\nsource = "our lab"')
    shown = accuracy_page([validated(tmp_path, text)], DAY)
    assert "| `dram_load` per warp memory instruction |" in shown
    assert "12 rows of `copies.csv` from our lab." in shown


def test_the_date(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1767225599")
    assert page_date() == DAY
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(PerfAssertError, match="SOURCE_DATE_EPOCH: 'yesterday' is not a number"):
        page_date()
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    assert page_date() == date.today()


@pytest.fixture
def suites(tmp_path):
    """Two suite files over one table."""
    first = write(tmp_path)
    second = tmp_path / "others.toml"
    second.write_text(SUITE.replace('"Copies"', '"Others"'))
    return str(first), str(second)


def test_one_command_writes_page_and_record(tmp_path, suites, monkeypatch, capsys):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1767225599")
    pages = [tmp_path / "a.md", tmp_path / "b.md"]
    for path in pages:
        record = path.with_suffix(".json")
        written = ["--accuracy", str(path), "--record", str(record)]
        assert main(["validate", *suites, "--jobs", "1", "--rows", "4", *written]) == 0
        out = capsys.readouterr().out
        assert out.startswith("Copies\n")
        assert "\n\nOthers\n" in out
    assert pages[0].read_text("utf-8") == pages[1].read_text("utf-8")
    assert "2025-12-31, at most 4 rows" in pages[0].read_text("utf-8")
    assert json.loads(record.read_text("utf-8"))["suites"].keys() == {"copies", "others"}
    written = ["--accuracy", str(pages[0]), "--date", "2025-01-02"]
    assert main(["validate", suites[0], "--jobs", "1", "--rows", "4", *written]) == 0
    assert "2025-01-02" in pages[0].read_text("utf-8")


def test_json_of_several_suites_is_a_line_for_each(suites, capsys):
    assert main(["validate", *suites, "--jobs", "1", "--rows", "2", "--json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["suite"] for line in lines] == ["Copies", "Others"]


def test_nothing_is_written_where_nothing_is_predicted(tmp_path, capsys):
    path = write(tmp_path, SUITE.replace('block = "threads"', "block = 2048"))
    written = ["--accuracy", str(tmp_path / "a.md"), "--record", str(tmp_path / "a.json")]
    assert main(["validate", str(path), "--jobs", "1", *written]) == 1
    assert f"{path}: not one row could be predicted" in capsys.readouterr().err
    assert not (tmp_path / "a.md").exists()
    assert not (tmp_path / "a.json").exists()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--date", "2025-01-02"], "--date: goes with --accuracy or --decisions PAGE"),
        (["--accuracy", "no/such/folder.md"], "there is no folder no/such; make it first"),
        (["--record", "no/such/folder.json"], "there is no folder no/such; make it first"),
        (["--pairs", "time"], "--pairs: goes with one suite"),
        (["--plot", "a.png"], "--plot: goes with one suite"),
        (["--fail-above", "time=3%"], "--fail-above: goes with one suite"),
        (["--date", "today", "--accuracy", "a.md"], "'today' is no date, as in 2025-12-31"),
        (["--record", "a.json", "--against", "b.json"], "not allowed with argument"),
    ],
)
def test_options_that_do_not_fit(tmp_path, suites, monkeypatch, capsys, options, reason):
    monkeypatch.chdir(tmp_path)
    assert main(["validate", *suites, "--jobs", "1", *options]) == 2
    assert reason in capsys.readouterr().err


def test_suites_of_one_name_are_refused(tmp_path, suites, capsys):
    assert main(["validate", suites[0], suites[0]]) == 2
    assert "two suites are named 'copies'" in capsys.readouterr().err


def test_a_page_that_cannot_be_written(tmp_path, suites, capsys):
    assert main(["validate", suites[0], "--jobs", "1", "--accuracy", str(tmp_path)]) == 2
    assert "is not a file, so it is left alone" in capsys.readouterr().err
