"""The rule by which tuners keep configurations, against brute force."""

from dataclasses import dataclass, field
from itertools import permutations
from math import ceil
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import perfassert as pa
from perfassert.errors import LaunchError, RankingError
from perfassert.hardware.occupancy import check_block
from perfassert.ranking.selection import (
    check_share,
    is_spilling,
    measuring_order,
    order_candidates,
    rank_possible,
    select,
)

A100 = "A100-SXM4-40GB"


@st.composite
def spaces(draw, most=6):
    """Draw which candidates spill, and which pairs are decided."""
    count = draw(st.integers(1, most))
    spills = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    return spills, draw(st.sets(st.sampled_from(pairs))) if pairs else set()


def is_allowed(order, spills, decided):
    """No candidate that spills is before an undecided one that does not."""
    return all(
        (min(a, b), max(a, b)) in decided
        for i, a in enumerate(order)
        for b in order[i + 1 :]
        if spills[a] and not spills[b] and a < b
    )


@given(spaces())
def test_order_is_the_allowed_one_that_is_closest_to_the_predicted(space):
    """The order is the first of all allowed orders, lexicographically."""
    spills, decided = space
    order = order_candidates(spills, lambda i, j: (i, j) in decided)
    allowed = (p for p in permutations(range(len(spills))) if is_allowed(p, spills, decided))
    assert tuple(order) == min(allowed)


@given(spaces(12))
def test_what_does_not_spill_keeps_its_order(space):
    spills, decided = space
    order = order_candidates(spills, lambda i, j: (i, j) in decided)
    clean = [place for place in order if not spills[place]]
    assert clean == sorted(clean)
    if not any(spills) or all(spills):
        assert order == sorted(order)


def test_the_example_of_the_docstring():
    assert order_candidates([True, False, False], lambda i, j: (i, j) == (0, 2)) == [1, 0, 2]


@dataclass(frozen=True, eq=False)
class Predicted:
    """A prediction as the rule sees it; ``likely``: how sure the order with slower ones is."""

    number: int
    spill_bytes: int | None
    likely: dict = field(default_factory=dict)

    @property
    def resources(self):
        return SimpleNamespace(spill_bytes=self.spill_bytes, registers=64)

    def probability_faster(self, other):
        if self.number > other.number:
            likely = self.likely.get((other.number, self.number), 0.5)
            return None if likely is None else 1 - likely
        return self.likely.get((self.number, other.number), 0.5)


def ranking(spills, decided):
    likely = dict.fromkeys(decided, 0.9)
    predictions = [Predicted(i, 256 * spilling, likely) for i, spilling in enumerate(spills)]
    entries = tuple((str(p.number), p) for p in predictions)
    return SimpleNamespace(entries=entries, confidence=0.9)


@given(spaces(9), st.floats(0.01, 1), st.integers(0, 3))
def test_what_is_dropped_is_decided_slower_and_beyond_the_share(space, share, failures):
    spills, decided = space
    ranked = ranking(spills, decided)
    order = [key for key, _ in measuring_order(ranked)]
    failed = {f"failed{i}": pa.KernelSourceError("no") for i in range(failures)}
    selection = select(ranked, share, failed)
    first = int(order[0])
    count = ceil(share * (len(spills) + failures))
    slower = [
        key for key in order[count:]
        if first < int(key) and (first, int(key)) in decided
    ]  # fmt: skip
    assert selection.slower == tuple(slower)
    assert selection.kept == (*(k for k in order if k not in slower), *failed)
    assert selection.undecided == len(order[count:]) - len(slower)
    assert selection.unpredicted == failures
    assert all(
        (min(a, b), max(a, b)) in decided
        for place, a in enumerate(map(int, order))
        for b in map(int, order[place + 1 :])
        if a < b and spills[a] and not spills[b]
    )


@pytest.mark.parametrize(("spilled", "spills"), [(None, False), (0, False), (4, True)])
def test_any_spilled_register_is_spilling(spilled, spills):
    assert is_spilling(Predicted(0, spilled)) is spills


def test_guesses_are_undecided():
    ranked = ranking([False] * 3, {})
    ranked.entries[0][1].likely.update({(0, 1): None, (0, 2): 0.95})
    assert select(ranked, 0.1, {}).kept == ("0", "1")


def test_what_the_device_cannot_run_is_dropped():
    with pytest.raises(LaunchError) as caught:
        check_block(pa.device(A100), (2048, 1, 1), 0)
    selection = select(None, 0.5, {"large": caught.value, "odd": LaunchError("an argument")})
    assert selection.impossible == ("large",)
    assert selection.kept == ("odd",)
    assert selection.describe() == (
        "kept 1 of 2 configurations, dropped 0 as decided slower, undecided kept 0, dropped 1 "
        "that the device cannot run, not predicted and kept 1"
    )


def test_failures_are_of_one_candidate():
    """An error of all candidates is raised; that of one is returned."""
    copy = pa.Kernel.from_accesses("copy", [pa.Field("a", shape=4096)], loads=["a[x]"])
    rows = {"good": lambda: (copy, pa.Launch(16, 256)), "bad": lambda: (copy, pa.Launch(1, 4096))}
    ranked, failures = rank_possible(rows, pa.device(A100))
    assert [key for key, _ in ranked.entries] == ["good"]
    assert list(failures) == ["bad"]

    def fail():
        raise RankingError("a heuristic")

    with pytest.raises(RankingError, match="a heuristic"):
        rank_possible({"one": fail}, pa.device(A100))


@pytest.mark.parametrize("share", [0, -1, 1.5, "0.2", True, None, float("nan")])
def test_shares_that_are_none(share):
    with pytest.raises(RankingError, match="keep must be above 0 and at most 1"):
        check_share(share, "keep")
