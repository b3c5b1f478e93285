"""The sentence on a failure that can be pasted into a review."""

import pytest

from perfassert.report.reason import reason

PREDICTION = {
    "label": "blur", "device": "A100", "time": 4e-4, "limiter": "dram", "expectations": [],
    "sources": {}, "findings": [],
}  # fmt: skip
TEST = {"baselines": []}
FAILED = {"metric": "time", "predicted": "400 us", "expected": "< 1 us", "verdict": "FAIL"}


def finding(line, message="a warp touches 32 sectors where 4 would do"):
    return {"rule": "uncoalesced-access", "file": "blur.cu", "line": line, "message": message}


def cost(line, sectors):
    return {"line": line, "sectors": sectors, "wavefronts": 1.0, "instructions": 1.0}


def test_nothing_has_failed():
    assert reason(TEST, PREDICTION) == ""
    assert reason(TEST, {**PREDICTION, "expectations": [{**FAILED, "verdict": "ok"}]}) == ""


def test_an_expectation_names_the_limiter():
    assert reason(TEST, {**PREDICTION, "expectations": [FAILED]}) == (
        "blur on A100: time is 400 us, expected < 1 us; limited by dram"
    )


@pytest.mark.parametrize(("seven", "nine", "line"), [(96.0, 8.0, 7), (4.0, 8.0, 9)])
def test_of_several_findings_that_of_the_costliest_line(seven, nine, line):
    p = {
        **PREDICTION,
        "expectations": [FAILED],
        "findings": [finding(7), finding(9)],
        "sources": {"blur.cu": [cost(7, seven), cost(9, nine)]},
    }
    assert reason(TEST, p).endswith(
        f"; a warp touches 32 sectors where 4 would do, at blur.cu:{line}"
    )


def test_a_regression_has_its_cause():
    record = {"label": "blur", "cause": "time +100.0 %: twice the loads; at blur.cu:7",
              "base": {"time": 2e-4}}  # fmt: skip
    assert reason({"baselines": [record]}, {**PREDICTION, "expectations": [FAILED]}) == (
        "blur on A100: 200 us → 400 us, time +100.0 %: twice the loads; at blur.cu:7"
    )
    other = {**record, "label": "another"}
    assert reason({"baselines": [other]}, PREDICTION) == ""
