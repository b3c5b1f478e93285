"""Writer of a launches file from the launches of a profile.

No profiler records arguments, so the user fills them in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from perfassert.frontends.profiles.launch import LaunchProfile, ProfiledLaunches
from perfassert.frontends.recording.write import SCHEMA
from perfassert.frontends.toolchain.names import base_name, demangle
from perfassert.quantity import Quantity
from perfassert.toml.text import format_comment, format_key, format_string
from perfassert.version import VERSION


@dataclass(frozen=True, slots=True)
class CodeLocation:
    """Place of a kernel's code, in the terms of a launches file.

    ``kind`` and ``path`` are its key and value there. ``given`` has lines for the compiler.
    ``parameters`` maps names to types; the type of a pointer is empty.
    """

    kind: str
    path: str
    mangled: str
    parameters: Mapping[str, str]
    given: str = ""


def launches_text(profile: LaunchProfile, codes: Mapping[str, CodeLocation], device: str) -> str:
    """Return the text of a launches file for a profile.

    ``codes`` is keyed by the kernel names in the profile. Launches of other kernels are left out.
    """
    launches = [launch for launch in profile.launches if launch.shape.name in codes]
    labels = _labels([codes[launch.shape.name] for launch in launches])
    blocks = [_head_text(sum(launch.count for launch in launches), device)]
    kernels = {codes[launch.shape.name].mangled: codes[launch.shape.name] for launch in launches}
    blocks += [_kernel_text(code, labels[code.mangled]) for code in kernels.values()]
    for launch in launches:
        code = codes[launch.shape.name]
        blocks.append("\n".join(_launch_text(launch, code, labels[code.mangled])) + "\n")
    return "\n".join(blocks)


def _labels(codes: Sequence[CodeLocation]) -> dict[str, str]:
    """Return mangled name → short name of the kernel, numbered where several kernels share it."""
    labels: dict[str, str] = {}
    for code in codes:
        base = base_name(demangle(code.mangled))
        names = (base if n == 1 else f"{base}-{n}" for n in range(1, len(codes) + 2))
        if code.mangled not in labels:
            labels[code.mangled] = next(name for name in names if name not in labels.values())
    return labels


def _head_text(count: int, device: str) -> str:
    return "\n".join(
        (
            "# Launches of a profile, which has no arguments: give those that decide what is done.",
            f"schema = {SCHEMA}",
            "",
            "[recorded]",
            f"by = {format_string(f'perfassert {VERSION}')}",
            f"device = {format_string(device)}",
            f"launches = {count}",
            "",
        )
    )


def _kernel_text(code: CodeLocation, label: str) -> str:
    lines = [
        format_comment(demangle(code.mangled)),
        f"[kernels.{format_key(label)}]",
        f"{code.kind} = {format_string(code.path)}",
        f"name = {format_string(code.mangled)}",
    ]
    return "\n".join([*lines, *([code.given] if code.given else []), ""])


def _launch_text(launch: ProfiledLaunches, code: CodeLocation, label: str) -> Iterator[str]:
    shape = launch.shape
    yield "[[launch]]"
    if launch.seconds:
        many = f", median of {len(launch.seconds)}" if len(launch.seconds) > 1 else ""
        yield f"# measured: {Quantity(median(launch.seconds), 's')}{many}"
    yield f"kernel = {format_string(label)}"
    if launch.count > 1:
        yield f"count = {launch.count}"
    yield f"grid = {list(shape.grid)}"
    yield f"block = {list(shape.block)}"
    if shape.cluster != (1, 1, 1):
        yield f"cluster = {list(shape.cluster)}"
    if shape.shared_bytes is None:
        yield "# shared_bytes = 0 # dynamic shared memory, of which the profile says nothing"
    elif shape.shared_bytes:
        yield f"shared_bytes = {shape.shared_bytes}"
    if code.parameters:
        yield "# [launch.args]"
        for name, kind in code.parameters.items():
            value = "0" if kind else "{ shape = 0 }"
            yield format_comment(f"{format_key(name)} = {value} # {kind or 'a pointer'}")
