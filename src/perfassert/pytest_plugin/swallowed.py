"""Failures that a test kept to itself: an ``except`` or ``pytest.raises`` around them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from perfassert.pytest_plugin.session import Perf

PERF = pytest.StashKey["Perf"]()
"""Of a test that has one, whatever a conftest.py makes of the fixture."""


def swallowed_failures(perf: Perf, outcome: str) -> str:
    """Return the failed checks of a test that passed or skipped itself; empty if there are none."""
    failures = perf.baselines.failures
    for seen in perf.predicted:
        failures += [
            f"{seen.label}: {o.metric.name} is {o.predicted}, expected {o.condition.text}"
            for o in seen.outcomes
            if not o.passed
        ]
    failures += perf.failures
    if not failures:
        return ""
    ended = "was skipped" if outcome == "skipped" else outcome
    return (
        f"the test {ended} although these failed in it; an except or pytest.raises hides that:\n"
        + "\n".join(failures)
    )
