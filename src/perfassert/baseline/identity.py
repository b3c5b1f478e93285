"""What tells one kernel from another: a digest of what the model reads.

The same on every machine, in every process, with every hash seed. Names of kernels and nodes,
source lines and comments do not enter; compiled code enters as its machine code.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from perfassert.errors import BaselineError
from perfassert.hardware.model import Device
from perfassert.kernel.description import Kernel
from perfassert.kernel.expression import Constant, Operation, Variable, to_text
from perfassert.kernel.launch import Launch

if TYPE_CHECKING:
    from perfassert.frontends.cuda.kernels import CompiledCode

_DIGITS = 16
_WARPS = (1, 2, 4, 8, 16, 32, 64)  # where a latency that is a function of them is looked at
_UNSEEN = {"name", "span", "text", "column", "assumptions", "compiled", "program"}
"""Parts of a description that only people read, or that other parts repeat."""
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s*(.*?)\s*/\* (0x[0-9a-f]+) \*/", re.MULTILINE)
_CONTINUED = re.compile(r"^\s*/\* (0x[0-9a-f]+) \*/", re.MULTILINE)
_LABEL = re.compile(r"`\(([^)]*)\)")


def digest(kernel: Kernel, launch: Launch, device: Device) -> str:
    """Sixteen hexadecimal digits.

    Address expressions: fields, accesses and resources. Graphs: nodes, edges, loops, latencies.
    Compiled code: machine code for the device's architecture, its constants and resources, and
    what its author says about it; ``launch`` enters only where it decides what is compiled.
    """
    compiled = kernel.compiled
    if compiled is None:
        return _hash(_plain(kernel))
    from perfassert.frontends.cuda.kernels import CompiledCode

    if isinstance(compiled, CompiledCode):
        return _hash([_code(compiled, device.arch), kernel.updates_per_thread])
    bound, _ = compiled.bind(launch, device.arch, device.warp_size)
    return _hash([device.arch, _plain(bound)])


def _hash(content: object) -> str:
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def _code(compiled: CompiledCode, arch: str) -> list[object]:
    binary = compiled.binary(arch)
    hints = compiled.hints
    return [
        binary.arch,
        machine_code(binary.listing),
        [binary.registers, binary.shared_bytes, binary.local_bytes, binary.parameter_base],
        [[p.offset, p.size, p.pointer] for p in binary.parameters],
        [[bank, content.hex()] for bank, content in sorted(binary.constants.items())],
        _by_line(hints.trip_counts),
        _by_line(hints.proxies),
    ]


def machine_code(listing: str) -> list[str]:
    """Instructions and encodings of a listing, without lines, files and names of functions."""
    found = {m.start(): f"{m[1]} {m[2]}" for m in _INSTRUCTION.finditer(listing)}
    found |= {m.start(): m[1] for m in _CONTINUED.finditer(listing) if m.start() not in found}
    numbers: dict[str, str] = {}

    def numbered(match: re.Match[str]) -> str:
        return numbers.setdefault(match[1], f"`{len(numbers)}")

    return [_LABEL.sub(numbered, " ".join(found[at].split())) for at in sorted(found)]


def _by_line(said: Mapping[str, Any]) -> list[object]:
    """Hints in the order of their lines; a line's number moves with every comment above it."""
    result: list[tuple[str, int, Any]] = []
    for key, value in said.items():
        file, _, line = key.rpartition(":")
        known = bool(file) and line.isdigit()
        result.append((file if known else key, int(line) if known else -1, value))
    return [[name, value] for name, _, value in sorted(result, key=lambda r: r[:2])]


def _plain(value: Any) -> Any:
    """Data that JSON writes in one way only."""
    if value is None or isinstance(value, (str, bool)):
        return value.value if isinstance(value, Enum) else value
    if isinstance(value, (Constant, Variable, Operation)):
        return to_text(value)
    if is_dataclass(value) and not isinstance(value, type):
        return dict(_parts(value))
    if isinstance(value, Mapping):
        return {str(key): _plain(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, (set, frozenset)):
        return sorted(_plain(v) for v in value)
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if callable(value):
        return _sampled(value)
    return _number(value)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    yield "", type(value).__name__
    for part in fields(value):
        if part.name == "access" and isinstance(value.access, str):
            yield part.name, "".join(value.access.split())
        elif part.name not in _UNSEEN:
            yield part.name, _plain(getattr(value, part.name))


def _sampled(rule: Callable[[int], Any]) -> list[Any]:
    """A latency rule, by what it says for a few counts of resident warps."""
    said: list[Any] = []
    for warps in _WARPS:
        try:
            said.append(_plain(rule(warps)))
        except Exception as error:  # whatever the author's function raises
            said.append(type(error).__name__)
    return said


def _number(value: Any) -> int | str:
    """25 and 25.0 are one, whatever library they come from."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise BaselineError(f"a kernel with {value!r} in it cannot be told from others") from None
    return int(number) if number.is_integer() else repr(number)
