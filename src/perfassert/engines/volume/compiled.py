"""The compiled core: packs what is counted into integers, runs ``_core``, unpacks the result.

Arrays stand in the integers as addresses, since the stable ABI of Python 3.10 has no buffers; they
live as long as the call.
"""

from __future__ import annotations

from array import array
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from perfassert.engines.extension import compiled_core

core = partial(compiled_core, "volume")


def available() -> bool:
    """Whether the extension was built when the package was installed."""
    return core() is not None


class Packing:
    """``words``: what the core reads; ``held``: the arrays that it is given the addresses of."""

    def __init__(self, *words: int) -> None:
        self.words = array("q", words)
        self.held: list[npt.NDArray[Any]] = []

    def add(self, *words: int) -> None:
        """Numbers."""
        self.words.extend(words)

    def add_array(self, values: npt.NDArray[Any], kind: type[np.generic] = np.int64) -> None:
        """The address of an array, whose shape the core is told apart from it."""
        laid_out = np.ascontiguousarray(values, dtype=kind)
        self.held.append(laid_out)
        self.words.append(laid_out.__array_interface__["data"][0])

    def bytes(self) -> bytes:
        """For the core."""
        return self.words.tobytes()
