"""The budget of a suite's time error: each share shows where it was put, and only there."""

import pytest
from copy_suite import HEADER, ROWS, SUITE, write

import perfassert as pa
from perfassert.cli.main import main
from perfassert.errors import SuiteError
from perfassert.lab.validation.data import read_rows
from perfassert.lab.validation.explain import TwiceTimed, text, twice_timed
from perfassert.lab.validation.read import read_suite

DEVICE = pa.device("A100-SXM4-40GB")


def explained(folder, rows, suite=SUITE):
    read = read_suite(write(folder, suite, rows, HEADER))
    return twice_timed(read, read_rows(read))


def cells(shown, line):
    row = next(row for row in shown.splitlines() if row.startswith(line))
    return row.removeprefix(line).split()


def copy_time(mega, threads, load=None):
    """Return the predicted time of ``b[x]`` → ``a[x]``, with a given load if wanted."""
    n = mega * 1_000_000
    fields = [pa.Field("a", shape=(n,)), pa.Field("b", shape=(n,))]
    kernel = pa.Kernel.from_accesses("copy", fields, loads=["b[x]"], stores=["a[x]"])
    volumes = None if load is None else {"dram_load": load}
    p = pa.predict(kernel, pa.Launch.cover(n, threads), DEVICE, volumes=volumes)
    return float(p.time) * 1e6


def copies(time, load):
    return [("copy", m, t, time(m, t), load(m)) for m in (1, 4, 16) for t in (64, 256)]


def test_an_error_of_the_volume_is_gone_with_the_measured_one(tmp_path):
    """A device that loads everything twice, and takes the time for it."""
    rows = copies(lambda m, t: copy_time(m, t, 16e6 * m), lambda m: 16e6 * m)
    shown = text(explained(tmp_path, rows))
    assert float(cells(shown, "as predicted")[3]) > 10
    assert cells(shown, "with measured volumes")[3:6:2] == ["0.0", "0.0"]


def test_a_slower_clock_is_a_factor_of_all(tmp_path):
    rows = copies(lambda m, t: 1.25 * copy_time(m, t), lambda m: 8e6 * m)
    shown = text(explained(tmp_path, rows))
    assert cells(shown, "with measured volumes")[1] == "-20.0"
    assert cells(shown, "and one clock for all")[3] == "0.0"


def test_the_rest_names_its_parameter(tmp_path):
    rows = copies(lambda m, t: copy_time(m, t, 8e6 * m) * (1 + t / 1000), lambda m: 8e6 * m)
    shown = text(explained(tmp_path, rows))
    assert "The rest goes with threads: too fast where it is large" in shown


def test_without_volumes_there_is_no_such_line(tmp_path):
    begin = SUITE.index('[[metric]]\nname = "dram_load"')
    suite = SUITE[:begin] + SUITE[SUITE.index("[kernels.copy.accesses]") :]
    shown = text(explained(tmp_path, ROWS, suite))
    assert "as predicted" in shown
    assert "measured volumes" not in shown
    assert "registers" not in shown


def test_rows_of_other_code_are_left_out(tmp_path):
    """``mega`` stands in for a column of measured registers: no row has 1, 4 or 16 of them."""
    suite = SUITE + '\n[[metric]]\nname = "registers"\ncolumn = "mega"\n'
    found = explained(tmp_path, ROWS, suite)
    assert {row.same_code for row in found} == {False}
    assert "registers as measured" not in text(found)


def test_rows_of_other_code_have_a_line_of_their_own():
    """They are ten times too slow; volumes and clock are judged on the others."""
    rows = [TwiceTimed(i, {"n": i}, 1.0, 1.1, 1.0, True) for i in range(6)]
    rows += [TwiceTimed(9, {"n": 9}, 1.0, 10.0, 10.0, False)]
    shown = text(rows)
    assert cells(shown, "registers differ: another kernel")[0::5] == ["1", "900.0"]
    assert cells(shown, "registers as measured")[0:2] == ["6", "+10.0"]
    assert cells(shown, "with measured volumes")[0:2] == ["6", "0.0"]


def test_a_suite_without_times_is_refused(tmp_path):
    begin, end = SUITE.index("[[metric]]"), SUITE.index('[[metric]]\nname = "dram_load"')
    with pytest.raises(SuiteError, match="--explain: the suite has no metric 'time'"):
        explained(tmp_path, ROWS, SUITE[:begin] + SUITE[end:])


def test_the_command(tmp_path, capsys):
    path = str(write(tmp_path))
    assert main(["validate", path, "--jobs", "1", "--explain"]) == 0
    assert "with measured volumes" in capsys.readouterr().out
    assert main(["validate", path, "--explain", "--json"]) == 2
    assert "--explain: is a table" in capsys.readouterr().err
