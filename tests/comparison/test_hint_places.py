"""To which loop of other code a hint belongs, by the text of the lines."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfassert.comparison.hint_places import CodePlaces, Place, UndecidedHint, move_hints
from perfassert.comparison.hint_places import _read_lines as read_lines
from perfassert.frontends.cuda.kernels import Hints


def code(text, machine, name="k.cu", loads=False):
    """Return code in which each line of ``text`` that is not blank has a loop, or a load."""
    lines = text.split("\n")
    places = [
        Place((f"{name}:{n}",), f"/side/{name}", n, " ".join(line.split()))
        for n, line in enumerate(lines, 1)
        if line.strip()
    ]
    loops = () if loads else places
    return CodePlaces("side", [machine], loops, places if loads else (), {f"/side/{name}": lines})


def moved(before, after, counts, machine=("a", "b"), **more):
    hints = Hints.validate(1, counts, None)
    return move_hints(hints, code(before, machine[0]), code(after, machine[1], **more)).trip_counts


@pytest.mark.parametrize(
    ("before", "after", "counts", "result"),
    [
        ("A\nB", "\nA\n\nB", {"k.cu:1": 5, "k.cu:2": 7}, {"k.cu:2": 5, "k.cu:4": 7}),
        ("A\nB", "C\nA\nD\nB", {"k.cu:1": 5}, {"k.cu:2": 5}),
        ("A  x", "  A x", {"k.cu:1": 5}, {"k.cu:1": 5}),
        ("A\nA", "A\n\nA\nA", {"k.cu:1": 5, "k.cu:2": 5}, {f"k.cu:{n}": 5 for n in (1, 3, 4)}),
        ("A\nB\nA", "\n\nA\nB\nA", {"k.cu:1": 5, "k.cu:3": 7}, {"k.cu:3": 5, "k.cu:5": 7}),
        ("A\nB\nA", "C\nA\nB\nA\nD", {"k.cu:3": 7}, {"k.cu:4": 7}),
        ("A", "A", {"k.cu:1": 0}, {"k.cu:1": 0}),
        ("A", "A", {"k.cu:9": 5}, {"k.cu:9": 5}),
    ],
)  # fmt: skip
def test_a_hint_moves(before, after, counts, result):
    assert moved(before, after, counts) == result


@pytest.mark.parametrize(
    ("before", "after", "counts", "told"),
    [
        ("A\nB", "B\nC", {"k.cu:1": 5}, "no loop in side is on such a line; loops of side: k.cu:1"),
        ("A", "A;", {"k.cu:1": 5}, "no loop"),
        ("A", "", {"k.cu:1": 5}, "loops of side: none"),
        ("A\nB", "B\nA", {"k.cu:1": 5, "k.cu:2": 7}, "another order"),
        ("A\nA", "A\n\nA", {"k.cu:1": 5, "k.cu:2": 7}, "several loops"),
        ("A\nA", "A\nA\nA", {"k.cu:1": 5, "k.cu:2": 7}, "several loops"),
        ("A\nA", "A", {"k.cu:1": 5}, "several loops"),
        ("A\nB\nA", "A\nC\nA", {"k.cu:1": 5}, "several loops"),
    ],
)
def test_a_hint_whose_place_is_undecided(before, after, counts, told):
    with pytest.raises(UndecidedHint, match=told):
        moved(before, after, counts)


def test_other_file_names_do_not_matter():
    assert moved("A\nB", "\nA\nB", {"k.cu:2": 7}, name="new.cu") == {"new.cu:3": 7}


def test_the_same_machine_code_needs_no_text():
    same = ("a", "a")
    assert moved("A\nB", "C\n\nD", {"k.cu:2": 7}, machine=same) == {"k.cu:3": 7}
    unread = [CodePlaces("side", [m], [Place(("k.cu:1",), "k.cu", 1)], (), {}) for m in "ab"]
    hints = Hints.validate(1, {"k.cu:1": 5}, None)
    assert move_hints(hints, unread[0], unread[0]).trip_counts == hints.trip_counts
    with pytest.raises(UndecidedHint, match="the text of its line is not known"):
        move_hints(hints, *unread)


def test_assumed_values_of_a_name_stay():
    hints = Hints.validate(1, None, {"index": "x", "k.cu:1": "y"})
    sides = [code(text, m, loads=True) for text, m in (("A", "a"), ("\nA", "b"))]
    assert move_hints(hints, *sides).assume == {"index": "x", "k.cu:2": "y"}


def test_loads_that_meet_on_one_line():
    hints = Hints.validate(1, None, {"k.cu:1": "x", "k.cu:2": "y"})
    load = Place(("k.cu:1",), "k.cu", 1, "A")
    joined = CodePlaces("side", ["a"], (), [load, load], {})
    with pytest.raises(UndecidedHint, match="k.cu:1 has several loads"):
        move_hints(hints, code("A\nB", "a", loads=True), joined)


LINES = st.lists(st.sampled_from("ABC"), min_size=1, max_size=5)


@given(LINES, LINES, st.lists(st.integers(0, 2), min_size=5, max_size=5))
def test_a_count_never_reaches_another_text(before, after, counts):
    """The counts of a text are those that the base gives lines of that text."""
    table = {f"k.cu:{n}": count for n, count in enumerate(counts[: len(before)], 1)}
    try:
        result = moved("\n".join(before), "\n".join(after), table)
    except UndecidedHint:
        return
    for n, text in enumerate(after, 1):
        allowed = {table[f"k.cu:{m}"] for m, other in enumerate(before, 1) if other == text}
        assert {result[key] for key in (f"k.cu:{n}",) if key in result} <= allowed
        assert (f"k.cu:{n}" in result) == bool(allowed)


def test_text_on_disk_is_that_of_its_side_alone(tmp_path):
    """A file in both folders has been one of them since it was compiled."""
    for name in ("base", "head"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "k.cu").write_text(f"{name}\f\nB\n")
    base, head = tmp_path / "base", tmp_path / "head"
    assert read_lines(f"{base}/k.cu", {}, base, head) == ["base\f", "B", ""]
    assert read_lines(f"{head}/k.cu", {}, base, head) == []
    assert read_lines(f"{base}/k.cu", {}, base, base) == []
    assert read_lines(f"{base}/k.cu", {}, base, Path(tmp_path)) == []
    assert read_lines(f"{base}/none.cu", {}, base, head) == []
    assert read_lines(f"{head}/k.cu", {f"{head}/k.cu": "known"}, base, head) == ["known"]
