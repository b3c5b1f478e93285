"""Treatment of predictions that rest on guesses: an error, a warning, or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perfassert.errors import ExpectationFailed, PerfAssertWarning
from perfassert.pytest_plugin.settings import choice

if TYPE_CHECKING:
    from perfassert.facade.prediction import Prediction

CHOICES = ("error", "warn", "allow")
GUESSED = "guessed"


def add_options(parser: pytest.Parser, group: pytest.OptionGroup) -> None:
    """Add the option and its ini key."""
    what = "what becomes of tests whose predictions rest on guesses: error, warn (default), allow"
    group.addoption("--perf-assumptions", choices=CHOICES, default=None, help=what)
    parser.addini("perf_assumptions", what, default="warn")


def mode_of(config: pytest.Config) -> str:
    """Read the mode from command line or ini file; :class:`pytest.UsageError` if it is unknown."""
    return choice(config, "--perf-assumptions", CHOICES)


def judge(prediction: Prediction, mode: str, test: pytest.Item) -> None:
    """Fail a test or warn of it, where the prediction is a guess."""
    __tracebackhide__ = True
    if prediction.confidence != GUESSED or mode == "allow":
        return
    from perfassert.report.trust import confidence

    text = (
        f"the prediction of {prediction.kernel} on {prediction.device} is a guess\n"
        f"{confidence(prediction)}\n"
        "give what is missing, or say perf(..., allow_guesses=True), in TOML allow_guesses = true"
    )
    if mode == "error":
        raise ExpectationFailed(text)
    test.warn(PerfAssertWarning(text))


def worst(prediction: Prediction) -> str:
    """The stand-in that carries most of a guess, with its share."""
    from perfassert.report.trust import share

    if not prediction.confidence_reasons:
        return ""
    heaviest = prediction.confidence_reasons[0]
    return f"{share(heaviest.share)}: {heaviest}"
