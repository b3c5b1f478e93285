"""The set of optimizers: those of this package and those of plug-ins."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any
from warnings import warn

from perfassert.engines.advisor.advise import own_optimizers
from perfassert.engines.advisor.case import Case, Match
from perfassert.engines.advisor.change import read_change
from perfassert.engines.advisor.optimizer import CATEGORIES, Optimizer
from perfassert.engines.advisor.rewrites import Rewrite
from perfassert.errors import close_matches, in_short
from perfassert.plugins import Contributions, gather, wrap_errors

_FORMER = (
    "Match(change=Change(…)) is called Match(rewrites=(…,)) now; see perfassert.engines.advisor."
    "rewrites"
)


def all_optimizers() -> Sequence[Optimizer]:
    """Return all optimizers, those of this package first."""
    return (*own_optimizers(), *plugged_optimizers().values())


def plugged_optimizers() -> Contributions[Optimizer]:
    """Return the optimizers of plug-ins by name."""
    return gather("perfassert_optimizers", _read_optimizers, (o.name for o in own_optimizers()))


@dataclass(slots=True)
class _Plugged:
    """An optimizer of a plug-in; errors that its ``match`` raises name the plug-in."""

    name: str
    category: str
    match: Callable[[Case], Match | None]


def _read_optimizers(plugin: str, given: Any) -> Iterator[tuple[str, Optimizer]]:
    for one in given:
        name, category, match = (getattr(one, key, None) for key in ("name", "category", "match"))
        if not (isinstance(name, str) and name.strip() and callable(match)):
            raise TypeError(f"{one!r} is no optimizer: it needs name, category and match(case)")
        if category not in CATEGORIES:
            hint = close_matches(str(category), CATEGORIES) or f"; known: {', '.join(CATEGORIES)}"
            raise ValueError(f"optimizer {name!r}: unknown category {category!r}{hint}")
        function = wrap_errors(plugin, f"optimizer {name!r}", _check_match(match))
        yield name, _Plugged(name, category, function)


def _check_match(match: Callable[[Case], Any]) -> Callable[[Case], Match | None]:
    """Wrap a plug-in's ``match``; a result other than a :class:`Match` or None is an error."""

    def call(case: Case) -> Match | None:
        result = match(case)
        if result is None:
            return None
        if not isinstance(result, Match):
            raise TypeError(f"match() gave {in_short(result)}, which is no Match")
        if result.change is not None:
            result = replace(result, rewrites=read_change(result.change), change=None)
            warn(_FORMER, DeprecationWarning, stacklevel=2)
        for rewrite in chain(result.rewrites, *result.alternatives):
            if not isinstance(rewrite, Rewrite):
                raise TypeError(f"match() gave {in_short(rewrite)}, which is no Rewrite")
        return result

    return call
