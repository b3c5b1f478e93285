"""A green run hides no guess."""

from pathlib import Path

import pytest

import perfassert as pa

pytestmark = pytest.mark.exhaustive(one_in=2)

SOURCE = Path(__file__).parents[1] / "frontends" / "kernels" / "addresses.cu"
TEST = f"""
import perfassert as pa

def test_scattered(perf):
    kernel = pa.from_cuda({str(SOURCE)!r}, "scattered")
    perf(kernel, pa.Launch(512, 256){{more}}).expect(time="> 0 s")
"""


@pytest.fixture(autouse=True)
def toolchain():
    try:
        pa.predict(pa.from_cuda(SOURCE, "scattered"), pa.Launch(512, 256), "a100")
    except pa.ToolchainMissing as missing:
        pytest.skip(str(missing))


def run(pytester, *options, more=""):
    pytester.makepyfile(test_it=TEST.format(more=more))
    return pytester.runpytest("--perf-device", "a100", "-W", "default", *options)


def test_it_warns(pytester):
    result = run(pytester)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["*guessed*passed*", "1 of them is a guess; the worst: scattered, * %: the address of in*"]
    )
    result.stdout.fnmatch_lines(["*PerfAssertWarning: the prediction of scattered on A100*"])


def test_it_can_be_an_error(pytester):
    result = run(pytester, "--perf-assumptions=error")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*ExpectationFailed: the prediction of scattered on A100*is a guess"]
    )
    pytester.makeini("[pytest]\nperf_assumptions = error")
    run(pytester).assert_outcomes(failed=1)


def test_the_error_is_not_swallowed(pytester):
    around = TEST.replace(
        "    perf(kernel", "    with pytest.raises(AssertionError):\n        perf(kernel"
    )
    pytester.makepyfile(test_it=f"import pytest\n{around.format(more='')}")
    options = ("--perf-device", "a100", "--perf-assumptions=error")
    pytester.runpytest(*options).assert_outcomes(failed=1)


def test_it_can_be_allowed(pytester):
    result = run(pytester, "--perf-assumptions=allow")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*PerfAssertWarning*")
    result = run(pytester, "--perf-assumptions=error", more=", allow_guesses=True")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["1 of them is a guess; the worst: scattered*"])


def test_an_unknown_choice_is_a_usage_error(pytester):
    pytester.makeini("[pytest]\nperf_assumptions = maybe")
    result = run(pytester)
    result.stderr.fnmatch_lines(["*perf_assumptions must be one of error, warn, allow*"])


def test_a_guess_is_no_reason_to_tighten(pytester, monkeypatch):
    """Nobody knows that it got better: what the guess stands for decides the time."""
    monkeypatch.delenv("CI", raising=False)
    gate = TEST.replace('.expect(time="> 0 s")', "").replace("    perf(k", "    p = perf(k")
    gate = f"{gate.format(more='')}    perf.no_regression(p)\n"
    for blocks, options in ((512, ["--perf-update"]), (256, [])):
        pytester.makepyfile(test_it=gate.replace("512", str(blocks)))
        result = pytester.runpytest("--perf-device", "a100", "-W", "default", *options)
        result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["better than their baselines, but the prediction is a guess; *", "  test_scattered*"]
    )
    result.stdout.no_fnmatch_line("*tighten them*")
    result = pytester.runpytest("--perf-device", "a100", "-W", "default", "--perf-ratchet")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*time is * better than the baseline *",
            "*confidence: guessed: *",
            "*--perf-ratchet: better by a guess; give what is missing before you accept it",
        ]
    )
    result.stdout.no_fnmatch_line("*--perf-update*")
