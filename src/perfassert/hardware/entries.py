"""Entries of a device file: numbers with an origin, operations, curves."""

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
    """Place of a pipeline: one per SM, or one per warp scheduler."""

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
    """Issue latency λ and completion latency Λ in cycles, and the pipeline they occupy.

    ``variant``: of matrix instructions, shape and type in full; empty for any other operation.
    """

    name: str
    issue: float
    completion: float
    pipeline: str
    variant: str = ""


def key_parts(key: str) -> tuple[str, str, str]:
    """``"operations.fp32.issue"`` → section, name, part; names of variants have dots of their own.

    A number that has no part has an empty one.
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
"""What people call an operation in a graph → the class that device files know it by."""


@dataclass(frozen=True, slots=True)
class CapacityCurve:
    """Miss share of a redundant volume over the oversubscription ``o`` of a cache level.

    ``miss(o) = a · exp(−b · exp(−c · o))`` (Gompertz), Warpspeed §4.5. ``reference_bytes``: the
    capacity that the fit takes as its measure, 0 for none.
    """

    a: float
    b: float
    c: float
    reference_bytes: float = 0.0

    def oversubscription(self, footprint: float, capacity: float) -> float:
        """Footprint over capacity, or over the geometric mean of it and the fit's reference."""
        return footprint / (sqrt(capacity * self.reference_bytes) or capacity)

    def miss(self, oversubscription: float) -> float:
        """Share of the redundant volume that misses, between 0 and ``a``."""
        return self.a * exp(-self.b * exp(-self.c * oversubscription))
