"""Folders of the shipped device files and fits, and the tables in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from perfassert.errors import DeviceFileError


def device_folder() -> Path:
    """Return the folder of the shipped device files."""
    return shipped_folder("device_files", "devices")


def shipped_folder(installed: str, checkout: str) -> Path:
    """Where files of ours lie: in the wheel, else in a source checkout."""
    package = Path(__file__).parents[1]
    folder = package / installed
    return folder if folder.is_dir() else package.parents[1] / checkout


def fit_path(name: str) -> Path:
    """The file of a table of fits, there or not."""
    return device_folder() / "fits" / f"{name}.toml"


def read_fit(name: str) -> dict[str, Any]:
    """A shipped table of fitted values, ``devices/fits/<name>.toml``."""
    return read_table(fit_path(name))


def read_table(path: Path) -> dict[str, Any]:
    """A whole file; raises :class:`DeviceFileError`."""
    from perfassert.toml.tables import TOMLDecodeError, loads

    try:
        return loads(path.read_bytes().decode())
    except OSError as error:
        raise DeviceFileError(f"{path}: cannot be read: {error.strerror}") from None
    except (TOMLDecodeError, UnicodeDecodeError) as error:
        raise DeviceFileError(f"{path}: not valid TOML: {error}") from None
