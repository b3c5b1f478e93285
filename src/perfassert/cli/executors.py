"""``--jobs`` and ``--dask``: processes or a scheduler for a command's many predictions."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from perfassert.errors import PerfAssertError

if TYPE_CHECKING:
    from perfassert.system.process_pool import Submitter

_LONGEST = 1e6  # seconds


def add_executor(parser: argparse.ArgumentParser) -> None:
    """Add the options for processes of this machine or for a scheduler."""
    parser.add_argument("--jobs", type=positive, metavar="N", help="processes (default: cores)")
    parser.add_argument("--dask", metavar="ADDRESS", help="predict on a Dask scheduler")


def positive(text: str) -> int:
    """Return a count of at least 1; the type of options that count something."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is below 1")
    return number


def seconds(text: str) -> float:
    """Return a time limit in seconds; the type of options that limit a time."""
    number = float(text)
    if not 0 < number <= _LONGEST:
        raise argparse.ArgumentTypeError(f"{text} is not above 0 and at most {_LONGEST:.0f}")
    return number


@contextmanager
def executor_of(options: argparse.Namespace) -> Iterator[Submitter | None]:
    """Yield the executor that ``--jobs`` or ``--dask`` asks for; None if one process suffices."""
    from importlib import import_module

    from perfassert.system.process_pool import process_pool

    if not options.dask:
        with process_pool(options.jobs) as pool:
            yield pool
        return
    try:
        connect = import_module("distributed").Client
    except ImportError:
        raise PerfAssertError('--dask needs Dask; pip install "perfassert[dask]"') from None
    try:
        client = connect(options.dask)
    except (OSError, ValueError) as error:
        raise PerfAssertError(f"--dask {options.dask}: no scheduler answers: {error}") from None
    with client:
        yield client
