"""``*.perf.toml`` files, read and checked; what is wrong is a ``PerfFileError`` with its line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from perfassert.baseline.tolerance import tolerances
from perfassert.errors import close_matches
from perfassert.expect.check import UNDECIDED, check_undecided
from perfassert.expect.condition import parse_condition
from perfassert.expect.metrics import metric
from perfassert.hardware.load import device as load_device
from perfassert.kernel.description import Kernel
from perfassert.perf_toml.candidates import read_candidates, read_claims
from perfassert.perf_toml.cases import EVERY_DEVICE, Case, Header, RankCase, TestCase
from perfassert.perf_toml.descriptions import DescriptionReader
from perfassert.perf_toml.launches import RecordedLaunch, launches, of_kernel
from perfassert.perf_toml.parameters import Row, Rows, fill, read_constants, read_rows

TOP = ("devices", "constants", "kernels", "test", "rank")
SHARED = ("name", "kernel", "launch", "devices", "skip", "xfail", "parametrize", "allow_guesses")
TEST = (*SHARED, "launches", "expect", "baseline")
RANK = (*SHARED, "domain", "candidates", "expect", "baseline")
_CASE = 100
"""Characters that a case counts as, beside its name: rows times launches are many cases."""
Parameters = tuple[tuple[str, ...], Row]


def read_perf_file(path: Path, shown: str = "") -> list[Case]:
    """The cases of a file: tests, then rankings. ``shown``: how messages call the file.

    Everything is checked that can be without a device: kernels from accesses are parsed, conditions
    and tolerances understood. Raises :class:`~perfassert.PerfFileError`.
    """
    return _FileReader(path, shown or str(path)).cases()


class _FileReader(DescriptionReader):
    """Turns one parsed file into cases."""

    def cases(self) -> list[Case]:
        self.check_keys("", self.table, TOP)
        self.constants = read_constants(self, self.table.get("constants", {}))
        self.devices = self.device_list("devices", self.table.get("devices"))
        self.kernels = self.section("kernels", self.table.get("kernels", {}))
        for name, table in self.kernels.items():
            self.section(f"kernels.{name}", table)
        self.names: set[str] = set()
        cases = [*self.all_of("test", TEST, self.tests), *self.all_of("rank", RANK, self.rank)]
        if not cases:
            self.fail("", "there is nothing to check; add [[test]] or [[rank]]")
        return cases

    def all_of(
        self,
        kind: str,
        known: tuple[str, ...],
        read: Callable[[str, str, dict[str, Any], Parameters], Iterator[Case]],
    ) -> Iterator[Case]:
        """The cases of every ``[[test]]`` or ``[[rank]]``."""
        tables = self.table.get(kind, [])
        if not isinstance(tables, list):
            self.fail(kind, f"must be an array of tables, [[{kind}]]")
        for i, given in enumerate(tables):
            key = f"{kind}[{i}]"
            table = self.section(key, given)
            self.check_keys(key, table, known)
            name = self.name(f"{key}.name", table.get("name"))
            ids: set[tuple[str, ...]] = set()
            for parameters in self.rows(key, table.get("parametrize")):
                rest = {k: v for k, v in table.items() if k not in ("name", "parametrize")}
                filled = fill(self, key, rest, {**self.constants, **parameters[1]})
                for case in read(key, name, filled, parameters):
                    self.unique(key, case.header, ids)
                    yield case

    def name(self, key: str, value: Any) -> str:
        name = self.string(key, value)
        if not name or not name.isprintable() or any(s in name for s in ("[", "]", "::")):
            self.fail(key, f"must be a text without [, ] and ::, not {name!r}")
        if name in self.names:
            self.fail(key, f"{name!r} is there twice")
        self.names.add(name)
        return name

    def rows(self, key: str, given: Any) -> Rows:
        if given is None:
            return [((), {})]
        rows = read_rows(self, f"{key}.parametrize", given)
        if both := sorted(set(rows[0][1]) & set(self.constants)):
            self.fail(f"{key}.parametrize.{both[0]}", "is a constant, too")
        return rows

    def unique(self, key: str, header: Header, ids: set[tuple[str, ...]]) -> None:
        self.count_filled(key, len(header.whole_id("")) + _CASE)
        if header.parameters in ids:
            case = f"{header.name}[{'-'.join(header.parameters)}]"
            self.fail(f"{key}.parametrize", f"there are two cases {case}")
        ids.add(header.parameters)

    def header(
        self, key: str, name: str, table: dict[str, Any], parameters: tuple[str, ...]
    ) -> Header:
        own = self.device_list(f"{key}.devices", table.get("devices"))
        return Header(
            name=name,
            parameters=parameters,
            devices=self.devices if own is None else own,
            skip=self.reasons(f"{key}.skip", table.get("skip")),
            xfail=self.reasons(f"{key}.xfail", table.get("xfail")),
            key=key,
            line=self.line(key),
            locate=self.place,
            allow_guesses=self.flag(f"{key}.allow_guesses", table.get("allow_guesses", False)),
        )

    def flag(self, key: str, given: Any) -> bool:
        """``true`` or ``false``."""
        if not isinstance(given, bool):
            self.fail(key, f"must be true or false, not {given!r}")
        return given

    def device_list(self, key: str, given: Any) -> tuple[str, ...] | None:
        """Names, or paths of device files; None where the key is missing."""
        if given is None:
            return None
        if not isinstance(given, list) or not given:
            self.fail(key, f"must be a list of devices, not {given!r}")
        paths = [self.device(f"{key}[{i}]", entry) for i, entry in enumerate(given)]
        names = [load_device(path).name for path in paths]
        for i, name in enumerate(names):
            if name in names[:i]:
                self.fail(f"{key}[{i}]", f"device {name} is given twice")
        return tuple(paths)

    def device(self, key: str, given: Any) -> str:
        text = self.string(key, given)
        path = str(self.path.parent / text) if text.endswith(".toml") else text
        self.locate_errors(key, load_device, path)
        return path

    def reasons(self, key: str, given: Any) -> dict[str, str]:
        """Read a reason: a text for all devices, or a table device → reason."""
        if given is None:
            return {}
        table = given if isinstance(given, dict) else {EVERY_DEVICE: given}
        reasons = {}
        for device, reason in table.items():
            where = f"{key}.{device}" if device else key
            name = load_device(self.device(where, device)).name if device else EVERY_DEVICE
            reasons[name] = self.string(where, reason)
            if not reasons[name].strip():
                self.fail(where, "is empty; say why")
        return reasons

    def tests(
        self, key: str, name: str, table: dict[str, Any], parameters: Parameters
    ) -> Iterator[TestCase]:
        expect = self.expect(f"{key}.expect", table.get("expect"))
        baseline = self.baseline(f"{key}.baseline", table.get("baseline"))
        if not expect and baseline is None:
            self.fail(key, "checks nothing; add expect or baseline")
        if isinstance(table.get("launches"), str):
            for entry in self.recorded_launches(key, name, table, parameters[1]):
                at = f"{key}.launches"
                header = self.header(key, name, table, (*parameters[0], entry.label))
                yield TestCase(header, entry.kernel, entry.launch, expect, baseline, at, at)
            return
        where, kernel = self.find_kernel_table(f"{key}.kernel", table.get("kernel"), parameters[1])
        if ("launch" in table) == ("launches" in table):
            self.fail(key, "give launch, or launches as a table name → launch or as a file")
        shapes = {"": ("launch", table.get("launch"))}
        if "launches" in table:
            several = self.section(f"{key}.launches", table["launches"])
            if not several:
                self.fail(f"{key}.launches", "is empty")
            shapes = {label: (f"launches.{label}", value) for label, value in several.items()}
        for label, (at, value) in shapes.items():
            ids = (*parameters[0], *((label,) if label else ()))
            yield TestCase(
                header=self.header(key, name, table, ids),
                kernel=self.kernel(where, kernel, name),
                launch=self.make_launch(f"{key}.{at}", value),
                expect=expect,
                baseline=baseline,
                kernel_key=where,
                launch_key=f"{key}.{at}",
            )

    def recorded_launches(
        self, key: str, name: str, table: dict[str, Any], row: Row
    ) -> tuple[RecordedLaunch, ...]:
        """Launches of a launches file: all, those of a recorded kernel, or those of a kernel that
        is described here, which takes the place of the recorded one."""
        if "launch" in table:
            self.fail(f"{key}.launch", "does not go with launches; give one of them")
        at, given = f"{key}.launches", table.get("kernel")
        entries = self.locate_errors(at, launches, self.file(at, table["launches"]))
        kernel: Kernel | str | None = given if isinstance(given, str) else None
        if given is not None and (kernel is None or kernel in self.kernels):
            where, described = self.find_kernel_table(f"{key}.kernel", given, row)
            kernel = self.kernel(where, described, name)
        return self.locate_errors(
            f"{key}.kernel" if given is not None else at, of_kernel, entries, kernel
        )

    def find_kernel_table(self, key: str, given: Any, row: Row) -> tuple[str, Any]:
        """Return the key where a kernel is described, and its table.

        A string is the name of a kernel in ``[kernels]``.
        """
        if not isinstance(given, str):
            return key, self.section(key, given)
        if given not in self.kernels:
            hint = close_matches(given, self.kernels) or (
                '; describe it in [kernels.NAME], or give the file of its source: { cuda = "k.cu" }'
            )
            self.fail(key, f"there is no kernel {given!r}{hint}")
        where = f"kernels.{given}"
        table = fill(self, where, self.kernels[given], {**self.constants, **row})
        return where, {"name": given, **table} if "accesses" in table else table

    def expect(self, key: str, given: Any) -> dict[str, Any]:
        if given is None:
            return {}
        table = self.section(key, given)
        if not table.keys() - {UNDECIDED}:
            self.fail(key, "names no metric; name at least one")
        for name, condition in table.items():
            at = f"{key}.{name}"
            if name == UNDECIDED:
                self.locate_errors(at, check_undecided, condition)
                continue
            self.locate_errors(at, parse_condition, self.locate_errors(at, metric, name), condition)
        return table

    def baseline(self, key: str, given: Any) -> dict[str, Any] | None:
        """The arguments of ``no_regression``; ``false`` is None, which TOML does not have."""
        if given is None or given is False:
            return None
        table = {} if given is True else self.section(key, given)
        wanted = {name: None if value is False else value for name, value in table.items()}
        default, metrics = wanted.get("tolerance", "2 %"), dict(wanted)
        metrics.pop("tolerance", None)
        was = {"was": self.string(f"{key}.was", metrics.pop("was"))} if "was" in metrics else {}
        for name, tolerance in metrics.items():
            self.locate_errors(f"{key}.{name}", tolerances, "2 %", {name: tolerance})
        self.locate_errors(key, tolerances, default, metrics)
        return {"tolerance": default, **was, **metrics}

    def rank(
        self, key: str, name: str, table: dict[str, Any], parameters: Parameters
    ) -> Iterator[RankCase]:
        ids, row = parameters

        def kernel_table(at: str, given: Any) -> tuple[str, Any]:
            return self.find_kernel_table(at, given, row)

        candidates = read_candidates(self, key, name, table, kernel_table)
        tolerance = self.ranking_tolerance(f"{key}.baseline", table.get("baseline"))
        claims = {}
        if "expect" in table or tolerance is None:
            claims = read_claims(self, f"{key}.expect", table.get("expect"), candidates)
        yield RankCase(self.header(key, name, table, ids), candidates, claims, tolerance)

    def ranking_tolerance(self, key: str, given: Any) -> str | None:
        """The tolerance of a ranking's baseline, which has nothing else; None without one."""
        if given is None or given is False:
            return None
        table = {} if given is True else self.section(key, given)
        self.check_keys(key, table, ("tolerance",))
        tolerance = table.get("tolerance", "2 %")
        self.locate_errors(f"{key}.tolerance", tolerances, tolerance, {})
        return str(tolerance)
