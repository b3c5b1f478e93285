"""``--fail-on``: what it means, and what means nothing."""

import pytest

from perfassert.comparison.limits import parse
from perfassert.errors import ExpectationError


@pytest.mark.parametrize(
    ("text", "before", "after", "broken"),
    [
        ("registers +8", 32, 40, False),
        ("registers +8", 32, 41, True),
        ("spill_bytes +0", 0, 4, True),
        ("spill_bytes +0", 64, 64, False),
        ("code_bytes +10 %", 1000, 1100, False),
        ("code_bytes +10 %", 1000, 1101, True),
        ("code_bytes +10 % or 1 kB", 1000, 2000, False),
        ("time +2 %", 1e-6, 1.03e-6, True),
        ("time +2 % or 1 us", 1e-6, 2e-6, False),
        ("occupancy -10 %", 0.5, 0.45, False),
        ("occupancy -10 %", 0.5, 0.44, True),
        ("occupancy -0", 0.5, 0.75, False),
    ],
)
def test_what_is_too_much(text, before, after, broken):
    (limit,) = parse(text).all
    assert limit.is_exceeded(before, after) is broken


def test_several():
    limits = parse("spill_bytes +0, registers +8, new")
    assert [limit.metric for limit in limits.all] == ["spill_bytes", "registers"]
    assert limits.new
    assert [limit.metric for limit in limits.of({"registers"})] == ["registers"]
    assert parse("").all == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("registrs +8", "no metric 'registrs'; did you mean 'registers'"),
        ("registers 8", "cannot understand 'registers 8'; write 'spill_bytes"),
        ("registers +8 us", "should be a percentage or have no unit"),
        ("time +2", "should be a percentage or have the unit s"),
        ("time +1e999 %", "more than a number can be"),
        ("occupancy -10", "more than all of it; write a percentage"),
        ("time +2 B", "should be a percentage or have the unit s"),
        ("registers ++8", "cannot understand"),
        ("registers +eight", "cannot understand"),
        ("limiter +1", "no metric 'limiter'"),
        ("registers +1, registers +2", "limited twice"),
        ("__import__('os')", "cannot understand"),
    ],
)
def test_what_has_no_meaning(text, message):
    with pytest.raises(ExpectationError, match=message.replace("(", r"\(")):
        parse(text)
