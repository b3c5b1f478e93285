import argparse
import json
import shutil
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import pytest
from copy_suite import HEADER, ONE_KERNEL, ROWS, SUITE, write

from perfassert.cli import validate as command
from perfassert.errors import PerfAssertError, SuiteError
from perfassert.frontends.toolchain import tools
from perfassert.lab.validation import report
from perfassert.lab.validation.data import read_rows
from perfassert.lab.validation.read import read_suite
from perfassert.lab.validation.run import predict_rows, validate
from perfassert.system.process_pool import process_pool

pytestmark = pytest.mark.exhaustive(one_in=2)


def prepared(path):
    suite = read_suite(path)
    return suite, read_rows(suite)


def perfassert(*arguments):
    """The command as the console script would run it."""
    parser = argparse.ArgumentParser()
    command.add(parser.add_subparsers())
    options = parser.parse_args(["validate", *map(str, arguments)])
    return options.command(options)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write(tmp_path_factory.mktemp("suite"))


@pytest.fixture(scope="module")
def result(path):
    return validate(*prepared(path))


def test_every_row_is_compared(result):
    assert (result.rows, result.failures, result.devices) == (12, (), ("A100-SXM4-40GB",))
    time = result.metric("time")
    assert time.lines == tuple(range(2, 14))
    assert time.measured[0] == pytest.approx(16e-6 / 1.4)
    assert time.summary.n == 12
    assert time.summary.median < 0.1  # the model is a roofline here
    assert result.metric("dram_load").summary.median == pytest.approx(0, abs=0.01)
    with pytest.raises(KeyError):
        result.metric("l2_load")


@pytest.mark.parametrize("pool", ["thread", "process"])
def test_executors_agree_with_the_serial_run(path, result, pool):
    if pool == "thread":
        executor = ThreadPoolExecutor(2)
    else:
        executor = ProcessPoolExecutor(2, mp_context=get_context("spawn"))
    steps = []
    with executor:
        found = validate(*prepared(path), executor, lambda *step: steps.append(step))
    assert report.to_dict(found) == report.to_dict(result)
    assert steps == [(n, 12) for n in range(1, 13)]


def test_dask(path, result):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        found = validate(*prepared(path), client)
        assert perfassert(path, "--dask", cluster.scheduler_address) == 0
    assert report.to_dict(found) == report.to_dict(result)


def test_dask_that_is_not_there(path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(PerfAssertError, match=r"pip install .perfassert\[dask\]"):
        perfassert(path, "--dask", "tcp://127.0.0.1:1")


def test_the_default_pool():
    with process_pool(1) as pool:
        assert pool is None
    with process_pool(2) as pool:
        assert pool.submit(len, "abc").result() == 3


class Broken:
    """An executor whose second future fails."""

    def __init__(self):
        self.cancelled = 0
        self.submitted = 0

    def submit(self, function, *arguments):
        self.submitted += 1
        return Future(self, function, arguments, self.submitted == 2)


class Future:
    def __init__(self, executor, function, arguments, broken):
        self.executor, self.work, self.broken = executor, (function, arguments), broken

    def result(self):
        if self.broken:
            raise RuntimeError("the worker died")
        function, arguments = self.work
        return function(*arguments)

    def cancel(self):
        self.executor.cancelled += 1


def test_a_broken_executor_is_no_result(path):
    executor = Broken()
    with pytest.raises(RuntimeError, match="the worker died"):
        validate(*prepared(path), executor)
    assert executor.cancelled == executor.submitted == 12


@pytest.fixture
def faulty(tmp_path):
    """Row 2 cannot be launched, row 3 has no time, row 4 no number of threads, row 5 no device."""
    rows = [[*row, "a100"] for row in ROWS]
    rows[0][2], rows[1][3], rows[2][2], rows[3][5] = 4096, "", "many", "b100"
    text = SUITE.replace('name = "A100-SXM4-40GB"', 'column = "gpu"')
    return write(tmp_path, text, rows, (*HEADER, "gpu"))


def test_rows_that_fail_are_reported(faulty):
    found = validate(*prepared(faulty))
    reasons = dict(found.failures)
    assert list(reasons) == [2, 4, 5]
    assert reasons[2].startswith("LaunchError: the block has 4096 threads")
    assert reasons[4] == "SuiteError: 'threads': column 'threads' has no integer in this row"
    assert reasons[5].startswith("UnknownDevice: unknown device 'b100'")
    assert found.metric("time").summary.n == 8
    assert found.metric("dram_load").summary.n == 9
    assert dict(found.metric("time").failures)[3] == "SuiteError: column 'time_us': is empty"
    text = str(report.text(found))
    assert "12 rows, 9 predicted, 3 failed" in text
    assert "3 rows not predicted:\n  1 × LaunchError: the block has 4096" in text
    assert "1 rows without time:\n  1 × SuiteError: column 'time_us': is empty (line 3)" in text
    data = report.to_dict(found)
    assert [f["line"] for f in data["failures"]] == [2, 4, 5]
    assert [f["line"] for f in data["metrics"]["time"]["failures"]] == [2, 3, 4, 5]


def test_a_bug_in_one_row_is_a_reason_too(path, monkeypatch):
    monkeypatch.setattr("perfassert.lab.validation.run.predict", lambda *_: 1 / 0)
    found = validate(*prepared(path))
    assert len(found.failures) == 12
    assert found.failures[0][1] == "internal error: ZeroDivisionError: division by zero"
    assert found.metric("time").summary.median is None
    assert "12 × internal error: ZeroDivisionError: division by zero (line 2, 3, 4, 5, 6, …)" in (
        str(report.text(found))
    )
    json.dumps(report.to_dict(found), allow_nan=False)


def test_metrics_that_a_kernel_cannot_have(tmp_path):
    text = SUITE.replace('name = "dram_load"', 'name = "spill_bytes"')
    found = validate(*prepared(write(tmp_path, text)))
    assert found.failures == ()
    line, reason = found.metric("spill_bytes").failures[0]
    assert line == 2
    assert "cannot have it" in reason


def test_groups(tmp_path):
    text = SUITE.replace('title = "Copies"', 'title = "Copies"\ngroup = ["kernel", "mega"]')
    found = validate(*prepared(write(tmp_path, text)))
    groups = found.metric("time").by_group
    assert list(groups)[:2] == [("copy", "1"), ("copy", "4")]
    assert found.metric("time").summary.pairs == 0  # no block size differs by 10 %
    assert "copy 16" in str(report.text(found))
    assert len(report.to_dict(found)["metrics"]["time"]["groups"]) == 6


def test_text_and_json(path, capsys):
    assert perfassert(path, "--jobs", 1) == 0
    out = capsys.readouterr().out
    assert out.startswith("Copies\nA100-SXM4-40GB; model ")
    assert "copies.csv: 12 rows, 12 predicted, 0 failed" in out
    assert "Spearman" in out
    assert perfassert(path, "--jobs", 1, "--json", "--rows", 3) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["rows"] == data["metrics"]["time"]["n"] == 3
    assert data["metrics"]["time"]["unit"] == "s"
    assert [p["line"] for p in data["metrics"]["time"]["points"]] == [2, 6, 10]


def lines_of(capsys):
    data = json.loads(capsys.readouterr().out)
    return [p["line"] for p in data["metrics"]["time"]["points"]]


def test_rows_of_one_suite_by_its_file_name(path, capsys):
    assert perfassert(path, "--jobs", 1, "--json", "--rows", 3, "--rows", f"{path.name}=4") == 0
    assert lines_of(capsys) == [2, 5, 8, 11]
    with pytest.raises(SuiteError, match="no suite has this file name"):
        perfassert(path, "--jobs", 1, "--rows", "other.toml=4")


def test_of_rows_that_agree_in_distinct_columns_the_first_counts(path, tmp_path, capsys):
    path = shutil.copytree(path.parent, tmp_path / "copy") / path.name
    path.write_text('distinct = ["kernel"]\n' + path.read_text())
    data = (path.parent / "copies.csv").read_text().splitlines()
    column = data[0].split(",").index("kernel")
    kernels = [line.split(",")[column] for line in data[1:]]
    assert perfassert(path, "--jobs", 1, "--json") == 0
    assert lines_of(capsys) == [2 + kernels.index(k) for k in dict.fromkeys(kernels)]
    path.write_text(path.read_text().replace('["kernel"]', '["kernels"]', 1))
    with pytest.raises(SuiteError, match="distinct: copies.csv has no column 'kernels'"):
        perfassert(path, "--jobs", 1)


def test_the_progress_bar(path, capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    perfassert(path, "--jobs", 1, "--rows", 2)
    assert "2/2" in capsys.readouterr().err


def test_exit_codes(path, faulty, capsys):
    assert perfassert(path, "--jobs", 1, "--fail-above", "time=50%") == 0
    assert perfassert(path, "--jobs", 1, "--fail-above", "time = 0.001 %") == 1
    assert "time: median error" in capsys.readouterr().err
    limits = ("--fail-above", "dram_load=99", "--fail-above", "time=0%")
    assert perfassert(path, "--jobs", 1, *limits) == 1
    assert perfassert(faulty, "--jobs", 1, "--fail-above", "time=50%") == 0  # 8 of 12 are right


def test_rows_that_fail_count_against_a_limit(tmp_path, capsys):
    rows = [(k, m, 4096 if i % 3 else t, u, b) for i, (k, m, t, u, b) in enumerate(ROWS)]
    path = write(tmp_path, rows=rows)
    assert perfassert(path, "--jobs", 1) == 0
    assert perfassert(path, "--jobs", 1, "--fail-above", "time=50%") == 1
    assert "above 50.0 %, 8 rows without it counted as wrong" in capsys.readouterr().err


def test_nothing_predicted_is_a_failure(tmp_path, capsys):
    path = write(tmp_path, SUITE.replace('block = "threads"', "block = 2048"))
    assert perfassert(path, "--jobs", 1) == 1
    assert "not one row could be predicted" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ("tyme=3%", "no metric 'tyme'; did you mean 'time'"),
        ("time", "not METRIC=PERCENT"),
        ("time=fast", "not METRIC=PERCENT"),
        ("time=-1%", "not METRIC=PERCENT"),
        ("time=nan", "not METRIC=PERCENT"),
    ],
)
def test_limits_that_make_no_sense(path, limit, reason):
    with pytest.raises(SuiteError, match=reason):
        perfassert(path, "--fail-above", limit)


@pytest.mark.parametrize("option", [("--jobs", "0"), ("--rows", "-1"), ("--rows", "few")])
def test_usage(path, option, capsys):
    with pytest.raises(SystemExit) as stop:
        perfassert(path, *option)
    assert stop.value.code == 2


def test_plot(path, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "scatter.png"
    assert perfassert(path, "--jobs", 1, "--plot", picture) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(PerfAssertError, match="cannot be written"):
        perfassert(path, "--jobs", 1, "--plot", tmp_path / "no/such/folder.png")
    with pytest.raises(PerfAssertError, match="cannot be written"):
        perfassert(path, "--jobs", 1, "--plot", tmp_path / "picture.doc")


def test_plot_of_groups_and_of_nothing(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    text = SUITE.replace('title = "Copies"', 'title = "Copies"\ngroup = "kernel"')
    suite, rows = prepared(write(tmp_path, text))
    report.plot(validate(suite, rows), tmp_path / "groups.svg")
    assert "copy" in (tmp_path / "groups.svg").read_text()
    monkeypatch.setattr("perfassert.lab.validation.run.predict", lambda *_: 1 / 0)
    report.plot(validate(suite, rows), tmp_path / "empty.png")


def test_plot_without_matplotlib(result, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(PerfAssertError, match=r"pip install .perfassert\[plot\]"):
        report.plot(result, tmp_path / "a.png")


def test_pairs_stand_side_by_side(path, result, capsys):
    assert perfassert(path, "--jobs", 1, "--pairs", "time") == 0
    assert "measured" in capsys.readouterr().out.partition("\ntime\n")[2]
    with pytest.raises(SuiteError, match="'time'"):
        report.pairs(result, "tme")


def test_one_run_of_nvdisasm_reads_the_code_of_several_rows(tmp_path, nvdisasm_runs):
    if tools.find("nvrtc") is None or tools.find("nvdisasm") is None:
        pytest.skip("nvrtc or nvdisasm is not installed")
    code = 'extern "C" __global__ void filled(int* a) { a[threadIdx.x] = VALUE; }'
    (tmp_path / "filled.cu").write_text(code)
    (tmp_path / "filled.csv").write_text("blocks,value,time_us\n10,1,5\n10,2,5\nmany,3,5\n10,4,5\n")
    settings = ONE_KERNEL.format(name="filled", settings="")
    (tmp_path / "filled.toml").write_text(settings + 'defines = { VALUE = "value" }')
    suite, rows = prepared(tmp_path / "filled.toml")
    outcomes = predict_rows(suite, rows)
    assert [bool(outcome.failure) for outcome in outcomes] == [False, False, True, False]
    assert {outcome.device for outcome in outcomes} == {"A100-SXM4-40GB"}
    assert len(nvdisasm_runs) == 1
