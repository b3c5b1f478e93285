import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfassert.lab.validation.statistics import (
    binomial_interval,
    kendall,
    ordered_pairs,
    percentage_errors,
    spearman,
    summarize_errors,
    summarize_groups,
    top_1_regret,
)


def vector(*values):
    return np.array(values, dtype=float)


small = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=2, max_size=12)


def test_percentage_errors():
    assert percentage_errors(vector(2, 4, 10), vector(3, 4, 5)).tolist() == [0.5, 0, 0.5]
    summary = summarize_errors(vector(*[100] * 11), vector(*range(100, 111)))
    assert summary.n == 11
    assert summary.median == pytest.approx(0.05)
    assert summary.mean == pytest.approx(0.05)
    assert summary.percentile_90 == pytest.approx(0.09)


@pytest.mark.parametrize("n", [2, 3, 10])
def test_order_kept_and_reversed(n):
    up = np.arange(1.0, n + 1)
    for correlation in (spearman, kendall):
        assert correlation(up, up**3) == 1
        assert correlation(up, -up) == -1


def test_spearman_closed_form():
    """Without ties ρ = 1 − 6 Σd² / n(n² − 1)."""
    first, second = vector(1, 2, 3, 4, 5), vector(2, 1, 4, 3, 5)
    assert spearman(first, second) == pytest.approx(1 - 6 * 4 / (5 * 24))
    # with ties: Pearson's of the ranks 1, 2.5, 2.5, 4 and 1, 2, 3, 4
    assert spearman(vector(1, 2, 2, 3), vector(1, 2, 3, 4)) == pytest.approx(4.5 / math.sqrt(22.5))


def test_kendall_closed_form():
    """A swap of neighbours among n gives τ = 1 − 4 / n(n − 1)."""
    assert kendall(vector(1, 2, 3, 4), vector(2, 1, 3, 4)) == pytest.approx(1 - 4 / 12)
    # a tie in one: 5 concordant of 6 pairs, τ-b = 5 / √(5 · 6)
    assert kendall(vector(1, 2, 2, 3), vector(1, 2, 3, 4)) == pytest.approx(5 / math.sqrt(30))


def sign(x):
    return (x > 0) - (x < 0)


def all_pairs(points):
    return list(itertools.combinations(points, 2))


@given(small)
def test_kendall_by_counting(points):
    a, b = vector(*(p[0] for p in points)), vector(*(p[1] for p in points))
    signs = [(sign(q[0] - p[0]), sign(q[1] - p[1])) for p, q in all_pairs(points)]
    norm = math.sqrt(sum(s != 0 for s, _ in signs) * sum(t != 0 for _, t in signs))
    expected = sum(s * t for s, t in signs) / norm if norm else None
    assert kendall(a, b) == pytest.approx(expected)


@given(small)
def test_spearman_by_counting(points):
    """The mean rank of a value is the count of smaller ones and half of its equals."""
    first, second = [p[0] for p in points], [p[1] for p in points]

    def ranks(values):
        return [sum(w < v for w in values) + (sum(w == v for w in values) + 1) / 2 for v in values]

    found = spearman(vector(*first), vector(*second))
    if len(set(first)) == 1 or len(set(second)) == 1:
        assert found is None
    else:
        assert found == pytest.approx(np.corrcoef(ranks(first), ranks(second))[0, 1])


@given(small, st.sampled_from([0.0, 0.1, 0.5]))
def test_pairs_by_counting(points, apart):
    a, b = vector(*(p[0] for p in points)), vector(*(p[1] for p in points))
    differ = [
        (p, q) for p, q in all_pairs(points) if max(p[0], q[0]) >= (1 + apart) * min(p[0], q[0])
    ]
    right = [1 for p, q in differ if sign(q[0] - p[0]) * sign(q[1] - p[1]) > 0]
    assert ordered_pairs(a, b, apart) == (len(right), len(differ))


def test_which_pairs_truly_differ():
    assert ordered_pairs(vector(100, 110), vector(1, 2)) == (1, 1)  # 10 % exactly
    assert ordered_pairs(vector(100, 109.9), vector(1, 2)) == (0, 0)
    assert ordered_pairs(vector(100, 200), vector(7, 7)) == (0, 1)  # a tie is not right
    assert ordered_pairs(vector(200, 100), vector(1, 2)) == (0, 1)


def test_regret():
    measured = vector(12, 10, 15)
    assert top_1_regret(measured, vector(1, 2, 3)) == pytest.approx(0.2)
    assert top_1_regret(measured, vector(3, 1, 2)) == 0
    assert top_1_regret(measured, vector(1, 9, 1)) == pytest.approx(0.35)  # 13.5 on average
    assert top_1_regret(measured, vector(5, 5, 5)) == pytest.approx(37 / 30 - 1)
    # bandwidths: 8 in place of 10 takes a quarter longer
    assert top_1_regret(vector(8, 10), vector(2, 1), higher_is_better=True) == pytest.approx(0.25)


@given(small)
def test_regret_of_a_perfect_model_is_none(points):
    values = vector(*(p[0] for p in points))
    for higher in (False, True):
        assert top_1_regret(values, 2 * values, higher) == 0


def test_undefined_is_none():
    one = summarize_errors(vector(3), vector(4))
    assert (one.n, one.spearman, one.kendall, one.pairs, one.pairs_right) == (
        1,
        None,
        None,
        0,
        None,
    )
    assert one.regret == 0
    none = summarize_errors(vector(), vector())
    assert (none.n, none.median, none.regret) == (0, None, None)
    assert summarize_groups(vector(), vector(), [])[1] == {}
    constant = summarize_errors(vector(1, 2), vector(1, 1))
    assert constant.spearman is None
    assert constant.kendall is None


def test_groups_are_not_ranked_against_each_other():
    measured, predicted = vector(1, 2, 30, 20, 10), vector(10, 20, 3, 2, 1)
    groups = ["a", "a", "b", "b", "b"]
    whole, parts = summarize_groups(measured, predicted, groups)
    assert list(parts) == ["a", "b"]
    assert whole.spearman == whole.kendall == 1
    assert (whole.pairs, whole.pairs_right, whole.regret) == (4, 1, 0)
    assert summarize_errors(measured, predicted).spearman < 0
    worse, parts = summarize_groups(measured, vector(20, 10, 3, 2, 1), groups)
    assert worse.spearman == pytest.approx((-1 * 2 + 1 * 3) / 5)
    assert (worse.regret, parts["b"].regret) == (1, 0)
    assert worse.pairs_right == pytest.approx(3 / 4)


def test_a_constant_prediction_has_no_skill_in_its_group():
    whole, parts = summarize_groups(vector(1, 2, 1, 2, 5), vector(1, 2, 7, 7, 7), list("aabbc"))
    assert parts["b"].spearman is None
    assert whole.spearman == pytest.approx(0.5)  # c alone has no order to find


def test_a_single_group_is_the_whole():
    whole, parts = summarize_groups(vector(1, 2), vector(3, 3), [(), ()])
    assert whole == parts[()]


@pytest.mark.parametrize(("successes", "trials"), [(9, 10), (0, 5), (5, 5), (40, 80)])
def test_ends_of_the_binomial_interval_are_just_as_likely_as_allowed(successes, trials):
    """At each end the share seen lies 1.96 standard deviations away; none is outside of 0 to 1."""
    for end in binomial_interval(successes, trials):
        assert -1e-12 < end < 1 + 1e-12
        deviation = math.sqrt(end * (1 - end) / trials)
        assert abs(successes / trials - end) == pytest.approx(1.96 * deviation, rel=1e-4, abs=1e-6)
