"""Files that a tool opens, tests or starts, as the kernel reports them; Linux only.

The launcher of a tool, ``sandbox.py``, installs a seccomp filter that reports each system call with
a path to this process, and hands over the descriptor of these reports. A thread here reads the path
from the tool's memory, notes it, and lets the call continue. So what a compiler looked for and did
not find is known, too, which no compiler prints.

Source: Linux kernel documentation, "Seccomp BPF", *Userspace Notification*;
``include/uapi/linux/seccomp.h``.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from threading import Thread

_CONTINUE = 1  # SECCOMP_USER_NOTIF_FLAG_CONTINUE
_RECEIVE, _SEND = 0xC0502100, 0xC0182101  # SECCOMP_IOCTL_NOTIF_RECV and _SEND
_SET_FLAGS, _WAKE_IN_TURN = 0x40082104, 1
"""``SECCOMP_IOCTL_NOTIF_SET_FLAGS``, ``SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP`` of Linux 6.6: the one
that waits runs at once on the processor of the one that answers, which halves a report's time."""
_REPORT = struct.Struct("=QIIiIQ6Q")
"""``struct seccomp_notif``: id, process, flags, number, machine, address of the call, arguments."""
_ANSWER = struct.Struct("=QqiI")
"""``struct seccomp_notif_resp``: id, value, error, flags."""
_PAGE = 4096  # bytes that are read of another process at once
_LONGEST_PATH = 4096  # PATH_MAX
_WORKING_DIRECTORY = -100  # AT_FDCWD


class FileWatch:
    """Watches one process and what it starts; ``path_seen`` is called with each absolute path.

    The call of the tool waits for ``path_seen``, which therefore sees the file as the tool will.
    After :meth:`finish`, ``complete`` is True if no path can have been missed.
    """

    def __init__(self, path_seen: Callable[[str], None]) -> None:
        self.complete = False
        self._path_seen = path_seen
        self._own, self.given = socket.socketpair()
        """``given``: the end that the launcher inherits."""
        self._thread = Thread(target=self._watch, name="perfassert-watch", daemon=True)

    def begin(self) -> None:
        """Start the thread, once the launcher has its end."""
        self.given.close()
        self._thread.start()

    def finish(self) -> None:
        """Wait until the reports have ended, with the last watched process."""
        self._thread.join()

    def _watch(self) -> None:
        with self._own:
            _, descriptors, _, _ = socket.recv_fds(self._own, 1, 1)
        if not descriptors:
            return
        reports = descriptors[0]
        try:
            self._answer_reports(reports)
        finally:
            os.close(reports)

    def _answer_reports(self, reports: int) -> None:
        from fcntl import ioctl

        with suppress(OSError):  # an older kernel
            ioctl(reports, _SET_FLAGS, _WAKE_IN_TURN)
        waiting = select.poll()
        waiting.register(reports, select.POLLIN)
        followed = True
        while True:
            (_, event), *_ = waiting.poll()
            if not event & select.POLLIN:
                self.complete = followed  # the last process has ended
                return
            buffer = bytearray(_REPORT.size)
            with suppress(OSError):  # the process was killed meanwhile
                ioctl(reports, _RECEIVE, buffer, True)
                number, process, _, call, _, _, *arguments = _REPORT.unpack(buffer)
                try:
                    self._path_seen(_path_of_call(process, call, arguments))
                except (OSError, ValueError):
                    followed = False
                ioctl(reports, _SEND, _ANSWER.pack(number, 0, 0, _CONTINUE))


def _path_of_call(process: int, call: int, arguments: list[int]) -> str:
    """Return the absolute path that a system call names."""
    folder_argument, path_argument = _path_arguments()[call]
    name = os.fsdecode(_read_text(process, arguments[path_argument]))
    if os.path.isabs(name):
        return os.path.normpath(name) if ".." not in name else name
    folder = f"/proc/{process}/cwd"
    if folder_argument is not None:
        low = struct.pack("I", arguments[folder_argument] & 0xFFFFFFFF)
        (descriptor,) = struct.unpack("i", low)
        if descriptor != _WORKING_DIRECTORY:
            folder = f"/proc/{process}/fd/{descriptor}"
    place = os.readlink(folder)
    return os.path.join(place, name) if name else place


def _read_text(process: int, address: int) -> bytes:
    """Return the text that ends with a zero byte at an address of another process."""
    text = b""
    memory = os.open(f"/proc/{process}/mem", os.O_RDONLY)
    try:
        while len(text) < _LONGEST_PATH:
            part = os.pread(memory, _PAGE - address % _PAGE, address)
            end = part.find(b"\0")
            if end >= 0:
                return text + part[:end]
            if not part:
                break
            text += part
            address += len(part)
    finally:
        os.close(memory)
    raise ValueError("no path of this length")


def can_watch() -> bool:
    """Return True where this kind of system reports files; its kernel may still refuse to."""
    return bool(_path_arguments())


def _continues_calls(release: str) -> bool:
    """Return True for a kernel that lets a reported call continue: Linux 5.5 and later."""
    major, _, rest = release.partition(".")
    minor = rest.partition(".")[0]
    return major.isdigit() and minor.isdigit() and (int(major), int(minor)) >= (5, 5)


@lru_cache(maxsize=1)
def _path_arguments() -> dict[int, tuple[int | None, int]]:
    """Return the launcher's table of system calls for this machine; empty elsewhere."""
    if sys.platform != "linux" or not _continues_calls(os.uname().release):
        return {}
    from perfassert.system.sandbox import PATH_ARGUMENTS

    return PATH_ARGUMENTS.get(os.uname().machine, {})
