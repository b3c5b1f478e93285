"""Interface to the compiled core: arguments are packed into integers and the result is unpacked.

An array is passed as its address, since the stable ABI of Python 3.10 has no buffers. A
:class:`Packing` keeps its arrays alive during the call.
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
    """Return True if the extension was built when the package was installed."""
    return core() is not None


class Packing:
    """Arguments of a call: ``words`` for the core, and the arrays ``held`` that they point to."""

    def __init__(self, *words: int) -> None:
        self.words = array("q", words)
        self.held: list[npt.NDArray[Any]] = []

    def add(self, *words: int) -> None:
        """Append integers."""
        self.words.extend(words)

    def add_array(self, values: npt.NDArray[Any], kind: type[np.generic] = np.int64) -> None:
        """Append the address of an array; its shape is passed separately."""
        laid_out = np.ascontiguousarray(values, dtype=kind)
        self.held.append(laid_out)
        self.words.append(laid_out.__array_interface__["data"][0])

    def bytes(self) -> bytes:
        """Return the packed arguments as bytes."""
        return self.words.tobytes()
