"""Recorder of what one process of a program does with the GPU that it believes to have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from threading import Lock

from perfassert.errors import LaunchError, PerfAssertError
from perfassert.frontends.recording.arguments import ArgumentValue, Pointer, RecordedArguments
from perfassert.frontends.recording.code import UNKNOWN_FUNCTION, KernelCode, Module
from perfassert.frontends.recording.contents import Contents
from perfassert.frontends.recording.execution import (
    Executor,
    LaunchReader,
    ReadLaunch,
    Sample,
    Sampler,
)
from perfassert.frontends.recording.memory import DeviceMemory
from perfassert.frontends.recording.series import LaunchSeries
from perfassert.frontends.recording.wire import Connection, Fields, Garbled, LaunchEvent, Message
from perfassert.hardware.model import Device
from perfassert.kernel.launch import Launch
from perfassert.shipped import model_integer

_BANK_BYTES = model_integer("constant_bank_bytes")  # every symbol lies in them


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recorded launch.

    ``constants`` maps mangled ``__constant__`` symbols to what the program wrote there. ``count``
    is the number of equal launches.
    """

    module: Module
    code: KernelCode
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    shared_bytes: int
    args: dict[str, ArgumentValue]
    constants: dict[str, str]
    count: int = 1


@dataclass(slots=True)
class RecorderFindings:
    """Findings of a recording.

    ``refused`` has calls without an answer and launches that no device takes. ``failed`` maps
    kernels whose code could not be read to the reason. ``attributes`` has queried device attributes
    that no file states. ``unknown`` has arguments that point nowhere. ``stopped`` is True if the
    limit of launches ended the recording.
    """

    launches: dict[object, Recorded] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    attributes: set[int] = field(default_factory=set)
    unknown: set[tuple[str, str]] = field(default_factory=set)
    processes: int = 0
    events: int = 0
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings: ``hello`` answers a process that connects; ``limit`` is the most launches."""

    device: Device
    hello: bytes
    sources: tuple[str, ...]
    limit: int
    contents: Contents
    reader: LaunchReader
    sampler: Sampler | None
    executor: Executor | None
    series: LaunchSeries
    stop: Callable[[], None]

    @property
    def attentive(self) -> bool:
        """True if a launch must wait for the recorder, because the recorder reads memory."""
        return self.contents.wanted or self.executor is not None


@dataclass(frozen=True, slots=True)
class _Launched:
    """A launch being recorded; ``constants`` has what the program wrote into its symbols."""

    event: LaunchEvent
    module: Module
    code: KernelCode
    arguments: RecordedArguments
    constants: Mapping[str, bytes]

    @property
    def threads(self) -> int:
        return prod(self.event.grid) * prod(self.event.block)

    def key(self, constants: dict[str, str]) -> object:
        """Return a key that equal launches share, whatever their buffers hold.

        ``constants`` has the names of the contents of ``__constant__`` symbols.
        """
        plain = replace(self.event, module=0, arguments=b"")
        arguments = _argument_key(self.arguments.values)
        return self.module.digest, plain, arguments, tuple(constants.items())

    def to_recorded(self, constants: dict[str, str]) -> Recorded:
        event = self.event
        return Recorded(
            self.module, self.code, event.grid, event.block, event.cluster, event.shared_bytes,
            self.arguments.values, constants,
        )  # fmt: skip


class Recorder:
    """Recorder that answers one process and collects its launches in ``findings``."""

    def __init__(
        self, connection: Connection, settings: Settings, findings: RecorderFindings, lock: Lock
    ) -> None:
        self._connection = connection
        self._findings_lock = lock  # lock between processes, which share the findings
        self._settings = settings
        self._findings = findings
        self._modules: dict[int, Module] = {}
        self._memory = DeviceMemory()
        self._constants: dict[tuple[int, str], bytearray] = {}
        self._series = settings.series
        self._takes: dict[int, Callable[[bytes], None]] = {
            Message.HELLO: self._on_hello,
            Message.MODULE: self._on_module,
            Message.FUNCTION: self._on_function,
            Message.LAUNCH: self._on_launch,
            Message.ALLOCATED: self._on_allocation,
            Message.FREED: lambda c: self._memory.drop(Fields(c).number("Q")),
            Message.WRITTEN: self._on_write,
            Message.COPIED: self._on_copy,
            Message.CONSTANT: self._on_constant,
            Message.REFUSED: self._on_refusal,
            Message.OCCUPANCY: self._on_occupancy,
            Message.UNKNOWN_ATTRIBUTE: lambda c: findings.attributes.add(Fields(c).number("i")),
            Message.SYMBOL: self._on_symbol,
        }

    def run(self) -> None:
        """Answer messages until the process ends, which raises :class:`~.wire.Closed`."""
        while True:
            kind, content = self._connection.receive()
            if kind not in self._takes:
                raise Garbled(f"a message of kind {kind}")
            with self._findings_lock:
                self._takes[kind](content)

    def _module(self, number: int) -> Module:
        if number not in self._modules:
            raise Garbled(f"the number {number} of a module")
        return self._modules[number]

    def _on_hello(self, content: bytes) -> None:
        self._findings.processes += 1
        self._connection.answer(self._settings.hello)

    def _on_module(self, content: bytes) -> None:
        fields = Fields(content)
        number = fields.number()
        settings = self._settings
        self._modules[number] = Module(fields.rest(), settings.device, settings.sources)

    def _on_function(self, content: bytes) -> None:
        fields = Fields(content)
        module, name = self._module(fields.number()), fields.text()
        try:
            answer = module.kernel(name).facts()
        except PerfAssertError as error:
            self._findings.failed[name] = str(error)
            answer = UNKNOWN_FUNCTION
        self._connection.answer(answer)

    def _on_occupancy(self, content: bytes) -> None:
        fields = Fields(content)
        module, threads, shared = (fields.number(form) for form in "IiI")
        blocks = self._module(module).resident_blocks(fields.text(), threads, shared)
        self._connection.answer(blocks.to_bytes(4, "little"))

    # Memory

    def _on_allocation(self, content: bytes) -> None:
        fields = Fields(content)
        self._memory.add(fields.number("Q"), fields.number("Q"), bool(fields.number()))

    def _on_write(self, content: bytes) -> None:
        fields = Fields(content)
        self._memory.write(fields.number("Q"), fields.number("Q"))

    def _on_copy(self, content: bytes) -> None:
        fields = Fields(content)
        self._memory.copy(*(fields.number("Q") for _ in range(3)))

    def _on_constant(self, content: bytes) -> None:
        fields = Fields(content)
        module, offset, name = fields.number(), fields.number("Q"), fields.text()
        constant = self._constants.setdefault((module, name), bytearray())
        value = fields.rest()
        if offset + len(value) > _BANK_BYTES:
            raise Garbled(f"{len(value)} bytes at {offset} of the constant {name!r}")
        constant.extend(b"\0" * (offset + len(value) - len(constant)))
        constant[offset : offset + len(value)] = value

    def _on_symbol(self, content: bytes) -> None:
        fields = Fields(content)
        fields.number("Q")
        module, name = fields.number(), fields.text()
        self._connection.answer(self._module(module).variable(name))

    def _on_refusal(self, content: bytes) -> None:
        call = Fields(content).text()
        self._findings.refused[call] = self._findings.refused.get(call, 0) + 1

    # Launches

    def _on_launch(self, content: bytes) -> None:
        if self._findings.stopped:  # what the program launches until it has ended
            if self._settings.attentive:
                self._connection.proceed()
            return
        event = LaunchEvent.read(content)
        module = self._module(event.module)
        code = module.kernel(event.kernel)
        try:
            Launch(event.grid, event.block, cluster=event.cluster)
        except LaunchError as error:
            raise Garbled(f"a launch of {event.kernel!r} that is impossible: {error}") from None
        arguments = RecordedArguments(code, event.arguments, self._memory)
        self._findings.unknown |= {(event.kernel, name) for name in arguments.unknown}
        launched = _Launched(event, module, code, arguments, self._constants_now(event.module))
        ran = self._record(launched)
        if self._settings.attentive:
            self._connection.proceed()
        for place in arguments.pointers if not ran else ():
            if not place.read_only:
                place.allocation.forget_all()
        self._findings.events += 1
        if self._findings.events >= self._settings.limit:
            self._findings.stopped = True
            self._settings.stop()

    def _record(self, launched: _Launched) -> bool:
        """Record a launch; return True if it was executed, too."""
        contents, executor = self._settings.contents, self._settings.executor
        name = launched.code.mangled
        constants = {n: contents.keep(v, "uint8") for n, v in launched.constants.items()}
        alike = launched.key(constants)
        latest = self._series.latest.get(alike)
        due = self._series.is_due(name, launched.threads)
        samples = self._settings.sampler is not None
        looks = contents.wanted and (due if samples else latest is None)
        executes = executor is not None and name not in executor.failed
        read = self._read(launched) if looks or executes else None
        sample = self._sample(read) if looks and read else None
        if latest is not None and self._series.goes_on(alike, sample):
            known = self._findings.launches[latest]
            self._findings.launches[latest] = replace(known, count=known.count + 1)
        else:
            if looks and read is not None:
                contents.take(launched.arguments, read, sample.pages if sample else None)
                self._series.kept[name] = launched.arguments.contents()
            elif contents.wanted:
                launched.arguments.take_over(self._series.kept.get(name, {}))
            key = self._series.start(alike, sample)
            self._findings.launches[key] = launched.to_recorded(constants)
        if executor is None or read is None or not executes:
            return False
        return executor.run(name, read, self._connection)

    def _read(self, launched: _Launched) -> ReadLaunch | None:
        """Read code and memory of a launch; return None, and keep the reason, if that fails."""
        try:
            return self._settings.reader.read(
                launched.event, launched.module, launched.code, launched.arguments,
                launched.constants, self._connection,
            )  # fmt: skip
        except Garbled:
            raise
        except PerfAssertError as error:
            if self._settings.executor is not None:
                self._settings.executor.failed.setdefault(launched.code.mangled, str(error))
            return None

    def _sample(self, read: ReadLaunch) -> Sample | None:
        """Sample the launch; return None without a sampler or if sampling fails."""
        if self._settings.sampler is None:
            return None
        try:
            return self._settings.sampler(read.kernel, read.launch)
        except PerfAssertError:
            return None

    def _constants_now(self, module: int) -> dict[str, bytes]:
        """Return what the program has written into ``__constant__`` symbols of a module."""
        known = self._modules[module].constants()
        return {
            name: bytes(value)
            for (number, name), value in self._constants.items()
            if number == module and name in known
        }


def _argument_key(values: dict[str, ArgumentValue]) -> tuple[object, ...]:
    """Return a key for a set of arguments, in which addresses do not count."""
    return tuple((name, _without_addresses(value)) for name, value in values.items())


def _without_addresses(value: ArgumentValue) -> object:
    if isinstance(value, dict):
        return tuple((at, _without_addresses(word)) for at, word in value.items())
    if isinstance(value, Pointer):
        return replace(value, address=0, data="", pages="")
    return repr(value)
