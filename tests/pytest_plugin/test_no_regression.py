"""Baselines as pytest users meet them."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from perfassert.baseline.text import format_file, parse_file
from perfassert.frontends.toolchain.tools import find

TEST_FILE = """
import os
import pytest
import perfassert as pa

N = int(os.environ.get("SIZE", 1 << 20))

def copy(n=N):
    return pa.Kernel.from_accesses(
        name="copy", fields=[pa.Field("a", shape=(n,)), pa.Field("b", shape=(n,))],
        loads=["a[x]"], stores=["b[x]"])

def test_copy(perf):
    p = perf(copy(), domain=N, block=256)
    assert perf.no_regression(p) is p

@pytest.mark.parametrize("block", [64, 128])
def test_blocks(perf, block):
    perf.no_regression(perf(copy(), domain=N, block=block), dram_load="1 %", registers="0")

class TestBoth:
    def test_names(self, perf):
        for n in (N, 2 * N):
            perf.no_regression(perf(copy(n), domain=n, block=256), name=f"n = {n // N}")
"""
QUIET = ("-p", "no:randomly", "-p", "no:cacheprovider", "--perf-device", "a100")
ENTRIES = 5
pytestmark = [pytest.mark.exhaustive(one_in=6), pytest.mark.usefixtures("loaded")]


@pytest.fixture(autouse=True)
def _no_ci(monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("SIZE", raising=False)


@pytest.fixture
def project(pytester):
    pytester.makepyfile(test_copy=TEST_FILE)
    return pytester


@pytest.fixture
def kept(project):
    """With baselines."""
    run(project, "--perf-update").assert_outcomes(passed=4)
    return project


def run(project, *arguments):
    return project.runpytest_inprocess(*QUIET, *arguments)


def baselines(project) -> Path:
    return project.path / "__perf__" / "test_copy.toml"


def with_test(project, body):
    """Add a test in a separate module."""
    project.makepyfile(test_more=TEST_FILE.partition("def test_copy")[0] + body)
    return project


def test_new_baselines_are_listed_with_their_figures(project):
    """Nothing was compared: a reviewer has to judge them."""
    result = run(project, "--perf-update=new")
    result.stdout.fnmatch_lines(
        ["  new     test_copy on A100-SXM4-40GB: time 12.* us, registers *"]
    )


def test_a_missing_baseline_fails_and_says_the_command(project):
    result = run(project, "-k", "test_blocks")
    result.assert_outcomes(failed=2, deselected=2)
    result.stdout.fnmatch_lines(
        [
            "*BaselineError: *test_copy.toml has no baseline for test_blocks[[]64[]] on A100*; "
            "write it: pytest --perf-update=new --perf-device A100-SXM4-40GB "
            "'test_copy.py::test_blocks[[]A100-SXM4-40GB-64[]]'"
        ]
    )
    assert not baselines(project).parent.exists()


def test_the_command_is_that_of_the_folder(project):
    (project.mkdir("below") / "test_below.py").write_text(TEST_FILE)
    project.makeini("[pytest]\n")
    project.chdir()
    os.chdir("below")
    result = run(project, "-k", "test_names", "test_below.py")
    result.assert_outcomes(failed=1, deselected=3)
    where = "'test_below.py::TestBoth::test_names[[]A100-SXM4-40GB[]]'"
    result.stdout.fnmatch_lines([f"*--perf-device A100-SXM4-40GB {where}"])


def test_update_then_compare(kept):
    text = baselines(kept).read_text()
    headers = [line for line in text.splitlines() if line.startswith("[")]
    assert headers == [
        '["TestBoth::test_names"."n = 1".A100-SXM4-40GB]',
        '["TestBoth::test_names"."n = 2".A100-SXM4-40GB]',
        '["test_blocks[128]".default.A100-SXM4-40GB]',
        '["test_blocks[64]".default.A100-SXM4-40GB]',
        "[test_copy.default.A100-SXM4-40GB]",
    ]
    assert "dram_load = 8388608  # 8.389 MB, 8 B/update" in text
    result = run(kept)
    result.assert_outcomes(passed=4)
    assert "performance baselines" not in result.stdout.str()
    assert baselines(kept).read_text() == text
    assert [p.name for p in baselines(kept).parent.iterdir()] == ["test_copy.toml"]


def test_a_regression_is_a_table_with_components_and_command(kept, monkeypatch):
    monkeypatch.setenv("SIZE", str(5 << 18))
    text = baselines(kept).read_text()
    result = run(kept)
    result.assert_outcomes(failed=4)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "*ExpectationFailed: time is * us, +2*% to the baseline 12.* us (allowed: 2 %) "
            "(copy on A100-SXM4-40GB, block 256×1×1)",
            "*metric*baseline*predicted*difference*tolerance*verdict*",
            "*time*12.* us*us*+2*2 %*REGRESSION*",
            "*what differs (the kernel has changed):",
            "*grid *4096×1×1 *5120×1×1*",
            "*accept it: pytest --perf-update --perf-device *test_copy.py::test_copy*",
        ]
    )
    assert baselines(kept).read_text() == text
    result = run(kept, "--perf-update")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["*changed test_copy on A100*: time 12.* us → * us (+2*%)"])
    run(kept).assert_outcomes(passed=4)


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
@pytest.mark.exhaustive(one_in=2)
def test_improvements_pass_and_are_offered(kept, monkeypatch, workers):
    monkeypatch.setenv("SIZE", str(3 << 18))
    result = run(kept, *workers)
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(
        [
            "*performance baselines*",
            "better than their baselines; tighten them: pytest --perf-update --perf-device a100",
            "  test_copy on A100-SXM4-40GB: time 12.* us → *(-2*%)",
            "baselines: 5 improved",
        ]
    )


@pytest.mark.parametrize("ini", [False, True], ids=["option", "ini"])
def test_a_ratchet_fails_on_improvements_until_they_are_accepted(kept, monkeypatch, ini):
    arguments = () if ini else ("--perf-ratchet",)
    kept.makeini(f"[pytest]\nperf_ratchet = {str(ini).lower()}\n")
    run(kept, *arguments).assert_outcomes(passed=4)
    monkeypatch.setenv("SIZE", str(3 << 18))
    text = baselines(kept).read_text()
    result = run(kept, *arguments)
    result.assert_outcomes(failed=4)
    result.stdout.fnmatch_lines(
        [
            "*ExpectationFailed: time is * us, 2*.* % better than the baseline 12.* us "
            "(allowed: 2 %) (copy on A100-SXM4-40GB, block 256×1×1)",
            "*metric*baseline*predicted*difference*tolerance*verdict*",
            "*time*12.* us*us*-2*%*2 %*improved*",
            "*what differs (the kernel has changed):",
            "*grid *4096×1×1 *3072×1×1*",
            "*--perf-ratchet: accept it: pytest --perf-update --perf-device *test_copy.py::test_c*",
            "better than their baselines, which fails them (--perf-ratchet); tighten them: *",
        ]
    )
    assert baselines(kept).read_text() == text
    run(kept, *arguments, "--perf-update=new").assert_outcomes(failed=4)
    run(kept, *arguments, "--perf-update").assert_outcomes(passed=4)
    run(kept, *arguments).assert_outcomes(passed=4)


@pytest.mark.parametrize(
    ("call", "outcome"),
    [
        ("perf.no_regression(p, '+2 % -100 %')", "passed"),
        ("perf.no_regression(p, '+2 % -10 %')", "failed"),
        ("perf.no_regression(p, None, dram_load='50 %')", "passed"),
        ("with pytest.raises(AssertionError): perf.no_regression(p)", "failed"),
    ],
)
def test_what_a_ratchet_lets_pass(pytester, monkeypatch, call, outcome):
    body = f"def test_it(perf):\n    p = perf(copy(), domain=N, block=256)\n    {call}\n"
    plain = body.replace("with pytest.raises(AssertionError): ", "")
    with_test(pytester, plain)
    run(pytester, "--perf-update").assert_outcomes(passed=1)
    monkeypatch.setenv("SIZE", str(3 << 18))
    with_test(pytester, body)
    run(pytester, "--perf-ratchet").assert_outcomes(**{outcome: 1})


def test_a_regression_beside_an_improvement_is_a_regression(pytester, monkeypatch):
    call = "perf.no_regression(p, volumes='2 %')"
    body = f"def test_it(perf):\n    p = perf(copy(), domain=N, block=BLOCK)\n    {call}\n"
    with_test(pytester, body.replace("BLOCK", "32"))
    run(pytester, "--perf-update").assert_outcomes(passed=1)
    monkeypatch.setenv("SIZE", str(1 << 21))
    with_test(pytester, body.replace("BLOCK", "256"))
    result = run(pytester, "--perf-ratchet")
    result.stdout.fnmatch_lines(["*REGRESSION*", "*if this is intended, accept it: pytest *"])
    result.stdout.no_fnmatch_line("*--perf-ratchet: *")


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("arguments", "size", "passes"),
    [
        ("", 1 << 20, True),
        ("", (1 << 20) + (1 << 16), False),
        ("tolerance='10 %'", (1 << 20) + (1 << 16), True),
        ("tolerance='1 % or 5 us'", (1 << 20) + (1 << 16), True),
        ("tolerance='+10 % -100 %'", (1 << 20) + (1 << 16), True),
        ("tolerance='-100 % +1 %'", (1 << 20) + (1 << 16), False),
        ("tolerance=None, occupancy='0'", (1 << 20) + (1 << 16), True),
        ("tolerance=None, volumes='1 %'", (1 << 20) + (1 << 16), False),
        ("tolerance=None, volumes='1 %', dram='10 %'", (1 << 20) + (1 << 16), False),
        ("time='10 %'", (1 << 20) + (1 << 16), True),
        ("limiter='same', tolerance='10 %'", (1 << 20) + (1 << 16), True),
    ],
)
def test_tolerances(pytester, monkeypatch, arguments, size, passes):
    body = "def test_it(perf):\n    perf.no_regression(perf(copy(), domain=N, block=256)"
    with_test(pytester, f"{body}, {arguments})\n")
    run(pytester, "--perf-update").assert_outcomes(passed=1)
    monkeypatch.setenv("SIZE", str(size))
    run(pytester).assert_outcomes(passed=int(passes), failed=int(not passes))


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("perf.no_regression(p); perf.no_regression(p)", "twice without a name in this test"),
        ("perf.no_regression(p, name='x'); perf.no_regression(p, name='x')", "twice named 'x'"),
        ("perf.no_regression(p, name='')", "name must be a text"),
        ("perf.no_regression(p.time)", "needs a prediction"),
        ("perf.no_regression(pa.predict(copy(), pa.Launch(4096, 256), 'l40'))", "runs for A100"),
        ("perf.no_regression(p, tolerance='2')", "'2' should be a percentage or have the unit 's'"),
        ("perf.no_regression(p, tiem='2 %')", "no metric 'tiem'; did you mean 'time'"),
        ("perf.no_regression(p, spill_bytes='0')", "cannot have it; it needs compiled code"),
        ("perf.no_regression(p, tolerance=None)", "compares nothing"),
    ],
)
def test_calls_without_meaning_fail(pytester, call, message):
    start = "def test_it(perf):\n    p = perf(copy(), domain=N, block=256)\n    "
    with_test(pytester, f"{start}perf.no_regression(p, name='kept')\n    {call}\n")
    run(pytester, "--perf-update")
    result = run(pytester)
    if "has no baseline" in result.stdout.str():
        pytest.fail(result.stdout.str())
    result.assert_outcomes(failed=1)
    assert message in result.stdout.str()


def test_baselines_of_other_device_files_fail_until_updated(kept):
    file = baselines(kept)
    file.write_text(file.read_text().replace('device_digest = "', 'device_digest = "0'))
    for option in ((), ("--perf-update=new",), ("--perf-update=model",)):
        result = run(kept, *option)
        result.assert_outcomes(failed=4)
        message = "device file of A100-SXM4-40GB has changed"
        result.stdout.fnmatch_lines([f"*is incomparable: *{message}*write it: pytest --perf-upd*"])
    run(kept, "--perf-update").assert_outcomes(passed=4)
    run(kept).assert_outcomes(passed=4)


COMPILED = """
import perfassert as pa

def test_twice(perf):
    kernel = pa.from_cuda("k.cu", "twice")
    perf.no_regression(perf(kernel, pa.Launch(4096, 256)))
"""


@pytest.mark.skipif(find("nvrtc") is None, reason="NVRTC is not installed")
def test_baselines_of_another_compiler_fail_under_strict(pytester):
    source = pytester.path / "k.cu"
    source.write_text("__global__ void twice(float* a) { a[threadIdx.x] *= 2; }\n")
    pytester.makepyfile(test_copy=COMPILED)
    run(pytester, "--perf-update").assert_outcomes(passed=1)
    file = baselines(pytester)
    text = file.read_text()
    assert text.count('compilers = "nvrtc ') == 1
    text = re.sub('compilers = ".*"', 'compilers = "nvcc 12.0 with gcc 11.4"', text)
    file.write_text(re.sub('checksum = ".*"\n', "", text))
    run(pytester, "--perf-strict").assert_outcomes(passed=1)  # it is the same code
    source.write_text("__global__ void twice(float* a) { a[threadIdx.x + 1] *= 3; }\n")
    run(pytester).assert_outcomes(passed=1)
    result = run(pytester, "--perf-strict")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*compiled otherwise: nvcc 12.0 with gcc 11.4 → nvrtc *"])


class TestOtherModel:
    """Baselines that another version of the model wrote."""

    @staticmethod
    def rewrite(project, **changes):
        file = baselines(project)
        entries = parse_file(file.read_bytes(), file.name)
        file.write_text(
            format_file(
                {
                    key: {**entry, "model_version": "0.1"}
                    | {name: change(entry[name]) for name, change in changes.items()}
                    for key, entry in entries.items()
                }
            )
        )

    def test_what_it_predicts_within_the_tolerance_passes_and_is_said(self, kept):
        self.rewrite(kept, time=lambda t: t * 1.001)
        result = run(kept)
        result.assert_outcomes(passed=4)
        result.stdout.fnmatch_lines(
            ["written by another version of the model; accept those whose code is unchanged: *",
             "  *test_copy on A100-SXM4-40GB: it was made by version 0.1 of the model, and this *"]
        )  # fmt: skip

    def test_a_regression_says_first_that_the_model_is_another(self, kept):
        self.rewrite(kept, time=lambda t: t / 2)
        result = run(kept, "-k", "test_copy and not blocks and not names")
        result.assert_outcomes(failed=1, deselected=3)
        lines = result.stdout.str()
        first, second = "the baseline is of another model", "100.0 % to the baseline"
        assert -1 < lines.index(first) < lines.index(second)
        assert "the kernel is the same: what has changed is what the model says of it" in lines

    def test_an_update_takes_those_whose_code_is_unchanged(self, kept):
        self.rewrite(kept, time=lambda t: t / 2, device_digest=lambda d: "0" + d)
        run(kept).assert_outcomes(failed=4)
        run(kept, "--perf-update=model").assert_outcomes(passed=4)
        result = run(kept)
        result.assert_outcomes(passed=4)
        assert "another" not in result.stdout.str()

    @pytest.mark.parametrize("digest", ["0123456789abcdef", "unknown"])
    def test_an_update_leaves_those_of_other_code(self, kept, digest):
        self.rewrite(kept, time=lambda t: t / 2, kernel_digest=lambda _: digest)
        before = baselines(kept).read_bytes()
        run(kept, "--perf-update=model").assert_outcomes(failed=4)
        assert baselines(kept).read_bytes() == before

    def test_an_update_writes_no_new_one_and_none_of_this_model(self, project):
        run(project, "--perf-update=model").assert_outcomes(failed=4)
        assert not baselines(project).exists()
        run(project, "--perf-update")
        before = baselines(project).read_bytes()
        run(project, "--perf-update=model").assert_outcomes(passed=4)
        assert baselines(project).read_bytes() == before

    def test_a_metric_that_it_did_not_have_is_passed_over(self, kept):
        file = baselines(kept)
        entries = parse_file(file.read_bytes(), file.name)
        former = ("headroom", "speed_of_light", "l1_wavefronts")
        file.write_text(
            format_file(
                {
                    key: {**{n: v for n, v in e.items() if n not in former}, "model_version": "0.1"}
                    for key, e in entries.items()
                }
            )
        )
        run(kept).assert_outcomes(passed=4)


BROKEN = {
    "conflict": (lambda t: f"{t[:300]}\n<<<<<<< HEAD\n=======\n>>>>>>> x\n", "a merge left"),
    "truncated": (lambda t: t[: len(t) // 2], "test_copy.toml:"),
    "empty": (lambda t: "", "test_copy.toml:1: the file is empty or truncated"),
    "duplicate": (lambda t: t + t[t.index("[test_copy.default") :], "twice"),
    "edited": (lambda t: t.replace("time =", "tmie ="), "has no time"),
    "value": (lambda t: t.replace("time = ", "time = -"), "time must be a number that is not neg"),
    "format": (lambda t: t.replace("format = 1", "format = 9"), ":3: format 9 is not 1"),
}


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("kind", BROKEN)
def test_broken_files_are_named_and_kept(kept, kind):
    breaks, message = BROKEN[kind]
    file = baselines(kept)
    file.write_text(broken := breaks(file.read_text()))
    for options in ((), ("--perf-update",), ("--perf-update=prune", "-k", "test_copy")):
        result = run(kept, *options)
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        output = result.stdout.str()
        assert message in output
        assert "test_copy.toml:" in output
        assert "Traceback" not in output
        assert file.read_text() == broken


def test_update_new_leaves_the_rest(kept, monkeypatch):
    file = baselines(kept)
    text = file.read_text()
    start = text.index("[test_copy.default")
    file.write_text(text[:start].rstrip("\n") + "\n")
    monkeypatch.setenv("SIZE", str(5 << 18))
    result = run(kept, "--perf-update=new")
    result.assert_outcomes(passed=1, failed=3)
    written = file.read_text()
    assert written.startswith(text[:start])
    assert "grid = [5120, 1, 1]" in written[start:]


def test_a_path_may_follow_a_bare_update(project):
    run(project, "--perf-update", "test_copy.py").assert_outcomes(passed=4)
    assert baselines(project).exists()


def test_no_writing_under_ci(project, monkeypatch):
    monkeypatch.setenv("CI", "true")
    result = run(project, "--perf-update")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "--perf-update-in-ci" in result.stderr.str()
    assert not baselines(project).parent.exists()
    run(project, "--perf-update", "--perf-diff").assert_outcomes(passed=4)
    assert not baselines(project).parent.exists()
    project.makeini("[pytest]\nperf_update = all\n")
    run(project).assert_outcomes(failed=4)
    run(project, "--perf-update", "--perf-update-in-ci").assert_outcomes(passed=4)
    assert baselines(project).exists()


def test_options_in_the_ini_file(kept, monkeypatch):
    file = baselines(kept)
    text = file.read_text()
    kept.makeini("[pytest]\nperf_update = all\nperf_diff = true\n")
    monkeypatch.setenv("SIZE", str(5 << 18))
    run(kept).assert_outcomes(passed=4)
    assert file.read_text() == text
    kept.makeini("[pytest]\nperf_update = all prune\n")
    run(kept).assert_outcomes(passed=4)
    assert file.read_text() != text
    kept.makeini("[pytest]\nperf_update = everything\n")
    result = run(kept)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "perf_update must be of all, new, prune, model, not 'everything'" in result.stderr.str()


def test_diff_shows_and_writes_nothing(kept, monkeypatch):
    text = baselines(kept).read_text()
    result = run(kept, "--perf-update", "--perf-diff")
    result.stdout.fnmatch_lines(["--perf-diff: an update would change nothing"])
    monkeypatch.setenv("SIZE", str(5 << 18))
    result = run(kept, "--perf-diff", "-k", "test_copy and not Both")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "--perf-diff: what an update would change; nothing was written",
            "*__perf__*test_copy.toml",
            "  [[]test_copy.default.A100-SXM4-40GB[]]",
            "- grid = [[]4096, 1, 1[]]",
            "+ grid = [[]5120, 1, 1[]]",
        ]
    )
    assert baselines(kept).read_text() == text


def without(project, name):
    """The project after a test has been removed."""
    text = project.path / "test_copy.py"
    text.write_text(text.read_text().replace(f"def {name}", f"def no_{name}"))


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_unused_baselines_are_reported_and_pruned(kept, workers):
    without(kept, "test_blocks")
    result = run(kept, *workers)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "unused baselines; drop them: pytest --perf-update=prune --perf-device a100",
            "  *test_copy.toml: test_blocks[[]128[]] on A100-SXM4-40GB",
            "  *test_copy.toml: test_blocks[[]64[]] on A100-SXM4-40GB",
        ]
    )
    assert run(kept, "--perf-strict", *workers).ret == pytest.ExitCode.TESTS_FAILED
    result = run(kept, "--perf-strict", "--perf-update=prune", *workers)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["  dropped test_blocks[[]128[]] on A100-SXM4-40GB"])
    assert "test_blocks" not in baselines(kept).read_text()
    assert run(kept, "--perf-strict", *workers).ret == 0


@pytest.mark.parametrize(
    "chosen",
    [
        ("-k", "test_names"),
        ("test_copy.py::test_copy",),
        ("--deselect", "test_copy.py::test_copy"),
        ("-m", "not slow"),
    ],
)
def test_parts_of_a_module_leave_nothing_unused(kept, chosen):
    without(kept, "test_blocks")
    kept.makeini("[pytest]\nmarkers = slow\n")
    file = kept.path / "test_copy.py"
    file.write_text(file.read_text().replace("def test_copy", "@pytest.mark.slow\ndef test_copy"))
    assert run(kept, "--perf-strict", "--perf-update=prune", *chosen).ret == 0
    assert "test_blocks" in baselines(kept).read_text()


def test_failing_and_skipped_tests_leave_nothing_unused(kept):
    file = kept.path / "test_copy.py"
    text = file.read_text()
    file.write_text(text.replace("    p = perf(", "    pytest.skip()\n    p = perf("))
    result = run(kept)
    assert result.ret == 0
    assert "unused baselines" not in result.stdout.str()
    file.write_text(text.replace("    p = perf(", "    assert 0\n    p = perf("))
    result = run(kept, "--perf-strict", "--perf-update=prune")
    result.assert_outcomes(failed=1, passed=3)
    assert "test_copy.default" in baselines(kept).read_text()


def test_devices_left_out_are_not_unused(kept):
    run(kept, "--perf-device", "l40", "--perf-update=new").assert_outcomes(passed=8)
    assert baselines(kept).read_text().count("L40]") == ENTRIES
    assert run(kept, "--perf-strict").ret == 0


def test_a_file_whose_module_is_gone(kept):
    (kept.path / "test_copy.py").rename(kept.path / "test_new_name.py")
    run(kept, "--perf-update").assert_outcomes(passed=4)
    result = run(kept, "--perf-strict")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*test_copy.toml: test_copy on A100*(its module is gone)"])
    assert run(kept, "--perf-update=prune").ret == 0
    assert [p.name for p in baselines(kept).parent.iterdir()] == ["test_new_name.toml"]


def test_a_renamed_test_is_hinted_at(kept):
    without(kept, "test_copy")
    text = kept.path / "test_copy.py"
    text.write_text(text.read_text().replace("def no_test_copy", "def test_copies"))
    result = run(kept)
    result.stdout.fnmatch_lines(
        ["*no baseline for test_copies on A100* (did you mean 'test_copy'*"]
    )


def test_expected_failures_do_not_hide_a_missing_baseline(pytester):
    with_test(
        pytester,
        "@pytest.mark.perf(devices=['l40'], xfail={'L40': 'not yet'})\n"
        "def test_it(perf):\n    perf.no_regression(perf(copy(), domain=N, block=256))\n",
    )
    run(pytester).assert_outcomes(failed=1)


ENVIRONMENTS = [
    {},
    {"PYTHONHASHSEED": "1", "TZ": "Asia/Kathmandu", "LC_ALL": "tr_TR.UTF-8"},
    {"PYTHONHASHSEED": "2", "LC_ALL": "C", "PYTHONUTF8": "0"},
]


SHUFFLED = ("-p", "randomly") if find_spec("pytest_randomly") else ()


def test_files_are_the_same_everywhere(project):
    """Whatever the order of the tests, the workers, the locale, the hash seed."""
    texts = set()
    for environment, arguments in zip(
        ENVIRONMENTS, ((), ("-n", "2"), (*SHUFFLED, "-p", "no:xdist")), strict=True
    ):
        baselines(project).unlink(missing_ok=True)
        command = [sys.executable, "-m", "pytest", *QUIET[2:], *arguments, "--perf-update"]
        if "randomly" not in arguments:
            command += ["-p", "no:randomly"]
        subprocess.run(
            command,
            cwd=project.path,
            env={**os.environ, "CI": "", **environment},
            check=True,
            capture_output=True,
        )
        texts.add(baselines(project).read_bytes())
    assert len(texts) == 1


def test_two_runs_at_once_lose_nothing(project):
    command = [sys.executable, "-m", "pytest", *QUIET, "--perf-update"]
    runs = [
        subprocess.Popen([*command, "-k", which], cwd=project.path, stdout=subprocess.DEVNULL)
        for which in ("test_blocks", "not test_blocks")
    ]
    assert [process.wait() for process in runs] == [0, 0]
    assert baselines(project).read_text().count("kernel_digest") == ENTRIES
    assert [p.name for p in baselines(project).parent.iterdir()] == ["test_copy.toml"]


def test_baselines_of_another_name(kept, monkeypatch):
    usual = baselines(kept).read_bytes()
    run(kept, "--perf-baseline=cuda-12").assert_outcomes(failed=4)
    monkeypatch.setenv("SIZE", str(1 << 21))
    run(kept, "--perf-baseline=cuda-12", "--perf-update").assert_outcomes(passed=4)
    other = kept.path / "__perf__" / "cuda-12" / "test_copy.toml"
    assert (baselines(kept).read_bytes(), other.is_file()) == (usual, True)
    kept.makeini("[pytest]\nperf_baseline = cuda-12\n")
    run(kept, "--perf-strict").assert_outcomes(passed=4)
    result = run(kept, "--perf-baseline=", "-k", "test_copy and not blocks")
    assert "--perf-update " in result.stdout.str()  # the usual ones again, which regressed
    monkeypatch.setenv("SIZE", str(1 << 22))
    result = run(kept, "-k", "test_blocks")
    result.stdout.fnmatch_lines(["*pytest --perf-update --perf-baseline=cuda-12 *"])
    kept.makepyfile(test_copy="def test_none(perf): pass")
    run(kept, "--perf-update=prune")
    assert (other.parent.exists(), baselines(kept).is_file()) == (False, True)


@pytest.mark.parametrize("name", ["../x", ".hidden", "a/b", "a b"])
def test_a_name_becomes_a_folder(project, name):
    assert run(project, f"--perf-baseline={name}").ret == pytest.ExitCode.USAGE_ERROR
