"""Examples in docstrings run, and print what stands there."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
MODULES = sorted(
    path.relative_to(SOURCE).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
    for path in (SOURCE / "perfassert").rglob("*.py")
    if "\n    >>> " in path.read_text("utf-8") or "\n        >>> " in path.read_text("utf-8")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    results = doctest.testmod(import_module(name))
    assert results.attempted
    assert not results.failed
