"""Device files: found by name, alias or path, read and checked once per process."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfassert.errors import DeviceFileError, UnknownDevice, close_matches
from perfassert.hardware import schema
from perfassert.hardware.model import (
    CapacityCurve,
    Device,
    Grade,
    Operation,
    Provenance,
    Scope,
)

if TYPE_CHECKING:
    from perfassert.plugins import Found


def device(name: str | Path | Device) -> Device:
    """A device by name or alias (case-blind), or by the path of a TOML file.

    Raises :class:`UnknownDevice` with close matches, or :class:`DeviceFileError`.
    """
    if isinstance(name, Device):
        return name
    text = str(name)
    if text.endswith(".toml"):
        return load_device(Path(text))
    path = _shipped().get(text.lower()) or _plugged().get(text)
    if path is None:
        hint = _near(text) or f"; known: {', '.join(devices())}"
        raise UnknownDevice(f"unknown device {text!r}{hint}{_plugged().note()}")
    return load_device(path)


def devices() -> tuple[str, ...]:
    """Every device name, of shipped files and of plug-ins, sorted."""
    shipped = (path.stem for path in _folder().glob("*.toml"))
    return tuple(sorted({*shipped, *(path.stem for path in _plugged().values())}))


def _near(text: str) -> str:
    """Names of devices whose name or alias is like ``text``."""
    from difflib import get_close_matches

    known = {**_shipped(), **{k: path for k, (_, path) in _plugged().by_name.items()}}
    near = get_close_matches(text.lower(), known, n=6, cutoff=0.5)
    names = list(dict.fromkeys(known[alias].stem for alias in near))[:3]
    return f"; did you mean {', '.join(repr(n) for n in names)}?" if names else ""


def _plugged() -> Found[Path]:
    """Names and aliases of the device files of plug-ins."""
    from perfassert.plugins import gather

    return gather("perfassert_devices", _plugged_files, _shipped())


def _plugged_files(plugin: str, given: Any) -> Iterator[tuple[str, Path]]:
    if isinstance(given, (str, Path)):
        raise DeviceFileError(f"{str(given)!r} stands alone; give a list of files or folders")
    for place in map(Path, given):
        files = sorted(place.glob("*.toml")) if place.is_dir() else [place]
        if not files:
            raise DeviceFileError(f"{place}: there is no *.toml in it")
        for path in files:
            table = _read(path)[0]
            if table.get("name") != path.stem:
                raise DeviceFileError(f"{path}: name: must be that of the file, {path.stem!r}")
            names = {path.stem.lower(), *(str(a).lower() for a in table.get("aliases", ()))}
            yield from ((name, path) for name in sorted(names))


def read_fit(name: str) -> dict[str, Any]:
    """A shipped table of fitted values, ``devices/fits/<name>.toml``."""
    return _read(_fit_path(name))[0]


def _fit_path(name: str) -> Path:
    return _folder() / "fits" / f"{name}.toml"


def _folder() -> Path:
    """Where the shipped files lie: in the wheel, else at the top of a source checkout."""
    package = Path(__file__).parents[1]
    installed = package / "device_files"
    return installed if installed.is_dir() else package.parents[1] / "devices"


@lru_cache(maxsize=1)
def _shipped() -> dict[str, Path]:
    """Lower-cased name or alias → file."""
    found: dict[str, Path] = {}
    for path in sorted(_folder().glob("*.toml")):
        found[path.stem.lower()] = path
        for alias in _read(path)[0].get("aliases", ()):
            found[str(alias).lower()] = path
    return found


def load_device(path: Path) -> Device:
    """Read and check one device file."""
    try:
        stamp = path.stat().st_mtime_ns
    except OSError as error:
        raise DeviceFileError(f"{path}: cannot be read: {error.strerror}") from None
    return _load(path.resolve(), stamp)


@lru_cache(maxsize=64)
def _load(path: Path, stamp: int) -> Device:  # `stamp` keeps an edited file from being stale
    table, text = _read(path)
    return _Reader(path, table, text).device()


def _read(path: Path) -> tuple[dict[str, Any], bytes]:
    from perfassert.toml import TOMLDecodeError, loads

    try:
        text = path.read_bytes()
        return loads(text.decode()), text
    except OSError as error:
        raise DeviceFileError(f"{path}: cannot be read: {error.strerror}") from None
    except (TOMLDecodeError, UnicodeDecodeError) as error:
        raise DeviceFileError(f"{path}: not valid TOML: {error}") from None


class _Reader:
    """Turns one parsed file into a :class:`Device`, or says what is wrong with it."""

    def __init__(self, path: Path, table: dict[str, Any], text: bytes) -> None:
        self.path = path
        self.table = table
        self.text = text
        self.provenance: dict[str, Provenance] = {}

    def device(self) -> Device:
        self.known("", self.table, schema.TOP_LEVEL)
        if self.require("", self.table, "schema") != 1:
            raise self.error("schema", "this version reads schema = 1")
        for key in ("name", "arch", "capacity_fits"):
            if not isinstance(self.require("", self.table, key), str):
                raise self.error(key, "must be a string")
        aliases = self.table.get("aliases", [])
        if not isinstance(aliases, list) or any(not isinstance(a, str) for a in aliases):
            raise self.error("aliases", "must be a list of strings")
        self.sources = self.section("sources")
        values = self.section("values")
        self.known("values", values, schema.VALUES)
        numbers = {
            key: self.number(f"values.{key}", self.require("values", values, key), rule)
            for key, rule in schema.VALUES.items()
        }
        curves, fits = self.curves(self.table["capacity_fits"])
        result = Device(
            name=self.table["name"],
            arch=self.table["arch"],
            aliases=tuple(self.table.get("aliases", ())),
            digest=hashlib.sha256(self.text + fits).hexdigest()[:16],
            operations=self.operations(),
            pipelines=self.pipelines(),
            curves=curves,
            provenance=self.provenance,
            **numbers,  # type: ignore[arg-type]
        )
        schema.check_consistency(result, str(self.path))
        return result

    def error(self, key: str, reason: str) -> DeviceFileError:
        return DeviceFileError(f"{self.path}: {key}: {reason}")

    def section(self, key: str) -> dict[str, Any]:
        found = self.require("", self.table, key)
        if not isinstance(found, dict):
            raise self.error(key, "must be a table")
        return found

    def require(self, prefix: str, table: Mapping[str, Any], key: str) -> Any:
        if key not in table:
            raise self.error(f"{prefix}.{key}".strip("."), "missing")
        return table[key]

    def known(self, prefix: str, table: Mapping[str, Any], allowed: Any) -> None:
        for key in table:
            if key not in allowed:
                hint = close_matches(key, allowed)
                raise self.error(f"{prefix}.{key}".strip("."), f"unknown key{hint}")

    def number(self, key: str, entry: Any, rule: schema.Key) -> float:
        if not isinstance(entry, dict):
            raise self.error(key, "must be { value, unit, source, grade }")
        self.known(key, entry, schema.ENTRY)
        value = self.require(key, entry, "value")
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.error(f"{key}.value", f"must be a number, not {value!r}")
        unit = entry.get("unit", "count")
        if unit not in rule.units:
            raise self.error(f"{key}.unit", f"{unit!r} is none of: {', '.join(rule.units)}")
        self.note_provenance(key, entry)
        scaled = value * rule.units[unit]
        if rule.integer:
            if scaled != int(scaled):
                raise self.error(f"{key}.value", f"must be a whole number, not {value!r}")
            return int(scaled)
        return float(scaled)

    def note_provenance(self, key: str, entry: Mapping[str, Any]) -> None:
        source = self.require(key, entry, "source")
        if source not in self.sources:
            hint = close_matches(str(source), self.sources)
            raise self.error(f"{key}.source", f"{source!r} is not in [sources]{hint}")
        try:
            grade = Grade(self.require(key, entry, "grade"))
        except ValueError:
            grades = ", ".join(g.value for g in Grade)
            raise self.error(f"{key}.grade", f"must be one of: {grades}") from None
        note = str(entry.get("note", ""))
        self.provenance[key] = Provenance(str(self.sources[source]), grade, note)

    def pipelines(self) -> dict[str, Scope]:
        scopes: dict[str, Scope] = {}
        for name, scope in self.section("pipelines").items():
            try:
                scopes[name] = Scope(scope)
            except ValueError:
                raise self.error(f"pipelines.{name}", "must be 'unit' or 'scheduler'") from None
        return scopes

    def operations(self) -> dict[str, Operation]:
        rule = schema.Key({"cycles": 1.0})
        found: dict[str, Operation] = {}
        for name, entry in self.section("operations").items():
            key = f"operations.{name}"
            if not isinstance(entry, dict):
                raise self.error(key, "must be a table with pipeline, issue and completion")
            self.known(key, entry, schema.OPERATION)
            issue, completion = (
                self.number(f"{key}.{k}", self.require(key, entry, k), rule)
                for k in ("issue", "completion")
            )
            pipeline = str(self.require(key, entry, "pipeline"))
            found[name] = Operation(name, issue, completion, pipeline)
        return found

    def curves(self, fits: str) -> tuple[dict[str, CapacityCurve], bytes]:
        path = _fit_path(fits)
        if not path.is_file():
            known = ", ".join(sorted(p.stem for p in path.parent.glob("*.toml")))
            raise self.error("capacity_fits", f"no fits named {fits!r}; known: {known}")
        table, text = _read(path)
        beside = _Reader(path, table, text)
        beside.sources = beside.section("sources")
        curves: dict[str, CapacityCurve] = {}
        for name in schema.CURVES:
            entry = beside.require("", table, name)
            beside.known(name, entry, schema.CURVE_KEYS)
            a, b, c = (float(beside.require(name, entry, k)) for k in "abc")
            beside.require(name, entry, "r_squared")
            beside.note_provenance(name, entry)
            curves[name] = CapacityCurve(a, b, c)
        self.provenance |= {f"curves.{k}": v for k, v in beside.provenance.items()}
        return curves, text
