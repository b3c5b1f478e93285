"""Kernels by the names that profilers show: mangled, demangled, or demangled with template
parameters for types (``axpy<float>(T1, const T1 *)``)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from perfassert.frontends.toolchain.names import base_name, demangle, without_parameters


def matching(shown: str, mangled: Sequence[str]) -> list[str]:
    """The kernels that the strictest rule lets through: the same name whole, without parameters, at
    last without namespaces and template arguments."""
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
    """Without spaces, and without what the same type may be written with or lack."""
    text = re.sub(r"\((?:int|bool|unsigned int|long|unsigned long)\)(?=\d)", "", name)
    return re.sub(r"\s+", "", text.removeprefix("void "))
