"""Tests that public names document their parameters and have an example, which runs."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import perfassert as pa
from perfassert.engines.pipeline.results import EventTotals, TraceEvent
from perfassert.frontends.nsight import MeasuredSamples
from perfassert.frontends.toolchain import tools
from perfassert.kernel.graph import GraphBuilder, LoopBody
from perfassert.prediction.prediction import OccupancyResult, Resources
from perfassert.prediction.volumes import Volume, Volumes
from perfassert.source import Assumption

PUBLIC = {name: getattr(pa, name) for name in sorted(pa.__all__)} | {
    f"tuning.{name}": getattr(pa.tuning, name) for name in pa.tuning.__all__
}
NAMES = list(PUBLIC)
CLASSES = [
    *(PUBLIC[name] for name in NAMES if inspect.isclass(PUBLIC[name])),
    # What public functions and attributes give.
    Assumption, EventTotals, GraphBuilder, LoopBody, MeasuredSamples, OccupancyResult, Resources,
    TraceEvent, Volume, Volumes, import_module(pa.whatif.__module__).WhatIf,
]  # fmt: skip
GENERATED = Path(__file__).parents[2] / "examples/generated"
NEED = {
    "KernelInfo": "toolchain",
    "from_helion": "triton",
    "from_inductor": "triton",
    "from_numba": "numba",
    "from_pystencils": "pystencils",
    "from_triton": "triton",
    "from_warp": "warp",
    "kernels": "toolchain",
    "rank_autotune": "triton toolchain",
    "tuning.triton_prune": "triton",
}
"""Examples that doctest skips, and what they need to run here: packages and compilers. Files that
they name are those of ``examples/generated``. May only shrink."""
SECTIONS = ("Args", "Attributes", "Returns", "Raises", "Example", "Source")
SECTION = re.compile(rf"^({'|'.join(SECTIONS)}):$", re.M)
ENTRY = re.compile(r"^    (\*{0,2}\w+(?:, \*{0,2}\w+)*):", re.M)


def sections(documented: object) -> dict[str, str]:
    """The parts of a docstring by heading; what comes before them has an empty one."""
    parts = SECTION.split(inspect.getdoc(documented) or "")
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def entries(documented: object, *headings: str) -> set[str]:
    """The names that these sections explain."""
    found = sections(documented)
    text = "".join(found.get(heading, "") for heading in headings)
    return {name.strip(" *") for entry in ENTRY.findall(text) for name in entry.split(",")}


def documented_names(documented: object) -> set[str]:
    return entries(documented, "Args", "Attributes")


def parameters(function: object) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]


def members(cls: type) -> dict[str, object]:
    """Return the members of a class, including those of the package's classes that it extends."""
    owners = [owner for owner in cls.__mro__ if owner.__module__.startswith("perfassert")]
    return {name: member for owner in reversed(owners) for name, member in vars(owner).items()}


def methods(cls: type) -> Iterator[tuple[str, object]]:
    """Public ones, ``__call__`` among them."""
    for name, member in members(cls).items():
        if name.startswith("_") and name != "__call__":
            continue
        function = getattr(member, "__func__", member)
        if inspect.isfunction(function):
            yield f"{cls.__name__}.{name}", function


def properties(cls: type) -> Iterator[tuple[str, object]]:
    for name, member in members(cls).items():
        if not name.startswith("_") and isinstance(member, (property, cached_property)):
            yield f"{cls.__name__}.{name}", member


FUNCTIONS = {name: PUBLIC[name] for name in NAMES if inspect.isfunction(PUBLIC[name])}
METHODS = dict(pair for cls in CLASSES for pair in methods(cls))
PROPERTIES = dict(pair for cls in CLASSES for pair in properties(cls))
CALLABLES = {**FUNCTIONS, **METHODS}
VALUES = {cls.__name__: cls for cls in CLASSES if not issubclass(cls, BaseException)}


@pytest.mark.parametrize("name", CALLABLES)
def test_a_function_documents_each_parameter(name: str) -> None:
    function = CALLABLES[name]
    assert set(parameters(function)) <= documented_names(function)


@pytest.mark.parametrize("name", CALLABLES)
def test_no_parameter_is_documented_that_does_not_exist(name: str) -> None:
    function = CALLABLES[name]
    assert documented_names(function) <= set(parameters(function))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_says_what_it_returns(name: str) -> None:
    assert sections(FUNCTIONS[name]).get("Returns", "").strip()


@pytest.mark.parametrize("name", [*CALLABLES, *VALUES])
def test_errors_are_public_names(name: str) -> None:
    documented = {**CALLABLES, **VALUES}[name]
    assert "Raises" not in sections(documented) or entries(documented, "Raises")
    for error in entries(documented, "Raises"):
        assert issubclass(getattr(pa, error), BaseException)


@pytest.mark.parametrize("name", VALUES)
def test_a_class_documents_what_it_is_made_of(name: str) -> None:
    """Parameters of its constructor; of a dataclass they are its attributes, too."""
    cls = VALUES[name]
    assert set(parameters(cls)) <= documented_names(cls)


@pytest.mark.parametrize("name", [*NAMES, *METHODS, *PROPERTIES])
def test_the_first_line_is_a_sentence_of_its_own(name: str) -> None:
    documented = PUBLIC.get(name) or {**METHODS, **PROPERTIES}[name]
    first, *rest = (inspect.getdoc(documented) or "").splitlines()
    assert first.endswith((".", ":"))
    assert not rest or rest[0] == ""


def examples(name: str) -> list[doctest.DocTest]:
    """Return the examples of a public name and, if it is a class, of its members."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = finder.find(PUBLIC[name], name, module=False, globs={})
    return [test for test in found if test.examples]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_has_an_example(name: str) -> None:
    assert ">>> " in sections(PUBLIC[name]).get("Example", "")
    skipped = any(doctest.SKIP in e.options for test in examples(name) for e in test.examples)
    assert skipped == (name in NEED)


@pytest.mark.parametrize("name", NAMES)
def test_examples_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples run, also those that doctest skips, if what they need is installed."""
    if name in NEED:
        monkeypatch.chdir(GENERATED)
        missing = [what for what in NEED[name].split() if not is_installed(what)]
        if missing:
            pytest.skip(f"not installed: {', '.join(missing)}")
    home = import_module(PUBLIC[name].__module__)
    for test in examples(name):
        for example in test.examples:
            example.options.pop(doctest.SKIP, None)
        test.globs["__name__"] = home.__name__
        results = doctest.DocTestRunner(verbose=False).run(test)
        assert results.attempted
        assert not results.failed


def is_installed(what: str) -> bool:
    if what == "toolchain":
        return all(tools.find(name) is not None for name in ("ptxas", "nvdisasm"))
    return find_spec(what) is not None
