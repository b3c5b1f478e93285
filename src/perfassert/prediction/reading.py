"""Reader of saved predictions: checked access to data as :mod:`json` returns it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, TypeVar

from perfassert.errors import PredictionDataError, in_short
from perfassert.quantity import Quantity, to_integer, to_real

T = TypeVar("T")
E = TypeVar("E", bound=Enum)
_DEEPEST = 50  # nested tables and lists in a saved prediction


class DataNode:
    """A value of the data and its key; every error names the key.

    >>> DataNode({"time": 1.5e-6}, "prediction")["time"].quantity("s")
    1.5 us
    """

    def __init__(self, value: Any, key: str) -> None:
        self.value = value
        self.key = key

    def fail(self, reason: str) -> PredictionDataError:
        """Return the error that the value is not as required."""
        return PredictionDataError(
            f"{self.key} {reason}; the data is damaged, or of another version"
        )

    def _require_type(self, kind: type[T], called: str) -> T:
        if not isinstance(self.value, kind):
            raise self.fail(f"must be {called}, not {type(self.value).__name__}")
        return self.value

    def __contains__(self, name: str) -> bool:
        return name in self._table()

    def __getitem__(self, name: str) -> DataNode:
        """Return the node of a key in a table."""
        table = self._table()
        if name not in table:
            raise self.fail(f"has no {name!r}")
        return DataNode(table[name], f"{self.key}.{name}")

    def optional(self, name: str, default: Any) -> DataNode:
        """Return the node of a key in a table, or of ``default`` if the key is absent."""
        return DataNode(self._table().get(name, default), f"{self.key}.{name}")

    def _table(self) -> Mapping[Any, Any]:
        return self._require_type(Mapping, "a table")  # type: ignore[type-abstract]

    def text(self) -> str:
        """Return the value as a text."""
        return self._require_type(str, "a text")

    def word(self, words: Sequence[str]) -> str:
        """Return the value, one of several words."""
        if self.value not in words:
            shown = ", ".join(word or "empty" for word in words)
            raise self.fail(f"must be one of {shown}, not {in_short(self.value)}")
        return str(self.value)

    def one_of(self, kinds: type[E]) -> E:
        """Return the member of an enumeration that has this value."""
        return kinds(self.word([member.value for member in kinds]))

    def integer(self, minimum: int = 0) -> int:
        """Return the value as an integer."""
        return to_integer(self.value, self.key, PredictionDataError, minimum)

    def real(self) -> float:
        """Return the value as a finite number."""
        return to_real(self.value, self.key, PredictionDataError)

    def quantity(self, unit: str = "") -> Quantity:
        """Return the value as a quantity in a base unit."""
        return Quantity(self.real(), unit)

    def or_none(self, read: Callable[[DataNode], T]) -> T | None:
        """Return the result of ``read`` on this node, or None if the value is None."""
        return None if self.value is None else read(self)

    def table(self, read: Callable[[DataNode], T]) -> dict[str, T]:
        """Return the table with each value read by ``read``."""
        names = [DataNode(name, f"a key of {self.key}").text() for name in self._table()]
        return {name: read(self[name]) for name in names}

    def items(self, read: Callable[[DataNode], T]) -> tuple[T, ...]:
        """Return the list with each item read by ``read``."""
        return tuple(map(read, self._items()))

    def _items(self) -> Iterator[DataNode]:
        items = self._require_type(Sequence, "a list")  # type: ignore[type-abstract]
        if isinstance(items, (str, bytes)):
            raise self.fail("must be a list, not text")
        for number, item in enumerate(items):
            yield DataNode(item, f"{self.key}[{number}]")

    def plain(self) -> Any:
        """Return a copy of the value; raise an error for what JSON cannot hold."""
        return self._plain(self.value, _DEEPEST)

    def _plain(self, value: Any, depth: int) -> Any:
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if depth and isinstance(value, Mapping):
            return {str(k): self._plain(v, depth - 1) for k, v in value.items()}
        if depth and isinstance(value, (list, tuple)):
            return [self._plain(v, depth - 1) for v in value]
        raise self.fail(f"holds a {type(value).__name__}")
