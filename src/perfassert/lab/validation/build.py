"""Kernel, launch and device of a row of a suite; predicted and measured value of each metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from perfassert.errors import SuiteError
from perfassert.expect.metrics import METRICS, metric, value_of
from perfassert.facade.prediction import Prediction
from perfassert.frontends.files import OWN
from perfassert.frontends.tables import IntegerOrText, of_a_tensor_map
from perfassert.hardware.load import device as load_device
from perfassert.hardware.model import Device
from perfassert.hardware.occupancy import occupancy
from perfassert.kernel.description import Kernel
from perfassert.kernel.field import Field
from perfassert.kernel.integers import evaluate_integer, integer_names
from perfassert.kernel.launch import Buffer, Launch
from perfassert.kernel.tensor_map import TensorMap
from perfassert.lab.validation.suite import (
    BANDWIDTH,
    TIME,
    WARP_INSTRUCTION,
    CudaSource,
    DeviceSpec,
    KernelSpec,
    MetricSpec,
)

Names = Mapping[str, int]
Cells = Mapping[str, str]


def row_names(spec: KernelSpec, cells: Cells) -> Names:
    """Return the values of the names in expressions: columns with integers, and constants."""
    names = _whole_numbers(cells)
    for name, text in spec.constants.items():
        names[name] = value(text, names)
    return names


def _whole_numbers(cells: Cells) -> dict[str, int]:
    names: dict[str, int] = {}
    for column, cell in cells.items():
        try:
            number = Decimal(cell)
        except InvalidOperation:
            continue
        if number.is_finite() and number == int(number):
            names[column] = int(number)
    return names


def value(expression: IntegerOrText, names: Names) -> int:
    """Return the value of an expression.

    Raises :class:`SuiteError` if a column in it has no integer in this row.
    """
    if isinstance(expression, int):
        return expression
    if missing := integer_names(expression, SuiteError) - names.keys():
        raise SuiteError(f"{expression!r}: column {min(missing)!r} has no integer in this row")
    return evaluate_integer(expression, names, SuiteError)


def _values(tree: Any, names: Names) -> Any:
    """Return nested lists and mappings with all expressions replaced by their values."""
    if isinstance(tree, (int, str)):
        return value(tree, names)
    if isinstance(tree, Mapping):
        return {k: _values(v, names) for k, v in tree.items()}
    return tuple(_values(v, names) for v in tree) if isinstance(tree, Sequence) else tree


def make_device(spec: DeviceSpec, cells: Cells) -> Device:
    """Return the device of a row with the suite's changes; raises the errors of :func:`device`."""
    device = load_device(spec.name or cells[spec.column])
    names = _whole_numbers(cells)
    changes = {
        k: value(v, names) if isinstance(v, str) else v
        for k, v in (spec.changes or {}).items()
        if not (isinstance(v, str) and _empty(v, cells))
    }
    return device.replace(**changes) if changes else device


def _empty(expression: str, cells: Cells) -> bool:
    return any(not cells.get(name, "") for name in integer_names(expression, SuiteError))


def make_kernel(spec: KernelSpec, names: Names, label: str) -> Kernel:
    """Return the kernel of a row; raises :class:`SuiteError`, or an error of its front end."""
    if spec.cuda is not None:
        return _from_cuda(spec.cuda, names)
    accesses = dict(spec.accesses or {})
    plain = {
        k: accesses.pop(k) for k in ("name", "dtype", "loads", "stores", "assume") if k in accesses
    }
    fields = [_field(f, names) for f in accesses.pop("fields", ())]
    return Kernel.from_accesses(
        **{"name": label or "kernel", "fields": fields, **plain, **_values(accesses, names)}
    )


def _field(table: Mapping[str, Any], names: Names) -> Field:
    plain = {k: table[k] for k in ("name", "dtype") if k in table}
    return Field(**plain, **_values({k: v for k, v in table.items() if k not in plain}, names))


def _from_cuda(source: CudaSource, names: Names) -> Kernel:
    extra = dict(source.extra)
    if "trip_counts" in extra:
        extra["trip_counts"] = _values(extra["trip_counts"], names)
    return OWN["cuda"].make(
        source.path,
        source.kernel,
        defines=_values(source.defines, names),
        include_dirs=source.include_dirs,
        options=source.options,
        updates_per_thread=value(source.updates_per_thread, names),
        **extra,
    )


@dataclass(frozen=True, slots=True)
class Case:
    """Kernel and launch, with the number of times that the program makes this launch."""

    kernel: Kernel
    launch: Launch
    count: int = 1


def make_cases(
    spec: KernelSpec, cells: Cells, names: Names, label: str, device: Device
) -> tuple[Case, ...]:
    """Return the launches of a row, built from the suite or taken from a recording."""
    source = spec.recorded
    if source is None:
        kernel = make_kernel(spec, names, label)
        return (Case(kernel, make_launch(spec.launch, names, kernel, device)),)
    if not source.column:
        return tuple(Case(x.kernel, x.launch, x.count) for x in source.find_all(cells))
    grid, block = (_dimensions(spec.launch[k], names) for k in ("grid", "block"))
    recorded = source.find(cells, (grid, block))
    return (Case(recorded.kernel, recorded.launch),)


def _dimensions(dimensions: Any, names: Names) -> tuple[int, ...]:
    values = _values(dimensions, names)
    values = values if isinstance(values, tuple) else (values,)
    return (*values, *(1 for _ in range(3 - len(values))))


def make_launch(table: Mapping[str, Any], names: Names, kernel: Kernel, device: Device) -> Launch:
    """Return the launch of a row.

    ``resident_blocks`` is reached by adding dynamic shared memory: see :func:`holding`.
    """
    arguments = {"args": _arguments(table["args"], names)} if "args" in table else {}
    shape = {k: _values(v, names) for k, v in table.items() if k != "args"}
    resident = shape.pop("resident_blocks", None)
    make = Launch.cover if "domain" in shape else Launch
    launch = make(**shape, **arguments)
    if resident is None:
        return launch
    return make(**shape, **arguments, shared_bytes=holding(resident, launch, kernel, device))


def _arguments(arguments: Any, names: Names) -> Any:
    if isinstance(arguments, Mapping):
        return {k: _make_argument(v, names) for k, v in arguments.items()}
    return tuple(_make_argument(v, names) for v in arguments)


def _make_argument(argument: Any, names: Names) -> Any:
    if not isinstance(argument, Mapping):
        plain = argument is None or isinstance(argument, float)
        return argument if plain else value(argument, names)
    sizes = _values({k: v for k, v in argument.items() if k not in ("dtype", "fill")}, names)
    dtype = {"dtype": argument["dtype"]} if "dtype" in argument else {}
    if of_a_tensor_map(argument):
        return TensorMap(**sizes, **dtype)
    shape = sizes.pop("shape")
    return Buffer(shape if isinstance(shape, tuple) else (shape,), **sizes, **dtype)


def holding(resident: int, launch: Launch, kernel: Kernel, device: Device) -> int:
    """Return the least dynamic shared memory in bytes that limits an SM to ``resident`` blocks.

    For example, if an SM has 100 KiB and a block uses 10 KiB already, just over 15 KiB more limit
    it to 3 blocks.

    Raises :class:`SuiteError` if no amount gives that number.
    """

    own, _ = kernel.bind(launch, device.arch, device.warp_size)

    def blocks(dynamic: int) -> int:
        shared = own.shared_bytes + dynamic
        return occupancy(device, launch.threads_per_block, own.registers, shared).resident_blocks

    low, high = 0, device.shared_bytes_per_block - own.shared_bytes
    while low < high:  # the least amount with at most `resident` blocks
        middle = (low + high) // 2
        low, high = (low, middle) if blocks(middle) <= resident else (middle + 1, high)
    if (fitting := blocks(low)) != resident:
        raise SuiteError(
            f"launch.resident_blocks: no amount of shared memory limits {launch.describe()} to "
            f"{resident} blocks per SM of {device.name}; the nearest number is {fitting}"
        )
    return low


def predicted_value(spec: MetricSpec, prediction: Prediction, names: Names) -> float:
    """Return the predicted value of a metric in base units.

    Raises :class:`ExpectationError` if the prediction does not have the metric.
    """
    if spec.name == BANDWIDTH:
        return value(spec.bytes or 0, names) / float(prediction.time)
    if spec.per == WARP_INSTRUCTION:
        total = float(value_of(metric(spec.name), prediction))  # type: ignore[arg-type]
        return total / prediction.diagnostics["warp_memory_instructions"]
    return float(value_of(metric(spec.name), prediction, spec.per))  # type: ignore[arg-type]


def total_value(
    spec: MetricSpec, predictions: Sequence[tuple[Prediction, int]], names: Names
) -> float:
    """Return the sum of a metric over launches, each multiplied by its count.

    For a single launch the result is its value, also of metrics that cannot be added. Raises
    :class:`SuiteError` for several launches and such a metric, for example an occupancy.
    """
    if [count for _, count in predictions] == [1]:
        return predicted_value(spec, predictions[0][0], names)
    adds_up = spec.name == TIME or (spec.name in METRICS and METRICS[spec.name].extensive)
    if spec.per or not adds_up:
        raise SuiteError(f"{spec.name}: cannot be added over several launches")
    return sum(count * predicted_value(spec, p, names) for p, count in predictions)


def measured_value(spec: MetricSpec, cells: Cells, names: Names) -> float:
    """Return the measurement in base units; raises :class:`SuiteError` for invalid cells."""
    total = sum(_cell(column, cells[column]) for column in spec.columns) * spec.factor
    if not 0 < total < float("inf"):
        raise SuiteError(f"measured {total:g}; an error in percent needs a finite value above 0")
    return value(spec.bytes or 0, names) / total if spec.inverse else total


def _cell(column: str, cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        shown = f"{cell!r} is not a number" if cell else "is empty"
        raise SuiteError(f"column {column!r}: {shown}") from None
