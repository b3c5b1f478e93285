"""Tests of what suites declare of fits: read, rejected, and separate from tests."""

import dataclasses
import json
from collections import defaultdict
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from copy_suite import SUITE, read_shipped, write

from perfassert.errors import SuiteError
from perfassert.hardware.load import device, devices
from perfassert.lab.validation.accuracy import accuracy_page
from perfassert.lab.validation.data import read_rows
from perfassert.lab.validation.halves import in_fitting_half, rows_to_fit
from perfassert.lab.validation.read import read_suite
from perfassert.lab.validation.record import to_record
from perfassert.lab.validation.report import text, to_dict
from perfassert.lab.validation.run import validate
from perfassert.lab.validation.statistics import summarize_groups

REPOSITORY = Path(__file__).parents[3]
HALVED = f'configuration = ["kernel", "mega", "threads"]\n{SUITE}'
FITTED_BY_OTHERS = (  # no suite's rows
    "te42kyfo/warpspeed", "published times of dedispersion", "NvBench times of matrix-vector",
    "published tuning space of a convolution, RTX A4000",
)  # fmt: skip
ENTRY = """
[[fitted_on]]
devices = ["a100"]
values = ["dram_latency", "operations.fp32.issue", "curves.l2_load"]
rows = "half"
note = "By hand."
"""


def validated(folder, suite):
    read = read_suite(write(folder, suite))
    return validate(read, read_rows(read))


def test_an_entry_is_read(tmp_path):
    entry = read_suite(write(tmp_path, f"{HALVED}{ENTRY}")).fitted_on[0]
    assert (entry.devices, entry.half, entry.note) == (("a100",), True, "By hand.")
    assert entry.values == ("dram_latency", "operations.fp32.issue", "curves.l2_load")


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('rows = "half"', "", r"fitted_on\[0\].rows: missing"),
        ('"half"', '"most"', r"fitted_on\[0\].rows: must be 'half' or 'all', not 'most'"),
        ("configuration", "group", r"\[0\].rows: the suite has no configuration = \[COLUMN"),
        ("dram_latency", "dram_latenzy", "no value 'dram_latenzy'; did you mean 'dram_latency'"),
        ("fp32.issue", "fp32.pace", "a100 has no value 'operations.fp32.pace'"),
        ('devices = ["a100"]', "", "values and devices go together"),
        ('"a100"', '"a1000"', r"fitted_on\[0\].devices: unknown device 'a1000'"),
        ("note", "notes", r"fitted_on\[0\].notes: unknown key; did you mean 'note'"),
        ('note = "By hand."', 'sources = ["no.cu"]', "there is no file no.cu, seen from the suite"),
        ('note = "By hand."', "filter = { mega = {} }", "filter.mega: give min, max or both"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, old, new, reason):
    whole = f"{HALVED}{ENTRY}"
    assert old in whole
    with pytest.raises(SuiteError, match=reason):
        read_suite(write(tmp_path, whole.replace(old, new)))


def test_an_entry_that_says_nothing_is_refused(tmp_path):
    with pytest.raises(SuiteError, match=r"fitted_on\[0\]: says nothing"):
        read_suite(write(tmp_path, f'{SUITE}\n[[fitted_on]]\nrows = "all"\n'))


@pytest.mark.parametrize("place", ["configuration", "filter"])
def test_columns_are_those_of_the_data(tmp_path, place):
    whole = HALVED.replace('"mega"', '"mga"') + ENTRY
    if place == "filter":
        whole = f"{HALVED}{ENTRY}filter = {{ mga = 1 }}\n"
    suite = read_suite(write(tmp_path, whole))
    with pytest.raises(SuiteError, match=f"{place}.*has no column 'mga'; did you mean 'mega'"):
        read_rows(suite)


def test_figures_are_apart(tmp_path):
    """The figures of either side are those of its rows alone; all rows keep their own."""
    result = validated(tmp_path, f"{HALVED}{ENTRY}")
    time = result.metric("time")
    cells = {row.line: row.cells for row in read_rows(result.suite)}
    sides = [in_fitting_half(cells[line], result.suite.configuration) for line in time.lines]
    assert time.fitted == tuple(sides)
    assert 0 < sum(sides) < len(sides)
    for summary, side in ((time.seen, True), (time.unseen, False)):
        mask = np.array(sides) == side
        groups = [()] * int(mask.sum())
        alone, _ = summarize_groups(time.measured[mask], time.predicted[mask], groups)
        assert summary == alone
    assert time.summary.n == time.seen.n + time.unseen.n


def test_reports_show_both_sides(tmp_path):
    result = validated(tmp_path, f"{HALVED}{ENTRY}")
    lines = str(text(result)).splitlines()
    assert sum("(never fitted on)" in line for line in lines) == len(result.metrics)
    found = json.loads(json.dumps(to_dict(result)))["metrics"]["time"]
    assert found["unseen"]["n"] + found["seen"]["n"] == found["n"]
    assert sum(point["fitted"] for point in found["points"]) == found["seen"]["n"]
    kept = to_record([result])["suites"]["copies"]["metrics"]["time"]["unseen"]
    assert kept["n"] == found["unseen"]["n"]
    assert "(never fitted on)" not in str(text(validated(tmp_path, SUITE)))


def test_a_target_is_met_on_unseen_rows_only(tmp_path):
    """Rows that are wrong beyond the target count where they are a test, and only there."""
    result = validated(tmp_path, f'{HALVED}{ENTRY}\n[targets.time]\nmedian = "3 %"\n')
    time = result.metric("time")

    def verdict(wrong):
        predicted = time.measured * np.where(np.array(time.fitted) == wrong, 2.0, 1.0)
        sides = {}
        for name, side in (("seen", True), ("unseen", False)):
            mask = np.array(time.fitted) == side
            groups = [()] * int(mask.sum())
            sides[name] = summarize_groups(time.measured[mask], predicted[mask], groups)[0]
        changed = dataclasses.replace(result, metrics=(dataclasses.replace(time, **sides),))
        shown = accuracy_page([changed], date(2025, 12, 31))
        return next(line for line in shown.splitlines() if "≤ 3.0 %" in line)

    assert "| met" in verdict(wrong=True)
    assert "**missed**" in verdict(wrong=False)


def test_where_all_rows_were_seen_no_target_is_met(tmp_path):
    entry = ENTRY.replace('"half"', '"all"') + "\n[targets.time]\nmedian = '99 %'\n"
    shown = accuracy_page([validated(tmp_path, f"{HALVED}{entry}")], date(2025, 12, 31))
    assert "All rows were used for fitting." in shown
    assert "| not tested |" in shown
    assert "| met " not in shown
    assert "`operations.fp32.issue`, `curves.l2_load` of a100: all rows. By" in shown


def test_two_tables_and_what_was_fitted(tmp_path):
    shown = accuracy_page([validated(tmp_path, f"{HALVED}{ENTRY}")], date(2025, 12, 31))
    unseen = shown.index("Rows that were not used for fitting:")
    assert unseen < shown.index("Rows that were used for fitting and do not test the model:")
    assert "half of the configurations. By hand." in " ".join(shown.split())


def test_values_are_fitted_on_the_declared_rows_alone(tmp_path):
    suite = read_suite(write(tmp_path, f"{HALVED}{ENTRY}"))
    rows = read_rows(suite)
    chosen = rows_to_fit(suite, rows, "A100-SXM4-40GB", ["dram_latency"])
    assert 0 < len(chosen) < len(rows)
    assert all(in_fitting_half(row.cells, suite.configuration) for row in chosen)
    with pytest.raises(SuiteError, match="fitted_on: does not name dram_knee of A100-SXM4-40GB"):
        rows_to_fit(suite, rows, "A100-SXM4-40GB", ["dram_latency", "dram_knee"])
    with pytest.raises(SuiteError, match="does not name dram_latency of V100-PCIE-32GB"):
        rows_to_fit(suite, rows, "V100-PCIE-32GB", ["dram_latency"])


def test_nothing_is_fitted_on_all_rows(tmp_path):
    suite = read_suite(write(tmp_path, f"{HALVED}{ENTRY.replace('half', 'all')}"))
    with pytest.raises(SuiteError, match='rows = "half"'):
        rows_to_fit(suite, read_rows(suite), "A100-SXM4-40GB", ["dram_latency"])


def test_every_fitted_value_is_declared(tmp_path):
    """A value that a shipped device file calls fitted is in a suite, with the rows that it was
    fitted on."""
    declared = defaultdict(set)
    for path in (REPOSITORY / "validation").glob("*.toml"):
        for entry in read_shipped(path, tmp_path).fitted_on:
            for name in entry.devices:
                declared[device(name).name] |= set(entry.values)
    curves = defaultdict(set)  # which several devices share
    for name in tuple(declared):
        of = {value for value in declared[name] if value.startswith("curves.")}
        curves[device(name).capacity_fits] |= of
    for name in devices():
        found = {
            key.removeprefix("values.")
            for key, fact in device(name).provenance.items()
            if fact.grade == "fitted"
            and not fact.source.startswith(FITTED_BY_OTHERS)
            and fact.note.removeprefix("as ") not in declared[name]  # refers to one that is
        }
        assert found <= declared[name] | curves[device(name).capacity_fits], name
