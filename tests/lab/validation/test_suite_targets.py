import pytest
from copy_suite import SUITE, write

from perfassert.errors import SuiteError
from perfassert.lab.validation.read import read_suite
from perfassert.lab.validation.statistics import Summary
from perfassert.lab.validation.targets import FIGURES


def with_targets(folder, text):
    return read_suite(write(folder, f"{SUITE}\n{text}\n"))


def test_targets_are_shares_and_correlations(tmp_path):
    suite = with_targets(
        tmp_path,
        '[targets.time]\nmean = "10 %"\nspearman = 0.97\nregret="5%"\norder = "97.5 %"\n'
        "[targets.dram_load]\nkendall = 1",
    )
    time = {"mean": 0.1, "spearman": 0.97, "regret": 0.05, "order": 0.975}
    assert suite.targets == {"time": time, "dram_load": {"kendall": 1.0}}


def test_a_suite_needs_neither_targets_nor_limits(tmp_path):
    suite = read_suite(write(tmp_path))
    assert (suite.targets, suite.limits) == ({}, ())


def test_limits_are_one_or_several(tmp_path):
    one = read_suite(write(tmp_path, f'limits = "Small grids."\n{SUITE}'))
    assert one.limits == ("Small grids.",)
    two = read_suite(write(tmp_path, f'limits = ["Small grids.", "Stores."]\n{SUITE}'))
    assert two.limits == ("Small grids.", "Stores.")
    with pytest.raises(SuiteError, match="copies.toml: limits: must be a string, not 3"):
        read_suite(write(tmp_path, f"limits = [3]\n{SUITE}"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("targets = 3", "targets: must be a table, not 3"),
        ("[targets]\ntime = 3", "targets.time: must be a table, not 3"),
        ("[targets.tyme]", "targets.tyme: the suite has no metric 'tyme'; did you mean 'time'"),
        ("[targets.zzz]", "no metric 'zzz'; it has time, dram_load"),
        ("[targets.time]\nmedain = 1", "targets.time.medain: unknown key; did you mean 'median'"),
        ("[targets.time]\nmean = 10", "targets.time.mean: must be a percentage .* not 10"),
        ('[targets.time]\nmean = "10"', "targets.time.mean: must be a percentage .* not '10'"),
        ('[targets.time]\nmean = "-1 %"', "targets.time.mean: must be a percentage"),
        ('[targets.time]\nspearman = "97 %"', "targets.time.spearman: must be a number"),
        ("[targets.time]\nspearman = 97", "spearman: must lie between 0 and 1, not 97"),
        ("[targets.time]\nkendall = nan", "kendall: must lie between 0 and 1, not nan"),
        ('[targets.time]\norder = "101 %"', "order: must lie between 0 and 100 %, not '101 %'"),
    ],
)
def test_what_is_wrong_with_targets_is_named(tmp_path, text, reason):
    place = f"{text}\n{SUITE}" if text.startswith("targets") else f"{SUITE}\n{text}\n"
    with pytest.raises(SuiteError, match=f"copies.toml: .*{reason}"):
        read_suite(write(tmp_path, place))


def test_every_figure_is_one_of_the_summary():
    summary = Summary(3, 0.05, 0.1, 0.2, 0.9, None, 0.0, 4, 0.75)
    shown = [figure.format(figure.value(summary)) for figure in FIGURES.values()]
    assert shown == ["5.0 %", "10.0 %", "20.0 %", "0.900", "–", "0.0 %", "75.0 %"]


@pytest.mark.parametrize(
    ("name", "number", "target", "met"),
    [
        ("median", 0.05, 0.05, True),
        ("median", 0.051, 0.05, False),
        ("spearman", 0.97, 0.97, True),
        ("spearman", 0.969, 0.97, False),
        ("order", 0.5, 0.97, False),
        ("regret", None, 1.0, False),
    ],
)
def test_a_target_is_met_or_missed(name, number, target, met):
    assert FIGURES[name].is_met(number, target) is met
