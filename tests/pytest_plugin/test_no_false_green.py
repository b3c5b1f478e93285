"""The ways in which a regression could pass, each tried: plain, under --perf-strict, by compare.

``docs/explanation/security.md`` lists them with the name of the test here, or of the one elsewhere.
"""

import json
from pathlib import Path

import pytest

from perfassert.cli.main import main
from perfassert.system.confined import FOLDER

KERNEL = """
import os
import pytest
import perfassert as pa

N = int(os.environ.get("SIZE", 1 << 20))

def copy(n=N):
    return pa.Kernel.from_accesses(
        name="copy", fields=[pa.Field("a", shape=(n,)), pa.Field("b", shape=(n,))],
        loads=["a[x]"], stores=["b[x]"])
"""
WRAPPED = """
import contextlib
import pytest

@pytest.fixture
def perf(perf):
    class Lenient:
        def __call__(self, *given, **named):
            return perf(*given, **named)

        def no_regression(self, p):
            with contextlib.suppress(AssertionError):
                perf.no_regression(p)

    return Lenient()
"""
GATE = "\ndef test_copy(perf):\n    perf.no_regression(perf(copy(), domain=N, block=256))\n"
TOML_GATE = """
[[test]]
name = "copy"
launch = { domain = 1048576, block = 256 }
baseline = true
[test.kernel.accesses]
fields = [{ name = "a", shape = 1048576 }, { name = "b", shape = 1048576 }]
loads = ["a[x]"]
stores = ["b[x]"]
"""
QUIET = ("-p", "no:randomly", "-p", "no:cacheprovider")
pytestmark = pytest.mark.usefixtures("loaded")


@pytest.fixture(autouse=True)
def _usual(monkeypatch):
    for name in ("CI", "SIZE", FOLDER):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def kept(pytester):
    """A gate with a baseline, in a folder of its own beside a plain test."""
    pytester.makeini("[pytest]\nperf_devices = a100")
    folder = pytester.mkdir("gates")
    (folder / "test_gate.py").write_text(KERNEL + GATE)
    pytester.makepyfile(test_plain="def test_plain():\n    pass\n")
    assert run(pytester, "--perf-update").ret == 0
    return pytester


def run(project, *arguments):
    return project.runpytest_inprocess(*QUIET, *arguments)


def gate(project) -> Path:
    return project.path / "gates" / "test_gate.py"


def baselines(project) -> Path:
    return project.path / "gates" / "__perf__" / "test_gate.toml"


def reported(project, name):
    """A JSON report of a run as it is now, whatever becomes of it."""
    run(project, f"--perf-report=json:{name}")
    return str(project.path / name)


def compared(project, capsys, change):
    """Return the exit code and the statuses of ``compare`` for a change."""
    base = reported(project, "base.json")
    change()
    code = main(["compare", base, reported(project, "head.json"), "--json"])
    return code, json.loads(capsys.readouterr().out.splitlines()[-1])["counts"]


class TestSwallowed:
    """An ``except`` around a failure leaves a test that passes."""

    @pytest.mark.exhaustive(one_in=3)
    @pytest.mark.parametrize("catch", ["except Exception", "except AssertionError", "raises"])
    @pytest.mark.parametrize("call", ["perf.no_regression(p)", "p.expect(time='< 1 ns')"])
    def test_it_fails_all_the_same(self, kept, monkeypatch, catch, call):
        around = "with pytest.raises(BaseException):\n        {0}\n"
        if catch != "raises":
            around = f"try:\n        {{0}}\n    {catch}:\n        pass\n"
        body = f"\ndef test_copy(perf):\n    p = perf(copy(), domain=N, block=256)\n    {around}"
        gate(kept).write_text(KERNEL + body.format(call))
        monkeypatch.setenv("SIZE", str(1 << 22))
        result = run(kept)
        result.assert_outcomes(passed=1, failed=1)
        result.stdout.fnmatch_lines(["the test passed although these failed in it*"])

    def test_a_missing_baseline_is_not_swallowed(self, kept):
        baselines(kept).unlink()
        body = (
            "\ndef test_copy(perf):\n    try:\n        perf.no_regression(perf(copy(), domain=N, "
        )
        gate(kept).write_text(f"{KERNEL}{body}block=256))\n    except Exception:\n        pass\n")
        run(kept).assert_outcomes(passed=1, failed=1)

    def test_nor_does_a_skip_behind_it(self, kept, monkeypatch):
        call = "perf.no_regression(perf(copy(), domain=N, block=256))"
        skips = f"    try:\n        {call}\n    except AssertionError:\n        pytest.skip()\n"
        gate(kept).write_text(f"{KERNEL}\ndef test_copy(perf):\n{skips}")
        run(kept).assert_outcomes(passed=2)
        monkeypatch.setenv("SIZE", str(1 << 22))
        result = run(kept)
        result.assert_outcomes(passed=1, failed=1)
        result.stdout.fnmatch_lines(["the test was skipped although these failed in it*"])

    @pytest.mark.parametrize("catch", ["try", "raises"])
    def test_nor_that_of_a_ranking(self, kept, catch):
        claim = "perf.rank([32, 256], kernel=copy(), domain=N).expect(best=32)"
        around = f"    with pytest.raises(AssertionError):\n        {claim}\n"
        if catch == "try":
            around = f"    try:\n        {claim}\n    except AssertionError:\n        pass\n"
        gate(kept).write_text(f"{KERNEL}\ndef test_copy(perf):\n{around}")
        result = run(kept)
        result.assert_outcomes(passed=1, failed=1)
        result.stdout.fnmatch_lines(["best is 256×1×1, expected 32×1×1*"])

    def test_a_fixture_that_a_conftest_wraps_is_no_hiding_place(self, kept, monkeypatch):
        (gate(kept).parent / "conftest.py").write_text(WRAPPED)
        run(kept).assert_outcomes(passed=2)
        monkeypatch.setenv("SIZE", str(1 << 22))
        run(kept).assert_outcomes(passed=1, failed=1)

    def test_expected_failures_stay_what_they_are(self, kept, monkeypatch):
        marked = GATE.replace("\ndef", "\n@pytest.mark.perf(xfail={'a100': 'known'})\ndef")
        gate(kept).write_text(KERNEL + marked)
        monkeypatch.setenv("SIZE", str(1 << 22))
        run(kept).assert_outcomes(passed=1, xfailed=1)


class TestAnotherPrediction:
    """Tests that baselines compare only the model's prediction of their kernel."""

    @staticmethod
    def handed(project, expression, body="perf.no_regression(q)"):
        """A gate that predicts its kernel, and hands on something else."""
        lines = ("import copy as copies, dataclasses, pickle", KERNEL)
        lines += ("def test_copy(perf):", "    p = perf(copy(), domain=N, block=256)")
        lines += (f"    q = {expression}", f"    {body}", "")
        gate(project).write_text("\n".join(lines))
        return run(project)

    def test_another_kernels_is_refused(self, kept):
        other = KERNEL.replace("def copy", "def halve").replace('"copy"', '"halve"')
        gate(kept).write_text(KERNEL + GATE)
        run(kept, "--perf-update").assert_outcomes(passed=2)
        swapped = GATE.replace("copy()", "halve(N // 2)").replace("domain=N", "domain=N // 2")
        gate(kept).write_text(other + swapped)
        result = run(kept)
        result.assert_outcomes(passed=1, failed=1)
        result.stdout.fnmatch_lines(
            [
                "*BaselineError: the baseline of test_copy on A100*it is of kernel 'copy', and "
                "this prediction is of kernel 'halve'; if the kernel was renamed, say was='copy'; "
                "write it: pytest --perf-update *"
            ]
        )
        run(kept, "--perf-update").assert_outcomes(passed=2)
        run(kept, "--perf-strict").assert_outcomes(passed=2)

    def test_a_rename_is_accepted_where_it_is_said(self, kept):
        """And where the code is the same, without a word."""
        renamed = KERNEL.replace('"copy"', '"twin"')
        gate(kept).write_text(renamed + GATE)
        run(kept).assert_outcomes(passed=2)
        less = GATE.replace("copy()", "copy(N // 2)").replace("N, block", "N // 2, block")
        gate(kept).write_text(renamed + less)
        run(kept).assert_outcomes(passed=1, failed=1)
        for was, failed in (("copy", 0), ("other", 1)):
            gate(kept).write_text(renamed + less.replace("=256)", f"=256), was={was!r}"))
            run(kept).assert_outcomes(passed=2 - failed, failed=failed)

    def test_a_file_that_names_no_kernel(self, kept):
        lines = baselines(kept).read_text().splitlines(keepends=True)
        without = ("kernel =", "checksum =")  # as files of before have it
        baselines(kept).write_text("".join(x for x in lines if not x.startswith(without)))
        run(kept).assert_outcomes(passed=2)
        gate(kept).write_text(KERNEL + GATE.replace("copy()", "copy(2 * N)"))
        result = run(kept)
        result.assert_outcomes(passed=1, failed=1)
        result.stdout.fnmatch_lines(["*it names no kernel*"])

    @pytest.mark.parametrize("was", ["''", "3"])
    def test_a_name_that_is_none(self, kept, was):
        gate(kept).write_text(KERNEL + GATE.replace("=256)", f"=256), was={was}"))
        result = run(kept)
        result.assert_outcomes(passed=1, failed=1)
        result.stdout.fnmatch_lines(["*ExpectationError: *was must be a kernel's name*"])

    @pytest.mark.exhaustive(one_in=4)
    @pytest.mark.parametrize("body", ["perf.no_regression(q)", "q.expect(time='< 1 s')"])
    @pytest.mark.parametrize(
        ("expression", "reason"),
        [
            ("dataclasses.replace(p, time=p.time / 2)", "was changed after it was made"),
            ("object.__setattr__(p, 'time', p.time / 2) or p", "was changed after it was made"),
            (
                "object.__setattr__(p.volumes.dram_load, 'total', p.time) or p",
                "was changed after it was made",
            ),
            (
                "p.__dict__.update(diagnosis=dataclasses.replace(p.diagnosis, stalls={})) or p",
                "was changed after it was made",
            ),
            ("pa.Prediction.from_dict(p.to_dict() | {'time': 1e-9})", "was read from data"),
            ("pa.Prediction.from_dict(p.to_dict() | {'stalls': {}})", "was read from data"),
            (
                "pickle.loads(pickle.dumps(dataclasses.replace(p, time=p.time / 2)))",
                "was read from data",
            ),
            ("copies.deepcopy(dataclasses.replace(p, time=p.time / 2))", "was read from data"),
        ],
    )
    def test_a_changed_one_is_refused(self, kept, expression, reason, body):
        result = self.handed(kept, expression, body)
        result.assert_outcomes(passed=1, failed=1)
        result.stdout.fnmatch_lines(
            [f"*ExpectationError: the prediction of copy on A100* {reason}*"]
        )

    def test_hiding_the_refusal_does_not_help(self, kept):
        body = "\n    with pytest.raises(pa.ExpectationError): q.expect(time='< 1 s')"
        result = self.handed(kept, "dataclasses.replace(p, time=p.time / 2)", body)
        result.assert_outcomes(passed=1, failed=1)
        result.stdout.fnmatch_lines(["the test passed although these failed in it*"])

    @pytest.mark.exhaustive(one_in=2)
    @pytest.mark.parametrize(
        "expression",
        ["p", "pickle.loads(pickle.dumps(p))", "copies.copy(p)", "copies.deepcopy(p)",
         "pa.predict(copy(), pa.Launch.cover(N, 256), perf.device)"],
    )  # fmt: skip
    def test_unchanged_ones_pass(self, kept, expression):
        self.handed(kept, expression).assert_outcomes(passed=2)
        self.handed(kept, expression, "q.expect(time='< 1 s')").assert_outcomes(passed=2)

    def test_tools_that_read_predictions_are_no_gate(self, kept):
        made = "made = pa.predict(copy(), pa.Launch.cover(N, 256), 'a100')"
        read = "pa.Prediction.from_dict(made.to_dict() | {'time': 1e-9})"
        body = f"    {made}\n    {read}.expect(time='< 1 us')\n"
        gate(kept).write_text(f"{KERNEL}\ndef test_tool():\n{body}")
        run(kept).assert_outcomes(passed=2)


def test_a_worker_that_dies(kept):
    """No report of its test comes; the run fails, and nothing is written."""
    text = baselines(kept).read_bytes()
    gate(kept).write_text(KERNEL + GATE.replace("    perf.no", "    os._exit(0)\n    perf.no"))
    result = kept.runpytest_subprocess(*QUIET, "-n", "1", "--perf-update")
    assert result.ret != 0
    assert baselines(kept).read_bytes() == text


VANISHED = {
    "skipped": GATE.replace("\ndef", "\n@pytest.mark.skip\ndef"),
    "skipped inside": GATE.replace("    perf.no", "    pytest.skip()\n    perf.no"),
    "renamed away": GATE.replace("def test_copy(perf)", "def copies(perf)"),
    "call removed": "\ndef test_copy(perf):\n    assert perf(copy(), domain=N, block=256)\n",
    "another of its name": f"{GATE}\ndef test_copy():\n    pass\n",
    "device left out": GATE.replace("\ndef", "\n@pytest.mark.perf(devices=['l40'])\ndef").replace(
        "perf.no_regression(", "(lambda p: p.expect(registers='> 0'))("
    ),
}


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("way", VANISHED)
def test_a_gate_that_vanished_fails_under_strict(kept, way):
    """pytest alone sees a test that passes, is skipped, or none."""
    gate(kept).write_text(KERNEL + VANISHED[way] + "\ndef test_other():\n    pass\n")
    assert run(kept).ret == 0
    result = run(kept, "--perf-strict")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["unused baselines fail the run*", "*test_copy*"])


def test_a_comment_on_a_run_that_strict_fails_has_no_tick(kept):
    gate(kept).write_text(KERNEL + VANISHED["renamed away"] + "\ndef test_other():\n    pass\n")
    assert run(kept, "--perf-strict", "--perf-report=md:comment.md").ret == 1
    assert "✅" not in (kept.path / "comment.md").read_text("utf-8")


def test_a_module_that_is_gone_fails_under_strict(kept):
    """Even where nothing else is left in its folder, and the run has no baselines at all."""
    gate(kept).unlink()
    assert run(kept).ret == 0
    result = run(kept, "--perf-strict")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*(its module is gone)"])
    run(kept, "--perf-strict", "--perf-update=prune")
    assert not baselines(kept).exists()


SILENT = {
    "empty": "",
    "skips itself": f"import pytest\npytest.skip('no', allow_module_level=True)\n{KERNEL}{GATE}",
    "what it needs is missing": f"import pytest\npytest.importorskip('none_such')\n{KERNEL}{GATE}",
    "no tests": f"__test__ = False\n{KERNEL}{GATE}",
}
LEFT_OUT = {
    "by a conftest": ("gates/conftest.py", "collect_ignore = ['test_gate.py']"),
    "by its name": ("pytest.ini", "[pytest]\nperf_devices = a100\npython_files = test_plain.py"),
    "by an option": ("pytest.ini", "[pytest]\nperf_devices = a100\naddopts = --ignore=gates"),
}


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("way", "arguments"),
    [(way, ()) for way in SILENT]
    + [("empty", given) for given in (("gates",), ("gates/test_gate.py",), ("-n", "1"))],
)
def test_a_module_that_says_nothing_fails_under_strict(kept, way, arguments):
    """A module that exists and has no test, or no visible one, fails under ``--perf-strict``."""
    gate(kept).write_text(SILENT[way])
    (gate(kept).parent / "test_beside.py").write_text("def test_beside():\n    pass\n")
    text = baselines(kept).read_bytes()
    named = ("gates/test_beside.py",) if arguments[:1] == ("gates/test_gate.py",) else ()
    assert run(kept, *arguments, *named).ret == 0
    result = run(kept, "--perf-strict", "--perf-update=prune", *arguments, *named)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*test_copy*(its module had no test in this run)"])
    assert baselines(kept).read_bytes() == text


@pytest.mark.parametrize("way", LEFT_OUT)
def test_a_module_that_is_not_collected_fails_under_strict(kept, way):
    file, text = LEFT_OUT[way]
    kept.path.joinpath(file).write_text(text)
    assert run(kept).ret == 0
    result = run(kept, "--perf-strict")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*test_copy*(its module had no test in this run)"])


CONFTESTS = {
    "empties the collection": "def pytest_collection_modifyitems(items): items.clear()",
    "takes the gate out": "def pytest_collection_modifyitems(items):\n"
    "    items[:] = [i for i in items if 'copy' not in i.name]",
    "takes it out at the end": "def pytest_collection_finish(session):\n"
    "    session.items[:] = [i for i in session.items if 'copy' not in i.name]",
    "runs nothing": "def pytest_runtestloop(session): return True",
    "runs all but the gate": "def pytest_runtest_protocol(item):\n"
    "    return True if 'copy' in item.name else None",
    "ends the run": "import pytest\ndef pytest_runtestloop(session): pytest.exit('', 0)",
}
IDLE = ["--collect-only", "--co", "--setup-plan", "--setup-only", "--fixtures", "--version"]
WELL = "    session.exitstatus = 0\n"


class TestNothingRun:
    """Runs that do not run the gate, and say that all is well."""

    @pytest.mark.exhaustive(one_in=3)
    @pytest.mark.parametrize("option", IDLE)
    def test_options_that_run_no_test(self, kept, option):
        """From an ini file; typed beside ``--perf-strict``, too. An editor may list the tests."""
        assert run(kept, option, "-o", "perf_strict=true").ret in (0, 1)
        if option != "--version":  # typed, it is answered before any plug-in is loaded
            assert run(kept, option, "--perf-strict").ret == pytest.ExitCode.USAGE_ERROR
        kept.makeini(f"[pytest]\nperf_devices = a100\naddopts = {option}\n")
        assert run(kept).ret == 0
        for strict in ("--perf-strict", "--override-ini=perf_strict=true"):
            result = run(kept, strict)
            assert result.ret == pytest.ExitCode.USAGE_ERROR
            result.stderr.fnmatch_lines(["ERROR: --perf-strict: --* runs no test, so that*"])

    @pytest.mark.exhaustive(one_in=12)
    @pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "xdist"])
    @pytest.mark.parametrize("way", CONFTESTS)
    @pytest.mark.parametrize("well", ["", f"\ndef pytest_sessionfinish(session):\n{WELL}"])
    def test_a_conftest_that_leaves_tests_out(self, kept, way, workers, well):
        if workers and not way.startswith(("empties", "takes the")):
            pytest.skip("the hook is not called so under xdist")
        kept.path.joinpath("conftest.py").write_text(f"{CONFTESTS[way]}\n{well}")
        started = kept.runpytest_subprocess if workers else kept.runpytest_inprocess
        assert started(*QUIET, *workers).ret in (0, pytest.ExitCode.NO_TESTS_COLLECTED)
        result = started(*QUIET, *workers, "--perf-strict")
        assert result.ret == 1
        result.stdout.fnmatch_lines(["*test_copy*(its test was collected and not run)"])

    @pytest.mark.parametrize("hook", ["sessionfinish(session)", "unconfigure(config)"])
    def test_an_exit_status_that_a_hook_sets(self, kept, monkeypatch, hook):
        """A hook's exit status hides no regression or unused baseline under ``--perf-strict``."""
        get = (
            ""
            if "session" in hook
            else "    session = config.pluginmanager.get_plugin('session')\n"
        )
        body = f"@pytest.hookimpl(trylast=True)\ndef pytest_{hook}:\n{get}{WELL}"
        kept.path.joinpath("conftest.py").write_text(f"import pytest\n{body}")
        monkeypatch.setenv("SIZE", str(1 << 22))
        assert run(kept).ret == 0
        result = run(kept, "--perf-strict")
        assert result.ret == 1
        result.stderr.fnmatch_lines(["ERROR: --perf-strict: *test_copy* failed, and*hid it*"])
        monkeypatch.delenv("SIZE")
        gate(kept).write_text(KERNEL + VANISHED["renamed away"] + "\ndef test_other():\n    pass\n")
        assert run(kept, "--perf-strict").ret == 1

    def test_a_report_that_a_hook_changes(self, kept, monkeypatch):
        kept.path.joinpath("conftest.py").write_text(
            "import pytest\n@pytest.hookimpl(wrapper=True, tryfirst=True)\n"
            "def pytest_runtest_makereport():\n"
            "    report = yield\n    report.outcome = 'passed'\n    return report\n"
        )
        assert run(kept, "--perf-strict").ret == 0
        monkeypatch.setenv("SIZE", str(1 << 22))
        assert run(kept).ret == 0
        assert run(kept, "--perf-strict").ret == 1

    @pytest.mark.exhaustive(one_in=2)
    @pytest.mark.parametrize("option", ["-k other", "-m slow", "--deselect gates"])
    def test_tests_that_the_ini_file_deselects(self, kept, option):
        """Under ``--perf-strict``, the command line may deselect tests, but the ini file may
        not."""
        ini = "[pytest]\nperf_devices = a100\nmarkers = slow\n"
        test = "import pytest\n@pytest.mark.slow\ndef test_other():\n    pass\n"
        gate(kept).with_name("test_other.py").write_text(test)
        kept.makeini(ini)
        assert run(kept, *option.split(), "--perf-strict").ret == 0
        assert run(kept, *option.split(), "--perf-strict", "-n", "1").ret == 0
        kept.makeini(f"{ini}addopts = {option}\n")
        assert run(kept).ret == 0
        assert run(kept, "--perf-strict").ret == 1

    def test_a_part_that_is_turned_off(self, kept):
        for part in ("baselines", "reports"):
            result = run(kept, "-p", f"no:perfassert-{part}")
            assert result.ret == pytest.ExitCode.USAGE_ERROR


class TestOnlyCompared:
    """Tests of changes that only ``compare`` can detect: no report, or fewer or slower
    predictions."""

    def test_a_process_that_ends_itself(self, kept, capsys):
        base = reported(kept, "base.json")
        kept.path.joinpath("conftest.py").write_text("import os\nos._exit(0)\n")
        head = kept.path / "head.json"
        result = kept.runpytest_subprocess(*QUIET, "--perf-strict", f"--perf-report=json:{head}")
        assert result.ret == 0
        assert main(["compare", base, str(head)]) == 2

    def test_an_ini_file_that_leaves_the_plug_in_out(self, kept, capsys):
        """Nothing of it is loaded then: gates in Python lack a fixture, those in TOML vanish. Only
        an option on the command line, which pytest then does not know, tells."""
        gate(kept).unlink()
        gate(kept).with_name("gate.perf.toml").write_text(TOML_GATE)
        base = reported(kept, "base.json")
        head = kept.path / "head.json"
        kept.makeini(
            "[pytest]\nperf_devices = a100\nperf_strict = true\nperf_report = json:head.json\n"
            "addopts = -p no:perfassert\n"
        )
        result = kept.runpytest_subprocess(*QUIET)
        assert (result.ret, head.exists()) == (0, False)
        assert main(["compare", base, str(head)]) == 2
        for option in ("--perf-strict", "--perf-report=json:head.json", "--perf-device=a100"):
            result = kept.runpytest_subprocess(*QUIET, option)
            assert result.ret == pytest.ExitCode.USAGE_ERROR
            result.stderr.fnmatch_lines([f"*unrecognized arguments: {option}"])

    def test_an_assert_on_a_number_of_its_own(self, kept, capsys, monkeypatch):
        def change():
            monkeypatch.setenv("SIZE", str(1 << 22))
            call = "perf(copy(), domain=N, block=256)"
            body = f"\ndef test_copy(perf):\n    {call}\n    assert 1e-9 < 1\n"
            gate(kept).write_text(KERNEL + body)

        code, counts = compared(kept, capsys, change)
        assert (code, counts) == (1, {"slower": 1})


def test_strict_asks_only_for_what_is_run(kept):
    """Other modules, other folders, linked ones, and folders that pytest never enters."""
    other = gate(kept).with_name("test_other.py")
    other.write_text("def test_other():\n    pass\n")
    link = kept.path / "link"
    link.symlink_to(gate(kept).parent)
    copies = kept.path / "build" / "gates" / "__perf__"
    copies.mkdir(parents=True)
    copies.joinpath("test_gate.toml").write_bytes(baselines(kept).read_bytes())
    copies.parent.joinpath("test_gate.py").write_bytes(gate(kept).read_bytes())
    chosen = [("gates/test_other.py",), ("-k", "other"), ("test_plain.py",), ("link",), (".",)]
    for arguments in (*chosen, ("gates/../gates",), ("gates/test_gate.py",)):
        assert run(kept, "--perf-strict", *arguments).ret == 0, arguments


def test_a_moved_gate_needs_its_baseline(kept):
    gate(kept).rename(gate(kept).with_name("test_moved.py"))
    run(kept).assert_outcomes(passed=1, failed=1)


def test_pruning_keeps_what_is_skipped(kept):
    gate(kept).write_text(KERNEL + VANISHED["skipped"])
    text = baselines(kept).read_bytes()
    run(kept, "--perf-strict", "--perf-update=prune")
    assert baselines(kept).read_bytes() == text


def test_a_device_that_the_ini_file_no_longer_has(kept):
    kept.makeini("[pytest]\nperf_devices = l40")
    run(kept).assert_outcomes(passed=1, failed=1)
    kept.makeini("[pytest]\nperf_devices =")
    assert run(kept).ret != 0


@pytest.mark.parametrize(
    "content",
    [b"", b"format = 1\n", b"\xff\xfe", None],
    ids=["empty", "no table", "binary", "gone"],
)
def test_a_baseline_that_is_gone(kept, content):
    baselines(kept).unlink()
    if content is not None:
        baselines(kept).write_bytes(content)
    run(kept).assert_outcomes(passed=1, failed=1)


@pytest.mark.parametrize("value", ["nan", "inf", "-1.0", "1e999", "1e300000", '"1"', "true"])
def test_a_time_that_nothing_exceeds(kept, monkeypatch, value):
    lines = baselines(kept).read_text().splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if line.startswith("time ="))
    lines[at] = f"time = {value}\n"
    baselines(kept).write_text("".join(lines))
    monkeypatch.setenv("SIZE", str(1 << 22))
    run(kept).assert_outcomes(passed=1, failed=1)


ODD = [
    "a b",
    "a]b",
    "a[b",
    "a-b",
    "ä",
    "a\nb",
    "a::b",
    "a.b",
    "a100",
    "A100-SXM4-40GB",
    '"',
    "\\",
    "",
]


def test_parameters_of_odd_names_have_a_baseline_each(kept, monkeypatch):
    gate(kept).write_text(
        KERNEL
        + f"\n@pytest.mark.parametrize('odd', {ODD!r})"
        + GATE.replace("(perf)", "(perf, odd)")
    )
    run(kept, "--perf-update", "--perf-update=prune")
    run(kept, "--perf-strict").assert_outcomes(passed=1 + len(ODD))
    monkeypatch.setenv("SIZE", str(1 << 22))
    run(kept).assert_outcomes(passed=1, failed=len(ODD))


class TestCompared:
    """Tests that ``compare`` exits with 0 only if it compared every prediction."""

    @pytest.mark.parametrize("way", [way for way in VANISHED if way != "call removed"])
    def test_a_gate_that_vanished(self, kept, capsys, way):
        """A gate that vanished is reported; if only its call is removed, its prediction is
        compared."""
        code, counts = compared(kept, capsys, lambda: gate(kept).write_text(KERNEL + VANISHED[way]))
        assert code == 1
        assert "gone" in counts

    @pytest.mark.exhaustive(one_in=3)
    @pytest.mark.parametrize("way", [*SILENT, *LEFT_OUT])
    def test_a_module_that_says_nothing(self, kept, capsys, way):
        file, text = LEFT_OUT.get(way) or ("gates/test_gate.py", SILENT[way])
        code, counts = compared(kept, capsys, lambda: kept.path.joinpath(file).write_text(text))
        assert (code, counts) == (1, {"gone": 1})

    def test_an_expected_failure_is_compared(self, kept, capsys, monkeypatch):
        def change():
            monkeypatch.setenv("SIZE", str(1 << 22))
            gate(kept).write_text(KERNEL + GATE.replace("\ndef", "\n@pytest.mark.xfail\ndef"))

        code, counts = compared(kept, capsys, change)
        assert (code, counts) == (1, {"slower": 1})

    def test_a_module_that_no_longer_imports(self, kept, capsys):
        code, counts = compared(kept, capsys, lambda: gate(kept).write_text("1 / 0"))
        assert (code, counts) == (1, {"broken": 1})

    def test_a_base_that_was_broken_is_nothing_to_compare_with(self, kept, capsys):
        text = gate(kept).read_text()
        gate(kept).write_text("1 / 0")
        code, counts = compared(kept, capsys, lambda: gate(kept).write_text(text))
        assert (code, counts) == (2, {"incomparable": 1})

    def test_an_empty_base_is_new_and_fails_where_all_is_required(self, kept, capsys):
        text = gate(kept).read_text()
        gate(kept).write_text("")
        code, counts = compared(kept, capsys, lambda: gate(kept).write_text(text))
        assert (code, counts) == (0, {"new": 1})
        files = [str(kept.path / name) for name in ("base.json", "head.json")]
        assert main(["compare", *files, "--require-all"]) == 1
        assert main(["compare", files[0], files[0]]) == 0
        assert main(["compare", files[0], files[0], "--require-all"]) == 1
        assert "nothing to compare (--require-all)" in capsys.readouterr().err
        assert main(["compare", files[1], files[1], "--require-all"]) == 0

    @pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999"])
    def test_numbers_that_are_none(self, kept, capsys, value):
        head = Path(reported(kept, "head.json"))
        data = json.loads(head.read_text())
        time = data["tests"][-1]["predictions"][0]["time"]
        text = head.read_text()
        assert f'"time": {time}' in text
        head.write_text(text.replace(f'"time": {time}', f'"time": {value}'))
        assert main(["compare", str(head), str(head)]) == 2
        assert "not a number that can be compared" in capsys.readouterr().err

    def test_a_prediction_that_is_there_twice(self, kept, capsys):
        head = Path(reported(kept, "head.json"))
        data = json.loads(head.read_text())
        data["tests"] *= 2
        head.write_text(json.dumps(data))
        assert main(["compare", str(head), str(head)]) == 2
        assert "is there twice" in capsys.readouterr().err

    def test_a_report_of_another_version(self, kept, capsys):
        base, head = (Path(reported(kept, f"{side}.json")) for side in ("base", "head"))
        text = head.read_text()
        for key, code in (("schema", 2), ("model_version", 2)):
            data = {**json.loads(text), key: 99 if key == "schema" else "99"}
            head.write_text(json.dumps(data))
            assert main(["compare", str(base), str(head)]) == code
