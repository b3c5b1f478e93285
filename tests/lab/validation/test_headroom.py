"""Measured times over the speed of light: figures by suite, and the rows that are below it."""

import pytest
from copy_suite import HEADER, SUITE, write

import perfassert as pa
from perfassert.cli.main import main
from perfassert.lab.validation.data import read_rows
from perfassert.lab.validation.headroom import text
from perfassert.lab.validation.read import read_suite
from perfassert.lab.validation.run import validate

FACTORS = (0.5, 1.5, 2.0, 4.0)


@pytest.fixture
def path(tmp_path):
    """Copies whose measured times are these multiples of their speed of light."""
    rows = []
    for mega, factor in zip((16, 32, 64, 128), FACTORS, strict=True):
        seconds = factor * 16e6 * mega / pa.device("a100").peak_dram_bandwidth
        rows.append(("copy", mega, 256, seconds * 1e6, 8e6 * mega))
    return write(tmp_path, SUITE, rows, HEADER)


def test_figures_and_the_row_below(path):
    suite = read_suite(path)
    shown = str(text([validate(suite, read_rows(suite))]))
    figures = shown.splitlines()[2].split()
    assert figures[1:4] == ["4", "1", "0.5"]
    assert float(figures[6]) == pytest.approx(1.75, rel=0.01)
    assert "line 2: 0.500 (measured" in shown
    assert "line 3" not in shown


def test_the_option(path, capsys):
    assert main(["validate", str(path), "--jobs", "1", "--headroom"]) == 0
    assert "measured / speed of light" in capsys.readouterr().out
    assert main(["validate", str(path), "--headroom", "--json"]) == 2
