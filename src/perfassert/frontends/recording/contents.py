"""Store of the contents of buffers and constants: equal contents are kept once, up to a limit."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from perfassert.frontends.recording.arguments import Pointer, RecordedArguments, item_size
from perfassert.frontends.recording.execution import (
    Bytes,
    Pages,
    ReadLaunch,
    known_pages,
    known_part,
)

_NAME = 16  # hexadecimal digits of a digest
_SMALL = 1 << 16  # bytes; smaller buffers are kept even if they decide nothing


class Contents:
    """Contents as ``arrays``, keyed by a digest of dtype and bytes.

    ``limit`` is in bytes for the contents of all buffers; 0 keeps none. ``left_out`` counts the
    buffers beyond the limit.
    """

    def __init__(self, limit: int) -> None:
        self.arrays: dict[str, npt.NDArray[Any]] = {}
        self.left_out = 0
        self._left = limit
        self.wanted = limit > 0

    def keep(self, content: bytes, dtype: str) -> str:
        """Keep a content whatever its size; return its name."""
        name = hashlib.sha256(dtype.encode() + content).hexdigest()[:_NAME]
        self.arrays.setdefault(name, np.frombuffer(content, dtype))
        return name

    def take(
        self, arguments: RecordedArguments, read: ReadLaunch, sampled: Mapping[str, Pages] | None
    ) -> None:
        """Keep what a launch's buffers hold, as far as the host or executed kernels wrote it.

        ``sampled`` maps a buffer to the pages whose values decide what the launch does; None if
        this is unknown. A buffer that fits the limit is kept whole. A buffer that decides nothing
        is kept only if it is small.
        """
        for place in list(arguments.pointers):
            name, pointer = place.name, place.pointer
            if pointer.alias or name not in read.contents:
                continue
            content, known = read.contents[name], known_pages(place)
            if known is not None and not len(known):
                continue
            wanted = None if sampled is None else sampled.get(name, _NOTHING)
            if wanted is not None and not len(wanted) and len(content) > _SMALL:
                continue
            kept = self._keep_buffer(pointer, content) if known is None else None
            if kept is None and (wanted is not None or known is not None):
                kept = self._pages(pointer, content, _common(wanted, known))
            if kept is None:
                self.left_out += 1
            else:
                arguments.replace_pointer(place, kept)

    def _keep_buffer(self, pointer: Pointer, content: Bytes) -> Pointer | None:
        """Keep a whole buffer; return its pointer with the key, or None beyond the limit."""
        size = len(content) - len(content) % item_size(pointer.dtype)
        name = self._within_limit(content[:size], pointer.dtype)
        return replace(pointer, data=name) if name else None

    def _pages(self, pointer: Pointer, content: Bytes, pages: Pages) -> Pointer | None:
        name = self._within_limit(known_part(content, pointer.offset, pages), "uint8")
        if not name:
            return None
        return replace(pointer, data=name, pages=self.keep(pages.tobytes(), "int64"))

    def _within_limit(self, content: Bytes, dtype: str) -> str:
        if len(content) > self._left:
            return ""
        before = len(self.arrays)
        name = self.keep(content.tobytes(), dtype)
        self._left -= len(content) * (len(self.arrays) > before)
        return name


_NOTHING = np.zeros(0, np.int64)


def _common(one: Pages | None, other: Pages | None) -> Pages:
    if one is None or other is None:
        both = other if one is None else one
        assert both is not None
        return both
    return np.intersect1d(one, other)
