"""``*.perf.toml`` files as pytest users meet them."""

import xml.etree.ElementTree as ElementTree

import pytest

import perfassert as pa

FILE = """
[kernels.copy.accesses]
fields = [{ name = "a", shape = 1048576 }, { name = "b", shape = 1048576 }]
loads = ["a[x]"]
stores = ["b[x]"]

[[test]]
name = "passes"
kernel = "copy"
launch = { domain = 1048576, block = "{BLOCK}" }
expect = { limiter = "dram", dram_load = "8 B/update ± 1 %" }
parametrize.BLOCK = [128, 256]

[[test]]
name = "fails"
kernel = "copy"
launch = { domain = 1048576, block = 256 }
[test.expect]
limiter = "dram"
time = "< 1 us"
dram_load = "< 1 B/update"

[[test]]
name = "skipped"
kernel = "copy"
launch = { domain = 1048576, block = 256 }
expect = { time = "< 1 us" }
skip = "not now"

[[test]]
name = "expected to fail"
devices = ["a100", "l40"]
kernel = "copy"
launch = { domain = 1048576, block = 256 }
expect = { time = "< 13 us" }
xfail = { L40 = "slower memory" }

[[rank]]
name = "shapes"
kernel = "copy"
domain = 1048576
candidates = [32, 256]
expect = { best = 256 }

[[rank]]
name = "wrong shapes"
kernel = "copy"
domain = 1048576
candidates = [[1, 256], 256]
expect = { best = [1, 256], order = [256, [1, 256]] }
"""
BASELINE = """
[kernels.copy.accesses]
fields = [{ name = "a", shape = 1048576 }, { name = "b", shape = 1048576 }]
loads = ["a[x]"]
stores = ["b[x]"]

[[test]]
name = "kept"
kernel = "copy"
launches.wide = { domain = 1048576, block = 256 }
launches.small = { domain = 1048576, block = 32 }
baseline = { tolerance = "2 %", dram = "1 %" }
"""


def at(text, needle, count=0):
    """``copy.perf.toml:LINE`` of the line that begins so, the ``count``-th of them."""
    lines = [i for i, line in enumerate(text.splitlines(), 1) if line.startswith(needle)]
    return f"copy.perf.toml:{lines[count]}"


QUIET = ("-p", "no:randomly", "-p", "no:cacheprovider")
XDIST = ("-n", "1")  # a worker takes a second to start
pytestmark = [pytest.mark.exhaustive(one_in=2), pytest.mark.usefixtures("loaded")]
A100 = ("--perf-device", "a100")


@pytest.fixture(autouse=True)
def _no_ci(monkeypatch):
    monkeypatch.delenv("CI", raising=False)


@pytest.fixture
def project(pytester):
    (pytester.path / "copy.perf.toml").write_text(FILE, "utf-8")
    return pytester


def run(project, *arguments):
    return project.runpytest_inprocess(*QUIET, *arguments)


@pytest.fixture(scope="module")
def time():
    """Return the time of the copy as it is printed."""
    fields = [pa.Field(name, shape=1 << 20) for name in ("a", "b")]
    kernel = pa.Kernel.from_accesses("copy", fields, loads=["a[x]"], stores=["b[x]"])
    return str(pa.predict(kernel, pa.Launch.cover(1 << 20, 256), "a100").time)


@pytest.mark.parametrize("workers", [(), XDIST], ids=["alone", "xdist"])
@pytest.mark.exhaustive(one_in=2)
def test_verdicts_places_and_properties(project, workers, time):
    result = run(project, *A100, "--strict-markers", "--junitxml", "junit.xml", "-v", *workers)
    result.assert_outcomes(passed=4, failed=2, xfailed=1, skipped=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    text = result.stdout.str()
    result.stdout.fnmatch_lines(
        [
            f"*time is {time}, expected < 1 us (* times); dram_load is 8 B/update, expected*",
            "metric *expected *predicted *difference *margin *verdict*",
            "limiter *dram *ok*",
            f"{at(FILE, 'time')}: test[[]1].expect.time",
            f"{at(FILE, 'dram_load')}: test[[]1].expect.dram_load",
        ]
    )
    assert "toml_items.py" not in text.partition("short test summary")[0]
    assert f"{at(FILE, 'expect', -1)}: rank[1].expect" in text
    result.stdout.fnmatch_lines(
        [
            f"fails[[]A100-SXM4-40GB] *copy*256×1×1*{time}*dram*failed",
            "passes[[]A100-SXM4-40GB-128] *passed",
            "7 predictions in 7 tests, without a GPU",
            "FAILED copy.perf.toml::fails[[]A100-SXM4-40GB]*ExpectationFailed*",
        ]
    )
    cases = {c.get("name"): c for c in ElementTree.parse("junit.xml").getroot().iter("testcase")}
    failed = cases["fails[A100-SXM4-40GB]"]
    names = {p.get("name") for p in failed.iter("property")}
    assert {"perf.copy.time", "perf.copy.limiter", "perf.copy.dram_load"} <= names
    assert f"time is {time}" in failed.find("failure").get("message")


def test_ids_places_and_selection(project):
    everything = run(project, *A100, "--collect-only", "-q")
    listed = [line for line in everything.outlines if "::" in line]
    assert listed == [
        "copy.perf.toml::passes[A100-SXM4-40GB-128]",
        "copy.perf.toml::passes[A100-SXM4-40GB-256]",
        "copy.perf.toml::fails[A100-SXM4-40GB]",
        "copy.perf.toml::skipped[A100-SXM4-40GB]",
        "copy.perf.toml::expected to fail[A100-SXM4-40GB]",
        "copy.perf.toml::expected to fail[L40]",
        "copy.perf.toml::shapes[A100-SXM4-40GB]",
        "copy.perf.toml::wrong shapes[A100-SXM4-40GB]",
    ]
    run(project, *A100, listed[0]).assert_outcomes(passed=1)
    run(project, *A100, "-k", "shapes and not wrong").assert_outcomes(passed=1, deselected=7)
    run(project, *A100, "-m", "not perf").assert_outcomes(deselected=8)
    run(project, "--perf-device", "h100", "--perf-device", "l40", "-k", "passes").assert_outcomes(
        passed=4, deselected=10
    )


@pytest.mark.parametrize("workers", [(), XDIST], ids=["alone", "xdist"])
@pytest.mark.exhaustive(one_in=2)
def test_no_device_fails_the_test(project, workers):
    result = run(project, *workers, "-k", "passes")
    result.assert_outcomes(errors=2, deselected=0 if workers else 6)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*passes[[]no device-128]*", "no device given: use *"])


def test_ini_and_switched_off(project):
    project.makeini("[pytest]\nperf_devices = l40")
    run(project, "-k", "passes").assert_outcomes(passed=2, deselected=6)
    run(project, "-p", "no:perfassert", "-c", "/dev/null", "--rootdir", ".").assert_outcomes()


def test_errors_of_collection_name_file_line_and_key(project):
    (project.path / "copy.perf.toml").write_text(FILE.replace("time =", "tiem ="), "utf-8")
    result = run(project, *A100)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(
        [
            "*ERROR collecting copy.perf.toml*",
            f"{at(FILE, 'time')}: test[[]1].expect.tiem: unknown metric 'tiem'; did you *'time'?",
        ]
    )
    assert "Traceback" not in result.stdout.str()


def test_errors_of_a_case_name_its_place(project):
    text = FILE.replace("block = 256", "block = 256, shared_bytes = 500000", 1)
    (project.path / "copy.perf.toml").write_text(text, "utf-8")
    result = run(project, *A100, "-k", "fails")
    result.assert_outcomes(failed=1, deselected=7)
    place = f"{at(FILE, 'launch', 1)}: test[[]1].launch: "
    result.stdout.fnmatch_lines([f"{place}*500000*", "FAILED *LaunchError*"])


def test_only_failed_expectations_are_expected_to_fail(project):
    text = FILE.replace('time = "< 13 us"', "spill_bytes = 0").replace('"slower', '"a typo: slower')
    (project.path / "copy.perf.toml").write_text(text, "utf-8")
    result = run(project, *A100, "-k", "expected")
    result.assert_outcomes(failed=2, deselected=6)
    result.stdout.fnmatch_lines([f"{at(text, 'expect', 2)}: test[[]3].expect: *cannot have*"])


def test_baselines_lie_beside_the_file(project):
    path = project.path / "copy.perf.toml"
    path.write_text(BASELINE, "utf-8")
    missing = run(project, *A100)
    missing.assert_outcomes(failed=2)
    missing.stdout.fnmatch_lines(
        [f"{at(BASELINE, 'baseline')}: test[[]0].baseline: *has no baseline for kept*"]
    )
    run(project, *A100, "--perf-update", *XDIST).assert_outcomes(passed=2)
    kept = project.path / "__perf__" / "copy.perf.toml"
    text = kept.read_text("utf-8")
    assert "kept[wide]" in text
    assert "kept[small]" in text
    assert "A100-SXM4-40GB" in text
    run(project, *A100, "--perf-strict").assert_outcomes(passed=2)
    path.write_text(BASELINE.replace('["a[x]"]', '["a[x]", "b[x]"]'), "utf-8")
    worse = run(project, *A100)
    worse.assert_outcomes(failed=2)
    worse.stdout.fnmatch_lines([f"{at(BASELINE, 'baseline')}: test[[]0].baseline"])
    path.write_text(BASELINE.replace("launches.small", "#"), "utf-8")
    pruned = run(project, *A100, "--perf-update=prune")
    pruned.assert_outcomes(passed=1)
    assert "kept[small]" not in kept.read_text("utf-8")


def test_a_failed_condition_hides_no_regression(project):
    path = project.path / "copy.perf.toml"
    text = BASELINE.replace("baseline", 'expect = { dram_load = "< 99 B/update" }\nbaseline', 1)
    path.write_text(text, "utf-8")
    run(project, *A100, "--perf-update").assert_outcomes(passed=2)
    worse = text.replace('["a[x]"]', '["a[x]", "b[x]"]').replace("< 99", "< 1")
    path.write_text(worse, "utf-8")
    result = run(project, *A100)
    result.assert_outcomes(failed=2)
    places = [f"{at(text, key)}: test[[]0].{key}*" for key in ("baseline", "expect")]
    result.stdout.fnmatch_lines(["*to the baseline*", places[0], "*expected < 1 B*", places[1]])


def test_an_error_outweighs_a_failed_condition(project):
    """An expected failure is one of a condition: a missing baseline is not."""
    text = BASELINE.replace("baseline", 'expect = { limiter = "l2" }\nbaseline', 1)
    text = text.replace("launches.small", 'xfail = "l2"\nlaunches.small')
    (project.path / "copy.perf.toml").write_text(text, "utf-8")
    result = run(project, *A100)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*has no baseline for kept*", "*expected l2*"])


def test_where_no_toolchain_is_installed(project, monkeypatch):
    (project.path / "copy.cu").write_text('extern "C" __global__ void copy(float* a) {}')
    (project.path / "copy.perf.toml").write_text(
        '[[test]]\nname = "compiled"\nkernel = { cuda = "copy.cu" }\n'
        "launch = { grid = 1, block = 32 }\nexpect = { spill_bytes = 0 }\n"
    )

    def missing(*_):
        raise pa.ToolchainMissing("install perfassert[cuda]")

    monkeypatch.setattr("perfassert.predictor.analyses.build", missing)
    run(project, *A100, "--perf-no-toolchain=skip").assert_outcomes(skipped=1)
    failed = run(project, *A100)
    failed.assert_outcomes(failed=1)
    failed.stdout.fnmatch_lines(["*copy.perf.toml:3: test[[]0].kernel: install perfassert[[]cuda]"])


def test_a_missing_argument_is_given_as_a_key(project):
    """A reader of the file has no ``Launch.args``."""
    source = "__global__ void fill(float* a, int n) { for (int i = 0; i < n; i++) a[i] = 1; }"
    (project.path / "fill.cu").write_text(source)
    test = 'name = "f"\nkernel = { cuda = "fill.cu" }\nlaunch = { grid = 1, block = 32 }\n'
    (project.path / "f.perf.toml").write_text(f'[[test]]\n{test}expect = {{ time = "< 1 s" }}\n')
    (project.path / "copy.perf.toml").unlink()
    result = run(project, *A100)
    if "ToolchainMissing" in result.stdout.str():
        pytest.skip("no compiler is installed")
    result.stdout.fnmatch_lines(["f.perf.toml:4: *'n'*; give it as args.n of the launch"])
