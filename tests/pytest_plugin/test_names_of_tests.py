"""Names of tests in ``*.perf.toml`` files: short, unique, and known by those of version 0.3."""

import pytest

from perfassert.baseline.text import parse_file
from perfassert.perf_toml.cases import LONGEST_ID, Header
from perfassert.pytest_plugin.regression import _without_device

LONG = "reduce_" + "cub_detail_DeviceReduceKernel_" * 6
TOML = """
devices = ["a100"]
[[test]]
name = "{test}"
kernel.name = "{kernel}"
kernel.accesses = {{ fields = [{{ name = "a", shape = 1048576 }}], loads = ["a[x]"] }}
launch = {{ domain = 1048576, block = 256 }}
baseline = true
"""


def case_id(name, *parameters, device="A100-SXM4-40GB"):
    return Header(name, parameters, None, {}, {}, "", 1, str).case_id(device)


class TestCaseId:
    def test_a_short_one_is_whole(self):
        assert case_id("saxpy", "128") == "saxpy[A100-SXM4-40GB-128]"

    @pytest.mark.parametrize("parameters", [(), ("128",), ("x" * 90, "y" * 90)])
    def test_a_long_one_is_cut_and_its_own(self, parameters):
        ids = {case_id(LONG + end, *parameters) for end in ("", "a", "b")}
        assert len(ids) == 3
        assert {len(i) for i in ids} == {LONGEST_ID}
        assert all(i.startswith("reduce_cub_detail_De") for i in ids)

    def test_the_digest_is_the_same_on_all_devices(self):
        tests = {_without_device(case_id(LONG, "8", device=d), d) for d in ("L40", "T4", "V100")}
        assert {t.partition("[")[0][-7:] for t in tests} == {tests.pop().partition("[")[0][-7:]}


@pytest.fixture
def write(pytester, monkeypatch):
    monkeypatch.delenv("CI", raising=False)

    def write(test, kernel):
        text = TOML.format(test=test, kernel=kernel)
        (pytester.path / "k.perf.toml").write_text(text)

    return write


def run(project, *arguments):
    return project.runpytest_inprocess("-p", "no:cacheprovider", *arguments)


def keys(project):
    file = project.path / "__perf__" / "k.perf.toml"
    return [key.test for key in parse_file(file.read_bytes(), "file")]


class TestOlderNames:
    """``init`` of version 0.3 called the test of ``ns::scale<4>`` ns_scale_4."""

    KERNEL = "ns::scale<4>"

    @pytest.fixture
    def renamed(self, pytester, write):
        write("ns_scale_4", self.KERNEL)
        run(pytester, "--perf-update").assert_outcomes(passed=1)
        write("scale_4", self.KERNEL)
        return pytester

    def test_a_baseline_is_found_and_moved_by_an_update(self, renamed):
        result = run(renamed)
        result.assert_outcomes(passed=1)
        result.stdout.fnmatch_lines(["*version 0.3*--perf-update*", "*scale_4*ns_scale_4*"])
        result.stdout.no_fnmatch_line("*unused*")
        result = run(renamed, "--perf-update")
        result.stdout.fnmatch_lines(["*changed*scale_4*kept as ns_scale_4 so far*"])
        assert keys(renamed) == ["scale_4"]
        run(renamed, "--perf-strict").assert_outcomes(passed=1)

    def test_an_id_that_was_too_long(self, pytester, write, monkeypatch):
        write(LONG, "k")
        with monkeypatch.context() as of_0_3:
            of_0_3.setattr("perfassert.perf_toml.cases.LONGEST_ID", 10_000)
            run(pytester, "--perf-update").assert_outcomes(passed=1)
        run(pytester).assert_outcomes(passed=1)

    def test_another_kernel_s_baseline_is_not_taken(self, renamed, write):
        write("scale_4", "other::scale<4>")
        run(renamed).assert_outcomes(failed=1)

    def test_deselecting_by_the_older_name_warns(self, renamed):
        result = run(renamed, "--deselect", "k.perf.toml::ns_scale_4")
        result.stdout.fnmatch_lines(["*leaves nothing out*k.perf.toml::scale_4[[]A100*"])
        result = run(renamed, "--deselect", "k.perf.toml::scale_4")
        assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
        result.stdout.no_fnmatch_line("*leaves nothing out*")
