"""Kernels and launches of a ``*.perf.toml`` file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from perfassert.errors import (
    KernelSourceError,
    LaunchError,
    PerfAssertError,
    PerfFileError,
    close_matches,
)
from perfassert.frontends.files import OWN
from perfassert.frontends.tables import ACCESSES, KernelTableReader
from perfassert.frontends.toolchain.binary import Source
from perfassert.frontends.toolchain.options import check_of_file
from perfassert.kernel.array_files import file_and_part
from perfassert.kernel.description import Kernel
from perfassert.kernel.field import Field
from perfassert.kernel.integers import evaluate_integer, integer_names
from perfassert.kernel.launch import Buffer, Launch
from perfassert.kernel.tensor_map import TensorMap
from perfassert.perf_toml.buffers import check_buffers, made_buffer
from perfassert.perf_toml.lines import key_lines
from perfassert.system.confined import outside
from perfassert.toml.tables import read_toml

SOURCES = {"accesses": ("name",), **{key: ("name", *own.takes) for key, own in OWN.items()}}
"""Where a kernel comes from → what else its table may have."""
KERNEL = tuple(dict.fromkeys((*SOURCES, *(key for keys in SOURCES.values() for key in keys))))
_MADE_IN_PYTHON = frozenset(
    "cupy cute cutlass gluon helion inductor numba pystencils python torch triton warp".split()
)
_Result = TypeVar("_Result")
_WHERE = re.compile(r"((?:loads|stores)\[\d+\]): ")


class DescriptionReader(KernelTableReader):
    """Makes kernels and launches of tables whose parameters are filled in.

    ``shown``: how messages call the file.
    """

    error: type[PerfAssertError] = PerfFileError

    def __init__(self, path: Path, shown: str) -> None:
        super().__init__(path)
        self.shown = shown
        text, self.table = read_toml(path, self.error, shown)
        self.lines = key_lines(text)

    def line(self, key: str) -> int:
        """Return the line of a key, or of the innermost table around it that the file has."""
        while key and key not in self.lines:
            key = key[: max(key.rfind("."), key.rfind("["), 0)]
        return self.lines.get(key, 1)

    def place(self, key: str) -> str:
        return f"{self.shown}:{self.line(key)}" + (f": {key}" if key else "")

    def locate_errors(self, key: str, check: Callable[..., _Result], *given: Any) -> _Result:
        """Call ``check`` and return its result; its errors get the place of ``key`` in the file."""
        try:
            return check(*given)
        except PerfAssertError as error:
            self.fail(key, str(error))

    def expression(self, key: str, value: Any) -> int:
        """Evaluate an expression at once: parameters are filled in, so that no name is left."""
        parsed = super().expression(key, value)
        if isinstance(parsed, int):
            return parsed
        if names := integer_names(parsed, self.error):
            self.fail(
                key,
                f"unknown name {min(names)!r}; parameters and constants go in braces, and an array "
                'is a table: { shape = 1024, fill = "random(0, 1)" }',
            )
        try:
            return evaluate_integer(parsed, {}, self.error)
        except self.error as error:
            self.fail(key, str(error))

    def kernel(self, key: str, value: Any, name: str) -> Kernel:
        """``name``: of a kernel from accesses that has none."""
        table = self.section(key, value)
        for made in _MADE_IN_PYTHON.intersection(table):
            self.fail(
                f"{key}.{made}",
                "names a generator whose kernels are objects of Python, and nothing in this file "
                "is run; gate it in a Python test, or give what the generator writes: ptx or cuda",
            )
        self.check_keys(key, table, KERNEL)
        given = [source for source in SOURCES if source in table]
        if len(given) != 1:
            self.fail(key, f"give one of {', '.join(SOURCES)}")
        source = given[0]
        for other in table:
            if other != source and other not in SOURCES[source]:
                hint = ", in its table" if source == "accesses" and other in ACCESSES else ""
                self.fail(f"{key}.{other}", f"does not go with {source}{hint}")
        try:
            if source == "accesses":
                return self._from_accesses(key, table, name)
            return self._from_code(key, source, table)
        except self.error:
            raise
        except PerfAssertError as error:
            at = _WHERE.match(str(error))
            self.fail(f"{key}.{source}.{at[1]}" if at else f"{key}.{source}", str(error))

    def _from_accesses(self, key: str, table: dict[str, Any], name: str) -> Kernel:
        given = self.accesses(f"{key}.accesses", table["accesses"])
        if "name" in given:
            self.fail(f"{key}.accesses.name", f"goes beside accesses: {key}.name")
        fields = [Field(**f) for f in given.pop("fields")]
        called = self.string(f"{key}.name", table.get("name", name))
        return Kernel.from_accesses(called, fields, **given)

    def _from_code(self, key: str, source: str, table: dict[str, Any]) -> Kernel:
        path = self.path.parent / self.string(f"{key}.{source}", table[source])
        self._inside(f"{key}.{source}", path)
        if not os.path.isfile(path):
            near = close_matches(path.name, (p.name for p in path.parent.glob("*")))
            self.fail(f"{key}.{source}", f"there is no file {str(table[source])!r}{near}")
        read = {
            "name": self.string,
            "updates_per_thread": self.expression,
            "trip_counts": self._counts,
            "assume": self.mapping,
            "constants": self._constants,
            "defines": self._defines,
            "include_dirs": self._folders,
            "options": self._options,
            "arch": self.string,
            "toolchain": self.string,
            "parameters": self.strings,
        }
        given = {k: read[k](f"{key}.{k}", v) for k, v in table.items() if k != source}
        return OWN[source].make(path, given.pop("name", None), **given)

    def _counts(self, key: str, value: Any) -> dict[str, int]:
        return {k: self.expression(f"{key}.{k}", v) for k, v in self.section(key, value).items()}

    def _constants(self, key: str, value: Any) -> dict[str, Any]:
        return {k: self.constant(f"{key}.{k}", v) for k, v in self.section(key, value).items()}

    def _defines(self, key: str, value: Any) -> dict[str, object]:
        """Read macros, whose values are numbers or texts."""
        table = self.section(key, value)
        for name, text in table.items():
            if isinstance(text, bool) or not isinstance(text, (str, int, float)):
                self.fail(f"{key}.{name}", f"must be a number or a string, not {text!r}")
        return table

    def _options(self, key: str, value: Any) -> tuple[str, ...]:
        """Read compiler options; only those are allowed that a file of unknown origin may set."""
        given = tuple(self.strings(key, value))
        try:
            check_of_file(Source(self.path, "cuda", options=given))
        except KernelSourceError as error:
            self.fail(key, str(error))
        return given

    def _inside(self, key: str, path: Path) -> None:
        if why := outside(path):
            self.fail(key, why)

    def file(self, key: str, value: Any) -> str:
        path = super().file(key, value)
        self._inside(key, Path(file_and_part(path)[0]))
        return path

    def _folders(self, key: str, value: Any) -> tuple[Path, ...]:
        folders = tuple(self.path.parent / folder for folder in self.strings(key, value))
        for folder in folders:
            self._inside(key, folder)
        return folders

    def make_launch(self, key: str, value: Any) -> Launch:
        """A :class:`Launch`, by ``domain`` or by ``grid``."""
        given = self.launch(key, value)
        if "block" not in given:
            self.fail(f"{key}.block", "missing")
        if "grid" not in given and "domain" not in given:
            self.fail(key, "give domain (counted in threads) or grid (in blocks)")
        try:
            launch = (Launch.cover if "domain" in given else Launch)(**given)
        except LaunchError as error:
            self.fail(key, str(error))
        check_buffers(self, f"{key}.args", launch)
        return launch

    def buffer(self, key: str, given: dict[str, Any]) -> Buffer:
        """A :class:`Buffer`; files are read at once."""
        return made_buffer(self, key, given)

    def tensor_map(self, key: str, given: dict[str, Any]) -> TensorMap:
        """A :class:`TensorMap`."""
        try:
            return TensorMap(**given)
        except LaunchError as error:
            self.fail(key, str(error))
