"""The canonical encoding of values, and its digest: values of equal content have equal digests.

A value is encoded as a tag of its type, followed by its parts in order. The encoding uses no
``repr``, ``hash`` or pickle, so that the digest is the same in every process, on every machine and
in every version of Python. A class whose content differs from its fields has a method
``content()`` that returns the parts.

Example:
    >>> content_digest((1, 2.0)) == content_digest((1, 2.0))
    True
    >>> content_digest((1, 2.0)) == content_digest((1, 2))
    False
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from perfassert.source import SourceSpan

if TYPE_CHECKING:
    import numpy.typing as npt


def content_digest(*values: object, folders: bool = False) -> str:
    """Return the SHA-256 of the canonical encoding of values, in hexadecimal.

    Args:
        values: what is encoded.
        folders: True: source positions include the folders of their files. Default: they include
            only the file's name, so that a checkout in another folder has the same digest.

    Raises:
        TypeError: a value, or a part of one, is of a type that has no canonical encoding, such as a
            function or a path.
    """
    digest = hashlib.sha256()
    _Encoder(digest.update, folders).feed_parts(b"q", "", values)
    return digest.hexdigest()


class Encoded:
    """The canonical encoding of a value, which stands for the value in a larger one.

    Args:
        value: what is encoded.
        folders: as of :func:`content_digest`.

    Example:
        >>> content_digest(1, Encoded(("a", 2), folders=False)) == content_digest(1, ("a", 2))
        True
    """

    def __init__(self, value: object, folders: bool) -> None:
        content = bytearray()
        _Encoder(content.extend, folders).feed_value(value)
        self.content = bytes(content)


class _Encoder:
    """Encoder that passes the encodings of values to ``feed``, as bytes, one after the other."""

    def __init__(
        self,
        feed: Callable[[bytes], object],
        folders: bool,
        by_type: dict[Any, Callable[[_Encoder, Any], None]] | None = None,
    ) -> None:
        self._feed = feed
        self._folders = folders
        self._by_type = {} if by_type is None else by_type

    def feed_value(self, value: Any) -> None:
        kind = type(value)
        if kind not in self._by_type:
            self._by_type[kind] = _encoding_of(kind)
        self._by_type[kind](self, value)

    def feed_text(self, tag: bytes, text: str) -> None:
        self.feed_bytes(tag, text.encode("utf-8", "surrogatepass"))

    def feed_bytes(self, tag: bytes, content: bytes) -> None:
        self._feed(tag + len(content).to_bytes(8, "little"))
        self._feed(content)

    def feed_parts(self, tag: bytes, name: str, parts: Sequence[object]) -> None:
        self.feed_text(tag, name)
        self._feed(len(parts).to_bytes(8, "little"))
        for part in parts:
            self.feed_value(part)

    def feed_unordered(self, tag: bytes, parts: Sequence[tuple[object, ...]]) -> None:
        """Feed unordered parts, sorted by their encodings."""
        self._feed(tag + len(parts).to_bytes(8, "little"))
        encodings = []
        for part in parts:
            content = bytearray()
            _Encoder(content.extend, self._folders, self._by_type).feed_parts(b"q", "", part)
            encodings.append(bytes(content))
        for encoding in sorted(encodings):
            self._feed(encoding)

    def feed_span(self, span: SourceSpan) -> None:
        file = span.file if self._folders else os.path.basename(span.file)
        self.feed_text(b"p", f"{file}:{span.line}:{span.column}")

    def feed_array(self, array: Any) -> None:
        import numpy

        plain = numpy.asarray(array)
        if plain.dtype.hasobject:
            raise TypeError("an array of Python objects has no canonical encoding")
        self.feed_parts(b"a", str(plain.dtype), [*plain.shape, array_digest(plain)])

    def feed_encoded(self, value: Encoded) -> None:
        self._feed(value.content)

    def feed_parts_of(self, value: Any) -> None:
        """Feed a value of a class with a method ``content()``."""
        self.feed_parts(b"c", type(value).__name__, value.content())


_ENCODINGS: tuple[tuple[Any, Callable[[_Encoder, Any], None]], ...] = (
    (type(None), lambda e, value: e.feed_bytes(b"n", b"")),
    (Encoded, lambda e, value: e.feed_encoded(value)),
    (bool, lambda e, value: e.feed_bytes(b"t" if value else b"f", b"")),
    (Enum, lambda e, value: e.feed_text(b"e", f"{type(value).__name__}.{value.name}")),
    (str, lambda e, value: e.feed_text(b"s", value)),
    ((bytes, bytearray), lambda e, value: e.feed_bytes(b"b", bytes(value))),
    (int, lambda e, value: e.feed_text(b"i", f"{value:d}")),
    (float, lambda e, value: e.feed_text(b"d", value.hex())),
    (SourceSpan, _Encoder.feed_span),
    (Mapping, lambda e, value: e.feed_unordered(b"m", list(value.items()))),
    ((frozenset, set), lambda e, value: e.feed_unordered(b"u", [(item,) for item in value])),
    (
        (tuple, list),
        lambda e, value: e.feed_parts(
            b"q", type(value).__name__ if hasattr(value, "_fields") else "", value
        ),
    ),
)
"""Types with their encodings; the first type that a value is an instance of decides."""


def _encoding_of(kind: type) -> Callable[[_Encoder, Any], None]:
    """Return the function that encodes values of a type."""
    for known, feed in _ENCODINGS:
        if issubclass(kind, known):
            return feed
    if hasattr(kind, "content"):
        return _Encoder.feed_parts_of
    if is_dataclass(kind):
        names = [f.name for f in fields(kind)]
        return lambda e, value: e.feed_parts(
            b"c", kind.__name__, [getattr(value, name) for name in names]
        )
    if hasattr(kind, "__array_interface__"):
        return _Encoder.feed_array
    raise TypeError(f"a {kind.__name__} has no canonical encoding")


def array_digest(array: npt.NDArray[Any]) -> str:
    """Return the SHA-256 of an array's bytes in C order; a contiguous array is not copied."""
    import numpy

    contiguous = numpy.ascontiguousarray(array)
    return hashlib.sha256(contiguous.reshape(-1).view(numpy.uint8).data).hexdigest()


_FILE = re.compile(r'(File ")([^"\n]*)"')


def listing_without_folders(listing: str) -> str:
    """Return a disassembler's listing whose line table names files without their folders."""
    return _FILE.sub(lambda match: f'{match[1]}{os.path.basename(match[2])}"', listing)
