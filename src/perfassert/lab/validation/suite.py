"""Contents of a suite: launches of the rows of a CSV file, and the rows' measured values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfassert.frontends.tables import IntegerOrText
from perfassert.lab.validation.recorded import RecordedSource

WARP_INSTRUCTION = "warp_memory_instruction"
"""Granularity besides thread, update, warp and block: one load or store of one warp."""
RANDOM, ELEMENT = "random", "i"
"""Ways to fill a buffer: at random, or by an expression over the number of the element."""
TIME = "time"
BANDWIDTH = "bandwidth"
"""Metric besides those of a prediction: the suite's bytes divided by the time."""


@dataclass(frozen=True, slots=True)
class CellCondition:
    """Condition on the cells of a column: one of ``values``, or in [``low``, ``high``]."""

    column: str
    values: tuple[str | float, ...] | None
    low: float = float("-inf")
    high: float = float("inf")

    def holds(self, cell: str) -> bool:
        """Return True if a cell passes; numbers are compared as numbers, strings as written."""
        number = _number(cell)
        if self.values is None:
            return number is not None and self.low <= number <= self.high
        return any(cell == v if isinstance(v, str) else number == v for v in self.values)


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """Device by ``name``, or by the cells of ``column``.

    ``changes`` are passed to ``replace()``. A string among them is an expression over the columns
    of a row, without effect if a cell that it uses is empty.
    """

    name: str = ""
    column: str = ""
    changes: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class CudaSource:
    """A kernel in a file; its options are those of :func:`perfassert.from_cuda`."""

    path: Path
    kernel: str
    defines: Mapping[str, IntegerOrText]
    include_dirs: tuple[Path, ...]
    options: tuple[str, ...]
    updates_per_thread: IntegerOrText
    extra: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """A kernel: arguments of :meth:`perfassert.Kernel.from_accesses`, a source, or recordings.

    ``constants`` and ``launch`` are complete, with the kernel's own before the suite's. ``rows``
    are the cells of the launches to measure, if the suite names them. ``improves`` is the kernel
    that does the same work, row by row, before an optimisation.
    """

    accesses: Mapping[str, Any] | None
    cuda: CudaSource | None
    constants: Mapping[str, IntegerOrText]
    launch: Mapping[str, Any]
    rows: tuple[Mapping[str, str], ...] = ()
    improves: str = ""
    recorded: RecordedSource | None = None


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """Metric and the columns that measured it: their sum times ``factor``, in base units.

    ``bytes`` is what a bandwidth counts. ``inverse``: the columns hold a bandwidth for a predicted
    time, or the reverse; the measurement is then ``bytes`` divided by the sum.
    """

    name: str
    columns: tuple[str, ...]
    unit: str
    factor: float
    per: str = ""
    bytes: IntegerOrText | None = None
    inverse: bool = False

    @property
    def higher_is_better(self) -> bool:
        """True if the best configuration has the largest value of the metric."""
        return self.name in (BANDWIDTH, "occupancy")


@dataclass(frozen=True, slots=True)
class FittedOn:
    """Fit that has seen measurements of a suite, and the rows that it has seen.

    The entry names what was fitted: ``values`` of ``devices``, kernel ``sources``, or what ``note``
    describes. ``half``: only the fitting half of the configurations was seen, and of it the rows
    that pass ``filters``. Only ``metrics`` were seen; all if there are none.
    """

    devices: tuple[str, ...]
    values: tuple[str, ...]
    sources: tuple[str, ...]
    half: bool
    filters: tuple[CellCondition, ...]
    metrics: tuple[str, ...]
    note: str


@dataclass(frozen=True, slots=True)
class Suite:
    """Checked suite file, as plain data that can be sent to workers.

    ``kernels`` have the values of ``select`` joined by ``/`` as keys, or there is one under ``""``.
    Rows that agree in the columns of ``group`` are alternatives of one problem and are ranked
    together. ``uses`` are (key, name) of every expression, to be checked against the columns.
    ``targets`` are desired figures by metric and figure. ``limits`` say where and why predictions
    are wrong, in a paragraph each. Rows that agree in the columns of ``configuration`` are one
    configuration, which is never on both sides of a fit. Of rows that agree in ``distinct``, only
    the first is predicted. ``toolchain`` is the release that compiled the measured kernels
    (``"12.4"``), if the suite names it.
    """

    path: Path
    title: str
    source: str
    data: str
    select: tuple[str, ...]
    group: tuple[str, ...]
    device: DeviceSpec
    filters: tuple[CellCondition, ...]
    kernels: Mapping[str, KernelSpec]
    metrics: tuple[MetricSpec, ...]
    uses: tuple[tuple[str, str], ...]
    targets: Mapping[str, Mapping[str, float]]
    limits: tuple[str, ...]
    configuration: tuple[str, ...] = ()
    fitted_on: tuple[FittedOn, ...] = ()
    toolchain: str = ""
    distinct: tuple[str, ...] = ()

    def kernel_key(self, row: Mapping[str, str]) -> str:
        """Return the key of a row's kernel in ``kernels``."""
        return "/".join(row[column] for column in self.select)
