"""Matching of kernels with the names that profilers show.

A profiler shows a mangled name, a demangled one, or one with template parameters for types
(``axpy<float>(T1, const T1 *)``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from perfassert.frontends.toolchain.names import base_name, demangle, without_parameters


def matching(shown: str, mangled: Sequence[str]) -> list[str]:
    """Return the kernels that match the shown name by the strictest rule that any kernel passes.

    The rules compare, in turn, whole names, names without parameters, and names without namespaces
    and template arguments.
    """
    if shown in mangled:
        return [shown]
    rules: tuple[Callable[[str], str], ...] = (_normalise_spelling, _without_parameters, base_name)
    for rule in rules:
        wanted = rule(shown)
        if names := [name for name in mangled if rule(demangle(name)) == wanted]:
            return names
    return []


def _without_parameters(name: str) -> str:
    return _normalise_spelling(without_parameters(name))


def _normalise_spelling(name: str) -> str:
    """Return a name without spaces and optional parts, such as ``(int)`` before digits."""
    text = re.sub(r"\((?:int|bool|unsigned int|long|unsigned long)\)(?=\d)", "", name)
    return re.sub(r"\s+", "", text.removeprefix("void "))
