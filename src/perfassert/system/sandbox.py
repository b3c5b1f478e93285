"""Starts one program with bounds and, where the kernel offers it, alone.

A script, not a module that others import from: it is started by path with ``python -I -S`` and
imports the standard library only.

``sandbox.py [--memory BYTES] [--files BYTES] [--seconds N] [--alone] [--read PATH]...
[--write PATH]... [--watch DESCRIPTOR] [--script] -- PROGRAM ARGUMENT...``

``--alone`` asks for Landlock and seccomp: the program reads below the ``--read`` paths, writes
below the ``--write`` paths, and reaches nothing else of the file system: not ``/proc``, where the
environment of other processes can be read. It opens no socket, traces no process and signals none
outside. ``--watch`` has each system call that names a file reported: the descriptor of the reports
is sent through the socket ``DESCRIPTOR``; see ``watched_files.py``. ``--script`` runs a Python
script in this process instead of another program. ``--status`` prints what is in force, one word
each, and ends; ``--addresses`` prints whether programs can be had at fixed addresses.

Sources: Linux kernel documentation, "Landlock: unprivileged access control" and "Seccomp BPF";
``include/uapi/linux/landlock.h``, ``seccomp.h``, ``filter.h``, ``audit.h``.
"""

from __future__ import annotations

import ctypes
import os
import resource
import struct
import sys
from collections.abc import Sequence

UNAVAILABLE = 125
"""Exit status if the program cannot be started."""

_LIBC = ctypes.CDLL(None, use_errno=True)
_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2  # of prctl

_ASK, _FIXED_ADDRESSES = 0xFFFFFFFF, 0x0040000  # of personality
_PIPE, _FILE_SIZE = 13, 25  # signals, the same on all of Linux's machines but MIPS

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # system calls, on every architecture
_VERSION, _PATH_BENEATH = 1, 1
_RIGHTS = ((1, 13), (2, 14), (3, 15), (5, 16))
"""Landlock's version → number of file access rights; from version 5 on with ioctl."""
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_FOLDER = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _IOCTL = 1 << 14, 1 << 15
"""Bits of the access rights of Landlock."""
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL
_TCP, _SCOPES = 0b11, 0b11  # bind and connect; abstract Unix sockets and signals

_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""Machine → its number in the kernel's audit interface."""
_REFUSED = {  # system call: its number on x86-64 and on arm64, -1 where it has none
    # The network, other processes, and a way around this filter.
    "socket": (41, 198), "ptrace": (101, 117), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "pidfd_getfd": (438, 438), "io_uring_setup": (425, 425),
    "kcmp": (312, 272), "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "sched_setaffinity": (203, 122), "sched_setscheduler": (144, 119), "sched_setparam": (142, 118),
    "sched_setattr": (314, 274), "setpriority": (141, 140), "ioprio_set": (251, 30),
    # A session or group of its own, in which it would outlive its time limit.
    "setsid": (112, 157), "setpgid": (109, 154),
    # Modes, owners, times and attributes of files, which Landlock does not know.
    "chmod": (90, -1), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, -1), "lchown": (94, -1), "fchown": (93, 55), "fchownat": (260, 54),
    "utime": (132, -1), "utimes": (235, -1), "futimesat": (261, -1), "utimensat": (280, 88),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "setxattrat": (463, 463),
    "getxattr": (191, 8), "lgetxattr": (192, 9), "fgetxattr": (193, 10), "getxattrat": (464, 464),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    # Memory, queues and keys that other processes can open; name spaces; the kernel's log.
    "shmget": (29, 194), "shmat": (30, 196), "semget": (64, 190), "msgget": (68, 186),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "chroot": (161, 51),
    "sethostname": (170, 161), "fanotify_init": (300, 262), "syslog": (103, 116),
}  # fmt: skip
_PRLIMIT = (302, 261)  # refused for another process than the one that calls
_X32 = 0x40000000  # set in the numbers of another table of system calls on x86-64
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06  # BPF
_ALLOW, _ERROR, _KILL, _REPORT = 0x7FFF0000, 0x00050000, 0x80000000, 0x7FC00000
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_FILTER_MODE, _NEW_LISTENER = 1, 1 << 3
PATH_ARGUMENTS: dict[str, dict[int, tuple[int | None, int]]] = {
    "x86_64": {
        2: (None, 0), 4: (None, 0), 6: (None, 0), 21: (None, 0), 59: (None, 0),
        257: (0, 1), 262: (0, 1), 269: (0, 1), 322: (0, 1), 332: (0, 1), 437: (0, 1), 439: (0, 1),
    },
    "aarch64": {
        48: (0, 1), 56: (0, 1), 79: (0, 1), 221: (None, 0), 281: (0, 1), 291: (0, 1),
        437: (0, 1), 439: (0, 1),
    },
}  # fmt: skip
"""Machine → system call → places of the folder's descriptor (if any) and of the path among its
arguments: open, stat, lstat, access, execve, and those that take a folder.

Not readlink: g++ follows the links of every folder above every header, 6,723 of its 8,322 calls for
an empty source, and what a file behind them holds is seen when it is opened."""
_NOT_PERMITTED = 1  # EPERM


def main(words: list[str]) -> int:
    """Replace this process by the program; return a status if that fails."""
    limits, paths, flags, watcher, command = _parse(words)
    for kind, value in limits:
        _lower(kind, value)
    if "--status" in flags:
        print(" ".join(isolate(())))
        return 0
    if "--addresses" in flags:
        print("fixed" if _fix_addresses() else "random")
        return 0
    random = not _has_fixed_addresses()
    if random and _fix_addresses() and "--script" in flags and "--again" not in flags:
        given = len(sys.argv) - 1  # the script runs in this process, which has random addresses
        os.execv(sys.executable, [*sys.orig_argv[:-given], "--again", *sys.argv[1:]])
    if "--alone" in flags:
        isolate(paths)
    if watcher is not None:
        _report_paths(watcher)
    if "--script" in flags:
        sys.argv = list(command)
        with open(command[0], "rb") as script:
            code = compile(script.read(), command[0], "exec")
        exec(code, {"__name__": "__main__", "__file__": command[0]})  # runpy is slow to import
        return 0
    for number in (_PIPE, _FILE_SIZE):  # which Python ignores, and programs would go on to ignore
        _LIBC.signal(number, None)
    try:
        os.execv(command[0], command)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
    return UNAVAILABLE


def _fix_addresses() -> bool:
    """Make programs start at the same addresses each time; return False if that is forbidden.

    ptxas and NVRTC visit some data in the order of their addresses, which changes with each run: of
    300 kernels, one took 22 registers in some runs and 23 in others.
    """
    _LIBC.personality(_LIBC.personality(_ASK) | _FIXED_ADDRESSES)
    return _has_fixed_addresses()


def _has_fixed_addresses() -> bool:
    """Return True if a program that starts now has the same addresses as in each run."""
    now = _LIBC.personality(_ASK)
    return bool(now >= 0 and now & _FIXED_ADDRESSES)


def _parse(
    words: list[str],
) -> tuple[list[tuple[int, int]], list[tuple[str, bool]], set[str], int | None, list[str]]:
    """Return limits, paths, flags, the watcher's socket, and the command.

    A limit is (resource, value), and a path is (path, may be written).
    """
    limits, paths, flags, watcher = [], [], set(), None
    kinds = {
        "--memory": resource.RLIMIT_AS, "--files": resource.RLIMIT_FSIZE,
        "--seconds": resource.RLIMIT_CPU,
    }  # fmt: skip
    while words:
        word = words.pop(0)
        if word == "--":
            break
        if word in kinds:
            limits.append((kinds[word], int(words.pop(0))))
        elif word in ("--read", "--write"):
            paths.append((words.pop(0), word == "--write"))
        elif word == "--watch":
            watcher = int(words.pop(0))
        else:
            flags.add(word)
    return limits, paths, flags, watcher, words


def _lower(kind: int, value: int) -> None:
    """Set a limit, or keep a lower one (as on many clusters)."""
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(kind, (value, value))


def isolate(paths: Sequence[tuple[str, bool]]) -> list[str]:
    """Give up rights that the program does not need; return the mechanisms in force."""
    if _LIBC.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        return []
    applied = []
    if version := _restrict_files(paths):
        applied.append(f"landlock-{version}")
    if _refuse_calls():
        applied.append("seccomp")
    return applied


def _restrict_files(paths: Sequence[tuple[str, bool]]) -> int:
    """Restrict access to files; return Landlock's version, or 0 if the kernel has none."""
    version = _LIBC.syscall(_CREATE_RULESET, None, 0, _VERSION)
    if version < 1:
        return 0
    count = max(bits for since, bits in _RIGHTS if version >= since)
    rights = (1 << count) - 1
    attributes = struct.pack("=Q", rights)
    attributes += struct.pack("=Q", _TCP) if version >= 4 else b""
    attributes += struct.pack("=Q", _SCOPES) if version >= 6 else b""
    ruleset = _LIBC.syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    if ruleset < 0:
        return 0
    for path, writable in paths:
        _allow(ruleset, path, rights if writable else _EXECUTE | _READ_FILE | _READ_FOLDER, rights)
    done = not _LIBC.syscall(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)
    return version if done else 0


def _allow(ruleset: int, path: str, granted: int, known: int) -> None:
    """Grant access to a file or to all below a folder; a missing path is ignored."""
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    if not os.path.isdir(path):
        granted &= _OF_FILES
    rule = struct.pack("=Qi", granted & known, place)
    _LIBC.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
    os.close(place)


def _refuse_calls() -> bool:
    """Refuse system calls that reach other processes or the network; return True on success."""
    machine = os.uname().machine
    if machine not in _AUDIT:
        return False
    column = list(_AUDIT).index(machine)
    numbers = [both[column] for both in _REFUSED.values() if both[column] >= 0]
    refuse = _ERROR | _NOT_PERMITTED
    program = [
        (_LOAD, 0, 0, 4),  # the machine that a call is for
        (_EQUAL, 1, 0, _AUDIT[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),  # its number
    ]
    if machine == "x86_64":
        program += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _KILL)]
    for number in numbers:
        program += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, refuse)]
    program += [
        (_EQUAL, 0, 3, _PRLIMIT[column]),
        (_LOAD, 0, 0, 16),  # its first argument, a process
        (_EQUAL, 1, 0, 0),
        (_RETURN, 0, 0, refuse),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return not _LIBC.prctl(_SET_SECCOMP, _FILTER, _filter_program(program), 0, 0)


def _report_paths(watcher: int) -> None:
    """Have system calls with a path reported, and send the reports' descriptor to the watcher.

    If the kernel refuses, the socket is closed without a descriptor.
    """
    import _socket  # quicker to import than socket

    machine = os.uname().machine
    calls = PATH_ARGUMENTS[machine]
    program = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, _AUDIT[machine]), (_RETURN, 0, 0, _ALLOW)]
    program.append((_LOAD, 0, 0, 0))
    for number in calls:
        program += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _REPORT)]
    program.append((_RETURN, 0, 0, _ALLOW))
    _LIBC.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    reports = _LIBC.syscall(
        _SECCOMP[machine], _FILTER_MODE, _NEW_LISTENER, _filter_program(program)
    )
    if reports >= 0:
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, watcher)
        rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("i", reports))
        connection.sendmsg([b"r"], [rights])
        connection.close()
        os.close(reports)
    else:
        os.close(watcher)


def _filter_program(program: Sequence[tuple[int, int, int, int]]) -> ctypes.Array[ctypes.c_char]:
    """Return a ``struct sock_fprog`` that keeps its instructions alive."""
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    head = ctypes.create_string_buffer(struct.pack("@HP", len(program), ctypes.addressof(buffer)))
    head.instructions = buffer  # type: ignore[attr-defined]
    return head


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
