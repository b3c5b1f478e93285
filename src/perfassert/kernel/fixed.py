"""Mappings that cannot be changed and, unlike ``MappingProxyType``, can be pickled and copied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class FixedMapping(Mapping[K, V]):
    """A read-only copy of a mapping, in its order.

    Example:
        >>> FixedMapping({"a": 1})
        FixedMapping({'a': 1})
    """

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[K, V]) -> None:
        self._items = dict(items)

    def __getitem__(self, key: K) -> V:
        return self._items[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._items!r})"
