"""Input and output of the toolchain as plain data, without any tool."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any

from perfassert.kernel.program import Member
from perfassert.source import Assumption, SourceSpan

_READERS = ("nvdisasm", "cuobjdump")


@dataclass(frozen=True, slots=True)
class Source:
    """A kernel source as its author gives it.

    ``kind`` is ``"cuda"``, ``"ptx"``, ``"cubin"`` (any file with machine code, also an object file
    or a library) or ``"sass"`` (a listing of nvdisasm).
    ``kernel`` is mangled or demangled, with or without namespaces, template arguments and parameter
    list; ``None`` stands for the only kernel of the file. ``defines`` are macros. ``include_dirs``
    are relative to the source's folder. ``options`` are spelled as nvcc spells them. ``arch``
    chooses among the architectures of a compiled file; with ``None`` the device decides.
    ``toolchain`` is the release of the tools that compile or assemble the source (``"12.4"``);
    ``None`` stands for the preferred installed one. ``content`` is the text itself if a generator
    made it; then ``path`` only names its origin in errors.
    """

    path: Path
    kind: str
    kernel: str | None = None
    defines: Mapping[str, object] = field(default_factory=dict, hash=False)
    include_dirs: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    arch: str | None = None
    toolchain: str | None = None
    content: bytes | None = None


@dataclass(frozen=True, slots=True)
class LaunchLimits:
    """Launches that a driver accepts for code; 0 and ``()`` if the code sets no limit.

    ``max_threads`` limits the threads of a block (``__launch_bounds__``). ``block`` is the only
    block size allowed (``.reqntid``). ``cluster`` is the required cluster, in blocks
    (``__cluster_dims__``).
    """

    max_threads: int = 0
    block: tuple[int, ...] = ()
    cluster: tuple[int, ...] = ()

    def find_violation(self, grid: Sequence[int], block: Sequence[int]) -> str:
        """Return the reason why a driver refuses a launch; ``""`` if it accepts the launch.

        Example:
            >>> LaunchLimits(max_threads=128).find_violation((64, 1, 1), (256, 1, 1))
            'it is compiled for at most 128 threads in a block (__launch_bounds__), not 256'
        """
        threads = prod(block)
        if self.block and tuple(block) != self.block:
            wanted, given = ("×".join(map(str, extent)) for extent in (self.block, block))
            return f"it is compiled for blocks of {wanted} threads, not {given}"
        if self.max_threads and threads > self.max_threads:
            return (
                f"it is compiled for at most {self.max_threads} threads in a block "
                f"(__launch_bounds__), not {threads}"
            )
        if self.cluster and any(g % c for g, c in zip(grid, self.cluster, strict=True)):
            blocks, wanted = ("×".join(map(str, extent)) for extent in (grid, self.cluster))
            return f"a grid of {blocks} blocks is no multiple of its clusters of {wanted}"
        return ""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A kernel parameter: ``offset`` from the parameter base and ``size``, both in bytes.

    ``name`` is the one in the source text, else ``"arg0"``, ``"arg1"``, …. ``dtype`` is the C type
    of the value, or of what a pointer points to, without qualifiers. It is ``None`` if the type is
    unknown, and then ``pointer`` is ``False``. ``members`` has those of a structure with a known
    layout.
    """

    name: str
    offset: int
    size: int
    pointer: bool = False
    dtype: str | None = None
    members: tuple[Member, ...] = ()

    def at(self, offset: int) -> str:
        """Return the name of a byte offset; see :meth:`perfassert.kernel.program.Parameter.at`."""
        member = next((m for m in self.members if m.offset == offset), None)
        if member is not None:
            return f"{self.name}.{member.name}"
        return f"{self.name}+{offset}" if offset else self.name


@dataclass(frozen=True, slots=True)
class Unset:
    """A symbol in constant memory without a value until the program sets it; sizes in bytes.

    The bytes from ``start`` on have no value. ``members`` has those of a structure with a known
    layout.
    """

    name: str
    bank: int
    offset: int
    size: int
    start: int = 0
    members: tuple[Member, ...] = ()


@dataclass(frozen=True, slots=True)
class Binary:
    """A kernel compiled for one architecture.

    ``kernel`` is demangled, without parameter list. ``arch`` is the architecture that the code was
    compiled for. ``listing`` is nvdisasm's text of the kernel's section and of the sections of the
    functions that it calls.

    ``registers`` are per thread. ``shared_bytes`` is the static shared memory of a block, as
    declared, without the 1024 B that sm_90 and later reserve. ``local_bytes`` is the stack frame of
    a thread, callees included. ``parameter_base`` is the offset of the first parameter in constant
    bank 0. ``constants`` has the initialised constant banks other than 0. ``unset`` has their
    symbols without a value, ``valued`` those with one. ``variables`` has variables in global
    memory, by the place in constant bank 4 where the loader writes their address. ``limits`` has
    the launches that a driver accepts. ``code_bytes`` is the size of the kernel's section.
    ``files`` maps the user's source files, as the listing names them, to their text. ``digest`` is
    a SHA-256 of all of it except ``tools``.
    """

    kernel: str
    mangled: str
    arch: str
    listing: str
    registers: int
    shared_bytes: int
    local_bytes: int
    parameter_base: int
    parameters: tuple[Parameter, ...]
    constants: Mapping[int, bytes]
    code_bytes: int
    files: Mapping[str, str]
    tools: str
    assumptions: tuple[Assumption, ...] = ()
    digest: str = ""
    unset: tuple[Unset, ...] = ()
    valued: tuple[Unset, ...] = ()
    variables: tuple[Unset, ...] = ()
    limits: LaunchLimits = LaunchLimits()

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def compilers(self) -> str:
        """Tools that made the machine code, without those that only read it."""
        made = (tool for tool in self.tools.split(", ") if not tool.startswith(_READERS))
        return ", ".join(made)

    def with_digest(self) -> Binary:
        """Return the same binary with its digest."""
        content = {k: v for k, v in to_dict(self).items() if k not in ("tools", "digest")}
        if not self.variables:
            del content["variables"]  # so that digests equal those of earlier versions
        if self.limits == LaunchLimits():
            del content["limits"]  # for the same reason
        text = json.dumps(content, sort_keys=True)
        return replace(self, digest=hashlib.sha256(text.encode()).hexdigest())


def to_dict(binary: Binary) -> dict[str, Any]:
    """Return the binary as plain JSON data, which :func:`from_dict` reads back."""
    data = asdict(binary)
    data["constants"] = {str(bank): content.hex() for bank, content in binary.constants.items()}
    return data


def from_dict(data: Mapping[str, Any]) -> Binary:
    """Return the binary that :func:`to_dict` wrote.

    Raises ``KeyError``, ``TypeError`` or ``ValueError`` for other data.
    """
    fields = dict(data)
    fields["parameters"] = tuple(Parameter(**_with_members(p)) for p in data["parameters"])
    fields["constants"] = {int(k): bytes.fromhex(v) for k, v in data["constants"].items()}
    for name in ("unset", "valued", "variables"):
        fields[name] = tuple(Unset(**_with_members(u)) for u in data.get(name, ()))
    fields["assumptions"] = read_assumptions(data["assumptions"])
    given = data["limits"]
    fields["limits"] = LaunchLimits(
        given["max_threads"], tuple(given["block"]), tuple(given["cluster"])
    )
    return Binary(**fields)


def _with_members(data: Mapping[str, Any]) -> dict[str, Any]:
    return {**data, "members": tuple(Member(**m) for m in data["members"])}


def read_assumptions(data: Iterable[Mapping[str, Any]]) -> tuple[Assumption, ...]:
    """Return the assumptions that ``asdict`` made plain data of."""
    return tuple(
        Assumption(**{**a, "span": SourceSpan(**a["span"]) if a["span"] else None}) for a in data
    )
