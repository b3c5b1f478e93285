"""Accesses written once for many offsets are those written out by hand."""

from pathlib import Path

import pytest
from copy_suite import SUITE, write

from perfassert.errors import SuiteError
from perfassert.lab.validation.read import read_suite

LOADS = 'loads = ["b[x]"]\nregisters'


def loads(folder, lines):
    text = SUITE.replace(LOADS, f"{lines}\nregisters")
    assert text != SUITE
    return read_suite(write(folder, text)).kernels["read"].accesses["loads"]


def test_every_combination_the_last_name_fastest(tmp_path):
    found = loads(tmp_path, 'each = { i = [-1, 2], k = [0, 1] }\nloads = ["b[x + i + 4 * k]"]')
    assert found == (
        "b[x + (-1) + 4 * (0)]",
        "b[x + (-1) + 4 * (1)]",
        "b[x + (2) + 4 * (0)]",
        "b[x + (2) + 4 * (1)]",
    )


def test_only_names_that_stand_alone_and_only_where_they_stand(tmp_path):
    found = loads(tmp_path, 'each = { i = [1, 2] }\nloads = ["b[x]", "bin[x + i]"]')
    assert found == ("b[x]", "bin[x + (1)]", "bin[x + (2)]")


@pytest.mark.parametrize("given", ["3", '["a"]', "[1.5]", "[true]"])
def test_only_lists_of_whole_numbers(tmp_path, given):
    with pytest.raises(SuiteError, match=r"accesses.each.i: must be a list of integers"):
        loads(tmp_path, f'each = {{ i = {given} }}\nloads = ["b[x + i]"]')


def test_shipped_stencils_have_every_point_once():
    folder = Path(__file__).parents[3] / "validation"
    boxes = read_suite(folder / "boxes_v100.toml").kernels
    for reach in (1, 2, 3, 7):
        points = boxes[f"box2d/{reach}"].accesses["loads"]
        assert len(set(points)) == len(points) == (2 * reach + 1) ** 2
    stars = read_suite(folder / "stars_v100.toml").kernels
    assert len(set(stars["star3d25pt/1"].accesses["loads"])) == 25
    for fold in (1, 2, 4):  # in z the stars of one thread overlap
        points = stars[f"star3d13pt/{fold}"].accesses["loads"]
        assert len(set(points)) == len(points) == fold + 4 + 8 * fold
