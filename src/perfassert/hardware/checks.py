"""Checks of relations between values of a device, which raise ``DeviceFileError``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from perfassert.errors import DeviceFileError
from perfassert.hardware.entries import Operation
from perfassert.hardware.schema import VALUES
from perfassert.quantity import to_real

_SMALLEST = 1e-18
"""Of values that are not 0: what divides by less leaves the numbers that a computer has."""
Fail = Callable[[str, str], None]


def check_consistency(
    values: Mapping[str, float],
    operations: Mapping[str, Operation],
    matrix: Mapping[str, float],
    pipelines: Collection[str],
    where: str,
) -> None:
    """Raise :class:`DeviceFileError` for values that cannot hold together."""

    def fail(key: str, reason: str) -> None:
        raise DeviceFileError(f"{where}: {key}: {reason}")

    for key, rule in VALUES.items():
        number = to_real(values[key], f"{where}: {key}:", DeviceFileError)
        if rule.integer and number != int(number):
            fail(key, f"must be an integer, not {number!r}")
        if number <= rule.minimum if rule.exclusive else number < rule.minimum:
            bound = "above" if rule.exclusive else "at least"
            fail(key, f"must be finite and {bound} {rule.minimum:g}, not {number!r}")
        if number > rule.maximum:
            fail(key, f"must be at most {rule.maximum:g}, not {number:g}")
        if 0 < number < _SMALLEST:
            fail(key, f"must be at least {_SMALLEST:g}, not {number:g}")
    _check_order(values, fail)
    for operation in operations.values():
        _check_operation(operation, pipelines, fail)
    for name, rate in matrix.items():
        to_real(rate, f"{where}: matrix.{name}:", DeviceFileError, above=0)


def _check_operation(operation: Operation, pipelines: Collection[str], fail: Fail) -> None:
    key = f"operations.{operation.name}"
    if not 0 < operation.issue < float("inf"):
        fail(f"{key}.issue", f"λ must be above 0 and finite, not {operation.issue!r}")
    if not 0 < operation.completion < float("inf"):
        fail(f"{key}.completion", f"Λ must be above 0 and finite, not {operation.completion!r}")
    if operation.pipeline not in pipelines:
        fail(f"{key}.pipeline", f"{operation.pipeline!r} is none of: {', '.join(pipelines)}")


def _check_order(values: Mapping[str, float], fail: Fail) -> None:
    ordered = [  # (smaller, larger)
        ("l1_bytes", "l2_bytes"),
        ("l1_line_bytes", "l1_bytes"),
        ("sector_bytes", "l1_line_bytes"),
        ("sector_bytes", "dram_granularity"),
        ("shared_bytes_per_block", "shared_bytes_per_unit"),
        ("max_threads_per_block", "max_threads_per_unit"),
        ("warp_size", "max_threads_per_block"),
        ("l1_latency", "l2_latency"),
        ("l2_latency", "dram_latency"),
        ("dram_bandwidth", "l2_bandwidth"),
        ("sustained_clock_hz", "clock_hz"),
        ("slowest_clock_hz", "clock_hz"),
    ]
    if values["fastest_clock_hz"]:
        ordered.append(("clock_hz", "fastest_clock_hz"))
    for key in ("dram_channels", "dram_page_bytes", "dram_queue_depth", "dram_request_bytes"):
        if values["dram_activate"] and not values[key]:
            fail(key, "is needed, as the file has dram_activate")
    if values["l2_slices"] and not values["l2_slice_bytes"]:
        fail("l2_slice_bytes", "is needed, as the file has l2_slices")
    for small, large in ordered:
        if values[small] > values[large]:
            fail(small, f"{values[small]:g} is larger than {large} = {values[large]:g}")
    whole = [
        ("l1_line_bytes", "sector_bytes"),
        ("dram_granularity", "sector_bytes"),
        ("max_threads_per_unit", "warp_size"),
    ]
    for multiple, divisor in whole:
        if values[multiple] % values[divisor]:
            fail(multiple, f"must be a multiple of {divisor} = {values[divisor]}")
