"""Causes that no component of a baseline names: by advice, by lines and stalls of two programs."""

from pathlib import Path

import pytest

import perfassert as pa
from perfassert.baseline.lines import cause_beyond_components

pytestmark = pytest.mark.exhaustive(one_in=3)

PAIRS = Path(__file__).parents[1] / "advisor_kernels" / "pairs.cu"
N = 1 << 20


def predicted(name):
    launch = pa.Launch(N // 256, 256, args={"n": N})
    try:
        return pa.predict(pa.from_cuda(PAIRS, kernel=name), launch, "a100")
    except pa.ToolchainMissing as missing:
        pytest.skip(str(missing))


def cause(now, then, base=None):
    return cause_beyond_components(now, base, float(then.time), float(now.time))


def test_sectors_that_fewer_would_do_for():
    strided, contiguous = predicted("strided"), predicted("contiguous")
    said = (
        "a warp touches 32 sectors where 4 would do, pairs.cu:204; "
        "without it 100 % of the slowdown is removed"
    )
    assert cause(strided, contiguous) == said
    assert cause(strided, contiguous, contiguous) == said


def test_advice_that_was_there_before_is_no_cause():
    """The program before had the same pattern; what differs is said of its lines, if anything."""
    strided, contiguous = predicted("strided"), predicted("contiguous")
    said = cause(strided, contiguous, strided)
    assert said == "reverting no single component removes the slowdown"


def test_a_line_that_asks_for_more():
    few, many = predicted("balanced"), predicted("imbalanced")
    said = cause(few, many, many) if few.time > many.time else cause(many, few, few)
    assert "warps wait for each other at the barrier, pairs.cu:" in said
    approximate, precise = predicted("approximate"), predicted("precise")
    said = cause_beyond_components(
        approximate, precise, 0.9 * float(approximate.time), float(approximate.time)
    )
    assert "of a warp, pairs.cu:" in said


def test_a_prediction_that_was_read_has_no_lines():
    now = predicted("approximate")
    base = pa.Prediction.from_dict(predicted("precise").to_dict())
    assert "of a warp" not in cause_beyond_components(
        now, base, 0.9 * float(now.time), float(now.time)
    )
