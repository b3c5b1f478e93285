"""The coin that decides what may be fitted on: the same everywhere, fair, blind to order."""

import itertools
import random
import subprocess
import sys
from collections import Counter

import pytest
from copy_suite import HEADER, ROWS, SUITE, write

from perfassert.lab.validation.data import read_rows
from perfassert.lab.validation.halves import in_fitting_half, is_fitted
from perfassert.lab.validation.read import read_suite

EXPECTED = "1 1 0 1 1 0 1 1 1 0 0 0 1 0 0 0 1".split()
BLOCKS = [
    {"x": str(x), "y": str(y), "tile": str(tile)}
    for x, y, tile in itertools.product((8, 16, 32, 64, 128), (1, 2, 4, 8, 16), range(1, 9))
]


def halves(rows, columns=("x", "y", "tile")):
    return [in_fitting_half(row, columns) for row in rows]


def test_it_is_the_same_in_every_process():
    """Written down once: a change of the hash would move rows that are fitted on to the test."""
    row = {"x": "32", "y": "4", "tile": "2"}
    program = (
        "from perfassert.lab.validation.halves import in_fitting_half as half\n"
        "print(*[int(half({'x': str(x)}, ['x'])) for x in range(16)],"
        f" int(half({row}, {list(row)})))"
    )
    for seed in ("0", "4711"):
        printed = subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert printed.stdout.split() == EXPECTED


def test_it_is_about_balanced():
    """Within three standard deviations of a fair coin, over all and along every axis."""
    sides = halves(BLOCKS)
    assert abs(sum(sides) - len(sides) / 2) < 1.5 * len(sides) ** 0.5
    for column in ("x", "y", "tile"):
        totals = Counter(row[column] for row in BLOCKS)
        chosen = Counter(r[column] for r, s in zip(BLOCKS, sides, strict=True) if s)
        assert all(abs(chosen[k] - n / 2) < 1.5 * n**0.5 for k, n in totals.items())


def test_order_of_rows_and_columns_does_not_matter():
    rows = list(BLOCKS)
    random.Random(1).shuffle(rows)
    found = {
        tuple(r.values()): s for r, s in zip(rows, halves(rows, ("tile", "x", "y")), strict=True)
    }
    assert [found[tuple(row.values())] for row in BLOCKS] == halves(BLOCKS)


def test_only_the_configuration_counts():
    """Repeated measurements, and variants that hardly differ, stay together."""
    for row in BLOCKS[:32]:
        noisy = {**row, "x": f"{float(row['x'])}", "time_us": "17.3", "padding": "1"}
        assert halves([noisy]) == halves([row])


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ('rows = "all"', lambda row, half: True),
        ('rows = "half"', lambda row, half: half),
        ('rows = "all"\nmetrics = ["time"]', lambda row, half: True),
        ('rows = "all"\nmetrics = ["dram_load"]', lambda row, half: False),
        ('rows = "all"\nfilter = { kernel = "copy" }', lambda row, half: row["kernel"] == "copy"),
        (
            'rows = "half"\nfilter = { kernel = "copy" }',
            lambda row, half: half and row["kernel"] == "copy",
        ),
    ],
)
def test_rows_that_something_was_fitted_on(tmp_path, entry, expected):
    head = 'configuration = ["mega", "threads"]\n'
    suite = read_suite(
        write(tmp_path, f"{head}{SUITE}\n[[fitted_on]]\n{entry}\nnote = 'By eye.'\n")
    )
    rows = read_rows(suite)
    assert len(rows) == len(ROWS)
    for row in rows:
        half = in_fitting_half(row.cells, suite.configuration)
        assert is_fitted(suite, row.cells, "time") is expected(row.cells, half)


def test_nothing_is_fitted_where_nothing_is_declared(tmp_path):
    suite = read_suite(write(tmp_path))
    cells = [dict(zip(HEADER, map(str, row), strict=True)) for row in ROWS]
    assert not any(is_fitted(suite, row, "time") for row in cells)
