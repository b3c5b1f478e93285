"""Fits: what synthetic measurements were made of comes back; what cannot be fitted is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfassert.lab.calibration import fits
from perfassert.lab.calibration.fits import Unfit

WARPS = [*range(1, 9), 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64]
REPEATS = 9
LENGTH = 4096
NOISE = 0.02


def hull(issue, completion, warps=WARPS, length=LENGTH, noise=NOISE, seed=0, outliers=0):
    """Warps and cycles of equation (1), each REPEATS times, with normal relative noise."""
    random = np.random.default_rng(seed)
    w = np.repeat(np.array(warps, dtype=float), REPEATS)
    t = fits.equation_1(w, length, issue, completion) * (1 + noise * random.standard_normal(w.size))
    for i in random.choice(w.size, outliers, replace=False):
        t[i] *= random.uniform(1.5, 4)
    return list(w), list(t)


@settings(max_examples=500)
@given(
    issue=st.floats(0.25, 40),
    corner=st.floats(1.3, 40),
    seed=st.integers(0, 10**6),
    outliers=st.integers(0, 8),
)
def test_hull_within_three_percent_at_two_percent_noise(issue, corner, seed, outliers):
    """500 pairs of λ and Λ, with up to 8 outliers among 180 measurements."""
    completion = issue * corner
    w, t = hull(issue, completion, seed=seed, outliers=outliers)
    found = fits.fit_hull(w, t, LENGTH)
    assert found.issue == pytest.approx(issue, rel=0.03)
    assert found.completion == pytest.approx(completion, rel=0.03)
    assert found.residual < 0.03


@settings(max_examples=200)
@given(
    issue=st.floats(0.25, 40),
    corner=st.floats(1.3, 10),
    length=st.integers(64, 10_000),
    seed=st.integers(0, 10**6),
)
def test_hull_of_a_scheduler_with_sixteen_warps(issue, corner, length, seed):
    w, t = hull(issue, issue * corner, [*range(1, 9), 10, 12, 14, 16], length, seed=seed)
    found = fits.fit_hull(w, t, length)
    assert found.issue == pytest.approx(issue, rel=0.03)
    assert found.completion == pytest.approx(issue * corner, rel=0.03)


@pytest.mark.parametrize(
    ("issue", "completion"),
    [(1, 18), (0.25, 6), (8, 40), (1, 14), (4, 58), (1.75, 29), (23, 521), (12, 378)],
)
def test_table_ii_without_noise_is_exact(issue, completion):
    found = fits.fit_hull(*hull(issue, completion, noise=0), LENGTH)
    assert (found.issue, found.completion) == pytest.approx((issue, completion), rel=1e-6)
    assert found.residual < 1e-6


@given(issue=st.floats(0.25, 10), corner=st.floats(70, 1000), seed=st.integers(0, 1000))
def test_a_curve_that_does_not_saturate_is_refused_but_shows_its_latency(issue, corner, seed):
    with pytest.raises(Unfit, match="does not saturate") as caught:
        fits.fit_hull(*hull(issue, issue * corner, seed=seed), LENGTH)
    assert caught.value.completion.value == pytest.approx(issue * corner, rel=0.03)
    assert caught.value.issue is None


@given(issue=st.floats(0.25, 10), share=st.floats(0.01, 1), seed=st.integers(0, 1000))
def test_a_curve_that_is_saturated_from_the_start_is_refused(issue, share, seed):
    with pytest.raises(Unfit, match="hidden behind λ") as caught:
        fits.fit_hull(*hull(issue, issue * share, seed=seed), LENGTH)
    assert caught.value.issue.value == pytest.approx(issue, rel=0.03)
    assert caught.value.completion is None


def test_curves_that_are_none():
    w = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
    for times, reason in (
        ([5, 5, 5, 5, 5, 5], "does not saturate"),
        ([64, 32, 16, 8, 4, 2], "time falls"),
        ([4, 4, 4, 8, 16, -32], "-32000 is no measurement"),
        ([4, 4, 4, 8, 16, 0], "0 is no measurement"),
        ([4, 4, 4, 8, 16, float("nan")], "nan is no measurement"),
        ([4, 4, 4, 8, 16, float("inf")], "inf is no measurement"),
        ([1, 30, 2, 90, 4, 300], "residual|saturate|falls"),
    ):
        with pytest.raises(Unfit, match=reason):
            fits.fit_hull(w, [1000 * t for t in times], 1000)
    with pytest.raises(Unfit, match="too few points: 3 warp counts"):
        fits.fit_hull([1, 2, 3], [1, 2, 3], 1000)
    with pytest.raises(Unfit, match="too few points: none"):
        fits.fit_hull([], [], 1000)
    with pytest.raises(Unfit, match="6 warp counts for 2 times"):
        fits.fit_hull(w, [1, 2], 1000)


def chased(levels, seed, noise=0.02):
    """Sizes by the eighth of an octave; ``levels``: (capacity, latency); soft transitions."""
    random = np.random.default_rng(seed)
    sizes = [2 ** (i / 4) * 4096 for i in range(80)]
    times = []
    for size in sizes:
        latency, before = levels[0][1], levels[0]
        for level in levels[1:]:
            share = np.clip((size / before[0] - 1) / 0.5, 0, 1)
            latency += share * (level[1] - before[1])
            before = level
        times.append(latency * (1 + noise * random.uniform(-1, 1)))
    return sizes, times


@settings(max_examples=60)
@given(
    l1=st.floats(20, 60), l2=st.floats(2.5, 8), far=st.floats(1.4, 2), dram=st.floats(1.3, 3),
    seed=st.integers(0, 10**6),
)  # fmt: skip
def test_levels_of_a_chase(l1, l2, far, dram, seed):
    truth = [
        (128 * 2**10, l1),
        (8 * 2**20, l1 * l2),
        (64 * 2**20, l1 * l2 * far),
        (1e18, l1 * l2 * far * dram),
    ]
    sizes, times = chased(truth, seed)
    levels = fits.fit_levels(sizes, times)
    assert len(levels) == 4
    for level, (capacity, latency) in zip(levels, truth, strict=True):
        assert level.latency == pytest.approx(latency, rel=0.03)
        assert level.spread < 0.05
        if capacity < 1e9:
            assert level.last == pytest.approx(capacity, rel=0.25)


def test_levels_survive_an_outlier():
    sizes, times = chased([(128 * 2**10, 30), (8 * 2**20, 200), (1e18, 600)], 3)
    times[5] *= 4
    times[40] *= 3
    assert [round(v.latency, -1) for v in fits.fit_levels(sizes, times)] == [30, 200, 600]


def test_chases_that_show_nothing():
    with pytest.raises(Unfit, match="no plateau"):
        fits.fit_levels(range(1, 20), [2.0**i for i in range(1, 20)])
    with pytest.raises(Unfit, match="too few points"):
        fits.fit_levels([1, 2], [3, 3])
    with pytest.raises(Unfit, match="latency falls"):
        fits.fit_levels(range(1, 9), [9, 9, 9, 9, 3, 3, 3, 3])


@given(slope=st.floats(1, 500), first=st.floats(10, 500), seed=st.integers(0, 1000))
def test_lines(slope, first, seed):
    random = np.random.default_rng(seed)
    x = np.repeat(np.arange(1.0, 17), 5)
    y = (first + slope * (x - 1)) * (1 + 0.005 * random.standard_normal(x.size))
    found, start = fits.fit_line(x, y)
    assert start.value == pytest.approx(first, abs=0.01 * (first + slope * 15))
    assert first + slope * 15 == pytest.approx(start.value + found.value * 15, rel=0.02)


def test_lines_that_are_none():
    with pytest.raises(Unfit, match="does not rise"):
        fits.fit_line([1, 2, 3], [3, 2, 1])
    with pytest.raises(Unfit, match="too few points: 2"):
        fits.fit_line([1, 2, 2], [3, 2, 1])


def test_bandwidth_levels_off():
    load = np.repeat([1.0, 2, 4, 8, 16], 5)
    rate = np.repeat([100.0, 200, 390, 400, 402], 5)
    assert fits.fit_saturation(load, rate).value == pytest.approx(400, rel=0.01)
    with pytest.raises(Unfit, match="does not saturate"):
        fits.fit_saturation(load, 100 * load)
    with pytest.raises(Unfit, match="too few points: 2"):
        fits.fit_saturation([1, 2], [1, 2])


def test_steps():
    distances = [8, 16, 32, 64, 128]
    levels = fits.fit_steps(distances, [600, 602, 770, 1100, 1102])
    assert [level.first for level in levels] == [8, 32, 64]


def test_a_median_has_its_spread():
    found = fits.median([9, 10, 11])
    assert (found.value, found.spread) == pytest.approx((10, 0.1))
    assert fits.median([9, 10, 11]).note() == "± 10 %"
    with pytest.raises(Unfit, match="none"):
        fits.median([])
