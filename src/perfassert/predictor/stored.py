"""Answers of earlier processes, in the cache on disk.

The same question has the same answer as long as the same files compute it. An entry is found by the
question's key and a digest of those files, so that a change of any of them finds none.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

from perfassert.errors import PerfAssertError
from perfassert.frontends.toolchain import cache
from perfassert.prediction.prediction import PredictionValues, read_values, values_data
from perfassert.prediction.seal import seal_values
from perfassert.shipped import fit_path

_SUFFIXES = (".py", ".toml", ".so", ".pyd")
_LIBRARIES = ("numpy", "islpy")


def recall_answer(key: str | None, make: Callable[[], PredictionValues]) -> PredictionValues:
    """Return the values that an earlier process stored for a question's key, else make and store.

    A question without a key, and values that JSON does not hold as they are, are not stored; nor is
    anything where the package's files cannot be read.
    """
    digest = predictor_digest() if key is not None else None
    if key is None or digest is None:
        return make()
    entry = cache.key(["answer", key, digest])
    values = cache.load(entry, _read)
    if values is None:
        values = make()
        if _is_readable(data := values_data(values)):
            cache.store(entry, data)
    return values


def _read(data: Any) -> PredictionValues:
    try:
        return seal_values(read_values(PredictionValues, data))
    except PerfAssertError as error:
        raise ValueError(str(error)) from None  # the cache drops the entry


def _is_readable(data: dict[str, Any]) -> bool:
    """Return True if the values that are read from the data say the same, to the last digit."""
    text = json.dumps(data)
    try:
        return json.dumps(values_data(read_values(PredictionValues, json.loads(text)))) == text
    except PerfAssertError:
        return False


@lru_cache(maxsize=1)
def predictor_digest() -> str | None:
    """Return a digest of all that computes predictions but their questions; None if unknown.

    That is this package's files, the shipped tables of fits, Python, libraries and the kind of
    machine, whose arithmetic decides about the last digits.
    """
    made_by = [sys.version, platform.machine()]
    try:
        made_by += map(metadata.version, _LIBRARIES)
        made_by += map(files_digest, (Path(__file__).parents[1], fit_path("").parent))
    except (OSError, metadata.PackageNotFoundError):
        return None
    return sha256(json.dumps(made_by).encode()).hexdigest()


def files_digest(folder: Path) -> str:
    """Return a digest of names and contents of the code and tables in a folder.

    Raises OSError if there are none, as in an archive, or one cannot be read.
    """
    paths = sorted(_files(folder))
    if not paths:
        raise FileNotFoundError(folder)
    digest = sha256()
    for path in paths:
        content = path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()} {len(content)} ".encode())
        digest.update(content)
    return digest.hexdigest()


def _files(folder: Path) -> list[Path]:
    return [
        Path(place, name)
        for place, _, names in os.walk(folder)
        for name in names
        if name.endswith(_SUFFIXES)
    ]
