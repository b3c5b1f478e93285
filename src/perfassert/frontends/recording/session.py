"""Recording session: runs a program with the recording runtime and collects its launches."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from perfassert.errors import RecordError
from perfassert.frontends.recording.contents import Contents
from perfassert.frontends.recording.device import attributes
from perfassert.frontends.recording.execution import Executor, LaunchReader, Runner, Sampler
from perfassert.frontends.recording.recorder import Recorder, RecorderFindings, Settings
from perfassert.frontends.recording.series import LaunchSeries
from perfassert.frontends.recording.stand_in import runtime
from perfassert.frontends.recording.wire import Closed, Connection, device_facts
from perfassert.hardware.model import Device
from perfassert.system.temporary import temporary_folder

_NAMES = ("libcudart.so", "libcudart.so.11.0", "libcudart.so.12", "libcudart.so.13",
          "libcuda.so", "libcuda.so.1")  # fmt: skip
_NEEDED = re.compile(rb"libcudart\.so\.(\d+)")
_CODE = b".nv_fatbin"
_SYMBOLS = 2  # SHT_SYMTAB
_GRACE = 5.0  # seconds in which processes end after a signal, and threads after the program
_MOST_PROCESSES = 256  # recorded at a time; each needs a thread and a socket


@dataclass(frozen=True, slots=True)
class Request:
    """Request to record a program.

    ``command`` is run without a shell. ``memory_bytes`` is the size of the device's memory.
    ``sampler`` finds the buffers whose contents determine trip counts and addresses of a launch.
    ``runner`` executes launches, up to ``execute_limit`` thread instructions in all. ``timeout`` is
    in seconds.
    """

    command: tuple[str, ...]
    device: Device
    memory_bytes: int
    sources: tuple[str, ...] = ()
    contents_limit: int = 0
    sampler: Sampler | None = None
    runner: Runner | None = None
    execute_limit: int = 0
    launches: int = 100_000
    timeout: float | None = None
    stdout: int | None = None  # a file descriptor


@dataclass(frozen=True, slots=True)
class Recording:
    """A finished recording.

    ``status`` is the program's exit status; a negative one is the signal that ended the program.
    ``late`` is True if the timeout passed. ``executed`` counts executed launches. ``not_executed``
    maps kernels to the reason.
    """

    request: Request
    findings: RecorderFindings
    contents: Contents
    status: int
    late: bool
    executed: int = 0
    not_executed: Mapping[str, str] = field(default_factory=dict)


def record(request: Request) -> Recording:
    """Run the program and return its recording.

    Raises :class:`RecordError` if the program cannot be started or launched nothing.
    """
    library = runtime()
    with temporary_folder() as folder:
        session = _Session(request, folder)
        status, late = session.run(_environment(request, library, folder))
    done = session.executor
    executed = (done.count, done.failed) if done else (0, {})
    recording = Recording(request, session.findings, session.contents, status, late, *executed)
    if not session.findings.launches:
        raise RecordError(_why_nothing_launched(recording))
    return recording


class _Session:
    def __init__(self, request: Request, folder: Path) -> None:
        self.findings, self.contents = RecorderFindings(), Contents(request.contents_limit)
        self._request, self._folder = request, folder
        self._process: subprocess.Popen[bytes] | None = None
        self.executor = Executor(request.runner, request.execute_limit) if request.runner else None
        self._reader = LaunchReader()
        facts = attributes(request.device)
        name, size = f"{request.device.name} (recording)", request.memory_bytes
        attentive = self.contents.wanted or self.executor is not None
        self._settings = Settings(
            request.device, device_facts(attentive, name, size, facts), request.sources,
            request.launches, self.contents, self._reader, request.sampler, self.executor,
            LaunchSeries(), self._stop,
        )  # fmt: skip
        self._findings_lock = threading.Lock()
        self._errors: list[Exception] = []

    def run(self, environment: dict[str, str]) -> tuple[int, bool]:
        """Run the program; return its exit status, and True if the timeout passed."""
        try:
            with self._listening():
                status, late = self._run_program(environment)
        finally:
            self._reader.close()
        self.contents.left_out += len(self._reader.too_large)
        if self._errors:
            raise self._errors[0]
        return status, late

    def _run_program(self, environment: dict[str, str]) -> tuple[int, bool]:
        try:
            self._process = subprocess.Popen(
                self._request.command,
                env=environment,
                stdout=self._request.stdout,
                start_new_session=True,
            )
        except OSError as error:
            what = self._request.command[0]
            raise RecordError(f"{what} cannot be started: {error.strerror}") from None
        late = False
        try:
            self._process.wait(self._request.timeout)
        except subprocess.TimeoutExpired:
            late = True
        finally:
            self._stop()
        return self._process.returncode, late

    def _stop(self) -> None:
        """Stop the program and the processes that it started."""
        process = self._process
        if process is None:
            return
        for sent in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, sent)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE)
                return

    @contextlib.contextmanager
    def _listening(self) -> Iterator[None]:
        """Answer each process of the program in a thread, as long as the context lasts."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
            door.bind(str(self._folder / "s"))
            door.listen()
            threads: list[threading.Thread] = []
            usher = threading.Thread(target=self._admit, args=(door, threads), daemon=True)
            usher.start()
            try:
                yield
            finally:
                door.shutdown(socket.SHUT_RDWR)
                usher.join()
                end = monotonic() + _GRACE
                for thread in threads:
                    thread.join(max(0.0, end - monotonic()))

    def _admit(self, door: socket.socket, threads: list[threading.Thread]) -> None:
        while True:
            try:
                channel, _ = door.accept()
            except OSError:
                return
            threads[:] = [thread for thread in threads if thread.is_alive()]
            if len(threads) >= _MOST_PROCESSES:
                why = f"more than {_MOST_PROCESSES} processes use CUDA at a time; start fewer"
                self._errors += [] if self._errors else [RecordError(why)]
                channel.close()
                continue
            threads.append(threading.Thread(target=self._answer, args=(channel,), daemon=True))
            threads[-1].start()

    def _answer(self, channel: socket.socket) -> None:
        with channel:
            try:
                Recorder(
                    Connection(channel), self._settings, self.findings, self._findings_lock
                ).run()
            except Closed:
                pass
            except Exception as error:  # raised again by :meth:`run`
                self._errors.append(error)


def _environment(request: Request, library: Path, folder: Path) -> dict[str, str]:
    """Return the environment in which the recording runtime is loaded instead of CUDA's."""
    shelf = folder / "lib"
    shelf.mkdir()
    for name in _NAMES:
        (shelf / name).symlink_to(library.resolve())
    old = dict(os.environ)
    added = {
        "LD_PRELOAD": ":".join(filter(None, (str(library.resolve()), old.get("LD_PRELOAD")))),
        "LD_LIBRARY_PATH": ":".join(filter(None, (str(shelf), old.get("LD_LIBRARY_PATH")))),
        "PERFASSERT_RECORD": str(folder / "s"),
    }
    needed = _NEEDED.search(_program_bytes(request.command))
    if needed:
        added["PERFASSERT_RECORD_VERSION"] = f"{int(needed[1])}000"
    return {**old, **added}


def _program_bytes(command: Sequence[str]) -> bytes:
    """Return the program's bytes; ``b""`` if it is not a path to a file, such as ``python``."""
    try:
        return Path(command[0]).read_bytes()
    except OSError:
        return b""


def _has_symbols(program: bytes) -> bool:
    """Return True if an ELF file has a symbol table; also if it cannot be parsed."""
    try:
        (start,) = struct.unpack_from("<Q", program, 40)
        size, count = struct.unpack_from("<HH", program, 58)
        kinds = [struct.unpack_from("<I", program, start + i * size + 4)[0] for i in range(count)]
    except struct.error:
        return True
    return _SYMBOLS in kinds


def _why_nothing_launched(recording: Recording) -> str:
    """Return an error message with the likely reason why a program launched no kernel."""
    findings, command = recording.findings, recording.request.command
    message = f"{command[0]} launched no kernel (it ended with status {recording.status})"
    if recording.late:
        message = f"{command[0]} launched no kernel within {recording.request.timeout:g} s"
    if findings.failed:
        name, why = next(iter(findings.failed.items()))
        return f"{message}: {name}: {why}"
    if findings.refused:
        return f"{message}; these calls failed: {', '.join(findings.refused)}"
    content = _program_bytes(command)
    linked_in = _CODE in content and not _NEEDED.search(content)
    if linked_in and not _has_symbols(content):
        return (
            f"{message}: the CUDA runtime is linked into it and its symbols are stripped; link "
            "with -cudart shared, or do not strip it"
        )
    if not findings.processes:
        return f"{message}: it never called the CUDA runtime"
    return f"{message}; run it with arguments with which it launches a kernel"
