"""Lines of two sides meet again although their numbers have moved."""

import pytest

from perfassert.comparison.line_changes import costs_of, line_changes


def side(*lines):
    """(number, sectors, wavefronts, instructions)"""
    keys = ("line", "sectors", "wavefronts", "instructions")
    return costs_of({"a.cu": [dict(zip(keys, line, strict=True)) for line in lines]})


BASE = side((3, 0, 0, 5), (4, 8, 2, 4), (5, 0, 0, 9), (7, 4, 1, 2))


def test_the_same_has_no_change():
    assert line_changes(BASE, BASE) == ()


@pytest.mark.parametrize("shift", [0, 1, 40])
def test_lines_that_only_moved_are_no_change(shift):
    moved = side(*((n + shift, *cost) for n, cost in BASE["a.cu"]))
    assert line_changes(BASE, moved) == ()


@pytest.mark.parametrize("shift", [0, 2])
def test_a_line_that_costs_more_is_found_wherever_it_went(shift):
    lines = [(n + shift, *cost) for n, cost in BASE["a.cu"]]
    lines[1] = (4 + shift, 32, 8, 4)
    (change,) = line_changes(BASE, side(*lines))
    assert (change.base_line, change.head_line) == (4, 4 + shift)
    assert (change.before, change.after) == ((8, 2, 4), (32, 8, 4))
    assert change.weight == pytest.approx(24 / 36)
    assert change.place == ("a.cu:4 → 6" if shift else "a.cu:4")


def test_lines_come_and_go_and_the_largest_is_first():
    head = side((3, 0, 0, 5), (4, 8, 2, 4), (6, 64, 16, 2), (7, 0, 0, 9))
    new, gone = line_changes(BASE, head)
    assert (new.place, new.before) == ("a.cu:6 (new)", (0, 0, 0))
    assert (gone.place, gone.after) == ("a.cu:7 (gone)", (0, 0, 0))
    assert new.weight > gone.weight


def test_a_side_without_lines_is_not_known():
    assert line_changes(BASE, {}) == ()
    assert line_changes({}, BASE) == ()


def test_changes_add_up_to_the_difference_of_the_kernels():
    head = side((2, 1, 1, 1), (4, 16, 4, 4), (5, 0, 0, 9), (9, 4, 2, 30))
    changes = line_changes(BASE, head)
    for i in range(3):
        moved = sum(c.after[i] - c.before[i] for c in changes)
        assert moved == sum(c[i] for _, c in head["a.cu"]) - sum(c[i] for _, c in BASE["a.cu"])
