"""Names of the last release, which work for one release more and warn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar
from warnings import warn

FORMER_NAME = r".* is called .* now"
"""What warnings of them match; Python shows none of these by itself."""

F = TypeVar("F", bound=Callable[..., Any])


def former_parameter(former: str, current: str) -> Callable[[F], F]:
    """Let a function take the keyword ``former`` for ``current``.

    >>> import warnings
    >>> @former_parameter("proxies", "assume")
    ... def read(assume=None):
    ...     return assume
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     read(proxies={"index": "x"})
    {'index': 'x'}
    >>> str(caught[0].message)
    'proxies is called assume now'
    """

    def decorate(function: F) -> F:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **rename_key(kwargs, former, current, stacklevel=3))

        return call  # type: ignore[return-value]

    return decorate


def rename_key(
    table: Mapping[str, Any], former: str, current: str, stacklevel: int = 2
) -> dict[str, Any]:
    """A table whose key ``former``, if it has it, is called ``current``; raises :class:`TypeError`
    for one that has both."""
    if former not in table:
        return dict(table)
    if current in table:
        raise TypeError(f"{former} is the former name of {current}; give one of them")
    warn_of_former_name(former, current, stacklevel + 1)
    return {current if key == former else key: value for key, value in table.items()}


def warn_of_former_name(former: str, current: str, stacklevel: int = 2) -> None:
    """Warn the caller, ``stacklevel`` calls away, of a name of the last release."""
    warn(f"{former} is called {current} now", DeprecationWarning, stacklevel=stacklevel + 1)
