"""Launches that are executed while the program waits, so that later ones see their results."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from perfassert.errors import PerfAssertError
from perfassert.frontends.cuda.kernels import CompiledCode, from_cubin, from_ptx
from perfassert.frontends.recording.arguments import (
    ArgumentValue,
    Pointer,
    PointerPlace,
    RecordedArguments,
)
from perfassert.frontends.recording.code import KernelCode, Module
from perfassert.frontends.recording.wire import Connection, LaunchEvent
from perfassert.kernel.buffer import Buffer
from perfassert.kernel.launch import Launch

Bytes = npt.NDArray[np.uint8]
Runner = Callable[[CompiledCode, Launch], "tuple[Mapping[str, Bytes], str]"]
"""A launch → what its buffers hold afterwards, and why it was not executed."""
_MOST = 1 << 28  # bytes of buffers that a launch may have


class Executor:
    """``failed``: kernels that were not executed, and why; ``count``: launches that were."""

    def __init__(self, runner: Runner) -> None:
        self.failed: dict[str, str] = {}
        self.count = 0
        self._runner = runner
        self._folder = tempfile.TemporaryDirectory(prefix="perfassert-")
        self._code: dict[object, CompiledCode] = {}

    def run(
        self,
        event: LaunchEvent,
        module: Module,
        code: KernelCode,
        arguments: RecordedArguments,
        constants: Mapping[str, bytes],
        connection: Connection,
    ) -> bool:
        """Whether the program's memory now holds what the launch left there."""
        if code.mangled in self.failed:
            return False
        roots = {p.name: p for p in arguments.pointers if not p.pointer.alias}
        try:
            compiled = self._compile(module, code, constants)
            before = _read_buffers(roots, connection)
            args = {k: _argument(v, k, code, before) for k, v in arguments.values.items()}
            launch = Launch(
                event.grid, event.block, args, event.shared_bytes, cluster=event.cluster
            )
            after, failed = self._runner(compiled, launch)
        except PerfAssertError as error:
            after, failed = {}, str(error)
        if failed:
            self.failed[code.mangled] = failed
            return False
        self.count += 1
        for name, place in roots.items():
            _leave(place, before.get(name), after.get(name), connection)
        return True

    def close(self) -> None:
        self._folder.cleanup()

    def _compile(
        self, module: Module, code: KernelCode, constants: Mapping[str, bytes]
    ) -> CompiledCode:
        key = (module.digest, code.mangled, tuple(constants.items()))
        if key not in self._code:
            path = Path(self._folder.name, f"{module.digest}{module.suffix}")
            path.write_bytes(module.content)
            make = from_ptx if module.suffix == ".ptx" else from_cubin
            names = [p.name for p in code.parameters]
            values = dict(constants)
            kernel = make(path, code.mangled, parameters=names, constants=values)
            assert isinstance(kernel.compiled, CompiledCode)
            self._code[key] = kernel.compiled
        return self._code[key]


def _read_buffers(roots: Mapping[str, PointerPlace], connection: Connection) -> dict[str, Bytes]:
    """What the buffers hold; what a kernel that did not run may have written is not known."""
    total = sum(place.pointer.size for place in roots.values())
    if total > _MOST:
        raise PerfAssertError(f"its buffers have {total} bytes; {_MOST} are the most")
    return {
        name: np.frombuffer(connection.memory(p.pointer.address, p.pointer.size), np.uint8)
        for name, p in roots.items()
        if not p.allocation.stale and p.pointer.size
    }


def _argument(
    value: ArgumentValue, name: str, code: KernelCode, contents: Mapping[str, Bytes]
) -> Any:
    if isinstance(value, dict):
        parameter = next(p for p in code.parameters if p.name == name)
        return {at: _argument(word, parameter.at(at), code, contents) for at, word in value.items()}
    if not isinstance(value, Pointer):
        return value
    if value.alias:
        return Buffer(alias=value.alias, offset=value.offset)
    if name in contents:
        return Buffer(data=contents[name], offset=value.offset)
    return Buffer(value.size, "uint8", offset=value.offset)


def _leave(
    place: PointerPlace, before: Bytes | None, after: Bytes | None, connection: Connection
) -> None:
    """Write back what has changed."""
    allocation, pointer = place.allocation, place.pointer
    if after is None:
        if not place.read_only:
            allocation.forget_all()
        return
    if before is not None and np.array_equal(before, after):
        return
    connection.change(pointer.address, after.tobytes())
    start = pointer.address - allocation.address
    allocation.write(start, start + pointer.size)
