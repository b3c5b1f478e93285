"""The plug-in as pytest users meet it."""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

import perfassert as pa

TEST_FILE = """
import pytest
import perfassert as pa

N = 1 << 20
COPY = pa.Kernel.from_accesses(
    name="copy", fields=[pa.Field("a", shape=(N,)), pa.Field("b", shape=(N,))],
    loads=["a[x]"], stores=["b[x]"])

def test_passes(perf):
    perf(COPY, domain=N, block=256).expect(dram_load="8 B/update ± 1 %", limiter="dram")

def test_fails(perf):
    perf(COPY, grid=N // 256, block=256).expect(time="< 1 us", dram_store="8 B/update ± 1 %")

@pytest.mark.perf(devices=["l40", "h100"], xfail={"L40": "no data yet"})
def test_marked(perf):
    assert perf(COPY, pa.Launch(N // 256, 256)).device == "H100-SXM5-80GB"

def test_ranks(perf):
    perf.rank([128, 256], kernel=COPY, domain=N).expect(best_in=[128, 256])
    perf(COPY, domain=N, block=64)
    perf(COPY, domain=N, block=32)

def test_plain():
    pass
"""
PERF_TOML = """
[[test]]
name = "copy"
launch = { domain = 65536, block = 256 }
expect = { limiter = "!l1" }
[test.kernel.accesses]
fields = [{ name = "a", shape = 65536 }, { name = "b", shape = 65536 }]
loads = ["a[x]"]
stores = ["b[x]"]
"""
QUIET = ("-p", "no:randomly", "-p", "no:cacheprovider")
XDIST = ("-n", "1")  # a worker takes a second to start
pytestmark = pytest.mark.usefixtures("loaded")


@pytest.fixture
def project(pytester):
    pytester.makepyfile(test_copy=TEST_FILE)
    return pytester


def run(project, *arguments):
    return project.runpytest_inprocess(*QUIET, *arguments)


@pytest.fixture(scope="module")
def time():
    """Return the predicted time of the copy, in seconds."""
    fields = [pa.Field(name, shape=1 << 20) for name in ("a", "b")]
    kernel = pa.Kernel.from_accesses("copy", fields, loads=["a[x]"], stores=["b[x]"])
    return pa.predict(kernel, pa.Launch.cover(1 << 20, 256), "a100").time


@pytest.mark.parametrize("workers", [(), XDIST], ids=["alone", "xdist"])
def test_verdicts_report_and_properties(project, workers, time):
    result = run(project, "--perf-device", "a100", "--junitxml", "junit.xml", "-v", *workers)
    result.assert_outcomes(passed=4, failed=1, xfailed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    text = result.stdout.str()
    assert "test_passes[A100-SXM4-40GB]" in text
    over = float(time) / 1e-6 - 1
    assert f"ExpectationFailed: time is {time}, expected < 1 us ({1 + over:.3g} times)" in text
    result.stdout.fnmatch_lines(
        [
            "*predicted performance*",
            f"test_fails*copy*256×1×1*{time}*dram*failed",
            "7 predictions*",
        ]
    )
    properties = {
        (case.get("name"), p.get("name")): p.get("value")
        for case in ElementTree.parse(project.path / "junit.xml").iter("testcase")
        for p in case.iter("property")
    }
    assert properties["test_fails[A100-SXM4-40GB]", "perf.copy.limiter"] == "dram"
    assert float(properties["test_fails[A100-SXM4-40GB]", "perf.copy.time"]) == float(time)
    assert ("test_ranks[A100-SXM4-40GB]", "perf.copy#3.dram_load") in properties
    assert ("test_marked[L40]", "perf.copy.time") in properties


def test_the_same_with_and_without_workers(project):
    def section(*workers):
        lines = run(project, "--perf-device", "a100", "-v", *workers).stdout.lines
        start = next(i for i, line in enumerate(lines) if "predicted performance" in line)
        return [line for line in lines[start:] if not line.startswith("=")]

    assert section() == section("-n", "2")  # two: results come in another order


def test_devices_from_ini(project):
    project.makeini("[pytest]\nperf_devices =\n    a100\n    v100\n")
    result = run(project, "-v", "-k", "passes")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*test_passes[[]V100-PCIE-32GB[]]*"])


def test_devices_from_pyproject(project):
    project.makepyprojecttoml('[tool.pytest.ini_options]\nperf_devices = ["a100", "v100"]\n')
    run(project, "-k", "passes").assert_outcomes(passed=2)


def test_command_line_beats_ini(project):
    project.makeini("[pytest]\nperf_devices = a100\n")
    result = run(project, "-v", "-k", "passes", "--perf-device", "gh200")
    result.stdout.fnmatch_lines(["*test_passes[[]GH200-480GB[]]*"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--perf-device", "a101"), "unknown device 'a101'; did you mean 'A10"),
        (("--perf-device", "none.toml"), "none.toml: cannot be read"),
        ((*XDIST, "--perf-device", "none.toml"), "none.toml: cannot be read"),
        (("--perf-device", "a100", "--perf-device", "A100-SXM4-40GB"), "is given twice"),
    ],
)
def test_usage_errors(project, arguments, message):
    result = run(project, *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    output = result.stdout.str() + result.stderr.str()
    assert message in output
    assert "Traceback" not in output
    assert "INTERNALERROR" not in output


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ('@pytest.mark.perf("a100")', "takes no positional arguments"),
        ('@pytest.mark.perf(device="a100")', "has no argument 'device'"),
        ('@pytest.mark.perf(devices="a100")', "devices must be a list"),
        ("@pytest.mark.perf(devices=[])", "devices is empty"),
        ('@pytest.mark.perf(devices=["a100"], xfail="l40")', "xfail must map"),
    ],
)
def test_marker_arguments_are_checked(pytester, marker, message):
    pytester.makepyfile(f"import pytest\n{marker}\ndef test_it(perf): pass")
    result = run(pytester, "--strict-markers", "--perf-device", "a100")
    result.assert_outcomes(errors=1)
    assert message in result.stdout.str()
    assert "Traceback" not in result.stdout.str()


@pytest.mark.parametrize("workers", [(), XDIST], ids=["alone", "xdist"])
@pytest.mark.exhaustive(one_in=2)
def test_one_test_without_a_device_fails_alone(project, workers):
    result = run(project, *workers, "-k", "passes or marked or plain", "-v")
    result.assert_outcomes(passed=2, errors=1, xfailed=1, deselected=0 if workers else 2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "test_copy.py::test_passes[no device]" in result.stdout.str()
    result.stdout.fnmatch_lines(["no device given: use @pytest.mark.perf*"])


@pytest.mark.parametrize("workers", [(), XDIST], ids=["alone", "xdist"])
@pytest.mark.exhaustive(one_in=2)
def test_a_run_without_any_device_means_nothing(pytester, workers):
    pytester.makepyfile(
        "def test_it(perf): pass\ndef test_other(perf): pass\ndef test_plain(): pass"
    )
    result = run(pytester, *workers)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "no device given: use @pytest.mark.perf" in result.stderr.str() + result.stdout.str()


def test_a_device_that_a_marker_makes_up_fails_its_test(pytester):
    pytester.makepyfile(
        "import pytest\n@pytest.mark.perf(devices=['a101'])\ndef test_it(perf): pass\n"
        "def test_other(perf): assert perf.device.name == 'L40'"
    )
    result = run(pytester, "--perf-device", "l40")
    result.assert_outcomes(passed=1, errors=1)
    assert "unknown device 'a101'; did you mean 'A10" in result.stdout.str()


def test_selecting_by_marker_selects_all_that_use_the_fixture(project):
    (project.path / "copy.perf.toml").write_text(PERF_TOML)
    (project.path / "test_through.py").write_text(
        "import pytest\n@pytest.fixture\ndef through(perf): return perf.device.name\n"
        "def test_through(through): assert through == 'A100-SXM4-40GB'\n"
    )
    run(project, "--perf-device", "a100", "-m", "perf", "-k", "not fails").assert_outcomes(
        passed=5, xfailed=1, deselected=2
    )
    run(project, "--perf-device", "a100", "-m", "not perf").assert_outcomes(passed=1, deselected=7)


def test_the_fixture_has_a_public_type(project):
    (project.path / "test_copy.py").write_text(
        "import perfassert as pa\ndef test_it(perf: pa.Perf): assert isinstance(perf, pa.Perf)"
    )
    run(project, "--perf-device", "a100").assert_outcomes(passed=1)


def test_parameters_stand_behind_the_device(pytester):
    (pytester.path / "test_copy.py").write_text(
        "import pytest\n@pytest.mark.parametrize('n', [16])\ndef test_it(perf, n): pass"
    )
    (pytester.path / "copy.perf.toml").write_text(
        PERF_TOML.replace("[test.kernel", "parametrize.n = [16]\n[test.kernel")
    )
    lines = run(pytester, "--perf-device", "a100", "--collect-only", "-q").outlines
    assert {
        "copy.perf.toml::copy[A100-SXM4-40GB-16]",
        "test_copy.py::test_it[A100-SXM4-40GB-16]",
    } <= {*lines}


def test_silent_where_unused(pytester):
    pytester.makepyfile("def test_nothing(): pass")
    result = pytester.runpytest_subprocess("--strict-markers", "--strict-config", "-W", "error")
    result.assert_outcomes(passed=1)
    assert "perf" not in result.stdout.str().replace("perfassert-", "")


def test_can_be_turned_off(project):
    result = run(project, "-p", "no:perfassert", "-k", "plain")
    result.assert_outcomes(passed=1, deselected=4)


def test_only_failed_expectations_are_expected_to_fail(pytester):
    pytester.makepyfile(
        TEST_FILE
        + """
@pytest.mark.perf(devices=["l40"], xfail={"L40": "no data yet"})
@pytest.mark.parametrize("metric", ["time", "tiem"])
def test_typo(perf, metric):
    perf(COPY, domain=N, block=256).expect(**{metric: "< 1 ns"})
"""
    )
    result = run(pytester, "-v", "-k", "typo", "--perf-device", "l40")
    result.assert_outcomes(xfailed=1, failed=1)
    result.stdout.fnmatch_lines(["test_typo*xfailed"])


def test_device_files_named_in_the_ini_file_lie_beside_it(project):
    text = (Path(__file__).parents[2] / "devices" / "A40.toml").read_text()
    (project.path / "mine.toml").write_text(text.replace('name = "A40"', 'name = "MINE"'))
    project.makeini("[pytest]\nperf_devices = mine.toml\n")
    folder = project.mkdir("below")
    (folder / "test_below.py").write_text(TEST_FILE)
    (project.path / "test_copy.py").unlink()
    result = run(project, "-v", "-k", "passes")
    result.stdout.fnmatch_lines(["*test_passes[[]MINE[]]*"])


def test_long_sections_are_cut(pytester):
    pytester.makepyfile(
        TEST_FILE + "\n@pytest.mark.parametrize('i', range(25))\n"
        "def test_many(perf, i): perf(COPY, domain=N, block=256)\n"
    )
    result = run(pytester, "--perf-device", "a100", "-k", "many")
    result.stdout.fnmatch_lines(["… and 5 more; -v shows all", "25 predictions in 25 tests*"])


def test_bad_calls_fail_the_test(pytester):
    pytester.makepyfile(
        TEST_FILE
        + """
@pytest.mark.parametrize("wrong", [
    {}, {"block": 256}, {"domain": N}, {"block": 256, "domain": N, "grid": 4},
    {"launch": pa.Launch(1, 256), "block": 256}, {"block": 2048, "domain": N},
    {"block": 256, "domain": 0},
])
def test_wrong(perf, wrong):
    with pytest.raises(pa.LaunchError):
        perf(COPY, **wrong)
"""
    )
    run(pytester, "--perf-device", "a100", "-k", "wrong").assert_outcomes(passed=7)


def section_of(result):
    """The table of predictions, as lists of cells."""
    lines = result.stdout.lines
    start = next(i for i, line in enumerate(lines) if "predicted performance" in line)
    return [line.split() for line in lines[start + 1 :] if "[" in line and "FAILED" not in line]


def test_failures_first_then_as_asked(project):
    columns = "--perf-columns=test,time,registers,dram_load,occupancy"
    project.makeini("[pytest]\nperf_sort = block\n")
    for sort in ("--perf-sort=-block,test", "--perf-sort=block,-test"):
        found = run(project, "--perf-device", "a100", "--perf-columns=test,block,outcome", sort)
        rows = section_of(found)
        assert [row[2] == "failed" for row in rows] == [True] + [False] * (len(rows) - 1)
        sizes = [int(row[1].split("×")[0]) for row in rows[1:]]
        assert sizes == sorted(sizes, reverse="-block" in sort)
        same = [row[0] for row in rows[1:] if row[1] == "256×1×1"]
        assert same == sorted(same, reverse="-test" in sort)
        assert len(set(sizes)) > 1
    text = run(project, "--perf-device", "a100", "-k", "passes", columns).stdout.str()
    assert re.search(r"^test +time +registers +dram_load +occupancy$", text, re.M)
    assert re.search(r"^test_passes\S+ +[\d.]+ us +\d+ +8.389 MB +100.0 %$", text, re.M)


@pytest.mark.parametrize("option", ["--perf-sort=dram_laod", "--perf-columns=test,dram_laod"])
def test_unknown_columns(project, option):
    result = run(project, "--perf-device", "a100", option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    message = "unknown column 'dram_laod'; did you mean 'dram_load'"
    assert f"ERROR: {option.partition('=')[0]}: {message}" in result.stderr.str()


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("perf_columns", "foo", "perf_columns: unknown column 'foo'"),
        ("perf_sort", "-foo", "perf_sort: unknown column 'foo'"),
        ("perf_report", "foo", "perf_report: 'foo' is not FORMAT:PATH"),
        ("perf_report", "foo:x", "perf_report: unknown report format 'foo'"),
        ("perf_baseline", "a/b", "perf_baseline: 'a/b' is no name"),
        ("perf_toolchain", "foo", "perf_toolchain must be a release"),
        ("perf_no_toolchain", "foo", "perf_no_toolchain must be one of fail, skip, not 'foo'"),
        ("perf_assumptions", "foo", "perf_assumptions must be one of error, warn, allow, not"),
    ],
)
def test_an_impossible_value_in_the_ini_file_is_one_usage_error(project, key, value, message):
    """Whether any test needs the setting or not."""
    project.makeini(f"[pytest]\n{key} = {value}\n")
    result = run(project, "--perf-device", "a100", "-k", "passes")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert result.stderr.str().count(message) == 1


def test_errors_show_the_line_of_the_test(pytester):
    """Also where they pass through the standard library, or code that it generates."""
    pytester.makepyfile(
        """
        import perfassert as pa

        def test_through_a_cached_property(perf):
            copy = pa.Kernel.from_accesses("copy", [pa.Field("a", shape=64)], loads=["a[x + n]"])
            perf(copy, pa.Launch(1, 32))  # lacks n

        def test_through_generated_code():
            pa.Latency(issue=0, completion=4)  # takes time

        def test_through_a_function_of_its_own():
            copy = pa.Kernel.from_accesses("copy", [pa.Field("a", shape=64)], loads=["a[x]"])
            def fail(*_):
                raise pa.GraphError("mine")  # own line
            pa.rank([32], "a100", kernel=copy, domain=64, predictor=fail)
        """
    )
    result = run(pytester, "--perf-device", "a100")
    text = result.stdout.str()
    result.assert_outcomes(failed=3)
    for line in ("# lacks n", "# takes time", "# own line"):
        assert re.search(f"^>.*{line}$", text, re.M)
    assert "functools" not in text
    assert "<string>" not in text


def test_modules_of_perfassert_are_those_that_run_without_pytest(pytester):
    """Asserts of tests are rewritten; of some 300 modules of ours none is compiled anew.

    Not every pytest rewrites those of an editable installation by itself.
    """
    pytester.makeconftest("import pytest\npytest.register_assert_rewrite('perfassert')")
    pytester.makepyfile(
        """
        import sys

        def test_loaders(perf):
            def kind(module):
                return type(module.__spec__.loader).__name__

            own = {n: kind(m) for n, m in sys.modules.items() if n.startswith("perfassert.")}
            own.pop("perfassert.pytest_plugin")  # which has the finder
            assert "perfassert.pytest_plugin.session" in own
            assert kind(sys.modules[__name__]) == "AssertionRewritingHook"
            assert "AssertionRewritingHook" not in own.values()
        """
    )
    result = pytester.runpytest_subprocess(
        "--perf-device=a100", "-W", "ignore::pytest.PytestAssertRewriteWarning"
    )
    result.assert_outcomes(passed=1)
