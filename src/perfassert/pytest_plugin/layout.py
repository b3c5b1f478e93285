"""Layout of the terminal section: its columns and the order of its lines."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from perfassert.pytest_plugin.settings import Setting, setting

COLUMNS = (
    "test", "kernel", "device", "block", "grid", "time", "limiter", "confidence", "outcome",
)  # fmt: skip
"""Those besides the metrics."""
_SHOWN = ("test", "kernel", "block", "time", "limiter", "confidence", "outcome")


@dataclass(frozen=True, slots=True)
class Layout:
    """``sort``: columns, and whether each goes from large to small; failures come first anyway."""

    columns: tuple[str, ...] = _SHOWN
    sort: tuple[tuple[str, bool], ...] = ()


def add_options(parser: pytest.Parser, group: pytest.OptionGroup) -> None:
    """Add the options for the terminal section, each with an ini setting of the same meaning."""
    what = "columns of the section 'predicted performance', as in test,time,dram_load"
    group.addoption("--perf-columns", metavar="NAME,…", help=what)
    parser.addini("perf_columns", what, "string", default="")
    what = "the columns that it is sorted by, behind failures, as in --perf-sort=limiter,-time"
    group.addoption("--perf-sort", metavar="[-]NAME,…", help=what)
    parser.addini("perf_sort", what, "string", default="")


def layout_of(config: pytest.Config) -> Layout:
    """Read the layout from command line or ini file; :class:`pytest.UsageError` if invalid."""
    columns = _columns(setting(config, "--perf-columns")) or _SHOWN
    keys = _columns(setting(config, "--perf-sort"))
    return Layout(columns, tuple((word.removeprefix("-"), word.startswith("-")) for word in keys))


def _columns(given: Setting) -> tuple[str, ...]:
    """Return the words of a setting, each a column, perhaps with ``-`` in front."""
    words = tuple(word.strip() for word in given.value.split(",") if word.strip())
    _check_columns(given.name, [word.removeprefix("-") for word in words])
    return words


def _check_columns(option: str, names: list[str]) -> None:
    others = [name for name in names if name not in COLUMNS]
    if not others:
        return  # metrics, those of plug-ins too, are loaded only for who asks
    from perfassert.errors import close_matches
    from perfassert.expect.metrics import Kind, all_metrics

    known = (*COLUMNS, *(n for n, m in all_metrics().items() if m.kind is not Kind.ADVICE))
    for name in others:
        if name not in known or name == "advice_speedup":
            hint = close_matches(name, known) or f"; known: {', '.join(dict.fromkeys(known))}"
            raise pytest.UsageError(f"{option}: unknown column {name!r}{hint}")
