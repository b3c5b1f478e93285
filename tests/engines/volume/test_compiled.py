"""The compiled core of the volume engine against numpy, which defines it."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfassert.engines.volume import runs, warps
from perfassert.engines.volume.compiled import available
from perfassert.engines.volume.runs import Pattern, TooManyRuns

pytestmark = pytest.mark.skipif(not available(), reason="no compiler when it was installed")
place = st.integers(-5000, 5000)
shifts = st.lists(place, min_size=1, max_size=9).map(lambda n: np.unique(np.array(n)))


@st.composite
def patterns(draw):
    steps = [
        (draw(st.integers(-700, 700)), draw(st.integers(1, 9)))
        for _ in range(draw(st.integers(0, 3)))
    ]
    for values in draw(st.lists(shifts, max_size=1)):
        steps.append((int(np.diff(values).min()) if len(values) > 1 else 0, values))
    steps.sort(key=lambda step: abs(step[0]))
    places = np.array(draw(st.lists(place, max_size=12)), dtype=np.int64)
    return Pattern(places, draw(place), draw(st.integers(1, 70)), steps)


def tried(unite, *given):
    """The runs, or what is said of too many."""
    try:
        found = unite(*given)
    except TooManyRuns as many:
        return many.args
    return found.starts.tolist(), found.ends.tolist()


@given(
    st.lists(patterns(), max_size=4), st.sampled_from((1, 3, 32, 128)), st.sampled_from((40, 10**6))
)
def test_unions(parts, granularity, most):
    expected = tried(runs._unite, parts, granularity, most)
    assert tried(runs._unite_compiled, parts, granularity, most, False) == expected


@given(st.lists(patterns(), max_size=3), st.sampled_from((1, 3, 32)))
def test_granules(parts, granularity):
    whole = runs.to_granules(runs._unite(parts, granularity, 10**6), granularity)
    found = runs._unite_compiled(parts, granularity, 10**6, True)
    assert (found.starts.tolist(), found.ends.tolist()) == (
        whole.starts.tolist(),
        whole.ends.tolist(),
    )


@pytest.mark.parametrize("lanes", [1, 8, 32])
@pytest.mark.parametrize("seed", range(6))
def test_stages(seed, lanes):
    source = np.random.default_rng(seed)
    addresses = source.integers(-(2**seed) * 64, 2**seed * 64, (40, lanes)) * source.choice(
        (1, 4, 256)
    )
    active = source.random((40, lanes)) < source.choice((0, 0.4, 1))
    for unit, banks, each in ((4, 32, lanes), (8, 16, max(1, lanes // 2)), (12, 10, 1)):
        counted = warps._wavefronts_compiled(addresses, active, unit, banks, each)
        assert (counted == warps._wavefronts(addresses, active, unit, banks, each)).all()
    offsets, bases = source.integers(-300, 300, source.integers(1, 4)), 5 * 64 * np.arange(9)
    for line, banks in ((128, 4), (32, 8), (96, 4)):
        device = SimpleNamespace(
            sector_bytes=32, l1_line_bytes=line, tlb_page_bytes=2048, l1_tag_banks=banks
        )
        for pieces, every in ((1, 1), (3, 7)):
            moves = warps.Moves(offsets, pieces, bases, every)
            expected = warps._count_rows(addresses, moves, device)
            for counted, own in zip(
                warps._count_rows_compiled(addresses, moves, device), expected, strict=True
            ):
                assert np.array_equal(counted, own)
