"""Kernels of one side: of a file, a folder, or the files of it that a pattern chooses."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePath
from shutil import copyfileobj
from typing import Any
from zipfile import BadZipFile, ZipFile

from perfassert.comparison.kernel_changes import CodeByFile, CodeSide, Placed
from perfassert.comparison.revisions import Checkout
from perfassert.errors import KernelSourceError, ToolchainMissing
from perfassert.frontends.cuda.compile_commands import CompileCommand, compile_commands
from perfassert.frontends.cuda.inventory import (
    Code,
    Detail,
    KernelInfo,
    list_kernels,
    templates_alone,
)
from perfassert.frontends.toolchain.containers import holds_code
from perfassert.source import CUDA_SUFFIXES, without_folder
from perfassert.system.confined import open_file
from perfassert.system.process_pool import Progress, map_in_threads
from perfassert.system.temporary import temporary_folder

_BUILT = (".cubin", ".fatbin", ".o", ".obj", ".a", ".so", ".lib", ".dll")
SOURCES = (".cu", ".ptx")
WHEEL = ".whl"
_LARGEST = 8 << 30  # bytes of a member of a wheel


@dataclass(frozen=True, slots=True)
class Reading:
    """Choice of files and their compilation.

    ``patterns`` choose files below a folder. ``arch`` and ``compilation`` are for the compiler of
    CUDA sources. ``sources_first``: sources are read even if there are compiled files. ``newest``:
    of compiled files only the newest architecture is read if ``arch`` names none; CUDA is then
    compiled for ``source_arch``. ``findings``: the code is also searched for findings.
    ``undescribed``: code, by file, that is not disassembled; None: all code.
    """

    patterns: tuple[str, ...] = ()
    arch: str | None = None
    compilation: Mapping[str, Any] = field(default_factory=dict)
    sources_first: bool = False
    newest: bool = False
    findings: bool = False
    source_arch: str | None = None
    undescribed: CodeByFile | None = field(default_factory=dict)

    @property
    def toolchain(self) -> str | None:
        """Release that compiles sources; if one is given, only sources are read."""
        return self.compilation.get("toolchain")

    def inside(self, checkout: Checkout) -> Reading:
        """Return the same choice for a revision, with the revision's include folders."""
        folders = [str(checkout.inside(Path(f))) for f in self.compilation.get("include_dirs", ())]
        given = {**self.compilation, **({"include_dirs": folders} if folders else {})}
        return replace(self, compilation=given)

    def detail(self, shown: str) -> Detail:
        """Return the scope of the descriptions of a file that is there once."""
        if self.undescribed is None:
            return Detail(self.findings, None)
        return Detail(self.findings, self.undescribed.get(shown, frozenset()))


def side(
    path: Path,
    reading: Reading,
    name: str = "",
    progress: Progress | None = None,
    only: Container[str] | None = None,
) -> CodeSide:
    """Read all files, or ``only`` these; what cannot be read is said, and does not hide the rest.
    ``progress`` is told how many files are read, of how many.

    A file that is compiled in several ways, as a build may do, is described whatever is to be left
    out: which of its kernels belong together nobody knows yet.

    :class:`KernelSourceError` where there is nothing at all to read.
    """
    if not os.path.exists(path):
        raise KernelSourceError(f"{path}: there is no such file or folder, and no revision of git")
    folder = path if path.is_dir() else path.parent
    kernels: list[Placed] = []
    broken: dict[str, str] = {}
    units = [u for u in _units(path, reading) if only is None or u.shown in only]
    once = {shown for shown, times in Counter(u.shown for u in units).items() if times == 1}
    code: dict[str, frozenset[Code]] = {}
    templates: dict[str, str] = {}

    def of_unit(unit: _Unit) -> tuple[Sequence[KernelInfo], str]:
        plain = Detail(reading.findings)
        try:
            return unit.kernels(reading.detail(unit.shown) if unit.shown in once else plain), ""
        except ToolchainMissing:
            raise
        except KernelSourceError as error:
            return (), without_folder(str(error), folder)  # it may be a worktree of ours

    if progress:
        progress(0, len(units))
    for number, (infos, why) in enumerate(map_in_threads(of_unit, units)):
        shown = units[number].shown
        kernels += [
            Placed(info, shown, units[number].path, units[number].options) for info in infos
        ]
        if why:
            broken[shown] = why
        elif shown in once:
            code[shown] = frozenset(info.code for info in infos)
        if not infos and not why and (reason := units[number].templates()):
            templates[shown] = without_folder(reason, folder)
        if progress:
            progress(number + 1, len(units))
    return CodeSide(
        name or str(path), folder, tuple(kernels), broken, code=code, templates=templates
    )


def sides(
    paths: tuple[Path, Path], reading: Reading, names: tuple[str, str] = ("", "")
) -> tuple[CodeSide, CodeSide]:
    """Read a base and a head; code that a file has on both sides is not disassembled."""
    base = side(paths[0], replace(reading, undescribed=None), names[0])
    head = side(paths[1], replace(reading, undescribed=base.code), names[1])
    return describe(base, paths[0], reading, head), head


def describe(
    base: CodeSide, path: Path, reading: Reading, head: CodeSide, progress: Progress | None = None
) -> CodeSide:
    """Describe the kernels of a base that the head lacks, of which only the code was read.

    Their files are read again: :class:`KernelSourceError` if one has other code than before.
    """
    none: frozenset[Code] = frozenset()
    changed = {f for f, code in base.code.items() if code - head.code.get(f, none)}
    if not changed or not head.kernels:
        return base
    own = replace(reading, undescribed=head.code)
    again = side(path, own, base.name, progress, changed)
    if any(again.code.get(f) != base.code[f] for f in changed - again.broken.keys()):
        raise KernelSourceError(f"{base.name} has changed while it was read; compare again")
    described: dict[str, list[Placed]] = {}
    for placed in again.kernels:
        described.setdefault(placed.file, []).append(placed)
    kernels: list[Placed] = []
    for placed in base.kernels:  # a file's are together
        kernels += described.pop(placed.file, []) if placed.file in changed else [placed]
    return replace(base, kernels=tuple(kernels), broken={**base.broken, **again.broken})


@dataclass(frozen=True, slots=True)
class _Unit:
    """File to read, its name in reports, the listing of its kernels, and its own ``options``.

    ``templates`` returns why the file has no kernels if it is a source with templates alone.
    """

    path: Path
    shown: str
    kernels: Callable[[Detail], Sequence[KernelInfo]]
    options: tuple[str, ...] = ()
    templates: Callable[[], str] = str


def _units(path: Path, reading: Reading) -> list[_Unit]:
    if path.suffix == ".json" and path.is_file():
        return [_build_unit(command, path, reading) for command in compile_commands(path)]
    files = _files(path, reading) if path.is_dir() else [path]
    units = []
    for file in files:
        shown = file.relative_to(path).as_posix() if path.is_dir() else ""
        if file.suffix == WHEEL:
            units += list(_wheel_units(file, shown, reading))
        else:
            given = _compilation(file, reading)
            read = partial(_list_kernels, file, reading, **given)
            templates = partial(templates_alone, file, **given)
            units.append(_Unit(file, shown, read, templates=templates))
    return units


def _list_kernels(
    file: Path, reading: Reading, detail: Detail, **compilation: Any
) -> Sequence[KernelInfo]:
    arch = reading.arch or (reading.source_arch if file.suffix in CUDA_SUFFIXES else None)
    return list_kernels(file, arch, newest=reading.newest, detail=detail, **compilation)


def _wheel_units(wheel: Path, shown: str, reading: Reading) -> Iterator[_Unit]:
    """List what is compiled in a wheel; each member is taken out when its turn comes."""
    with _open_wheel(wheel) as archive:
        names = [m.filename for m in archive.infolist() if PurePath(m.filename).suffix in _BUILT]
    if not names:
        raise KernelSourceError(f"{wheel}: there is no compiled code in it")
    for name in sorted(names):
        place = f"{shown}/{name}" if shown else name
        yield _Unit(wheel, place, partial(_kernels_of_member, wheel, name, reading))


def _kernels_of_member(
    wheel: Path, name: str, reading: Reading, detail: Detail
) -> Sequence[KernelInfo]:
    with _open_wheel(wheel) as archive, temporary_folder() as folder:
        size = archive.getinfo(name).file_size
        if size > _LARGEST:
            raise KernelSourceError(f"{name} has {size} B, of which at most {_LARGEST} are read")
        copy = folder / PurePath(name).name
        with archive.open(name) as packed, copy.open("wb") as file:
            copyfileobj(packed, file)
        try:
            return _list_kernels(copy, reading, detail)
        except KernelSourceError as error:
            raise KernelSourceError(str(error).replace(str(copy), name)) from None


@contextmanager
def _open_wheel(wheel: Path) -> Iterator[ZipFile]:
    try:
        with open_file(wheel) as file, ZipFile(file) as archive:
            yield archive
    # zipfile does not implement each version and compression of the format.
    except (BadZipFile, NotImplementedError, OSError) as error:
        raise KernelSourceError(f"{wheel}: no readable wheel: {error}") from None


def _build_unit(command: CompileCommand, path: Path, reading: Reading) -> _Unit:
    """Return the unit of an entry of ``compile_commands.json``, which has its own options."""
    if reading.compilation.keys() - {"toolchain"}:
        raise KernelSourceError(f"{path}: a compilation database has options of its own")
    shown = Path(os.path.relpath(command.source, path.parent)).as_posix()
    read = partial(command.kernels, reading.arch, reading.toolchain)
    return _Unit(command.source, shown, read, command.options)


def _compilation(file: Path, reading: Reading) -> Mapping[str, Any]:
    """Return the settings of ``reading`` that apply to a file: macros only for CUDA."""
    if file.suffix in CUDA_SUFFIXES:
        return reading.compilation
    return {"toolchain": reading.toolchain} if reading.toolchain else {}


def from_sources(side: CodeSide) -> bool:
    """Return True if a side was read from sources, so that the other side should be as well."""
    return any(placed.path.suffix in SOURCES for placed in side.kernels)


def _files(folder: Path, reading: Reading) -> list[Path]:
    """Return the files that match the patterns; without patterns, compiled files or else sources.

    ``sources_first`` reverses the order of the two kinds.
    """
    if patterns := reading.patterns:
        chosen = {f for pattern in patterns for f in folder.glob(pattern) if f.is_file()}
        if not chosen:
            raise KernelSourceError(f"{folder}: no file is like {', '.join(patterns)}")
        return sorted(chosen)
    every = sorted(f for f in folder.rglob("*") if f.is_file() and not _is_hidden(f, folder))
    built = (*_BUILT, WHEEL)
    for kinds in (SOURCES, built) if reading.sources_first else (built, SOURCES):
        if kinds is built and reading.toolchain:
            continue
        if matching := [f for f in every if f.suffix in kinds]:
            return matching
    if reading.toolchain:
        raise KernelSourceError(
            f"{folder}: there is no .cu or .ptx file for toolchain {reading.toolchain} to compile"
        )
    if matching := [f for f in every if not f.suffix and holds_code(f)]:
        return matching
    raise KernelSourceError(f"{folder}: there is no compiled code and no .cu or .ptx file")


def _is_hidden(file: Path, folder: Path) -> bool:
    """Return True for a file in ``.git``, ``.venv`` or another folder with a dot name."""
    return any(part.startswith(".") for part in file.relative_to(folder).parts)


def without_host_code(base: CodeSide, head: CodeSide) -> tuple[CodeSide, CodeSide]:
    """Remove files without a kernel on either side: they are objects of the host.

    ``broken`` keeps files that had kernels, and sources, which must compile.
    """
    had = {p.file for p in base.kernels}
    old = {f: why for f, why in base.broken.items() if _counts(f)}
    new = {f: why for f, why in head.broken.items() if f in had or _counts(f)}
    return replace(base, broken=old), replace(head, broken=new)


def _counts(file: str) -> bool:
    """Return True if a file must have device code: it was named alone, or is a source."""
    return not file or file.endswith(SOURCES)
