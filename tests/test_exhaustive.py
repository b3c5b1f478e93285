"""``--exhaustive``: the default run and all parts together are every test, and each is run once."""

from pathlib import Path

import pytest

TESTS = """
import pytest

def test_alone(): pass

@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("n", range(8))
def test_often(n): pass

@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("n", range(2))
def test_twice(n): pass
"""


FILE = """
import pytest

pytestmark = pytest.mark.exhaustive(one_in=2)

def test_a(): pass
def test_b(): pass
def test_c(): pass

@pytest.mark.parametrize("n", range(3))
def test_d(n): pass
"""


@pytest.fixture
def names(pytester):
    """``names("--exhaustive", "1/3")``: the tests that such a run has."""
    text = (Path(__file__).parent / "conftest.py").read_text("utf-8")
    pytester.makeconftest(text.replace('pytest_plugins = ["pytester"]', ""))
    pytester.makeini("[pytest]\nmarkers = exhaustive(one_in): of its parameters")
    pytester.makepyfile(test_some=TESTS, test_whole=FILE)

    def names(*options):
        result = pytester.runpytest_inprocess("--collect-only", "-q", *options)
        return [line for line in result.outlines if "::" in line]

    return names


def test_every_test_is_in_one_run(names):
    runs = [names(), *(names("--exhaustive", f"{n}/3") for n in (1, 2, 3))]
    assert runs[0] == [
        "test_some.py::test_alone",
        *(f"test_some.py::test_often[{n}]" for n in (0, 3, 6)),
        "test_some.py::test_twice[0]",
        *(f"test_whole.py::test_{name}" for name in ("a", "c", "d[0]", "d[2]")),
    ]
    together = [name for run in runs for name in run]
    assert len(together) == len(set(together)) == 17
    assert sorted(runs[1] + runs[2] + runs[3]) == sorted(names("--exhaustive", "1/1"))


def test_a_part_besides_the_default_run(names):
    both = names("--also", "2/3")
    assert sorted(both) == sorted(names() + names("--exhaustive", "2/3"))


def test_a_test_named_by_its_parameters_runs(names):
    assert names("test_some.py::test_often[1]") == ["test_some.py::test_often[1]"]


@pytest.mark.parametrize("part", ["0/3", "4/3", "2", "a/b"])
def test_parts_that_there_are_not(pytester, names, part, capsys):
    names("--exhaustive", part)
    assert f"--exhaustive {part}: give a part of them, as 2/7" in capsys.readouterr().err
