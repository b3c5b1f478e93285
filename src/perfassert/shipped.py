"""Files that the package ships: device files, tables of fits, and numbers of the model.

``devices/fits/model.toml`` has the numbers that are the same on every device, each with its source
and grade. The code reads them by name, so that no such number is written in Python.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from perfassert.errors import DeviceFileError

_MODEL = "model"
_TABLE = re.compile(r"^[ \t]*\[", re.MULTILINE)


def device_folder() -> Path:
    """Return the folder of the shipped device files."""
    return shipped_folder("device_files", "devices")


def shipped_folder(installed: str, checkout: str) -> Path:
    """Return a folder of shipped files: in the wheel, else in a source checkout."""
    package = Path(__file__).parent
    folder = package / installed
    return folder if folder.is_dir() else package.parents[1] / checkout


def fit_path(name: str) -> Path:
    """Return the path of a table of fits, whether the file exists or not."""
    return device_folder() / "fits" / f"{name}.toml"


def read_fit(name: str) -> dict[str, Any]:
    """Read a shipped table of fitted values, ``devices/fits/<name>.toml``."""
    return read_table(fit_path(name))


def read_head(path: Path) -> dict[str, Any]:
    """Read the keys of a TOML file that stand before its first table; takes a 20th of the time."""
    from perfassert.toml.tables import loads

    try:
        return loads(_TABLE.split(path.read_text(encoding="utf-8"), maxsplit=1)[0])
    except (OSError, ValueError):  # no TOML, or a value has a line that begins as a table does
        return read_table(path)


def read_table(path: Path) -> dict[str, Any]:
    """Read a whole TOML file; raises :class:`DeviceFileError`."""
    from perfassert.toml.tables import TOMLDecodeError, loads

    try:
        return loads(path.read_bytes().decode())
    except OSError as error:
        raise DeviceFileError(f"{path}: cannot be read: {error.strerror}") from None
    except (TOMLDecodeError, UnicodeDecodeError) as error:
        raise DeviceFileError(f"{path}: not valid TOML: {error}") from None


def model_integer(name: str) -> int:
    """Return a whole number of the model.

    >>> model_integer("warp_lanes")
    32
    """
    return int(_model_values()[name]["value"])


def model_number(name: str) -> float:
    """Return a number of the model, such as a share.

    >>> model_number("guessed_from")
    0.05
    """
    return float(_model_values()[name]["value"])


def model_extents(name: str) -> tuple[int, int, int]:
    """Return the limits of the model along x, y and z.

    >>> model_extents("max_block")
    (1024, 1024, 64)
    """
    x, y, z = _model_values()[name]["value"]
    return x, y, z


@lru_cache(maxsize=1)
def _model_values() -> dict[str, Any]:
    return dict(read_fit(_MODEL)["values"])
