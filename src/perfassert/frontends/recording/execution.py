"""Execution of launches while the program waits: whole launches, or a sample of their blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from perfassert.errors import PerfAssertError
from perfassert.frontends.cuda.kernels import as_recorded, from_cubin, from_ptx
from perfassert.frontends.recording.arguments import (
    ArgumentValue,
    Pointer,
    PointerPlace,
    RecordedArguments,
)
from perfassert.frontends.recording.code import KernelCode, Module
from perfassert.frontends.recording.memory import Allocation
from perfassert.frontends.recording.wire import Connection, LaunchEvent
from perfassert.kernel.buffer import PAGE_BYTES, Buffer
from perfassert.kernel.description import CompiledKernel
from perfassert.kernel.distinct import distinct
from perfassert.kernel.launch import Launch
from perfassert.system.temporary import temporary_folder

Bytes = npt.NDArray[np.uint8]
Pages = npt.NDArray[np.int64]
_MOST = 1 << 31  # bytes of a launch's buffers that are read, the smaller ones first


class ExecutedLaunch(Protocol):
    """Result of an executed launch.

    The result has the contents of buffers that are known throughout, the reason if the launch did
    not finish, and the number of thread instructions executed.
    """

    @property
    def contents(self) -> Mapping[str, Bytes]: ...

    @property
    def failed(self) -> str: ...

    @property
    def executed(self) -> int: ...


class Runner(Protocol):
    """Function that executes a launch, up to a limit of thread instructions."""

    def __call__(
        self, kernel: CompiledKernel, launch: Launch, *, lane_instructions: int
    ) -> ExecutedLaunch: ...


class Sample(Protocol):
    """Result of a sampled launch.

    The result has the pages of buffers whose values a prediction needs, and the number of warp
    instructions that were executed to find the pages.
    """

    @property
    def pages(self) -> Mapping[str, Pages]: ...

    @property
    def instructions(self) -> int: ...


Sampler = Callable[[CompiledKernel, Launch], Sample]


@dataclass(frozen=True)
class ReadLaunch:
    """A launch with the present contents of its buffers.

    ``roots`` has the pointers that are no aliases, by name. ``contents`` has the buffers that are
    not too large and at least partly known: no kernel was left out that may have overwritten all of
    it.
    """

    kernel: CompiledKernel
    launch: Launch
    roots: Mapping[str, PointerPlace]
    contents: Mapping[str, Bytes]


class LaunchReader:
    """Converter of the program's launches into launches that the engines execute.

    ``too_large`` has the addresses of buffers that were not read.
    """

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._opened = ExitStack()
        self._kernels: dict[object, CompiledKernel] = {}
        self.too_large: set[int] = set()

    def close(self) -> None:
        """Remove the files that the reader wrote."""
        self._opened.close()

    def read(
        self,
        event: LaunchEvent,
        module: Module,
        code: KernelCode,
        arguments: RecordedArguments,
        constants: Mapping[str, bytes],
        connection: Connection,
    ) -> ReadLaunch:
        """Return the launch with the contents of its buffers.

        Raises :class:`PerfAssertError` if the code cannot be read.
        """
        roots = {p.name: p for p in arguments.pointers if not p.pointer.alias}
        kernel = self._compile(module, code, constants)
        contents, buffers, left = {}, {}, _MOST
        for name, place in sorted(roots.items(), key=lambda item: item[1].pointer.size):
            known = known_pages(place) if place.allocation.stale else None
            left -= place.pointer.size
            if left < 0:
                self.too_large.add(place.pointer.address)
            elif place.pointer.size and (known is None or len(known)):
                contents[name] = connection.memory(place.pointer.address, place.pointer.size)
                buffers[name] = _buffer(place.pointer, contents[name], known)
        args = {k: _recorded_argument(v, k, code, buffers) for k, v in arguments.values.items()}
        launch = Launch(event.grid, event.block, args, event.shared_bytes, cluster=event.cluster)
        return ReadLaunch(kernel, launch, roots, contents)

    def _compile(
        self, module: Module, code: KernelCode, constants: Mapping[str, bytes]
    ) -> CompiledKernel:
        key = (module.digest, code.mangled, tuple(constants.items()))
        if key not in self._kernels:
            if self._folder is None:
                self._folder = self._opened.enter_context(temporary_folder())
            path = self._folder / f"{module.digest}{module.suffix}"
            path.write_bytes(module.content)
            make = from_ptx if module.suffix == ".ptx" else from_cubin
            names = [p.name for p in code.parameters]
            made = make(path, code.mangled, parameters=names, constants=dict(constants))
            self._kernels[key] = as_recorded(made)
        return self._kernels[key]


class Executor:
    """Executor of whole launches, so that later launches see their results.

    ``limit`` is in thread instructions of all launches together. One launch may take half of the
    rest. ``failed`` maps kernels that were not executed to the reason. ``count`` is the number of
    executed launches.
    """

    def __init__(self, runner: Runner, limit: int) -> None:
        self.failed: dict[str, str] = {}
        self.count = 0
        self._runner, self._left = runner, limit

    def run(self, name: str, read: ReadLaunch, connection: Connection) -> bool:
        """Execute a launch; return True if the program's memory now holds its results."""
        most = self._left // 2
        try:
            done = self._runner(read.kernel, read.launch, lane_instructions=most)
        except PerfAssertError as error:
            self.failed[name] = str(error)
            return False
        self._left = max(self._left - done.executed, 0)
        if done.failed:
            self.failed[name] = done.failed
            return False
        self.count += 1
        for root, place in read.roots.items():
            _write_back(place, read.contents.get(root), done.contents.get(root), connection)
        return True


def known_part(content: Bytes, offset: int, pages: Pages) -> Bytes:
    """Return the listed pages of a buffer, joined; its first byte is ``offset`` into a page."""
    padded = np.zeros(-(-(len(content) + offset) // PAGE_BYTES) * PAGE_BYTES, np.uint8)
    padded[offset : offset + len(content)] = content
    return padded.reshape(-1, PAGE_BYTES)[pages].reshape(-1)


def known_pages(place: PointerPlace) -> Pages | None:
    """Return the pages that hold what they would hold on a GPU; None if all of them do."""
    allocation, pointer = place.allocation, place.pointer
    if allocation.known:
        return None
    start = pointer.address - allocation.address - pointer.offset
    ranges = [np.arange(*_page_range(span, start, allocation), dtype=np.int64)
             for span in allocation.written]  # fmt: skip
    return distinct(np.concatenate([*ranges, np.zeros(0, np.int64)])).astype(np.int64)


def _page_range(span: tuple[int, int], start: int, allocation: Allocation) -> tuple[int, int]:
    """Return first and end page within a span; the allocation's last page may be a partial one."""
    # Bytes 100 to 9000 have the whole pages 1 to 34 of 256 B; page 35 counts, too, if the
    # allocation ends at byte 9000.
    low, high = span[0] - start, span[1] - start
    first = 0 if span[0] <= max(start, 0) else -(-low // PAGE_BYTES)
    last = -(-high // PAGE_BYTES) if span[1] == allocation.size else high // PAGE_BYTES
    return max(first, 0), max(last, 0)


def _buffer(pointer: Pointer, content: Bytes, pages: Pages | None) -> Buffer:
    if pages is None:
        return Buffer(data=content, offset=pointer.offset)
    part = known_part(content, pointer.offset, pages)
    return Buffer(pointer.size, "uint8", offset=pointer.offset, data=part, pages=pages)


def _recorded_argument(
    value: ArgumentValue, name: str, code: KernelCode, buffers: Mapping[str, Buffer]
) -> Any:
    if isinstance(value, dict):
        parameter = next(p for p in code.parameters if p.name == name)
        return {
            at: _recorded_argument(word, parameter.at(at), code, buffers)
            for at, word in value.items()
        }
    if not isinstance(value, Pointer):
        return value
    if value.alias:
        return Buffer(alias=value.alias, offset=value.offset)
    return buffers.get(name) or Buffer(value.size, "uint8", offset=value.offset)


def _write_back(
    place: PointerPlace, before: Bytes | None, after: Bytes | None, connection: Connection
) -> None:
    """Write the changed bytes of a buffer back to the program."""
    allocation, pointer = place.allocation, place.pointer
    if after is None or len(after) != pointer.size:
        if not place.read_only:
            allocation.forget_all()
        return
    if before is not None and np.array_equal(before, after):
        return
    connection.change(pointer.address, after.tobytes())
    start = pointer.address - allocation.address
    allocation.write(start, start + pointer.size)
