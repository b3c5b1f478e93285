"""A recording as files: the launches in TOML, code and contents of buffers beside it."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from perfassert.frontends.recording.arguments import ArgumentValue, Pointer, item_size
from perfassert.frontends.recording.recorder import Recorded
from perfassert.frontends.recording.session import Recording
from perfassert.frontends.toolchain.names import base_name, demangle
from perfassert.kernel.tensor_map import TensorMap
from perfassert.toml.text import (
    format_comment,
    format_key,
    format_string,
    format_table,
    format_value,
)
from perfassert.version import VERSION

SCHEMA = 1  # of the file
_DIGITS = 12  # digits of a digest in a file name


@dataclass(frozen=True, slots=True)
class Files:
    """Files of a recording.

    ``text`` is the launches file. ``beside`` maps names of the files beside it to their contents.
    """

    text: str
    beside: Mapping[str, bytes]


def files(recording: Recording, stem: str) -> Files:
    """Return the files of a recording.

    ``stem`` is the name of the launches file without its suffix.
    """
    launches = tuple(recording.findings.launches.values())
    labels = _labels(launches)
    beside = {code_name(stem, recorded): recorded.module.content for recorded in launches}
    used = _used_contents(launches)
    if used:
        arrays: dict[str, Any] = {k: recording.contents.arrays[k] for k in sorted(used)}
        archive = io.BytesIO()
        np.savez_compressed(archive, **arrays)
        beside[f"{stem}.npz"] = archive.getvalue()
    blocks = [_head_text(recording)]
    for recorded in {labels[_identity(recorded)]: recorded for recorded in launches}.values():
        blocks.append(_kernel_text(recorded, labels[_identity(recorded)], stem))
    blocks += [_launch_text(recorded, labels[_identity(recorded)], stem) for recorded in launches]
    return Files("\n".join(blocks), beside)


def code_name(stem: str, recorded: Recorded) -> str:
    """Return the name of the file with the module of a launch."""
    return f"{stem}.{recorded.module.digest[:_DIGITS]}{recorded.module.suffix}"


def _identity(recorded: Recorded) -> tuple[str, str]:
    return recorded.module.digest, recorded.code.mangled


def _labels(launches: Sequence[Recorded]) -> dict[tuple[str, str], str]:
    """Return a short name for each kernel, numbered where several kernels share it."""
    labels: dict[tuple[str, str], str] = {}
    for recorded in launches:
        if _identity(recorded) in labels:
            continue
        name, count = base_name(demangle(recorded.code.mangled)), 1
        label = name
        while label in labels.values():
            count += 1
            label = f"{name}-{count}"
        labels[_identity(recorded)] = label
    return labels


def _used_contents(launches: Sequence[Recorded]) -> set[str]:
    """Return the names of the contents that the launches use."""
    pointers = (
        p for recorded in launches for value in recorded.args.values() for p in _pointers(value)
    )
    constants = (name for recorded in launches for name in recorded.constants.values())
    return {name for p in pointers for name in (p.data, p.pages) if name} | set(constants)


def _pointers(value: ArgumentValue) -> Iterator[Pointer]:
    words = value.values() if isinstance(value, dict) else (value,)
    yield from (word for word in words if isinstance(word, Pointer))


def _head_text(recording: Recording) -> str:
    request = recording.request
    return "\n".join(
        (
            "# Launches as perfassert record saw them; predict, advise, *.perf.toml and perf() of",
            "# pytest take this file. Code and contents of buffers lie beside it.",
            f"schema = {SCHEMA}",
            "",
            "[recorded]",
            f"by = {format_string(f'perfassert {VERSION}')}",
            f"command = [{', '.join(map(format_string, request.command))}]",
            f"device = {format_string(request.device.name)}",
            f"launches = {recording.findings.events}",
            "",
        )
    )


def _kernel_text(recorded: Recorded, label: str, stem: str) -> str:
    kind = "ptx" if recorded.module.suffix == ".ptx" else "cubin"
    names = ", ".join(format_string(p.name) for p in recorded.code.parameters)
    lines = [
        format_comment(demangle(recorded.code.mangled)),
        f"[kernels.{format_key(label)}]",
        f"{kind} = {format_string(code_name(stem, recorded))}",
        f"name = {format_string(recorded.code.mangled)}",
    ]
    return "\n".join([*lines, *([f"parameters = [{names}]"] if names else []), ""])


def _launch_text(recorded: Recorded, label: str, stem: str) -> str:
    lines = ["[[launch]]", f"kernel = {format_string(label)}"]
    if recorded.count > 1:
        lines.append(f"count = {recorded.count}")
    lines += [f"grid = {list(recorded.grid)}", f"block = {list(recorded.block)}"]
    if recorded.cluster != (1, 1, 1):
        lines.append(f"cluster = {list(recorded.cluster)}")
    if recorded.shared_bytes:
        lines.append(f"shared_bytes = {recorded.shared_bytes}")
    if recorded.constants:
        places = {name: f"{stem}.npz:{place}" for name, place in recorded.constants.items()}
        lines.append(f"constants = {format_value(places)}")
    if recorded.args:
        lines.append("[launch.args]")
        lines += [
            f"{format_key(name)} = {_value_text(value, stem)}"
            for name, value in recorded.args.items()
        ]
    return "\n".join([*lines, ""])


def _value_text(value: ArgumentValue, stem: str) -> str:
    if value is None:
        return '"null"'
    if isinstance(value, dict):
        return format_table((str(at), _value_text(word, stem)) for at, word in value.items())
    if isinstance(value, TensorMap):
        return _tensor_map(value)
    return _buffer(value, stem) if isinstance(value, Pointer) else repr(value)


def _tensor_map(tensor: TensorMap) -> str:
    items: dict[str, object] = {"shape": list(tensor.shape), "box": list(tensor.box)}
    items |= {"dtype": tensor.dtype, "swizzle": tensor.swizzle}
    if tensor.strides:
        items["strides"] = list(tensor.strides)
    if set(tensor.element_strides) != {1}:
        items["element_strides"] = list(tensor.element_strides)
    return format_value(items)


def _buffer(pointer: Pointer, stem: str) -> str:
    items: dict[str, object] = {}
    if pointer.alias:
        items["alias"] = pointer.alias
    elif pointer.data and not pointer.pages:
        items["data"] = f"{stem}.npz:{pointer.data}"
    else:
        items["shape"] = pointer.size // item_size(pointer.dtype)
        items["dtype"] = pointer.dtype
        if pointer.pages:
            items["data"] = f"{stem}.npz:{pointer.data}"
            items["pages"] = f"{stem}.npz:{pointer.pages}"
    if pointer.offset:
        items["offset"] = pointer.offset
    return format_value(items)
