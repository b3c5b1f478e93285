"""Baseline entries: the part of a prediction that a baseline keeps, as the file's nested table.

Numbers are in base units (seconds, bytes), exact to the ten digits that leave the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Union

from perfassert.baseline.identity import compilers, digest, double_lines, source_launches
from perfassert.expect.metrics import METRICS, Kind, Metric
from perfassert.kernel.launch import Buffer, Launch
from perfassert.kernel.tensor_map import TensorMap
from perfassert.prediction.volumes import UNITS, Volume

if TYPE_CHECKING:
    from perfassert.facade.prediction import Prediction

Entry = Mapping[str, Any]
Path = tuple[str, ...]
Leaf = Union[str, int, float, tuple[int, ...]]


class BaselineKey(NamedTuple):
    """Key of a baseline: the test without its device, a name, the device."""

    test: str
    name: str
    device: str

    def __str__(self) -> str:
        name = "" if self.name == DEFAULT_NAME else f", name {self.name!r}"
        return f"{self.test} on {self.device}{name}"


DEFAULT_NAME = "default"
PROVENANCE = ("model_version", "device_digest", "kernel_digest")
"""The last keys of an entry, so that a truncated one lacks them."""
CHECKSUM = "checksum"
"""Behind them, in an entry only where its values are not those that the checksum was made of."""
TEXTS = (
    "kernel", "arguments", "occupancy_limited_by", "source_launches", "compilers", *PROVENANCE,
)  # fmt: skip
COUNTS = ("updates", "resident_blocks", "shared_bytes", "double_instructions")
EXTENTS = ("grid", "block")
RANKING = "ranking"
"""The table that the baseline of a ranking has in place of metrics: :data:`RANKING_KEYS`."""
RANKING_KEYS = ("best", "order", "within")
UNKNOWN = "unknown"
"""The digest of a kernel that a prediction no longer has."""
_NEGLIGIBLE = 1e-9  # of the total: beyond the digits that it has


def stored_metrics() -> tuple[Metric, ...]:
    """Return the metrics that a baseline keeps: all but those of the advisor."""
    return tuple(m for m in METRICS.values() if not m.name.startswith("advice"))


def entry_of(p: Prediction) -> dict[str, Any]:
    """Return the entry of a prediction; its keys have the order in which they are written."""
    entry: dict[str, Any] = {"kernel": p.kernel, "grid": list(p.grid), "block": list(p.block)}
    if p.origin is not None and (written := _arguments(p.origin[1])):
        entry["arguments"] = written
    entry["updates"] = p.updates
    for metric in stored_metrics():
        value: Any = metric.read(p)
        if value is not None:
            entry[metric.name] = value if metric.kind is Kind.NAME else number(value)
    entry["resident_blocks"] = p.occupancy.resident_blocks
    entry["occupancy_limited_by"] = p.occupancy.limited_by
    entry["shared_bytes"] = p.resources.shared_bytes
    if doubles := double_lines(p):
        entry["double_instructions"] = sum(doubles.values())
    entry["bounds"] = {name: number(time) for name, time in p.bounds.items()}
    if fields := _fields(p):
        entry["fields"] = fields
    if p.origin is not None and (written := source_launches(p.origin[0], p.origin[2])):
        entry["source_launches"] = written
    if p.origin is not None and (made_by := compilers(p.origin[0], p.origin[2])):
        entry["compilers"] = made_by
    entry["model_version"] = p.model_version
    entry["device_digest"] = p.device_digest
    entry["kernel_digest"] = UNKNOWN if p.origin is None else digest(*p.origin)
    return entry


def number(value: float) -> int | float:
    """An integer where it is one, so that the file shows it as such."""
    plain = float(value)
    return int(plain) if plain.is_integer() and abs(plain) < 1e15 else plain


def _arguments(launch: Launch) -> str:
    """Scalar and buffer arguments as text; anything else has no text that is stable."""
    given = launch.args
    pairs = given.items() if isinstance(given, Mapping) else enumerate(given)
    written = ((name, _format_argument(value)) for name, value in pairs)
    return ", ".join(f"{name}={text}" for name, text in written if text)


def _format_argument(value: object) -> str:
    if isinstance(value, Buffer):
        return f"{value.dtype}[{'×'.join(map(str, value.shape))}]"
    if isinstance(value, TensorMap):
        shape, box = ("×".join(map(str, e)) for e in (value.shape, value.box))
        return f"{value.dtype}[{shape}] in {box}"
    if isinstance(value, float):
        return repr(float(value))
    return str(int(value)) if hasattr(value, "__index__") else ""


def _fields(p: Prediction) -> dict[str, dict[str, dict[str, int | float]]]:
    """Field → volume → part → amount; parts that are nothing beside the total are left out."""
    result: dict[str, dict[str, dict[str, int | float]]] = {}
    for name in UNITS:
        volume: Volume = getattr(p.volumes, name)
        for field, own in volume.fields.items():
            parts = own.parts or {"total": own.total}
            floor = _NEGLIGIBLE * float(volume.total)
            kept = {part: number(v) for part, v in parts.items() if float(v) > floor}
            if kept:
                result.setdefault(field, {})[name] = kept
    return {field: result[field] for field in sorted(result)}


def leaves(table: Mapping[str, Any], above: Path = ()) -> Iterator[tuple[Path, Leaf]]:
    """Yield each value with its path, in the order of the table."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from leaves(value, (*above, key))
        else:
            yield (*above, key), tuple(value) if isinstance(value, list) else value


def unit_of(path: Path) -> str:
    """The base unit of a value, ``"%"`` for a share, ``""`` for a count."""
    if path[0] == "bounds":
        return "s"
    if path[0] == "fields":
        return UNITS.get(path[2], "") if len(path) > 2 else ""
    if path == ("shared_bytes",):
        return "B"
    metric = METRICS.get(path[0])
    if metric is None:
        return ""
    return "%" if metric.kind is Kind.FRACTION else metric.unit


def is_volume(path: Path) -> bool:
    """Return True if the value grows with the launch, so that it is shown per update, too."""
    metric = METRICS.get(path[0])
    return path[0] == "fields" or (metric is not None and metric.extensive)
