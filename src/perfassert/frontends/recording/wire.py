"""Messages between the recording runtime (``runtime/link.hpp``) and the recorder."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from perfassert.errors import RecordError

_HEAD = struct.Struct("<IIQ")
_LAUNCH = struct.Struct("<I9II8s")


class Message(IntEnum):
    """Kind of a message that the program's process sends."""

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
_LARGEST = 1 << 33
"""Most bytes of a message; more than any program's code has."""
_PART = 1 << 20  # bytes of one message


class Closed(Exception):
    """The program's process has ended."""


class Garbled(RecordError):
    """A message that the recording runtime does not send."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"the recorder was sent {what}, which the recording runtime does not send; does the "
            "program write to files that it has not opened?"
        )


class Fields:
    """The content of a message, read from its front."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def number(self, form: str = "I") -> int:
        """Read one number in a format of ``struct``."""
        (value,) = struct.unpack(f"<{form}", self._next(struct.calcsize(f"<{form}")))
        return int(value)

    def text(self) -> str:
        return self._next(self.number()).decode(errors="replace")

    def _next(self, size: int) -> bytes:
        part = self._content[self._at : self._at + size]
        if len(part) < size:
            raise Garbled("a message that ends too early")
        self._at += size
        return part

    def rest(self) -> bytes:
        return self._content[self._at :]


@dataclass(frozen=True, slots=True)
class LaunchEvent:
    """A launch; ``arguments`` are its bytes in the constant bank from the first parameter on."""

    module: int
    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    shared_bytes: int
    arguments: bytes

    @classmethod
    def read(cls, content: bytes) -> LaunchEvent:
        if len(content) < _LAUNCH.size:
            raise Garbled("a launch that ends too early")
        module, *extents, shared, _ = _LAUNCH.unpack_from(content)
        rest = Fields(content[_LAUNCH.size :])
        kernel = rest.text()
        grid, block, cluster = (tuple(extents[i : i + 3]) for i in (0, 3, 6))
        return cls(module, kernel, grid, block, cluster, shared, rest.rest())


class Connection:
    """Connection to one process of the program."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel

    def receive(self) -> tuple[int, bytes]:
        """Return kind and content of the next message; :class:`Closed` after the last one."""
        kind, _, size = _HEAD.unpack(self._receive_exactly(_HEAD.size))
        if size > _LARGEST:
            raise Garbled(f"a message of {size} bytes")
        return kind, self._receive_exactly(size)

    def answer(self, content: bytes, kind: int = _DONE) -> None:
        try:
            self._channel.sendall(_HEAD.pack(kind, 0, len(content)) + content)
        except OSError:
            raise Closed from None

    # Requests while the program waits in a launch

    def memory(self, address: int, size: int) -> npt.NDArray[np.uint8]:
        """Return a read-only array of the program's memory at an address."""
        self.answer(struct.pack("<QQ", address, size), _READ)
        _, _, sent = _HEAD.unpack(self._receive_exactly(_HEAD.size))
        if sent != size:
            raise Garbled(f"{sent} bytes of memory instead of {size}")
        content = np.empty(sent, np.uint8)
        self._fill(content.data)
        content.flags.writeable = False
        return content

    def change(self, address: int, content: bytes) -> None:
        self.answer(struct.pack("<QQ", address, len(content)) + content, _WRITE)

    def proceed(self) -> None:
        self.answer(b"", _DONE)

    def _receive_exactly(self, size: int) -> bytes:
        """Receive ``size`` bytes; the buffer grows with the data, since the size may be wrong."""
        content = bytearray()
        while (left := size - len(content)) > 0:
            part = memoryview(bytearray(min(left, _PART)))
            self._fill(part)
            content += part
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
    """Return the answer to a ``HELLO`` message."""
    shown = name.encode()
    head = struct.pack("<II", attentive, len(shown)) + shown + struct.pack("<Q", memory_bytes)
    return head + b"".join(struct.pack("<ii", *pair) for pair in attributes)
