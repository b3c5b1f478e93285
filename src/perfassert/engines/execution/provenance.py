"""Provenance of unknown values: one bit per source, and one byte per mask in memory.

A mask of 0 means that the value is known. The first buffers have separate bits, and all further
buffers share one bit.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Masks = npt.NDArray[np.uint32]
BUFFERS = 25  # bits of pointer arguments; arguments from the 25th on share the last one
ORDINARY = 1 << 25  # an ordinary number in place of an unknown one
ARGUMENT = 1 << 26  # a parameter that the launch does not give
CONSTANT = 1 << 27  # a constant bank that the binary does not initialise
UNINITIALISED = 1 << 28  # shared or local memory that was not written
UNTRANSLATED = 1 << 29  # an instruction, or a special register, without a translation
LEFT_OUT = 1 << 30  # stored by an instruction outside the slice
OUTSIDE = 1 << 31  # read outside every buffer
_EVERY = 0xFFFFFFFF
_CODES = 256  # values of the byte


def buffer_bit(index: int) -> int:
    """Return the bit of the pointer argument at ``index``."""
    return 1 << min(index, BUFFERS - 1)


class Codes:
    """Codes of one byte for masks; the last code means any source, if masks outnumber codes."""

    def __init__(self) -> None:
        # For example, 0 is a known byte, 1 to 7 are the sources other than buffers, and each new
        # mask gets the next code. If code 254 is used, all further masks get code 255.
        self._code: dict[int, int] = {0: 0}
        self._masks = np.zeros(_CODES, np.uint32)
        self._masks[_CODES - 1] = _EVERY
        for mask in (ORDINARY, ARGUMENT, CONSTANT, UNINITIALISED, UNTRANSLATED, LEFT_OUT, OUTSIDE):
            self._code_of(mask)

    def masks(self) -> tuple[int, ...]:
        """Return the masks that have a separate code, ordered by code."""
        return tuple(self._code)

    def encode(self, masks: Masks) -> npt.NDArray[np.uint8]:
        """Return the codes of an array of masks."""
        distinct, places = np.unique(masks, return_inverse=True)
        codes = np.array([self._code_of(int(mask)) for mask in distinct], np.uint8)
        return codes[places].reshape(masks.shape)

    def decode(self, codes: npt.NDArray[np.uint8]) -> Masks:
        """Return the masks of an array of codes."""
        return self._masks[codes]

    def _code_of(self, mask: int) -> int:
        if mask not in self._code:
            code = len(self._code)
            if code >= _CODES - 1:
                return _CODES - 1
            self._code[mask] = code
            self._masks[code] = mask
        return self._code[mask]
