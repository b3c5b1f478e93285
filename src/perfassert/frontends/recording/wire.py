"""Messages between the recording runtime (``runtime/link.hpp``) and the recorder."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

_HEAD = struct.Struct("<IIQ")
_LAUNCH = struct.Struct("<I9II8s")


class Message(IntEnum):
    """What the program's side says."""

    HELLO = 1
    MODULE = 2
    FUNCTION = 3
    LAUNCH = 4
    ALLOCATED = 5
    FREED = 6
    WRITTEN = 7
    COPIED = 8
    CONSTANT = 9
    REFUSED = 10
    OCCUPANCY = 11
    UNKNOWN_ATTRIBUTE = 12
    SYMBOL = 13


_DONE, _READ, _WRITE = 0, 1, 2


class Closed(Exception):
    """The program has ended."""


class Fields:
    """The content of a message, read from its front."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def number(self, form: str = "I") -> int:
        """Of a format of ``struct``."""
        (value,) = struct.unpack_from(f"<{form}", self._content, self._at)
        self._at += struct.calcsize(f"<{form}")
        return int(value)

    def text(self) -> str:
        size = self.number()
        self._at += size
        return self._content[self._at - size : self._at].decode(errors="replace")

    def rest(self) -> bytes:
        return self._content[self._at :]


@dataclass(frozen=True, slots=True)
class LaunchEvent:
    """``arguments`` as they lie in the constant bank, from the first parameter on."""

    module: int
    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    shared_bytes: int
    arguments: bytes

    @classmethod
    def read(cls, content: bytes) -> LaunchEvent:
        module, *extents, shared, _ = _LAUNCH.unpack_from(content)
        rest = Fields(content[_LAUNCH.size :])
        kernel = rest.text()
        grid, block, cluster = (tuple(extents[i : i + 3]) for i in (0, 3, 6))
        return cls(module, kernel, grid, block, cluster, shared, rest.rest())


class Connection:
    """One process of the program."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel

    def receive(self) -> tuple[int, bytes]:
        """Kind and content; :class:`Closed` where there will be no more."""
        kind, _, size = _HEAD.unpack(self._exactly(_HEAD.size))
        return kind, self._exactly(size)

    def answer(self, content: bytes, kind: int = _DONE) -> None:
        try:
            self._channel.sendall(_HEAD.pack(kind, 0, len(content)) + content)
        except OSError:
            raise Closed from None

    # While the program waits in a launch

    def memory(self, address: int, size: int) -> npt.NDArray[np.uint8]:
        """What lies there; the array cannot be written to."""
        self.answer(struct.pack("<QQ", address, size), _READ)
        _, _, sent = _HEAD.unpack(self._exactly(_HEAD.size))
        content = np.empty(sent, np.uint8)
        self._fill(content.data)
        content.flags.writeable = False
        return content

    def change(self, address: int, content: bytes) -> None:
        self.answer(struct.pack("<QQ", address, len(content)) + content, _WRITE)

    def proceed(self) -> None:
        self.answer(b"", _DONE)

    def _exactly(self, size: int) -> bytes:
        content = bytearray(size)
        self._fill(memoryview(content))
        return bytes(content)

    def _fill(self, view: memoryview) -> None:
        while view:
            try:
                count = self._channel.recv_into(view)
            except OSError:
                raise Closed from None
            if not count:
                raise Closed
            view = view[count:]


def device_facts(
    attentive: bool, name: str, memory_bytes: int, attributes: Iterable[tuple[int, int]]
) -> bytes:
    """The answer to ``HELLO``."""
    shown = name.encode()
    head = struct.pack("<II", attentive, len(shown)) + shown + struct.pack("<Q", memory_bytes)
    return head + b"".join(struct.pack("<ii", *pair) for pair in attributes)
