import json

import pytest
from copy_suite import ROWS, SUITE, write

from perfassert.cli.main import main


def recorded(folder, *options, rows=ROWS):
    """Suite and record, the record over ``rows``."""
    suite, record = write(folder, rows=rows), folder / "record.json"
    assert main(["validate", str(suite), "--jobs", "1", "--record", str(record), *options]) == 0
    return suite, record


def against(suite, record, *options):
    return main(["validate", str(suite), "--jobs", "1", "--against", str(record), *options])


def slower(share, first=0):
    """The table with times that are longer by ``share`` from row ``first`` on."""
    return [
        (k, m, t, u * (1 + share) if i >= first else u, b) for i, (k, m, t, u, b) in enumerate(ROWS)
    ]


def test_the_record_has_every_figure(tmp_path):
    _, path = recorded(tmp_path, "--rows", "5")
    record = json.loads(path.read_text("utf-8"))
    assert record["most_rows"] == 5
    assert record["model_version"]
    suite = record["suites"]["copies"]
    assert (suite["title"], suite["rows"], list(suite["metrics"])) == (
        "Copies",
        5,
        ["time", "dram_load"],
    )
    time = suite["metrics"]["time"]
    assert time["n"] == 5
    assert list(time) == ["n", "median", "mean", "percentile_90", "spearman", "kendall", "regret",
                          "pairs", "pairs_right", "unseen"]  # fmt: skip
    assert time["unseen"] == {k: v for k, v in time.items() if k != "unseen"}
    assert time["median"] == round(time["median"], 6)


def test_what_is_as_recorded_passes(tmp_path, capsys):
    assert against(*recorded(tmp_path)) == 0
    assert capsys.readouterr().err == ""


def test_what_is_worse_fails_with_suite_metric_old_and_new(tmp_path, capsys):
    _, record = recorded(tmp_path)
    entry = json.loads(record.read_text("utf-8"))["suites"]["copies"]["metrics"]["time"]
    suite = write(tmp_path, rows=slower(0.5))
    assert against(suite, record) == 1
    err = capsys.readouterr().err
    assert err.startswith("perfassert: copies: time: median error ")
    assert f"recorded {entry['median'] * 100:.1f} %; more than 2 percentage points worse" in err
    assert "dram_load" not in err


@pytest.mark.parametrize(("change", "code"), [(-0.019, 0), (-0.021, 1), (0.5, 0)])
def test_two_points_are_allowed(tmp_path, change, code):
    suite, path = recorded(tmp_path)
    record = json.loads(path.read_text("utf-8"))
    record["suites"]["copies"]["metrics"]["time"]["median"] += change
    path.write_text(json.dumps(record))
    assert against(suite, path) == code


def test_rows_that_are_lost_fail(tmp_path, capsys):
    _, record = recorded(tmp_path)
    rows = [(k, m, 4096 if i == 3 else t, u, b) for i, (k, m, t, u, b) in enumerate(ROWS)]
    assert against(write(tmp_path, rows=rows), record) == 1
    assert "copies: time: 11 rows have it, recorded 12" in capsys.readouterr().err


def test_unlike_rows_are_not_compared(tmp_path, capsys):
    suite, record = recorded(tmp_path, "--rows", "6")
    assert against(suite, record, "--rows", "6") == 0
    capsys.readouterr()
    assert against(suite, record) == 2
    assert (
        "record.json: copies: recorded over 6 rows, this run has 12; run with --rows 6, "
        "or record anew with --record"
    ) in capsys.readouterr().err
    recorded(tmp_path)
    assert against(suite, record, "--rows", "6") == 2
    assert "run without --rows, or" in capsys.readouterr().err


def test_unlike_suites_are_not_compared(tmp_path, capsys):
    suite, record = recorded(tmp_path)
    text = SUITE.replace('name = "dram_load"', 'name = "l2_load"')
    assert against(write(tmp_path, text), record) == 2
    assert "record.json: copies: the suite has no metric 'dram_load'" in capsys.readouterr().err
    extra = '\n[[metric]]\nname = "l2_load"\ncolumn = "load_bytes"\nunit = "B"\n'
    assert against(write(tmp_path, SUITE + extra), record) == 2
    assert "copies: the record has no metric 'l2_load'" in capsys.readouterr().err
    other = suite.rename(tmp_path / "others.toml")
    assert against(other, record) == 2
    assert "record.json: has no suite 'others'; record anew" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "cannot be read: No such file or directory; make it with --record"),
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[]", "not a record of validations"),
        ("{}", "not a record of validations"),
        ('{"most_rows": null, "suites": []}', "not a record of validations"),
        ('{"most_rows": null, "suites": {"copies": {}}}', "not a record of validations"),
        (
            '{"most_rows": null, "suites": {"copies": {"rows": 12, "metrics": '
            '{"time": {"n": 12, "median": "5 %"}}}}}',
            "not a record of validations",
        ),
    ],
)
def test_what_is_no_record(tmp_path, capsys, text, reason):
    record = tmp_path / "record.json"
    if text is not None:
        record.write_text(text)
    assert against(write(tmp_path), record) == 2
    assert f"perfassert: {record}: {reason}" in capsys.readouterr().err


def test_a_metric_that_no_row_had_cannot_be_worse(tmp_path):
    suite, path = recorded(tmp_path)
    record = json.loads(path.read_text("utf-8"))
    record["suites"]["copies"]["metrics"]["time"] |= {"n": 0, "median": None}
    path.write_text(json.dumps(record))
    assert against(suite, path) == 0
