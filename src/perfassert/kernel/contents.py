"""Contents of buffers, from data or from generators that are written as text.

A generator such as ``"random(0, n)"`` is a word, bounds and options. It is parsed, never evaluated
as Python. Names in it are arguments of the launch. The same text, shape and seed give the same
array on every machine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from perfassert.errors import LaunchError, close_matches
from perfassert.shipped import model_number

if TYPE_CHECKING:
    from perfassert.kernel.buffer import Buffer
from perfassert.kernel.elements import convert_elements, element_type
from perfassert.kernel.expression import BinaryOperation, Constant, Variable, evaluate, to_text
from perfassert.kernel.expression_text import Literal, NotAnExpression, NumberReader, read_call

Array = npt.NDArray[Any]
_CALL = re.compile(r"(sorted\s+)?([a-z_]+)\s*(?:\((.*)\))?$", re.S)
_ALLOWED = "only integers, + - * // % and names of arguments"
_MODULO = re.compile(r"arange\s*%\s*(\S.*)$", re.S)
_CONSTANT = re.compile(r"constant\s+(\S.*)$", re.S)
_NAMES = ("random", "permutation", "arange", "constant", "csr_rows")
_SKEWS = ("uniform", "power-law", "banded")
_TAIL = model_number("row_length_exponent")


def contents(buffer: Buffer, names: Mapping[str, int] | None = None) -> Array | None:
    """Return the buffer's contents as a flat array, or None if it has neither data nor a generator.

    ``names``: integer arguments that a generator may mention. Raises
    :class:`~perfassert.errors.LaunchError` for a generator that cannot be read.
    """
    if buffer.data is not None:
        return buffer.data.reshape(-1)
    if buffer.fill is None:
        return None
    size = int(np.prod(buffer.shape, dtype=np.int64))
    made = _generate(buffer.fill.strip(), size, np.random.default_rng(buffer.seed), names or {})
    return convert_elements(made, buffer.dtype, f"generator {buffer.fill!r} makes")


def check_generator(buffer: Buffer, names: Mapping[str, int]) -> None:
    """Raise the error that :func:`contents` would raise for the generator's text.

    It makes an array of no elements, so that the check costs nothing.
    """
    assert buffer.fill is not None
    _generate(buffer.fill.strip(), 0, np.random.default_rng(buffer.seed), names)
    element_type(buffer.dtype)


def _generate(
    text: str, size: int, generator: np.random.Generator, names: Mapping[str, int]
) -> Array:
    if match := _MODULO.match(text):
        divisor = _read_number(match[1], names, text)
        if divisor < 1:
            raise LaunchError(f"generator {text!r}: the divisor must be at least 1, not {divisor}")
        return np.arange(size) % min(divisor, max(size, 1))  # which need not fit in 64 bits
    if match := _CONSTANT.match(text):
        return np.full(size, _constant(match[1], names, text))
    call = _CALL.match(text)
    if call is None or call[2] not in _NAMES:
        near = close_matches(call[2] if call else text, _NAMES)
        raise LaunchError(f"{text!r} is no generator: {', '.join(_NAMES)}{near}")
    arguments, options = _arguments(call[3] or "", names, text)
    if call[1] and call[2] != "random":
        raise LaunchError(f"generator {text!r}: only random numbers can be sorted")
    if "seed" in options:
        generator = _seeded_generator(options.pop("seed"), text)
    made = _MAKERS[call[2]](text, size, generator, arguments, options)
    return np.sort(made) if call[1] else made


def _seeded_generator(seed: object, text: str) -> np.random.Generator:
    """Return a random generator with the seed of the text, which overrides the buffer's seed."""
    if not isinstance(seed, int) or seed < 0:
        raise LaunchError(f"generator {text!r}: seed must be an integer ≥ 0, not {seed!r}")
    return np.random.default_rng(seed)


def _random(
    text: str, size: int, generator: np.random.Generator, bounds: list[int], options: dict[str, Any]
) -> Array:
    if len(bounds) != 2 or options or bounds[0] >= bounds[1]:
        raise LaunchError(f"generator {text!r}: write random(low, high), low < high (exclusive)")
    if bounds[0] < -(1 << 63) or bounds[1] > 1 << 63:
        raise LaunchError(f"generator {text!r}: the bounds must fit in 64 bits")
    return generator.integers(bounds[0], bounds[1], size)


def _permutation(
    text: str, size: int, generator: np.random.Generator, bounds: list[int], options: dict[str, Any]
) -> Array:
    if bounds or options:
        raise LaunchError(f"generator {text!r}: a permutation takes nothing")
    return generator.permutation(size)


def _arange(
    text: str, size: int, generator: np.random.Generator, bounds: list[int], options: dict[str, Any]
) -> Array:
    if bounds or options:
        raise LaunchError(f"generator {text!r}: write arange, or arange % n")
    return np.arange(size)


def _csr_rows(
    text: str, size: int, generator: np.random.Generator, bounds: list[int], options: dict[str, Any]
) -> Array:
    """Return row pointers of ``size - 1`` rows with a mean of ``nnz_per_row`` entries.

    ``skew``: ``"banded"``: all rows have the mean; ``"uniform"``: 0 to twice the mean, equally
    likely; ``"power-law"``: most rows are short, few are long.
    """
    # Lengths 2 0 3 of three rows give the pointers 0 2 2 5.
    mean, skew = options.pop("nnz_per_row", None), options.pop("skew", "uniform")
    if bounds or options or not isinstance(mean, int) or mean < 0 or skew not in _SKEWS:
        raise LaunchError(
            f"generator {text!r}: write csr_rows(nnz_per_row=16, skew='power-law'); "
            f"skews: {', '.join(_SKEWS)}"
        )
    rows = max(size - 1, 0)
    if 2 * mean * max(rows, 1) >= 1 << 63:
        raise LaunchError(f"generator {text!r}: the row pointers must fit in 64 bits")
    if skew == "banded":
        lengths = np.full(rows, mean)
    elif skew == "uniform":
        lengths = generator.integers(0, 2 * mean + 1, rows)
    else:
        weights = (1.0 - generator.random(rows)) ** (-1.0 / (_TAIL - 1.0))
        weights = np.minimum(weights, max(rows, 1) ** 0.5)  # no row holds a large share of all
        ends = np.cumsum(weights) * (mean * rows / max(weights.sum(), 1.0))
        lengths = np.diff(np.rint(ends).astype(np.int64), prepend=0)  # that they sum up to the mean
    return np.concatenate(([0], np.cumsum(lengths)))[:size]


_MAKERS: Mapping[str, Callable[..., Array]] = {
    "random": _random, "permutation": _permutation, "arange": _arange, "csr_rows": _csr_rows,
    "constant": lambda text, *_: _reject_call(text),
}  # fmt: skip


def _reject_call(text: str) -> Array:
    raise LaunchError(f"generator {text!r}: write constant 3")


def _arguments(text: str, names: Mapping[str, int], whole: str) -> tuple[list[int], dict[str, Any]]:
    """Return positional numbers and named options; only the options may be texts."""
    if not text.strip():
        return [], {}
    try:
        call = read_call(f"f({text})")
    except NotAnExpression as reason:
        raise _unreadable(reason, whole) from None
    numbers = [_evaluate_literal(literal, names, whole) for literal in call.given]
    return numbers, {
        name: literal if isinstance(literal, str) else _evaluate_literal(literal, names, whole)
        for name, literal in call.named.items()
    }


def _read_number(text: str, names: Mapping[str, int], whole: str) -> int:
    try:
        return _evaluate_literal(NumberReader(text).read(), names, whole)
    except NotAnExpression as reason:
        raise _unreadable(reason, whole) from None


def _unreadable(reason: NotAnExpression, whole: str) -> LaunchError:
    if str(reason).startswith("not a"):
        return LaunchError(f"generator {whole!r} cannot be read")
    return LaunchError(f"generator {whole!r}: {_ALLOWED}")


def _constant(text: str, names: Mapping[str, int], whole: str) -> float:
    try:
        number = float(text) if "." in text else _read_number(text, names, whole)
    except ValueError:
        raise LaunchError(f"generator {whole!r}: {text!r} is not a number") from None
    if isinstance(number, int) and not -(1 << 63) <= number < 1 << 64:
        raise LaunchError(f"generator {whole!r}: {text!r} must fit in 64 bits")
    return number


def _evaluate_literal(literal: Literal, names: Mapping[str, int], whole: str) -> int:
    if not isinstance(literal, (Constant, Variable, BinaryOperation)):
        raise LaunchError(f"generator {whole!r}: {_ALLOWED}")
    try:
        return evaluate(literal, names)
    except KeyError as missing:
        name = str(missing.args[0])
        listed = f"; the launch has: {', '.join(names)}" if names else ""
        known = close_matches(name, names) or listed
        raise LaunchError(f"generator {whole!r}: no integer argument {name!r}{known}") from None
    except ZeroDivisionError:
        raise LaunchError(f"generator {whole!r}: {to_text(literal)} divides by zero") from None
