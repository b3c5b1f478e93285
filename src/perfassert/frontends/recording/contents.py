"""Contents of buffers and constants, kept once each, up to a limit."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from perfassert.frontends.recording.arguments import RecordedArguments, item_size
from perfassert.frontends.recording.wire import Connection

_NAME = 16  # hexadecimal digits of a digest


class Contents:
    """``arrays`` by a name that is made of what they hold.

    ``limit``: bytes of buffers' contents in all; 0: none is kept. ``left_out``: buffers beyond it.
    """

    def __init__(self, limit: int) -> None:
        self.arrays: dict[str, npt.NDArray[Any]] = {}
        self.left_out = 0
        self._left = limit
        self.wanted = limit > 0

    def keep(self, content: bytes, dtype: str) -> str:
        """The name of the content, which is kept whatever its size."""
        name = hashlib.sha256(dtype.encode() + content).hexdigest()[:_NAME]
        self.arrays.setdefault(name, np.frombuffer(content, dtype))
        return name

    def take(self, arguments: RecordedArguments, connection: Connection) -> None:
        """What the buffers of a launch hold, where the host wrote all of it."""
        if not self.wanted:
            return
        for place in list(arguments.pointers):
            pointer = place.pointer
            if pointer.alias or not place.allocation.known or not pointer.size:
                continue
            size = pointer.size - pointer.size % item_size(pointer.dtype)
            if size > self._left:
                self.left_out += 1
                continue
            before = len(self.arrays)
            name = self.keep(connection.memory(pointer.address, size), pointer.dtype)
            if len(self.arrays) > before:
                self._left -= size
            arguments.replace_pointer(place, replace(pointer, data=name))
