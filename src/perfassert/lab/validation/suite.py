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
    """A device by ``name``, or by the cells of ``column``.

    ``changes`` go to ``replace()``; a string among them is an expression over the columns of a
    row, and without effect where a cell that it uses is empty.
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
    """One kernel: the arguments of :meth:`perfassert.Kernel.from_accesses`, a source file, or
    recordings of programs.

    ``constants`` and ``launch`` are complete: the kernel's own before the suite's. ``rows``: the
    cells of the launches that are to be measured, where the suite names them. ``improves``: the
    kernel that does the same work, row by row, before an optimisation.
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
    """A metric and the columns that measured it: their sum times ``factor`` in base units.

    ``bytes``: what a bandwidth counts. ``inverse``: the columns hold a bandwidth where a time is
    predicted, or the reverse; the measurement is then ``bytes`` over it.
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
    """A suite file, checked. Plain data, so that workers can have it.

    ``kernels`` by the values of ``select`` joined by ``/``, or one under ``""``. Rows that agree
    in the columns of ``group`` are alternatives of one problem; ranks are taken among them.
    ``uses``: (key, name) of every expression, for the check against the columns. ``targets``: what
    the figures of a metric should be, by metric and figure. ``limits``: where and why the
    predictions are wrong, a paragraph each. Rows that agree in the columns of ``configuration``
    are one, and never on both sides of a fit; of those that agree in ``distinct`` only the first is
    predicted. ``toolchain``: the release that compiled what was
    measured (``"12.4"``), if the suite names it.
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
