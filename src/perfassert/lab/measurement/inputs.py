"""Arguments of a launch: numbers in the width of their parameters, buffers filled by the suite."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfassert.errors import SuiteError
from perfassert.frontends.toolchain.binary import Binary, Parameter
from perfassert.kernel.field import item_bytes
from perfassert.kernel.integers import evaluate_integer
from perfassert.lab.measurement.gpu import ParameterMemory, Scalar
from perfassert.lab.validation.build import Names, value
from perfassert.lab.validation.suite import ELEMENT, RANDOM

_SEED = 1  # the same contents in every run
_PATTERN = 1 << 20  # elements of a random pattern, which repeats
_FLOATS = {"float": "c_float", "double": "c_double"}
_INTEGERS = {1: "c_int8", 2: "c_int16", 4: "c_int32", 8: "c_int64"}


def kernel_arguments(
    binary: Binary, values: Any, names: Names
) -> tuple[ParameterMemory | Scalar, ...]:
    """Return a value for each parameter, in order; raises :class:`SuiteError` if one is missing."""
    by_name = isinstance(values, Mapping)
    inputs: list[ParameterMemory | Scalar] = []
    for position, parameter in enumerate(binary.parameters):
        here = position < len(values)
        entry = values.get(parameter.name) if by_name else values[position] if here else None
        where = f"argument {parameter.name!r} of kernel {binary.kernel!r}"
        if entry is None:
            raise SuiteError(f"{where}: a measurement needs it; give it in launch.args")
        if parameter.pointer != isinstance(entry, Mapping):
            need = "the shape of its buffer" if parameter.pointer else "a number"
            raise SuiteError(f"{where}: needs {need}, not {entry!r}")
        if isinstance(entry, Mapping):
            inputs.append(memory(entry, names))
        else:
            inputs.append(_scalar(parameter, entry, names, where))
    return tuple(inputs)


def _scalar(parameter: Parameter, entry: Any, names: Names, where: str) -> Scalar:
    number = entry if isinstance(entry, float) else value(entry, names)
    if parameter.dtype in _FLOATS:
        return Scalar(float(number), _FLOATS[parameter.dtype])
    if parameter.size not in _INTEGERS or isinstance(number, float):
        raise SuiteError(f"{where}: {entry!r} cannot be passed as {parameter.dtype or 'it'}")
    bits = 8 * parameter.size
    wrapped = (number + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)
    return Scalar(wrapped, _INTEGERS[parameter.size])


def memory(entry: Mapping[str, Any], names: Names) -> ParameterMemory:
    """Return a buffer filled by the suite; by default floats are random and integers zero."""
    shape = entry["shape"]
    shape = shape if isinstance(shape, tuple) else (shape,)
    count = int(np.prod([value(extent, names) for extent in shape], dtype=np.int64))
    dtype = str(entry.get("dtype", "float32"))
    size = count * item_bytes(dtype)
    fill = entry.get("fill", RANDOM if "float" in dtype else 0)
    if fill in (0, 0.0):
        return ParameterMemory(size)
    if fill == RANDOM:
        return ParameterMemory(size, _random(dtype, min(count, _PATTERN)))
    return ParameterMemory(size, _fill_array(fill, count, dtype, names))


def _random(dtype: str, count: int) -> NDArray[Any]:
    generator = np.random.default_rng(_SEED)
    if dtype == "bfloat16":  # the upper half of a float
        bits = generator.random(count, dtype=np.float32).view(np.uint32) >> 16
        return bits.astype(np.uint16)
    kind = np.dtype(dtype)
    if kind.kind in "iub":
        return generator.integers(0, 128, count).astype(kind)
    return generator.random(count, dtype=np.float32).astype(kind)


def _fill_array(fill: float | int | str, count: int, dtype: str, names: Names) -> NDArray[Any]:
    if dtype == "bfloat16":
        raise SuiteError("fill: bfloat16 can be random or 0")
    if not isinstance(fill, str):
        return np.full(min(count, _PATTERN), fill, dtype)
    elements: Any = np.arange(count, dtype=np.int64)
    values = evaluate_integer(fill, {**names, ELEMENT: elements}, SuiteError)
    return np.broadcast_to(np.asarray(values), (count,)).astype(dtype)
