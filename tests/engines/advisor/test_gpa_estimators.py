"""GPA's equations (2)–(10) against numbers by hand, and theorem V.1."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfassert.engines.advisor.estimators import (
    Parallelism,
    issue_rate,
    latency_hiding,
    parallel,
    scoped_latency_hiding,
    stall_elimination,
)

COUNT = st.floats(0, 1e9)


def test_equation_2():
    assert stall_elimination(100, 20) == 1.25
    assert stall_elimination(100, 0) == 1
    assert stall_elimination(0, 0) == 1
    assert stall_elimination(100, 100) == math.inf


def test_equation_3_is_4_without_a_bound():
    assert latency_hiding(100, 75) == 4


def test_equation_4():
    assert latency_hiding(100, 60, 40) == pytest.approx(100 / 60)
    assert latency_hiding(100, 30, 70) == pytest.approx(100 / 70)
    assert latency_hiding(100, 50, 50) == 2


@given(COUNT, COUNT, st.floats(0, 1))
def test_theorem_v1(active, latency, share):
    speedup = latency_hiding(active + latency, latency * share, active)
    assert 1 <= speedup <= 2 + 1e-9


def test_equation_5():
    # loop 1 in loop 0; loop 2 beside them
    got = scoped_latency_hiding(100, {0: 5, 1: 10, 2: 1}, {0: 40, 1: 40, 2: 20}, {1: 0, 0: -1})
    assert got == {0: 100 / 85, 1: 100 / 90, 2: 100 / 99}


def test_a_scope_without_active_samples_hides_nothing():
    assert scoped_latency_hiding(100, {}, {3: 50}, {}) == {3: 1}


@given(st.lists(st.tuples(COUNT, COUNT), min_size=1, max_size=6), st.data())
def test_scopes_stay_below_the_kernel(scopes, data):
    parents = {i: data.draw(st.integers(-1, i - 1)) for i in range(len(scopes))}
    active = {i: a for i, (a, _) in enumerate(scopes)}
    latency = {i: m for i, (_, m) in enumerate(scopes)}
    total = sum(active.values()) + sum(latency.values())
    for scope, speedup in scoped_latency_hiding(total, active, latency, parents).items():
        whole = latency_hiding(total, latency[scope], sum(active.values()))
        assert 1 <= speedup <= whole * (1 + 1e-9) <= 2 + 1e-6


def test_equations_8_and_9():
    assert issue_rate(0.5, 2) == pytest.approx(0.75)
    assert issue_rate(0.1, 4) == pytest.approx(1 - 0.9**4)
    assert issue_rate(0, 8) == 0
    assert issue_rate(1, 8) == 1
    assert issue_rate(1, 0) == 0


def test_equation_10():
    # Half as many warps of a launch with one wave: 1/C_W = 2, C_I = 0.5 / 0.75
    assert parallel(0.5, Parallelism(2, 2), Parallelism(1, 1)) == pytest.approx(4 / 3)
    # Twice as many resident warps, the same to execute: only C_I = 0.9375 / 0.75
    assert parallel(0.5, Parallelism(2, 64), Parallelism(4, 64)) == pytest.approx(1.25)
    assert parallel(0.5, Parallelism(2, 64), Parallelism(4, 64), 1.2) == pytest.approx(1.5)
    assert parallel(0.0, Parallelism(2, 8), Parallelism(4, 8)) == 1


@given(st.floats(0.001, 1), st.integers(1, 16), st.integers(1, 16))
def test_more_warps_for_the_same_work_never_hurt(probability, few, more):
    old, new = Parallelism(few, 64), Parallelism(few + more, 64)
    gain = parallel(probability, old, new)
    assert 1 - 1e-9 <= gain <= (few + more) / few * (1 + 1e-9)
