"""Identity of kernels: a digest of everything that the model reads.

The digest is the same on every machine, in every process, with every hash seed. It does not depend
on names of kernels and nodes, on source lines or on comments. Compiled code enters as machine code.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfassert.baseline.canonical import canonical
from perfassert.hardware.model import Device
from perfassert.kernel.description import BoundKernel, CompiledKernel, Kernel
from perfassert.kernel.launch import Launch

if TYPE_CHECKING:
    from perfassert.facade.prediction import Prediction
    from perfassert.frontends.cuda.kernels import BuiltCode
    from perfassert.frontends.cuda.written_launches import WrittenLaunch

_DIGITS = 16
_DOUBLE = "fp64"
"""Operation class of double-precision arithmetic."""
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s*(.*?)\s*/\* (0x[0-9a-f]+) \*/", re.MULTILINE)
_CONTINUED = re.compile(r"^\s*/\* (0x[0-9a-f]+) \*/", re.MULTILINE)
_LABEL = re.compile(r"`\(([^)]*)\)")


def digest(kernel: Kernel, launch: Launch, device: Device) -> str:
    """Return the digest of a kernel, sixteen hexadecimal digits.

    Address expressions: fields, accesses and resources. Graphs: nodes, edges, loops, latencies.
    Compiled code: machine code for the device's architecture, its constants and resources, and the
    hints of its author. ``launch`` enters only if the code that is compiled depends on it.
    """
    code = _build_code(kernel, device)
    if isinstance(kernel, CompiledKernel) and code is not None:
        known = [_code(code), kernel.updates_per_thread]
        return _hash([*known, sorted(kernel.overrides.items())] if kernel.overrides else known)
    plain = canonical(kernel.bind(launch, device.arch, device.warp_size)[0])
    return _hash(plain if kernel.compiled is None else [device.arch, plain])


def compilers(kernel: Kernel, device: Device) -> str:
    """Return the compilers of a kernel, ``"nvcc 13.5 with gcc 12.2"``; ``""`` if there are none."""
    code = _build_code(kernel, device)
    return code.built.compilers if code is not None else ""


def source_launches(kernel: Kernel, device: Device) -> str:
    """Return the launches of a kernel in its CUDA source, ``"scale<4><<<n / 64, 64>>>"``.

    The text is empty if the kernel has no CUDA source, or if the source does not launch it.
    """
    own = _own_launches(kernel, device)
    return "; ".join(dict.fromkeys(launch.expression for launch in own))


def launch_places(kernel: Kernel, device: Device) -> str:
    """Return the places where the source launches a kernel, ``"host.cu:12, host.cu:40"``."""
    return ", ".join(dict.fromkeys(launch.place for launch in _own_launches(kernel, device)))


def double_lines(prediction: Prediction) -> Mapping[str, int]:
    """Count the double-precision instructions of compiled code by source line.

    Instructions on slow paths, which only unusual operands take, are not counted.
    """
    kernel = bound_kernel(prediction)
    nodes = kernel.graph.nodes if kernel is not None else ()
    return Counter(n.span.short if n.span else "" for n in nodes if n.operation == _DOUBLE)


def bound_kernel(prediction: Prediction) -> BoundKernel | None:
    """Return the bound kernel of a prediction that this process made of compiled code, or None."""
    from perfassert.predictor.model import model_of

    if prediction.origin is None or not isinstance(prediction.origin[0], CompiledKernel):
        return None
    kernel = model_of(prediction).bound_launch.kernel
    return kernel if isinstance(kernel, BoundKernel) else None


def _own_launches(kernel: Kernel, device: Device) -> tuple[WrittenLaunch, ...]:
    from perfassert.frontends.cuda.written_launches import launches_of_kernel

    return launches_of_kernel(*_written_launches(kernel, device))


def missing_instance(kernel: Kernel, device: Device) -> str:
    """Return a message if the source launches only other instances of the kernel's template.

    A test that names such an instance would pass, although the program no longer launches it: the
    instance is compiled because the test names it. The message is ``""`` otherwise.
    """
    from perfassert.frontends.cuda.written_launches import find_missing_instance

    return find_missing_instance(*_written_launches(kernel, device))


def _written_launches(kernel: Kernel, device: Device) -> tuple[str, tuple[WrittenLaunch, ...]]:
    """Return the name of a kernel with CUDA source, and all launches in the source."""
    from perfassert.frontends.cuda.written_launches import written_launches

    code = _build_code(kernel, device)
    if code is None or code.source is None or not code.is_cuda:
        return "", ()
    return code.built.kernel, written_launches(code.source.path, map(Path, code.built.files))


def _build_code(kernel: Kernel, device: Device) -> BuiltCode | None:
    from perfassert.frontends.cuda.kernels import BuiltCode, CompiledCode

    code = kernel.compiled
    if isinstance(code, CompiledCode):
        code = code.build(device.arch)
    return code if isinstance(code, BuiltCode) else None


def _hash(content: object) -> str:
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def _code(code: BuiltCode) -> list[object]:
    binary, hints = code.built, code.hints
    return [
        binary.arch,
        machine_code(binary.listing),
        [binary.registers, binary.shared_bytes, binary.local_bytes, binary.parameter_base],
        [[p.offset, p.size, p.pointer] for p in binary.parameters],
        [[bank, content.hex()] for bank, content in sorted(binary.constants.items())],
        _by_line(hints.trip_counts),
        _by_line(hints.assume),
    ]


def machine_code(listing: str) -> list[str]:
    """Return the instructions and encodings of a listing, without lines, files and names."""
    parts = {m.start(): f"{m[1]} {m[2]}" for m in _INSTRUCTION.finditer(listing)}
    parts |= {m.start(): m[1] for m in _CONTINUED.finditer(listing) if m.start() not in parts}
    numbers: dict[str, str] = {}

    def number_label(match: re.Match[str]) -> str:
        return numbers.setdefault(match[1], f"`{len(numbers)}")

    return [_LABEL.sub(number_label, " ".join(parts[at].split())) for at in sorted(parts)]


def _by_line(hints: Mapping[str, Any]) -> list[object]:
    """Return hints in the order of their lines, without line numbers, which edits above change."""
    result: list[tuple[str, int, Any]] = []
    for key, value in hints.items():
        file, _, line = key.rpartition(":")
        known = bool(file) and line.isdecimal()
        result.append((file if known else key, int(line) if known else -1, value))
    return [[name, value] for name, _, value in sorted(result, key=lambda r: r[:2])]
