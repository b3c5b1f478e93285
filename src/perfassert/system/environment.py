"""Numbers from environment variables."""

from __future__ import annotations

import os
from typing import TypeVar

from perfassert.errors import PerfAssertError, in_short

Number = TypeVar("Number", int, float)


def environment_number(
    name: str,
    default: Number,
    wanted: str,
    least: Number,
    most: Number,
    error: type[PerfAssertError] = PerfAssertError,
) -> Number:
    """Return the number in an environment variable; ``default`` where it is unset or empty.

    ``wanted`` completes "NAME must be …". Raises ``error`` for what is no number of the type of
    ``default``, and for what does not lie between ``least`` and ``most``.
    """
    text = os.environ.get(name, "")
    if not text:
        return default
    try:
        number = type(default)(text)
    except ValueError:
        number = None
    if number is None or not least <= number <= most:
        raise error(f"{name} must be {wanted}, not {in_short(text)}; change or unset it")
    return number
