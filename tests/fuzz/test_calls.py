"""Calls of the public interface with odd arguments: a result, one of our errors, or a TypeError.

``PERFASSERT_FUZZ`` calls are made, others each time, or a few thousand that are always the same.
"""

import os
import sys
import time
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
import calls
from calls import TARGETS, bounded, failures, make_call

import perfassert as pa

TRIED = int(os.environ.get("PERFASSERT_FUZZ", "0"))
SEED = int(time.time()) if TRIED else 0


def test_no_call_ends_in_an_error_that_nobody_should_see():
    assert [str(failure) for failure, _ in failures(TRIED or 3000, SEED)] == []


def test_a_failed_call_is_named_with_its_cause(monkeypatch):
    def divide(chooser):
        chooser.called.append("1 / 0")
        return 1 / 0

    monkeypatch.setattr(calls, "TARGETS", (divide,))
    ((failure, cause),) = failures(1, 7)
    assert str(failure).startswith("call 0 of seed 7: divide; 1 / 0: ZeroDivisionError(")
    assert isinstance(cause, ZeroDivisionError)


def test_good_arguments_reach_the_end(monkeypatch):
    """Else only the checks at the beginning would be tried."""
    monkeypatch.setattr(calls.Chooser, "mostly", lambda self, good, share=0.3: good)
    monkeypatch.setattr(
        calls.Chooser, "call", lambda self, function, *good, **named: function(*good, **named)
    )
    ended = set()
    for number in range(40 * len(TARGETS)):
        target = TARGETS[number % len(TARGETS)]
        try:
            with bounded(calls.PATIENCE):
                target(calls.Chooser(calls.random.Random(number)))
            ended.add(target)
        except (*calls.ALLOWED, ValueError):
            pass
    refused = {"advise", "files", "sources", "code", "generators", "plain_data", "read_back"}
    assert {t.__name__ for t in TARGETS} - {t.__name__ for t in ended} <= refused


def test_every_public_name_is_called():
    text = Path(calls.__file__).read_text()
    called = {name for name in pa.__all__ if f"pa.{name}" in text}
    others = {"AutotuneRanking", "InductorKernel", "KernelInfo", "Perf", "PerfAssertWarning",
              "PluginWarning", "Ranking", "RecordedLaunch", "Simulation"}  # fmt: skip
    errors = {name for name in pa.__all__ if name.endswith("Error")}
    assert called >= set(pa.__all__) - others - errors - {"ToolchainMissing", "UnknownDevice"}


def test_a_call_that_does_not_end_is_ended():
    def forever():
        with bounded(0.05):
            while True:
                np.zeros(10)

    with pytest.raises(calls.TooSlow):
        forever()


def test_a_call_is_made_again_from_its_number():
    made = []
    for _ in range(2):
        try:
            made.append(make_call(0, 1000).called)
        except pa.PerfAssertError as error:
            made.append(str(error))
    assert made[0] == made[1]
