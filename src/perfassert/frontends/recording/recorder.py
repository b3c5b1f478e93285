"""What one process of a program did with the GPU that it took to be there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Lock

from perfassert.errors import PerfAssertError
from perfassert.frontends.recording.arguments import ArgumentValue, Pointer, RecordedArguments
from perfassert.frontends.recording.code import UNKNOWN_FUNCTION, KernelCode, Module
from perfassert.frontends.recording.contents import Contents
from perfassert.frontends.recording.execution import Executor
from perfassert.frontends.recording.memory import DeviceMemory
from perfassert.frontends.recording.wire import Connection, Fields, LaunchEvent, Message
from perfassert.hardware.model import Device


@dataclass(frozen=True, slots=True)
class Recorded:
    """A launch; ``constants``: what the program wrote into ``__constant__`` symbols, by mangled
    name; ``count``: how often it was launched so."""

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
    """What is written down. ``refused``: calls without an answer and launches that
    no device takes; ``failed``: kernels whose code
    could not be read, with the reason; ``attributes``: what was asked of the device and no file
    says; ``unknown``: arguments that point nowhere; ``stopped``: the limit of launches ended it."""

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
    """``hello``: the answer to a process that says hello; ``limit``: of launches in all."""

    device: Device
    hello: bytes
    sources: tuple[str, ...]
    limit: int
    contents: Contents
    executor: Executor | None
    stop: Callable[[], None]

    @property
    def attentive(self) -> bool:
        """Whether a launch waits for the recorder, which looks at memory."""
        return self.contents.wanted or self.executor is not None


class Recorder:
    """Answers one process and collects its launches in ``findings``."""

    def __init__(
        self, connection: Connection, settings: Settings, findings: RecorderFindings, turn: Lock
    ) -> None:
        self._connection = connection
        self._turn = turn  # of processes: what is found is common to them
        self._settings = settings
        self._findings = findings
        self._modules: dict[int, Module] = {}
        self._memory = DeviceMemory()
        self._constants: dict[tuple[int, str], bytearray] = {}
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
        """Until the process ends, which raises :class:`~.wire.Closed`."""
        while True:
            kind, content = self._connection.receive()
            with self._turn:
                self._takes[kind](content)

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
        module, name = self._modules[fields.number()], fields.text()
        try:
            answer = module.kernel(name).facts()
        except PerfAssertError as error:
            self._findings.failed[name] = str(error)
            answer = UNKNOWN_FUNCTION
        self._connection.answer(answer)

    def _on_occupancy(self, content: bytes) -> None:
        fields = Fields(content)
        module, threads, shared = (fields.number(form) for form in "IiI")
        blocks = self._modules[module].resident_blocks(fields.text(), threads, shared)
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
        constant.extend(b"\0" * (offset + len(value) - len(constant)))
        constant[offset : offset + len(value)] = value

    def _on_symbol(self, content: bytes) -> None:
        fields = Fields(content)
        fields.number("Q")
        module, name = fields.number(), fields.text()
        self._connection.answer(self._modules[module].variable(name))

    def _on_refusal(self, content: bytes) -> None:
        call = Fields(content).text()
        self._findings.refused[call] = self._findings.refused.get(call, 0) + 1

    # Launches

    def _on_launch(self, content: bytes) -> None:
        event = LaunchEvent.read(content)
        module = self._modules[event.module]
        code = module.kernel(event.kernel)
        arguments = RecordedArguments(code, event.arguments, self._memory)
        self._findings.unknown |= {(event.kernel, name) for name in arguments.unknown}
        self._merge(event, module, code, arguments)
        executor, constants = self._settings.executor, self._constants_now(event.module)
        ran = executor is not None and executor.run(
            event, module, code, arguments, constants, self._connection
        )
        if self._settings.attentive:
            self._connection.proceed()
        for place in arguments.pointers if not ran else ():
            if not place.read_only:
                place.allocation.forget_all()
        self._findings.events += 1
        if self._findings.events >= self._settings.limit and not self._findings.stopped:
            self._findings.stopped = True
            self._settings.stop()

    def _merge(
        self, event: LaunchEvent, module: Module, code: KernelCode, arguments: RecordedArguments
    ) -> None:
        """Launches that nothing distinguishes are one, counted."""
        keep = self._settings.contents.keep
        constants = {n: keep(v, "uint8") for n, v in self._constants_now(event.module).items()}
        alike = (
            module.digest, replace(event, module=0, arguments=b""), _argument_key(arguments.values),
            tuple(constants.items()),
        )  # fmt: skip
        known = self._findings.launches.get(alike)
        if known is not None:
            self._findings.launches[alike] = replace(known, count=known.count + 1)
            return
        self._settings.contents.take(arguments, self._connection)
        self._findings.launches[alike] = Recorded(
            module, code, event.grid, event.block, event.cluster, event.shared_bytes,
            arguments.values, constants,
        )  # fmt: skip

    def _constants_now(self, module: int) -> dict[str, bytes]:
        """What the program wrote into constants of a module."""
        known = self._modules[module].constants()
        return {
            name: bytes(value)
            for (number, name), value in self._constants.items()
            if number == module and name in known
        }


def _argument_key(values: dict[str, ArgumentValue]) -> tuple[object, ...]:
    """What distinguishes two sets of arguments: addresses do not."""
    return tuple((name, _without_addresses(value)) for name, value in values.items())


def _without_addresses(value: ArgumentValue) -> object:
    if isinstance(value, dict):
        return tuple((at, _without_addresses(word)) for at, word in value.items())
    return replace(value, address=0, data="") if isinstance(value, Pointer) else repr(value)
