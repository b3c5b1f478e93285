"""Launches files: what a program launched, as ``perfassert record`` wrote it down.

Kernels and launches are described as in ``*.perf.toml`` files. The file is data: it names code and
arrays beside it, and nothing in it is run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from perfassert.errors import PerfAssertError, RecordError, close_matches
from perfassert.frontends.cuda.kernels import as_recorded
from perfassert.frontends.toolchain.names import demangle, fits
from perfassert.kernel.array_files import read_array
from perfassert.kernel.description import CompiledKernel, Kernel
from perfassert.kernel.launch import Launch
from perfassert.perf_toml.descriptions import DescriptionReader

SCHEMA = 1  # of the file
TOP = ("schema", "recorded", "kernels", "launch")
RECORDED = ("by", "command", "device", "launches")
LAUNCH = ("grid", "block", "args", "shared_bytes", "cluster")
ENTRY = ("kernel", "count", "constants", *LAUNCH)


@dataclass(frozen=True, slots=True)
class RecordedLaunch:
    """A launch of a launches file.

    Attributes:
        label: unique in the file: ``axpy``, ``axpy#2``.
        name: of the kernel, demangled.
        kernel: as it was launched.
        launch: grid, block and arguments.
        count: how often it was launched.
        device: name of the one that it was recorded for; empty where the file does not say it.
        place: file, line and key where the kernel is described.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import perfassert as pa
        >>> text = '''
        ... schema = 1
        ... [kernels.fill.accesses]
        ... fields = [{ name = "out", shape = 4096 }]
        ... stores = ["out[x]"]
        ... [[launch]]
        ... kernel = "fill"
        ... count = 50
        ... grid = 16
        ... block = 256
        ... '''
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "launches.toml").write_text(text)
        ...     (entry,) = pa.launches(Path(folder, "launches.toml"))
        >>> entry.label, entry.count, entry.launch.threads
        ('fill', 50, 4096)
    """

    label: str
    name: str
    kernel: Kernel
    launch: Launch
    count: int
    device: str
    place: str = ""


def launches(path: str | PathLike[str]) -> tuple[RecordedLaunch, ...]:
    """Read the launches of a program, as ``perfassert record`` wrote them down.

    The file is data: it names code and arrays beside it, and nothing in it is run.

    Args:
        path: the launches file.

    Returns:
        A :class:`RecordedLaunch` for each, in the order in which they first happened.

    Raises:
        RecordError: no launches file, or a faulty one; file, line and key are named.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import perfassert as pa
        >>> text = '''
        ... schema = 1
        ... [kernels.fill.accesses]
        ... fields = [{ name = "out", shape = 4096 }]
        ... stores = ["out[x]"]
        ... [[launch]]
        ... kernel = "fill"
        ... grid = 16
        ... block = 256
        ... '''
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "launches.toml").write_text(text)
        ...     recorded = pa.launches(Path(folder, "launches.toml"))
        >>> [pa.predict(r.kernel, r.launch, "a100").volumes.l2_store.total for r in recorded]
        [32.77 kB]
    """
    return _LaunchesReader(Path(fspath(path)), fspath(path)).entries()


def choose_launches(
    entries: Sequence[RecordedLaunch], kernel: str | None
) -> tuple[RecordedLaunch, ...]:
    """Return the launches of one kernel; all if ``kernel`` is None.

    ``kernel`` is a label of a kernel or of a launch, or a part of a kernel's name. Raises
    :class:`~perfassert.RecordError` if it matches no kernel, or several.
    """
    if kernel is None:
        return tuple(entries)
    labelled = tuple(e for e in entries if kernel in (e.label, _kernel_label(e)))
    if labelled:
        return labelled
    fitting = fits(kernel, list(dict.fromkeys(e.kernel.name for e in entries)))
    if len(fitting) == 1:
        return tuple(e for e in entries if e.kernel.name == fitting[0])
    names = list(dict.fromkeys(_kernel_label(e) for e in entries))
    why = "several kernels are called so" if fitting else "there is no launch of it"
    hint = close_matches(kernel, names) or f"; it has: {', '.join(names)}"
    raise RecordError(f"{kernel!r} in the launches file: {why}{hint}")


def of_kernel(
    entries: Sequence[RecordedLaunch], kernel: Kernel | str | None
) -> tuple[RecordedLaunch, ...]:
    """Choose launches as :func:`choose_launches`; a given kernel replaces the recorded kernel of
    the same name."""
    if kernel is None or isinstance(kernel, str):
        return choose_launches(entries, kernel)
    return tuple(replace(e, kernel=kernel) for e in choose_launches(entries, kernel.name))


def _kernel_label(entry: RecordedLaunch) -> str:
    return entry.label.partition("#")[0]


class _LaunchesReader(DescriptionReader):
    error = RecordError
    launch_keys = LAUNCH

    def entries(self) -> tuple[RecordedLaunch, ...]:
        self.check_keys("", self.table, TOP)
        if self.table.get("schema") != SCHEMA:
            self.fail("schema", f"must be {SCHEMA}: is it a launches file of this version?")
        recorded = self.section("recorded", self.table.get("recorded", {}))
        self.check_keys("recorded", recorded, RECORDED)
        device = self.string("recorded.device", recorded.get("device", ""))
        given = self.table.get("launch", [])
        if not isinstance(given, list) or not given:
            self.fail("launch", "there is no launch; add [[launch]]")
        entries = [
            self._read_launch(f"launch[{i}]", table, device) for i, table in enumerate(given)
        ]
        return tuple(_with_labels(entries))

    def _read_launch(self, key: str, value: Any, device: str) -> RecordedLaunch:
        table = self.section(key, value)
        self.check_keys(key, table, ENTRY)
        label = self.string(f"{key}.kernel", table.get("kernel"))
        count = table.get("count", 1)
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            self.fail(f"{key}.count", f"must be an integer above 0, not {count!r}")
        described = self._kernel_table(key, label, table.get("constants"))
        name = self.string(f"kernels.{label}.name", described.get("name", label))
        launch = self.make_launch(key, {k: v for k, v in table.items() if k in LAUNCH})
        made = self.kernel(f"kernels.{label}", described, label)
        if isinstance(made, CompiledKernel):
            made = as_recorded(made)
        place = self.place(f"kernels.{label}")
        return RecordedLaunch(label, demangle(name), made, launch, count, device, place)

    def _kernel_table(self, key: str, label: str, constants: Any) -> dict[str, Any]:
        """The kernel's table, with what the program wrote into constants before this launch."""
        kernels = self.section("kernels", self.table.get("kernels"))
        if label not in kernels:
            hint = close_matches(label, kernels) or f"; describe it in [kernels.{label}]"
            self.fail(f"{key}.kernel", f"there is no kernel {label!r}{hint}")
        table = self.section(f"kernels.{label}", kernels[label])
        if constants is None:
            return table
        own = self.section(f"kernels.{label}.constants", table.get("constants", {}))
        return {**table, "constants": {**own, **self.section(f"{key}.constants", constants)}}

    def _constants(self, key: str, value: Any) -> dict[str, Any]:
        """Numbers as they stand; ``"launches.npz:name"`` is the bytes that lie there."""
        return {k: self._constant(f"{key}.{k}", v) for k, v in self.section(key, value).items()}

    def _constant(self, key: str, value: Any) -> Any:
        if not isinstance(value, str) or ".npz:" not in value:
            return self.constant(key, value)
        try:
            return read_array(self.file(key, value)).tobytes()
        except PerfAssertError as error:
            self.fail(key, str(error))


def _with_labels(entries: Sequence[RecordedLaunch]) -> list[RecordedLaunch]:
    """``axpy``, ``axpy#2``: a name for each."""
    seen: dict[str, int] = {}
    result = []
    for entry in entries:
        number = seen[entry.label] = seen.get(entry.label, 0) + 1
        result.append(replace(entry, label=f"{entry.label}#{number}") if number > 1 else entry)
    return result
