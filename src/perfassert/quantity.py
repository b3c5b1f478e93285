"""Numbers that users give, and floats that remember their unit: ``Quantity(81.3e-6, "s")``.

Values are held in SI base units (seconds, bytes, bytes per second, hertz);
cycles and plain counts carry no unit. The unit is a name of the table below, with an
optional denominator such as ``/update`` for ratios.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from itertools import islice
from math import inf, isfinite
from operator import index
from typing import Any, TypeVar

from perfassert.errors import PerfAssertError, UnitError, check_kind, close_matches, in_short

T = TypeVar("T")
_DECIMAL = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_SMALL = {"": 1, "m": 10**3, "u": 10**6, "n": 10**9, "p": 10**12}  # divisors
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}

GRANULARITIES = ("thread", "update", "warp", "block")


def _unit_table() -> dict[str, tuple[int, int, str]]:
    """Unit → factor, divisor, base unit: integers, so that 81 us is 81e-6 to the last bit."""
    table = {"": (1, 1, ""), "cycle": (1, 1, ""), "cycles": (1, 1, ""), "%": (1, 100, "")}
    table |= {f"{p}s": (1, divisor, "s") for p, divisor in _SMALL.items()}
    for prefix, factor in (_DECIMAL | _BINARY).items():
        table[f"{prefix}B"] = (factor, 1, "B")
        table[f"{prefix}B/s"] = (factor, 1, "B/s")
    table |= {f"{p}Hz": (factor, 1, "Hz") for p, factor in _DECIMAL.items()}
    return table


LARGEST = 2**63 - 1
"""No count, extent or amount of bytes is larger: engines compute in 64 bits."""


def to_integer(
    value: Any,
    what: str,
    error: type[PerfAssertError],
    minimum: int | None = None,
    maximum: int = LARGEST,
) -> int:
    """Return an integer of Python or of a library (``numpy.int32``) as one of Python.

    ``what`` is the argument as its user knows it; ``error`` is raised for anything else, booleans
    among it, and for what lies outside ``minimum`` and ``maximum``.
    """
    number = _as_integer(value)
    if number is not None and (minimum is None or number >= minimum) and number <= maximum:
        return number
    wanted = "an integer"
    if number is not None:
        wanted = f"at most {maximum}" if number > maximum else f"at least {minimum}"
    raise error(f"{what} must be {wanted}, not {in_short(value)}")


def to_boolean(value: Any, what: str, error: type[PerfAssertError]) -> bool:
    """Return True or False for a boolean of Python or of a library, or for 1 or 0.

    See :func:`to_integer` for the arguments.
    """
    plain = value.item() if hasattr(value, "item") and not _axes(value) else value
    if not isinstance(plain, (bool, int)) or plain not in (0, 1):
        raise error(f"{what} must be True or False, not {in_short(value)}")
    return bool(plain)


_MANY = 16  # items of what has few numbers, such as an extent
_MOST_ITEMS = 2**16  # of a list that a user gives


def to_list(value: Iterable[T], what: str, error: type[PerfAssertError]) -> list[T]:
    """Return the items of a user's list, after a check that they are not too many."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise error(f"{what} must be a list, not {in_short(value)}")
    items = list(islice(value, _MOST_ITEMS + 1))
    if len(items) > _MOST_ITEMS:
        raise error(f"{what} has more than {_MOST_ITEMS} items")
    return items


def to_integers(
    value: Any, what: str, error: type[PerfAssertError], minimum: int, maximum: int = LARGEST
) -> tuple[int, ...]:
    """Return one integer, or several of a tuple, list or array, as a tuple of a few at most."""
    if _as_integer(value) is not None:
        return (to_integer(value, what, error, minimum, maximum),)
    ordered = not isinstance(value, (str, bytes, Mapping, Set))
    try:
        items = list(islice(iter(value), _MANY + 1)) if ordered else None
    except TypeError:
        items = None
    if items is None:
        raise error(f"{what} must be integers, not {in_short(value)}")
    if len(items) > _MANY:
        raise error(f"{what} must be at most {_MANY} numbers")
    return tuple(to_integer(item, what, error, minimum, maximum) for item in items)


def to_real(
    value: Any,
    what: str,
    error: type[PerfAssertError],
    minimum: float | None = None,
    above: float | None = None,
) -> float:
    """Return a finite number of Python or of a library (``numpy.float32``) as one of Python.

    Integers stay integers. See :func:`to_integer`.
    """
    number: float | None = _as_integer(value)
    if number is None:
        number = _as_float(value)
    wanted = "a number"
    if number is not None and not _is_finite(number):
        wanted = "finite"
    elif number is not None:
        wanted = ""
        low = number <= above if above is not None else minimum is not None and number < minimum
        if not low:
            return number
    if above is not None:
        wanted = f"{wanted} above {above:g}"
    elif minimum is not None:
        wanted = f"{wanted} of at least {minimum:g}" if wanted else f"at least {minimum:g}"
    raise error(f"{what} must be {wanted.strip()}, not {in_short(value)}")


def _as_integer(value: Any) -> int | None:
    try:
        return None if isinstance(value, bool) or _kind(value) == "b" else index(value)
    except TypeError:
        return None


def _kind(value: Any) -> str:
    """Return NumPy's kind of an array or a scalar, or an empty text for values without a dtype.

    Booleans have kind ``b``; they are integers before NumPy 2.3.
    """
    return str(getattr(getattr(value, "dtype", None), "kind", ""))


def _as_float(value: Any) -> float | None:
    """Return the value as a float; None for text, arrays with axes, and booleans."""
    if isinstance(value, bool) or not hasattr(value, "__float__") or _axes(value):
        return None
    if _kind(value) not in ("", "f", "i", "u"):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _axes(value: Any) -> Any:
    """Return the number of axes of an array; False (0) for a plain number."""
    axes: Any = getattr(value, "ndim", False)
    return axes


def _is_finite(number: float) -> bool:
    try:
        return isfinite(number)
    except OverflowError:  # an integer beyond every float
        return False


def _signed_infinity(number: int) -> float:
    """Return infinity, with the sign of an integer that exceeds every float."""
    return inf if number > 0 else -inf


_UNITS = _unit_table()
_NUMBER = r"[+-]?(?:\d+(?:_\d+)*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_QUANTITY = re.compile(rf"\s*(?P<number>{_NUMBER})\s*(?P<unit>[^\d\s][^\s]*)?\s*")


@dataclass(frozen=True, slots=True)
class ParsedQuantity:
    """A number in base units, its base unit, its granularity (``"update"`` or ``""``)."""

    value: float
    unit: str
    per: str
    has_unit: bool


def parse_quantity(text: str) -> ParsedQuantity:
    """Parse ``"60 us"``, ``"10 B/update"``, ``"1.4 TB/s"``; raise :class:`UnitError`."""
    plain = re.sub(r"\s*/\s*", "/", text.replace("µ", "u").replace("μ", "u"))
    match = _QUANTITY.fullmatch(plain)
    if match is None:
        raise UnitError(f"{text!r} is not a number with an optional unit, as in '60 us'")
    written = match["unit"] or ""
    unit, per = _split_granularity(written)
    if unit not in _UNITS:
        raise UnitError(f"unknown unit {unit!r} in {text!r}{close_matches(unit, _UNITS)}")
    factor, divisor, base = _UNITS[unit]
    value = float(match["number"]) * factor / divisor
    if not isfinite(value):
        raise UnitError(f"{text!r} is more than a number can be")
    return ParsedQuantity(value, base, per, bool(written))


def _split_granularity(unit: str) -> tuple[str, str]:
    """``"B/update"`` → ``("B", "update")``; plurals are taken too."""
    head, slash, tail = unit.rpartition("/")
    singular = tail.removesuffix("s") if len(tail) > 1 else tail
    if slash and singular in GRANULARITIES:
        return head, singular
    if slash and tail != "s":
        known = ", ".join(f"/{g}" for g in GRANULARITIES)
        raise UnitError(f"unknown denominator '/{tail}' in unit {unit!r}; known: {known}")
    return unit, ""


def round_significant(value: float, digits: int = 10) -> float:
    """Round to significant digits, so that every machine prints the same."""
    return float(f"{value:.{digits - 1}e}")


class Quantity(float):
    """A float in SI base units that remembers its unit and prints with a suitable prefix.

    It compares with numbers (in base units), with other quantities, and with text such as
    ``"60 us"``. Decimal (``GB``) and binary (``GiB``) prefixes are known; ``us``, ``µs`` and ``μs``
    are one. Arithmetic gives a plain ``float``; sums, differences and remainders of quantities need
    one unit.

    Args:
        value: a number in base units, or text with its own unit: ``"1.5 TB/s"``, ``"8 B/update"``.
        unit: base unit of a number: ``"s"``, ``"B"``, ``"B/s"``, ``"Hz"``, or ``""`` (the default)
            for cycles and counts.
        per: denominator of a number: ``"thread"``, ``"update"``, ``"warp"``, ``"block"``, or ``""``
            (the default) for a total.

    Raises:
        UnitError: an unknown unit, text together with ``unit`` or ``per``, a comparison or sum of
            different units, the denominator included, or arithmetic without a result, as a division
            by 0.

    Example:
        >>> import perfassert as pa
        >>> time = pa.Quantity("81.3 us")
        >>> time, float(time), time.unit
        (81.3 us, 8.13e-05, 's')
        >>> time < "60 us", time < 1e-4
        (False, True)
        >>> pa.Quantity(8, "B", per="update") == "8 B/update"
        True
    """

    __slots__ = ("per", "unit")
    unit: str
    per: str

    def __new__(cls, value: float | str, unit: str = "", per: str = "") -> Quantity:
        check_kind(unit, str, "the unit of a Quantity", UnitError)
        check_kind(per, str, "the granularity of a Quantity", UnitError)
        if isinstance(value, str):
            if unit or per:
                raise UnitError(f"{value!r} carries its own unit; give no second one")
            parsed = parse_quantity(value)
            value, unit, per = parsed.value, parsed.unit, parsed.per
        if not isinstance(value, float):
            value = to_real(value, "the value of a Quantity", UnitError)
        if unit not in ("", "s", "B", "B/s", "Hz"):
            raise UnitError(f"{unit!r} is no base unit; base units are s, B, B/s, Hz")
        if per not in ("", *GRANULARITIES):
            raise UnitError(f"{per!r} is no granularity; these are {', '.join(GRANULARITIES)}")
        self = super().__new__(cls, value)
        self.unit = unit
        self.per = per
        return self

    def __getnewargs__(self) -> tuple[float, str, str]:  # type: ignore[override]
        return (float(self), self.unit, self.per)

    def __deepcopy__(self, copies: dict[int, Any]) -> Quantity:
        made = float.__new__(type(self), self)
        made.unit, made.per = self.unit, self.per
        return made

    def __str__(self) -> str:
        return format_quantity(float(self), self.unit, self.per)

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return str(self) if not spec else format(float(self), spec)

    def _comparable(self, other: object) -> float | None:
        """``other`` in this quantity's unit; ``None`` where it is no number at all."""
        if isinstance(other, str):
            parsed = parse_quantity(other)
            if parsed.has_unit or (self.unit and parsed.value):  # "60" of a time is a minute
                self._require_like(parsed.unit, parsed.per, other)
            return parsed.value
        if isinstance(other, Quantity):
            self._require_like(other.unit, other.per, str(other))
            return float(other)
        if isinstance(other, float):
            return float(other)
        if isinstance(other, int):
            return float(other) if _is_finite(other) else _signed_infinity(other)
        return _as_float(other)

    def _require_like(self, unit: str, per: str, shown: str) -> None:
        if not self._is_like(unit, per):
            raise UnitError(f"cannot compare {self} with {shown!r}: the units differ")

    def _is_like(self, unit: str, per: str) -> bool:
        return (unit, per) == (self.unit, self.per)

    def __eq__(self, other: object) -> bool:
        value = self._comparable(other)
        return NotImplemented if value is None else float(self) == value

    def __ne__(self, other: object) -> bool:
        value = self._comparable(other)
        return NotImplemented if value is None else float(self) != value

    def __lt__(self, other: float | str) -> bool:
        value = self._comparable(other)
        return NotImplemented if value is None else float(self) < value

    def __le__(self, other: float | str) -> bool:
        value = self._comparable(other)
        return NotImplemented if value is None else float(self) <= value

    def __gt__(self, other: float | str) -> bool:
        value = self._comparable(other)
        return NotImplemented if value is None else float(self) > value

    def __ge__(self, other: float | str) -> bool:
        value = self._comparable(other)
        return NotImplemented if value is None else float(self) >= value

    def __hash__(self) -> int:
        return float.__hash__(self)


_OPERATORS = {
    "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "truediv": "{} / {}",
    "floordiv": "{} // {}", "mod": "{} % {}", "divmod": "divmod({}, {})", "pow": "{} ** {}",
}  # fmt: skip
_OF_ONE_UNIT = ("add", "sub", "mod")


def _operator(name: str, reflected: str) -> Callable[..., Any]:
    """Method of :class:`Quantity` that computes as a float does, with errors that show both sides;
    ``reflected``: ``"r"`` for the method of the right operand."""
    compute = getattr(float, f"__{reflected}{name}__")

    def method(self: Quantity, other: Any) -> Any:
        sides = map(in_short, (other, self) if reflected else (self, other))
        differ = isinstance(other, Quantity) and not self._is_like(other.unit, other.per)
        if differ and name in _OF_ONE_UNIT:
            raise UnitError(f"{_OPERATORS[name].format(*sides)}: the units differ")
        try:
            return compute(self, other)
        except ArithmeticError as error:  # division by 0, or a result beyond every float
            why = error.args[-1]
            raise UnitError(f"{_OPERATORS[name].format(*sides)}: {why}") from None

    return method


for _name in _OPERATORS:
    setattr(Quantity, f"__{_name}__", _operator(_name, ""))
    setattr(Quantity, f"__r{_name}__", _operator(_name, "r"))


_PRINT_SCALES: dict[str, tuple[tuple[float, str], ...]] = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")),
    "B": ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")),
    "B/s": ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s")),
    "Hz": ((1e9, "GHz"), (1e6, "MHz"), (1e3, "kHz"), (1.0, "Hz")),
}


def format_quantity(value: float, unit: str, per: str = "") -> str:
    """Three or four significant digits with the prefix that suits: ``81.3 us``."""
    suffix = f"/{per}" if per else ""
    if not isfinite(value):
        return f"{value} {unit}{suffix}".rstrip()
    if not unit:
        plain = f"{value:.0f}" if value == int(value) and abs(value) < 1e9 else f"{value:.4g}"
        return f"{plain}{suffix}" if not per else f"{plain} {suffix}"
    scales = _PRINT_SCALES[unit] if not per else ((1.0, unit),)
    rounded = abs(float(f"{value:.4g}"))  # 999.96 us is 1 ms
    scale, shown = next((s for s in scales if rounded >= s[0]), scales[-1])
    if value == 0:
        shown = unit
    return f"{value / scale:.4g} {shown}{suffix}"
