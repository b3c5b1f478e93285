"""The one place that starts tools: a program and its arguments, a folder, bounds, and a sandbox.

No shell is involved. On Linux ``sandbox.py`` bounds memory and the size of files before the tool
runs and, where the kernel offers Landlock and seccomp, leaves it alone with its own folder, the
folders that it is given to read, and the system's. Elsewhere the tool runs with a time limit only.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from pathlib import Path
from typing import IO

from perfassert.errors import PerfAssertError
from perfassert.system.python_children import isolated_command
from perfassert.system.watched_files import FileWatch

SANDBOX = "PERFASSERT_SANDBOX"
MODES = ("on", "off", "require")
"""Values of the variable: what the kernel offers (default), nothing, or an error without it."""

_LAUNCHER = Path(__file__).with_name("sandbox.py")
_BOUNDED = sys.platform == "linux"  # elsewhere there are neither these limits nor Landlock
SYSTEM_FOLDERS = (
    "/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/opt", "/nix/store", "/gnu/store",
    "/etc/ld.so.cache", "/etc/ld.so.preload", "/etc/localtime", "/etc/alternatives",
    "/sys/devices/system/cpu", "/proc/cpuinfo", "/proc/meminfo", "/dev/urandom", "/dev/zero",
)  # fmt: skip
"""Files of programs and their libraries, none of which is a user's source or setting."""
_WRITABLE = ("/dev/null",)
_TICK = 0.1  # seconds by which the kernel's limit and its account of a process may differ
_LONGEST_POLL = (1 << 31) - 1  # milliseconds
CLOCK_FACTOR = 10
"""Wall-clock seconds for each second of CPU time that a run may take."""


class TimeLimitReached(Exception):
    """Error for a process that exceeded its time and was ended with its children."""


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """Limits of one run: CPU seconds, bytes of address space, bytes of each file and output.

    The wall-clock limit is :data:`CLOCK_FACTOR` times the CPU limit, as the machine may be busy.
    """

    seconds: float
    memory_bytes: int
    file_bytes: int = 2 << 30


@dataclass(frozen=True, slots=True)
class Finished:
    """Result of a process: its exit status (negative: the signal that ended it) and its output."""

    status: int
    stdout: str
    stderr: str


def run_process(
    command: Sequence[str],
    bounds: ProcessLimits,
    environment: Mapping[str, str],
    *,
    folder: str | Path | None = None,
    reads: Iterable[str | Path] = (),
    script: bool = False,
    stdin: str = "",
    watch: FileWatch | None = None,
) -> Finished:
    """Run one program to its end.

    Args:
        command: the program (a path, or a name that ``PATH`` has) and its arguments; no shell sees
            them. With ``script``: a Python script and its arguments.
        bounds: limits of time, memory and output.
        environment: all that it gets.
        folder: where it runs, the only place that it may write to.
        reads: files and folders that it may read besides the system's, its own and ``folder``.
        stdin: text that it reads.
        watch: gets the paths of all files that it opens, tests or starts.

    Raises:
        OSError: the program is not there or cannot be executed.
        TimeLimitReached: it, or what it started, took longer than ``bounds`` allows.
        PerfAssertError: ``PERFASSERT_SANDBOX=require`` and the kernel offers no sandbox.
    """
    words = list(command)
    if not script:
        words[0] = _executable(words[0], folder or "", environment.get("PATH", ""))
    words = _launcher_command(words, bounds, folder, reads, script, watch)
    with (
        tempfile.TemporaryFile() as input_file,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        input_file.write(stdin.encode("utf-8", "surrogateescape"))
        input_file.seek(0)
        process = subprocess.Popen(
            words,
            stdin=input_file,
            stdout=out,
            stderr=err,
            cwd=folder,
            env=dict(environment),
            start_new_session=os.name == "posix",
            pass_fds=[watch.given.fileno()] if watch else (),
        )
        if watch is not None:
            watch.begin()
        try:
            status = _wait(process, bounds.seconds)
        except subprocess.TimeoutExpired:
            raise TimeLimitReached from None
        finally:
            _end(process)
            if watch is not None:
                watch.finish()
        return Finished(status, _read_output(out), _read_output(err))


def start_python(
    target: str, *arguments: str, stdin: int = subprocess.PIPE, stdout: int = subprocess.PIPE
) -> subprocess.Popen[bytes]:
    """Start a function, ``"module:function"``, in an isolated Python process.

    Every Python process of ours that is no tool begins here; see
    :func:`perfassert.system.python_children.isolated_command`. Standard error is shared.
    """
    return subprocess.Popen(isolated_command(target, *arguments), stdin=stdin, stdout=stdout)


def _wait(process: subprocess.Popen[bytes], seconds: float) -> int:
    """Return the exit status as soon as there is one; ``Popen.wait`` polls every 50 ms.

    Raises:
        subprocess.TimeoutExpired: it takes too long by the clock, or was ended for the processor
            time of one of its processes, as the launcher limits it.
    """
    by_clock = CLOCK_FACTOR * seconds
    if sys.platform == "linux":
        with suppress(OSError):  # a kernel before 5.3
            handle = os.pidfd_open(process.pid)
            try:
                waiting = select.poll()
                waiting.register(handle, select.POLLIN)
                if not waiting.poll(min(1000 * by_clock, _LONGEST_POLL)):
                    raise subprocess.TimeoutExpired(process.args, by_clock)
            finally:
                os.close(handle)
            return _status_within(process, seconds)
    return process.wait(by_clock)


def _status_within(process: subprocess.Popen[bytes], seconds: float) -> int:
    """Return the status of an ended process; a failure after all of its time counts as a timeout.

    A compiler's own status does not say which signal ended a program that it had started.
    """
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode and usage.ru_utime + usage.ru_stime >= seconds - _TICK:
        raise subprocess.TimeoutExpired(process.args, seconds)
    return process.returncode


def _read_output(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace").replace("\r\n", "\n")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and, on POSIX, its process group; then wait for the process."""
    try:
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    except (ProcessLookupError, PermissionError):
        pass
    process.wait()


def _launcher_command(
    command: Sequence[str],
    bounds: ProcessLimits,
    folder: str | Path | None,
    reads: Iterable[str | Path],
    script: bool,
    watch: FileWatch | None,
) -> list[str]:
    """Return ``command`` as run by the launcher, on systems that support the launcher."""
    if not _BOUNDED:
        return [sys.executable, "-I", *command] if script else list(command)
    words = [sys.executable, "-I", "-S", str(_LAUNCHER)]
    words += ["--memory", str(bounds.memory_bytes), "--files", str(bounds.file_bytes)]
    words += ["--seconds", str(max(1, ceil(bounds.seconds)))]
    if mode() != "off":
        words.append("--alone")
        whole = os.path.join(folder or "", command[0])
        readable = [*SYSTEM_FOLDERS, *python_folders(), *_of_program(whole), *reads]
        writable = [*_WRITABLE, *([folder] if folder is not None else [])]
        for path in dict.fromkeys(map(str, readable)):
            words += ["--read", path]
        for path in map(str, writable):
            words += ["--write", path]
    words += ["--watch", str(watch.given.fileno())] if watch is not None else []
    words += ["--script"] if script else []
    return [*words, "--", *command]


def mode() -> str:
    """Return the mode of the sandbox that the environment asks for, one of :data:`MODES`."""
    wanted = os.environ.get(SANDBOX, "") or "on"
    if wanted not in MODES:
        raise PerfAssertError(f"{SANDBOX} must be one of {', '.join(MODES)}, not {wanted!r}")
    if wanted == "require" and len(mechanisms()) < 2:
        raise PerfAssertError(
            f"{SANDBOX}=require, but this system offers no sandbox of Landlock (Linux 5.13) and "
            "seccomp; unset it to run tools without"
        )
    return wanted


@lru_cache(maxsize=1)
def mechanisms() -> tuple[str, ...]:
    """Return the parts of a sandbox on this system, as ``("landlock-7", "seccomp")``."""
    return _ask_launcher("--status")


def fixes_addresses() -> bool:
    """Return True if tools have the same addresses in each run; their output may depend on them."""
    return _ask_launcher("--addresses") == ("fixed",)


def _ask_launcher(question: str) -> tuple[str, ...]:
    """Return the words of the launcher's answer; none without a launcher."""
    if not _BOUNDED:
        return ()
    command = [sys.executable, "-I", "-S", str(_LAUNCHER), question]
    done = subprocess.run(command, capture_output=True, text=True, env={}, check=False)
    return tuple(done.stdout.split())


def _executable(program: str, folder: str | Path, searched: str) -> str:
    """Return the path of an executable, which may be relative to the folder.

    Raises an :class:`OSError` for a file that is missing or cannot be executed.
    """
    path = program
    if not os.path.dirname(program):
        places = os.pathsep.join(os.path.join(folder, p) for p in searched.split(os.pathsep) if p)
        path = shutil.which(program, path=places) or program
    whole = os.path.join(folder, path)
    os.stat(whole)
    if not os.access(whole, os.X_OK) or os.path.isdir(whole):
        raise PermissionError(f"{path} is no program")
    return path


@lru_cache(maxsize=1)
def python_folders() -> tuple[str, ...]:
    """Return folders of the interpreter and its libraries; of a virtual environment only these."""
    library = Path(os.__file__).parent
    return (
        *(str(path) for path in (Path(sys.base_prefix, part) for part in ("bin", "lib", "lib64"))),
        str(library),
        str(Path(__file__).parent),
        sys.executable,
    )


def _of_program(program: str) -> tuple[str, ...]:
    """Return the folders with a program's own files: beside it, and in its installation."""
    folders = []
    for path in (Path(program), Path(os.path.realpath(program))):
        prefix = path.parent.parent
        home = Path.home()
        broad = prefix in (home, *home.parents) or prefix == Path("/")
        folders.append(str(path.parent if broad else prefix))
    return tuple(dict.fromkeys(folders))
