"""Suite files, read and checked; what is wrong becomes one :class:`SuiteError` with its key."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from perfassert.errors import (
    DeviceFileError,
    KernelSourceError,
    SuiteError,
    UnitError,
    UnknownDevice,
    close_matches,
)
from perfassert.expect.metrics import METRICS, Kind
from perfassert.frontends.tables import IntegerOrText
from perfassert.frontends.toolchain.toolchains import release_of
from perfassert.lab.validation.build import make_device
from perfassert.lab.validation.fitted import conditions, read_fitted_on
from perfassert.lab.validation.recorded import RecordedSource
from perfassert.lab.validation.schema import (
    CUDA,
    DEVICE,
    EXCLUSIVE_KEYS,
    KERNEL,
    METRIC,
    TOP,
    SuiteTableReader,
)
from perfassert.lab.validation.suite import (
    BANDWIDTH,
    WARP_INSTRUCTION,
    CudaSource,
    DeviceSpec,
    KernelSpec,
    MetricSpec,
    Suite,
)
from perfassert.lab.validation.targets import read_targets
from perfassert.lab.validation.toolchain import TOOLCHAIN
from perfassert.quantity import GRANULARITIES, parse_quantity
from perfassert.toml.tables import read_toml


def read_suite(path: str | Path, sources: Path | None = None, contents: bool = True) -> Suite:
    """Read and check one suite file; raises :class:`SuiteError` with file, key and next step.

    ``sources``: a folder that paths of kernels count from, before that of the suite.
    ``contents``: whether recorded launches keep the contents of buffers.
    """
    file = Path(path)
    _, table = read_toml(file, SuiteError)
    return _SuiteReader(file, table, sources or file.parent, contents).suite()


_COLUMN = re.compile(r"\{(\w+)\}")


class _SuiteReader(SuiteTableReader):
    """Reader of one parsed suite file into a :class:`Suite`; raises an error for what is wrong."""

    def __init__(self, path: Path, table: dict[str, Any], sources: Path, contents: bool) -> None:
        super().__init__(path)
        self.table = table
        self.sources, self.contents = sources, contents

    def suite(self) -> Suite:
        self.check_keys("", self.table, TOP)
        device = self.device(self.section("device", self.table.get("device")))
        filters = self.section("filter", self.table.get("filter", {}))
        select = self.strings("select", self.table.get("select", []))
        kernels = self.complete(self.kernels(select))
        metrics = self.metrics()
        return Suite(
            path=self.path,
            title=self.string("title", self.table.get("title", self.path.stem)),
            source=self.string("source", self.table.get("source", "")),
            data=self.string("data", self.table.get("data")),
            select=select,
            group=self.strings("group", self.table.get("group", [])),
            device=device,
            filters=conditions(self, "filter", filters),
            kernels=kernels,
            metrics=metrics,
            uses=tuple(self.uses),
            targets=read_targets(self, self.table.get("targets", {}), metrics),
            limits=self.strings("limits", self.table.get("limits", [])),
            configuration=self.strings("configuration", self.table.get("configuration", [])),
            fitted_on=read_fitted_on(self, self.table, [m.name for m in metrics]),
            toolchain=self.toolchain(),
            distinct=self.strings("distinct", self.table.get("distinct", [])),
        )

    def toolchain(self) -> str:
        asked = self.string(TOOLCHAIN, self.table.get(TOOLCHAIN, ""))
        if asked:
            try:
                release_of(asked)
            except KernelSourceError as error:
                self.fail(TOOLCHAIN, str(error))
        return asked

    def complete(self, kernels: dict[str, KernelSpec]) -> dict[str, KernelSpec]:
        """Complete each kernel's launch by the suite's, which may use what all of them define."""
        if not kernels:
            self.fail("kernels", "is empty; add [kernels.VALUE]")
        self.known_names = set[str].intersection(*(set(k.constants) for k in kernels.values()))
        common = self.launch("launch", self.table.get("launch", {}))
        completed = {}
        for name, spec in kernels.items():
            own = set(spec.launch)
            hidden = {k for pair in EXCLUSIVE_KEYS if own & set(pair) for k in pair}
            launch = {k: v for k, v in common.items() if k not in hidden} | dict(spec.launch)
            self.check_launch(spec, launch)
            completed[name] = dataclasses.replace(spec, launch=launch)
            self.check_pair(name, spec, kernels)
        return completed

    def check_launch(self, spec: KernelSpec, launch: Mapping[str, Any]) -> None:
        """Check that a launch has a shape, unless a row stands for all launches of a recording."""
        if spec.recorded is not None and not spec.recorded.column:
            if launch:
                self.fail("launch", 'does not go with launches = "all"')
            return
        if "block" not in launch:
            self.fail("launch.block", "missing")
        if "grid" not in launch and "domain" not in launch:
            self.fail("launch", "give domain (counted in threads) or grid (in blocks)")

    def check_pair(self, name: str, spec: KernelSpec, kernels: Mapping[str, KernelSpec]) -> None:
        """Check that improved kernels exist, have as many rows, and do not form a cycle."""
        key, before = f"kernels.{name}.improves", spec.improves
        seen = {name}
        while before:
            if before not in kernels:
                self.fail(key, f"there is no kernel {before!r}{close_matches(before, kernels)}")
            if before in seen:
                self.fail(key, f"leads back to {before!r}")
            if len(kernels[before].rows) != len(spec.rows):
                self.fail(key, f"{before!r} has another number of rows; pairs go row by row")
            seen.add(before)
            before = kernels[before].improves

    def constants(self, key: str, own: Any) -> dict[str, IntegerOrText]:
        """Return the suite's constants, then those of ``own``; each may use the ones before it."""
        constants: dict[str, IntegerOrText] = {}
        for where, value in (("constants", self.table.get("constants", {})), (key, own)):
            for name, text in self.section(where, value).items():
                self.known_names = constants
                constants[name] = self.expression(f"{where}.{name}", text)
        return constants

    def device(self, table: dict[str, Any]) -> DeviceSpec:
        self.check_keys("device", table, DEVICE)
        if ("name" in table) == ("column" in table):
            self.fail("device", "give name, or column for one whose cells are device names")
        changes = {
            k: self.expression(f"device.{k}", v) if isinstance(v, str) else v
            for k, v in table.items()
            if k not in ("name", "column")
        }
        name, column = (self.string(f"device.{k}", table.get(k, "")) for k in ("name", "column"))
        spec = DeviceSpec(name, column, changes)
        if name and not any(isinstance(v, str) for v in changes.values()):
            try:
                make_device(spec, {})
            except (UnknownDevice, DeviceFileError) as error:
                self.fail("device", str(error))
        return spec

    def kernels(self, select: Sequence[str]) -> dict[str, KernelSpec]:
        if ("kernel" in self.table) == ("kernels" in self.table):
            self.fail("kernel", "give [kernel], or select = COLUMN with [kernels.VALUE] tables")
        if "kernel" in self.table:
            if select:
                self.fail("select", "there is one [kernel] only; name several in [kernels.VALUE]")
            return {"": self.kernel("kernel", self.table["kernel"])}
        if not select:
            self.fail("select", "missing; name the column whose cells choose among [kernels]")
        tables = self.section("kernels", self.table["kernels"])
        return {name: self.kernel(f"kernels.{name}", table) for name, table in tables.items()}

    def kernel(self, key: str, value: Any) -> KernelSpec:
        table = self.section(key, value)
        self.check_keys(key, table, KERNEL)
        if len({"accesses", "cuda", "recorded"} & set(table)) != 1:
            ways = "accesses (address expressions), cuda (a source file) or recorded (launches)"
            self.fail(key, f"give {ways}")
        if "launches" in table and "recorded" not in table:
            self.fail(f"{key}.launches", "goes with recorded")
        if "cuda" not in table and (stray := set(table) & set(CUDA)):
            self.fail(f"{key}.{sorted(stray)[0]}", "goes with cuda")
        constants = self.constants(f"{key}.constants", table.get("constants", {}))
        self.known_names = constants
        accesses = table.get("accesses")
        return KernelSpec(
            None if accesses is None else self.accesses(f"{key}.accesses", accesses),
            self.cuda(key, table) if "cuda" in table else None,
            constants,
            self.launch(f"{key}.launch", table.get("launch", {})),
            self.rows(f"{key}.rows", table.get("rows", [])),
            self.string(f"{key}.improves", table.get("improves", "")),
            self.recorded_source(key, table) if "recorded" in table else None,
        )

    def recorded_source(self, key: str, table: Mapping[str, Any]) -> RecordedSource:
        """Read where recordings lie below ``--sources``; columns in braces choose one for a row.

        A row stands for the launch of the kernel that ``named`` gives, or for all launches.
        """
        path = self.string(f"{key}.recorded", table["recorded"])
        column = self.string(f"{key}.named", table.get("named", "kernel"))
        if "launches" in table:
            if table["launches"] != "all":
                self.fail(f"{key}.launches", f'must be "all", not {table["launches"]!r}')
            if "named" in table:
                self.fail(f"{key}.named", 'does not go with launches = "all"')
            column = ""
        columns = ([column] if column else []) + _COLUMN.findall(path)
        self.uses |= {(f"{key}.recorded", name): None for name in columns}
        return RecordedSource(self.sources, path, column, self.contents)

    def cuda(self, key: str, table: Mapping[str, Any]) -> CudaSource:
        name = self.string(f"{key}.cuda", table["cuda"])
        folders = (self.sources, self.path.parent)
        folder = next((f for f in folders if (f / name).is_file()), None)
        if folder is None:
            where = "the suite, or to the folder of --sources"
            missing = f"there is no file {self.sources / name}; the path is relative to {where}"
            self.fail(f"{key}.cuda", missing)
        defines = self.section(f"{key}.defines", table.get("defines", {}))
        extra: dict[str, Any] = {}
        if "assume" in table:
            extra["assume"] = self.mapping(f"{key}.assume", table["assume"])
        if "trip_counts" in table:
            trips = self.section(f"{key}.trip_counts", table["trip_counts"])
            extra["trip_counts"] = {
                k: self.expression(f"{key}.trip_counts.{k}", v) for k, v in trips.items()
            }
        if asked := self.toolchain():
            extra[TOOLCHAIN] = asked
        include_dirs = self.strings(f"{key}.include_dirs", table.get("include_dirs", []))
        updates = table.get("updates_per_thread", 1)
        return CudaSource(
            path=folder / name,
            kernel=self.string(f"{key}.kernel", table.get("kernel")),
            defines={k: self.expression(f"{key}.defines.{k}", v) for k, v in defines.items()},
            include_dirs=tuple(folder / item for item in include_dirs),
            options=self.strings(f"{key}.options", table.get("options", [])),
            updates_per_thread=self.expression(f"{key}.updates_per_thread", updates),
            extra=extra,
        )

    def metrics(self) -> tuple[MetricSpec, ...]:
        tables = self.table.get("metric", [])
        if not isinstance(tables, list) or not tables:
            self.fail("metric", "give at least one [[metric]] with name and column")
        specs = tuple(self.metric(f"metric[{i}]", table) for i, table in enumerate(tables))
        names = [spec.name for spec in specs]
        for i, name in enumerate(names):
            if name in names[:i]:
                self.fail(f"metric[{i}].name", f"{name!r} is there twice")
        return specs

    def metric(self, key: str, value: Any) -> MetricSpec:
        table = self.section(key, value)
        self.check_keys(key, table, METRIC)
        name = self.string(f"{key}.name", table.get("name"))
        if name not in _UNITS:
            hint = close_matches(name, _UNITS) or f"; known: {', '.join(_UNITS)}"
            self.fail(f"{key}.name", f"no metric {name!r}{hint}")
        columns = self.strings(f"{key}.column", table.get("column"))
        factor, unit, per = self.unit(key, name, table)
        inverse = {unit, _UNITS[name]} == {"s", "B/s"}
        if unit != _UNITS[name] and not inverse:
            wanted = _UNITS[name] or "no unit"
            self.fail(f"{key}.unit", f"{name} is counted in {wanted}, not in {unit or 'counts'}")
        if (inverse or name == BANDWIDTH) != ("bytes" in table):
            need = "missing; a bandwidth needs the bytes that it counts"
            stray = "only a bandwidth has it"
            self.fail(f"{key}.bytes", stray if "bytes" in table else need)
        amount = self.expression(f"{key}.bytes", table["bytes"]) if "bytes" in table else None
        return MetricSpec(name, columns, _UNITS[name], factor, per, amount, inverse)

    def unit(self, key: str, name: str, table: Mapping[str, Any]) -> tuple[float, str, str]:
        """Return the factor to base units, the base unit, and the granularity."""
        try:
            parsed = parse_quantity(f"1 {self.string(f'{key}.unit', table.get('unit', ''))}")
        except UnitError as error:
            self.fail(f"{key}.unit", str(error))
        per = self.string(f"{key}.per", table.get("per", parsed.per))
        if per and per not in (known := (*GRANULARITIES, WARP_INSTRUCTION)):
            self.fail(f"{key}.per", f"{per!r} is none of: {', '.join(known)}")
        if per and not (name in METRICS and METRICS[name].extensive):
            self.fail(f"{key}.per", f"{name} does not grow with the launch; leave it out")
        scale = self.number(f"{key}.scale", table.get("scale", 1))
        if not 0 < scale < float("inf"):
            self.fail(f"{key}.scale", f"must be above 0, not {scale:g}")
        return scale * parsed.value, parsed.unit, per


_UNITS = {m.name: m.unit for m in METRICS.values() if m.kind in (Kind.QUANTITY, Kind.FRACTION)}
_UNITS[BANDWIDTH] = "B/s"
