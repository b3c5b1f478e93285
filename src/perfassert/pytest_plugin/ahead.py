"""Compilation of the kernels of later tests, as far as these are known before they run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import pytest

from perfassert.errors import PerfAssertError
from perfassert.frontends.cuda.kernels import with_toolchain, written_source
from perfassert.frontends.toolchain.ahead import Ahead, Wanted, on_cache_miss
from perfassert.frontends.toolchain.binary import Source
from perfassert.hardware.load import device as load_device
from perfassert.kernel.description import Kernel
from perfassert.perf_toml.cases import RankCase
from perfassert.pytest_plugin.toml_items import PerfTomlItem
from perfassert.pytest_plugin.toolchain import toolchain_of


class AheadOfTests:
    """Compiles for the tests of a session, from the first kernel on that is not remembered.

    That are kernels of ``*.perf.toml`` files and those that are parameters of tests; and what one
    test has to have compiled, for the devices on which it runs later.
    """

    def __init__(self, items: Sequence[pytest.Item]) -> None:
        self._places = {item: place for place, item in enumerate(items)}
        self._runs: dict[object, list[pytest.Item]] = {}
        for item in items:
            self._runs.setdefault(_without_device(item), []).append(item)
        self._ahead: Ahead | None = None

    def of_test(self, item: pytest.Item) -> AbstractContextManager[None]:
        """Compile for later devices of a test while the test runs in the block."""

        def start_later(source: Source, arch: str) -> None:
            if self._ahead is None:
                self._ahead = Ahead()
                self._ahead.start(w for w in self._known_after(item) if w != (source, arch))
            self._ahead.start((source, other) for other in self._later_architectures(item, arch))

        return on_cache_miss(start_later)

    def close(self) -> None:
        """Stop compiling ahead."""
        if self._ahead is not None:
            self._ahead.close()

    def _known_after(self, item: pytest.Item) -> Iterator[Wanted]:
        """The kernels that this test and later ones have at collection."""
        place = self._places[item]
        for later in [i for i, at in self._places.items() if at >= place]:
            toolchain = toolchain_of(later.config)
            for kernel in _kernels(later):
                chosen = kernel if toolchain is None else with_toolchain(kernel, toolchain)
                source, arch = written_source(chosen), _architecture(later)
                if source is not None and arch:
                    yield source, arch

    def _later_architectures(self, item: pytest.Item, arch: str) -> list[str]:
        """Return the architectures of the devices on which the same test runs later."""
        runs = self._runs[_without_device(item)]
        later = (_architecture(i) for i in runs if self._places[i] > self._places[item])
        return [other for other in dict.fromkeys(later) if other not in ("", arch)]


def _without_device(item: pytest.Item) -> object:
    """The same for all runs of a test, one for each device."""
    if isinstance(item, PerfTomlItem):
        return id(item.case)
    others = [(name, id(value)) for name, value in _parameters(item).items() if name != "perf"]
    return (item.parent, getattr(item, "originalname", item.name), *others)


def _architecture(item: pytest.Item) -> str:
    """Return the architecture of a test's device; empty if it has none."""
    given = item.perf_device if isinstance(item, PerfTomlItem) else _parameters(item).get("perf")
    try:
        return load_device(given).arch if isinstance(given, str) else ""
    except PerfAssertError:
        return ""


def _kernels(item: pytest.Item) -> list[Kernel]:
    if item.get_closest_marker("skip"):
        return []
    if isinstance(item, PerfTomlItem):
        case = item.case
        if isinstance(case, RankCase):
            return [kernel for kernel, _ in case.candidates.values()]
        return [case.kernel]
    return [value for value in _parameters(item).values() if isinstance(value, Kernel)]


def _parameters(item: pytest.Item) -> Mapping[str, Any]:
    callspec = getattr(item, "callspec", None)
    return callspec.params if callspec is not None else {}
