"""Files that hold compiled code: a cubin, or several in a fat binary, object or program.

``cuobjdump`` takes such files apart. Only this module reads what ``cuobjdump`` writes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from perfassert.errors import KernelSourceError
from perfassert.system.confined import open_file
from perfassert.system.temporary import temporary_folder

from . import names, tools
from .architecture import Architecture, architecture, best_code, best_ptx
from .elf import Cubin, is_host_elf

_MAGIC = (b"\x7fELF", b"\x50\xed\x55\xba", b"!<arch>\n", b"!<thin>\n", b"MZ")
_EXTRACTED = re.compile(r"(?:\.(\d+))?\.(sm_\d+[af]?)\.(cubin|ptx)$")  # a fat binary has no number
_ENTRY = re.compile(r"\.entry\s+([\w$]+)")
_CUOBJDUMP_MESSAGE = re.compile(r"^cuobjdump (?:info|error|fatal)\s*:\s*(.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ContainerMember:
    """A module of a container: machine code, or PTX if ``ptx`` is True.

    ``name`` identifies it in errors; it is empty for a module that is the whole file.
    """

    name: str
    arch: Architecture
    ptx: bool
    path: Path

    def kernels(self, where: str) -> list[str]:
        """Return the mangled names of its kernels, in the module's order."""
        if self.ptx:
            return entries(self.text())
        return self.cubin(where).kernels()

    def cubin(self, where: str) -> Cubin:
        """Return the parsed machine code."""
        return Cubin(self.path.read_bytes(), f"{where}: {self.name}" if self.name else where)

    def text(self) -> str:
        """Return the text of a PTX module."""
        return self.path.read_bytes().rstrip(b"\0").decode(errors="replace")


def entries(ptx: str) -> list[str]:
    """Return the mangled names of the kernels in a PTX text."""
    return list(dict.fromkeys(_ENTRY.findall(ptx)))


def holds_code(path: Path) -> bool:
    """Return True if the file begins like one that can hold compiled code."""
    try:
        with open_file(path) as file:
            return begins_as_code(file.read(8))
    except (OSError, ValueError):
        return False


def begins_as_code(content: bytes) -> bool:
    """Return True if the bytes begin like a file that can hold compiled code."""
    return content.startswith(_MAGIC)


@contextmanager
def open_members(path: Path, content: bytes) -> Iterator[tuple[ContainerMember, ...]]:
    """Yield the modules in ``content``, which was read from ``path``.

    Raises :class:`KernelSourceError` if there are none, and :class:`~perfassert.ToolchainMissing`
    without ``cuobjdump``, which only a plain cubin does not need.
    """
    with temporary_folder() as folder:
        copy = folder / "whole"
        copy.write_bytes(content)  # the bytes read, even if the file changed
        if is_host_elf(content) or content.startswith(_MAGIC[1:]):
            yield _extract(path, content, copy)
        else:
            arch = architecture(Cubin(content, str(path)).arch)
            yield (ContainerMember("", arch, False, copy),)


def _extract(path: Path, content: bytes, copy: Path) -> tuple[ContainerMember, ...]:
    tool = tools.need("cuobjdump")
    folder = copy.parent
    limit = tools.reading_limit(len(content))
    run = tools.run_tool(
        "cuobjdump",
        [tool.path, "-xelf", "all", "-xptx", "all", str(copy)],
        folder=folder,
        limit=limit,
        memory=tools.reading_memory(len(content)),
    )
    members = extracted_members(folder, path.stem)
    if not members:
        match = _CUOBJDUMP_MESSAGE.search(run.log)
        why = match[1].replace(f" '{copy}'", "") if match else run.log or "nothing was extracted"
        raise KernelSourceError(f"{path} has no compiled kernel that cuobjdump finds: {why}")
    return members


def extracted_members(folder: Path, stem: str) -> tuple[ContainerMember, ...]:
    """Return the modules that ``cuobjdump`` extracted: machine code first, in container order."""
    numbered = []
    for file in folder.iterdir():
        if part := _EXTRACTED.search(file.name):
            number = part[1] or "1"
            name = f"{stem}.{number}.{part[2]}.{part[3]}"
            member = ContainerMember(name, architecture(part[2]), part[3] == "ptx", file)
            numbered.append((member.ptx, int(number), member))
    return tuple(member for _, _, member in sorted(numbered, key=lambda f: f[:2]))


def of_architecture(
    members: Sequence[ContainerMember], asked: str, where: str
) -> tuple[ContainerMember, ...]:
    """Return the modules for exactly this architecture."""
    matching = tuple(m for m in members if m.arch == architecture(asked))
    if not matching:
        listed = ", ".join(sorted({str(m.arch) for m in members}))
        raise KernelSourceError(f"{where} has no code for {asked}: it has {listed}")
    return matching


@dataclass(frozen=True, slots=True)
class Choice:
    """Candidates with the kernel for one architecture; a driver loads one of ``members``."""

    kernel: str
    members: tuple[ContainerMember, ...]


def choose_code(
    members: Sequence[ContainerMember], wanted: str | None, device: Architecture, where: str
) -> Choice:
    """Return the modules with the kernel that a driver on ``device`` would load."""
    runs = [m for m in members if _runs(m, device)]
    kernels_of = {m.name: m.kernels(where) for m in runs}
    listed = list(dict.fromkeys(name for kernels in kernels_of.values() for name in kernels))
    if not runs or (wanted is not None and not names.fits(wanted, listed)):
        listed = list(dict.fromkeys(n for m in members for n in m.kernels(where)))
    kernel = names.choose(wanted, listed, where)
    has = [m for m in runs if kernel in kernels_of[m.name]]
    best = best_code((m.arch for m in has if not m.ptx), device)
    best_of_ptx = best_ptx((m.arch for m in has if m.ptx), device)
    if best is None and best_of_ptx is None:
        raise KernelSourceError(_runs_nowhere(members, kernel, device, where))
    if best is not None:
        return Choice(kernel, tuple(m for m in has if m.arch == best and not m.ptx))
    return Choice(kernel, tuple(m for m in has if m.arch == best_of_ptx and m.ptx))


def _runs(member: ContainerMember, device: Architecture) -> bool:
    takes: Callable[[Architecture], bool] = (
        member.arch.ptx_runs_on if member.ptx else member.arch.code_runs_on
    )
    return takes(device)


def _runs_nowhere(
    members: Sequence[ContainerMember], kernel: str, device: Architecture, where: str
) -> str:
    has = [m for m in members if kernel in m.kernels(where)]
    shown = names.without_parameters(names.demangle(kernel))
    listed = ", ".join(dict.fromkeys(f"{'PTX ' if m.ptx else ''}{m.arch}" for m in has))
    if len(members) == 1 and not members[0].ptx:
        return (
            f"{where} is a cubin for {has[0].arch}; the device is {device}: compile for it, or "
            "predict on a device that it was compiled for"
        )
    return (
        f"{where}: {shown} is compiled for {listed}; none of it runs on {device}: compile for it, "
        "or predict on a device that it was compiled for"
    )
