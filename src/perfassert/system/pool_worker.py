"""Process of a pool: pickled calls from standard input, pickled outcomes to standard output."""

from __future__ import annotations

import os
import pickle
import signal
import struct
import sys
from typing import IO

_SIZE = struct.Struct("<Q")


def main() -> None:
    """Answer calls until the input ends; what a call prints goes to standard error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the pool ends its processes
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while (call := receive(sys.stdin.buffer)) is not None:
        send(answers, _outcome(call))


def _outcome(call: bytes) -> bytes:
    """Return the pickled ``(True, result)`` or ``(False, exception)`` of a pickled call."""
    try:
        function, arguments = pickle.loads(call)
        return pickle.dumps((True, function(*arguments)))
    except Exception as error:
        try:
            return pickle.dumps((False, error))
        except Exception:  # it holds what cannot be pickled
            return pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")))


def send(file: IO[bytes], content: bytes) -> None:
    """Write one frame: eight bytes of length, then the content."""
    file.write(_SIZE.pack(len(content)) + content)
    file.flush()


def receive(file: IO[bytes]) -> bytes | None:
    """Read one frame; None at the end of the file."""
    head = file.read(_SIZE.size)
    if len(head) < _SIZE.size:
        return None
    (size,) = _SIZE.unpack(head)
    content = file.read(size)
    return content if len(content) == size else None
