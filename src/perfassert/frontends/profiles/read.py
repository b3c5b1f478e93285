"""A profile of whichever kind."""

from __future__ import annotations

from pathlib import Path

from perfassert.errors import RecordError
from perfassert.frontends.profiles.launch import LaunchProfile
from perfassert.frontends.profiles.ncu import read_ncu
from perfassert.frontends.profiles.nsys import MAGIC, read_nsys
from perfassert.system.confined import open_file


def read_profile(path: Path) -> LaunchProfile:
    """By how the file begins; :class:`~perfassert.RecordError` for what is no profile."""
    try:
        with open_file(path) as file:
            begin = file.read(len(MAGIC))
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from None
    return read_nsys(path) if begin == MAGIC else read_ncu(path)
