"""Settings of a run, which an option of the command line or a key of the ini file gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest


class Setting(NamedTuple):
    """Value of a setting, with the name of the option or ini key that gave it."""

    value: Any
    name: str


def setting(config: pytest.Config, option: str) -> Setting:
    """Return what an option such as ``--perf-columns`` gives, or else its key in the ini file."""
    given = config.getoption(option)
    if given is not None:
        return Setting(given, option)
    key = option.removeprefix("--").replace("-", "_")
    return Setting(config.getini(key), key)


def choice(config: pytest.Config, option: str, choices: Sequence[str]) -> str:
    """Return the setting of an option; :class:`pytest.UsageError` if it is not one of ``choices``.

    pytest checks the option itself, but not its key in the ini file.
    """
    value, name = setting(config, option)
    if value not in choices:
        raise pytest.UsageError(f"{name} must be one of {', '.join(choices)}, not {value!r}")
    return str(value)
