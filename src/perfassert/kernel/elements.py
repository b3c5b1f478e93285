"""Conversion of arrays to the element type of a buffer, without a change of their values."""

from __future__ import annotations

from typing import Any, Union

import numpy as np
import numpy.typing as npt

from perfassert.errors import LaunchError, in_short

Array = npt.NDArray[Any]
_NUMBERS = "biufcV"  # numpy's letters of the kinds of numbers, and of structures of numbers


def element_type(dtype: Union[str, np.dtype[Any]]) -> np.dtype[Any]:
    """Return numpy's type of an element, in the byte order of this machine.

    Raises:
        LaunchError: numpy does not know the type, or it is no type of numbers.
    """
    try:
        kind = np.dtype(dtype)
    except (TypeError, ValueError):
        raise LaunchError(f"{in_short(dtype)} is no type that numpy knows") from None
    if kind.hasobject:
        raise LaunchError(f"a Buffer holds numbers, not Python objects ({kind})")
    if kind.kind not in _NUMBERS:
        raise LaunchError(f"a Buffer holds numbers, not values of type {kind}")
    return kind.newbyteorder("=")


def convert_elements(values: Array, dtype: str | None, source: str) -> Array:
    """Return values as an array of a type in C order; an array that is one already is not copied.

    Integer types and ``bool`` take values that they hold exactly. Float types round real numbers
    to the nearest one that they hold, as a float parameter does.

    Args:
        values: numbers of any type and byte order.
        dtype: type of an element. None: that of ``values``.
        source: subject of an error message: ``"a Buffer's data has"``.

    Raises:
        LaunchError: values that are no numbers, or that the type does not hold.
    """
    given = element_type(values.dtype)
    kind = given if dtype is None else element_type(dtype)
    if given == kind:
        return np.ascontiguousarray(values, dtype=kind)
    if "V" in (given.kind, kind.kind) or (given.kind == "c" and kind.kind != "c"):
        raise LaunchError(f"{source} elements of type {given}, which {kind} does not hold")
    with np.errstate(over="ignore", invalid="ignore"):  # the values are checked below
        converted = np.ascontiguousarray(values, dtype=kind)
    misfit = _integer_misfit(values, kind) if kind.kind in "biu" else _overflow(values, converted)
    if misfit is not None:
        raise LaunchError(
            f"{source} {misfit}, which {kind} does not hold; give the Buffer another dtype"
        )
    return converted


def _integer_misfit(values: Array, kind: np.dtype[Any]) -> object:
    """Return a value that an integer type or ``bool`` does not hold, or None."""
    if values.dtype.kind == "f":
        fractions = values[~np.isfinite(values) | (values != np.trunc(values))]
        if fractions.size:
            return fractions[0]
    low, high = (0, 1) if kind.kind == "b" else (np.iinfo(kind).min, np.iinfo(kind).max)
    extremes = (int(values.min()), int(values.max())) if values.size else ()
    return next((value for value in extremes if not low <= value <= high), None)


def _overflow(values: Array, converted: Array) -> object:
    """Return a finite value that is infinite in a shorter type, or None."""
    misfits = values[np.isfinite(values) & ~np.isfinite(converted)]
    return misfits[0] if misfits.size else None
