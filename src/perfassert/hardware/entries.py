"""Entries of a device file: operations, curves, and the provenance of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import exp, sqrt


class Grade(str, Enum):
    """Way in which a value was obtained."""

    MEASURED = "measured"
    DOCUMENTED = "documented"
    FITTED = "fitted"
    ASSUMED = "assumed"


class Scope(str, Enum):
    """Scope of a pipeline: one per SM, or one per warp scheduler."""

    UNIT = "unit"
    SCHEDULER = "scheduler"


@dataclass(frozen=True, slots=True)
class Provenance:
    """Source (expanded from the file's ``[sources]``), grade, and an optional remark."""

    source: str
    grade: Grade
    note: str = ""


@dataclass(frozen=True, slots=True)
class Operation:
    """Operation class with its issue latency λ and completion latency Λ in cycles.

    ``variant`` names unit, shape and types of a matrix instruction: ``tensor.m16n8k16.f16.f32``.
    It is empty for any other operation.
    """

    name: str
    issue: float
    completion: float
    pipeline: str
    variant: str = ""


def key_parts(key: str) -> tuple[str, str, str]:
    """Split a key such as ``"operations.fp32.issue"`` into section, name and part.

    The name of a matrix variant may contain dots. Only keys of operations have a part; for others
    the part is empty.
    """
    section, _, name = key.partition(".")
    if section != "operations":
        return section, name, ""
    name, _, part = name.rpartition(".")
    return section, name, part


SYNONYMS = {
    "index": "int32", "add": "int32", "loop": "branch",
    "fadd": "fp32", "fmul": "fp32", "ffma": "fp32", "fma": "fp32", "fmadd": "fp32",
    "dadd": "fp64", "dmul": "fp64", "dfma": "fp64",
    "sin": "sfu", "cos": "sfu", "exp": "sfu", "rsqrt": "sfu",
    "mem": "global_load", "memory": "global_load", "load": "global_load", "store": "global_store",
    "local": "shared_load", "shared": "shared_load", "convert_wide": "convert",
}  # fmt: skip
"""Alias of an operation in a user-built graph → operation class in device files."""


@dataclass(frozen=True, slots=True)
class CapacityCurve:
    """Fraction of the redundant volume that misses a cache, as a function of oversubscription.

    ``miss(o) = a · exp(−b · exp(−c · o))`` (Gompertz), Warpspeed §4.5. ``reference_bytes`` is a
    capacity that enters :meth:`oversubscription`; 0 if the fit has none.
    """

    a: float
    b: float
    c: float
    reference_bytes: float = 0.0

    def oversubscription(self, footprint: float, capacity: float) -> float:
        """Return the footprint divided by the geometric mean of capacity and ``reference_bytes``.

        Without a reference, return the footprint divided by the capacity.
        """
        return footprint / (sqrt(capacity * self.reference_bytes) or capacity)

    def miss(self, oversubscription: float) -> float:
        """Return the fraction of the redundant volume that misses, between 0 and ``a``."""
        return self.a * exp(-self.b * exp(-self.c * oversubscription))
