"""Matrix instructions by shape and type: those that a device file lists, and those derived from
the rate of its matrix units.

A variant's name is ``unit.shape.input.accumulator``: ``tensor.m16n8k16.f16.f32`` for what one warp
issues, ``wgmma.m64n128k16.bf16.f32`` for what four do together, ``tcgen05.m128n256k16.f16.f32`` for
what one thread issues for a block. Behind it: ``.sp`` has half of its first operand left out,
``.ss`` reads that operand from shared memory, too, ``.2cta`` is shared by two SMs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from perfassert.hardware.entries import Operation, Scope
from perfassert.shipped import model_integer

WARPS_OF_A_GROUP = model_integer("warpgroup_warps")
"""Warps that issue one ``wgmma`` together, each for a quarter of the rows."""
STARTED = "tcgen05"
"""The unit whose products one thread starts for a block."""
BITS = {"f64": 64, "tf32": 32, "f32": 32, "s32": 32, "f16": 16, "bf16": 16, "e4m3": 8, "s8": 8,
        "s4": 4, "mxf8": 8, "mxf4": 4, "b1": 1}  # fmt: skip
"""Of one element, by type."""
_NAME = re.compile(r"(\w+)\.m(\d+)n(\d+)k(\d+)\.(\w+)\.(\w+)((?:\.sp|\.ss|\.2cta)*)")
_KIND = ("rate", "sparse", "shared")
_TENSOR_MEMORY_ROWS = model_integer("tensor_memory_lanes")
"""Rows that ``tcgen05`` works on at once: with fewer, part of the unit lies idle."""


@dataclass(frozen=True, slots=True)
class MatrixVariant:
    """A shape and type of ``unit``: an ``m × k`` by ``k × n`` product, added to ``m × n``."""

    unit: str
    m: int
    n: int
    k: int
    input: str
    accumulator: str
    sparse: bool = False
    shared: bool = False
    paired: bool = False

    @classmethod
    @lru_cache(maxsize=1024)
    def from_name(cls, name: str) -> MatrixVariant | None:
        """The variant of a full name; None for the name of anything else."""
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        m, n, k = (int(match[i]) for i in (2, 3, 4))
        sparse, shared, paired = (mark in match[7] for mark in (".sp", ".ss", ".2cta"))
        return cls(match[1], m, n, k, match[5], match[6], sparse, shared, paired)

    @property
    def name(self) -> str:
        marks = {".sp": self.sparse, ".ss": self.shared, ".2cta": self.paired}
        suffix = "".join(mark for mark, holds in marks.items() if holds)
        return f"{self.unit}.m{self.m}n{self.n}k{self.k}.{self.input}.{self.accumulator}{suffix}"

    @property
    def rate(self) -> str:
        """The key of ``[matrix]`` with its rate."""
        return f"{self.unit}.{self.input}.{self.accumulator}"

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds that are carried out: half of ``m · n · k`` if an operand is sparse."""
        return self.m * self.n * self.k // (2 if self.sparse else 1)

    @property
    def occupied(self) -> float:
        """Multiply-adds that fit into the time for which one SM's part is busy."""
        rows, units = self.m, 2 if self.paired else 1
        if self.unit == STARTED and not self.paired:
            rows = max(rows, _TENSOR_MEMORY_ROWS)
        return self.multiply_adds * rows / self.m / units

    def of_one_warp(self, scope: Scope) -> float:
        """The part of :attr:`occupied` that one warp brings: where each scheduler has matrix units
        of its own, what a warp group does is four warps' work."""
        together = self.unit == "wgmma" and scope is Scope.SCHEDULER
        return self.occupied / (WARPS_OF_A_GROUP if together else 1)

    @property
    def shared_bytes(self) -> float:
        """Operands that one SM reads from shared memory while it multiplies."""
        if self.unit == "tensor":
            return 0.0
        first = self.m * self.k / (2 if self.sparse else 1) if self.shared else 0.0
        return self.second_bytes + first * BITS[self.input] / 8 / (2 if self.paired else 1)

    @property
    def second_bytes(self) -> float:
        """Bytes of the second operand that one SM reads while it multiplies."""
        return self.n * self.k * BITS[self.input] / 8 / (2 if self.paired else 1)


def find_variant(name: str, operations: Iterable[Operation]) -> Operation | None:
    """Find the operation of a variant, under its own name or as what a class stands for."""
    return next((o for o in operations if o.variant == name), None)


def nearest(variant: MatrixVariant, operations: Iterable[Operation]) -> Operation | None:
    """The listed variant to derive another one from: of the same unit; there one of the same types
    that is not smaller (small ones miss the rate), else one whose operands lie in the same place,
    above all the one that the class stands for; of these the nearest in size. None where no variant
    is listed."""
    known = [(o, MatrixVariant.from_name(o.variant)) for o in operations]
    candidates = [(o, v) for o, v in known if v is not None]

    def distance(candidate: tuple[Operation, MatrixVariant]) -> tuple[float | str, ...]:
        operation, other = candidate
        ratio = other.multiply_adds / variant.multiply_adds
        same = all(getattr(other, key) == getattr(variant, key) for key in _KIND)
        like = same and ratio >= 1
        return (
            other.unit != variant.unit, not like,
            other.shared != variant.shared, other.paired != variant.paired,
            operation.name == operation.variant and not like,
            max(ratio, 1 / ratio), operation.name,
        )  # fmt: skip

    return min(candidates, key=distance)[0] if candidates else None


@dataclass(frozen=True, slots=True)
class Derived:
    """An operation that no file lists, and in words where its figures come from."""

    operation: Operation
    how: str


def derive_variant(
    variant: MatrixVariant, source: Operation, rates: Mapping[str, float], scope: Scope,
    shared_bytes_per_cycle: float,
) -> Derived:  # fmt: skip
    """Derive the cost of a variant from the listed ``source``.

    λ goes with the multiply-adds over their rate, but operands from shared memory must be read in
    that time, too; a pipeline of the same depth is occupied longer, so Λ grows by as much as λ:
    ``λ = max(λ₀ · (w / w₀) · (r₀ / r), s / b)``, ``Λ = Λ₀ + λ − λ₀``. Where ``[matrix]`` lacks one
    of the two rates they count as equal.
    """
    listed = MatrixVariant.from_name(source.variant)
    assert listed is not None
    known = variant.rate in rates and listed.rate in rates
    speed = rates[variant.rate] / rates[listed.rate] if known else 1.0
    share = variant.of_one_warp(scope) / listed.of_one_warp(scope)
    issue = max(source.issue * share / speed, variant.shared_bytes / shared_bytes_per_cycle)
    completion = max(source.completion + issue - source.issue, issue)
    derivation = f"{variant.name} is derived from {source.variant}"
    rate = rates.get(variant.rate)
    how = f"{rate:g} multiply-adds per cycle and unit" if known else "its rate is not in [matrix]"
    operation = Operation(variant.name, issue, completion, source.pipeline, variant.name)
    return Derived(operation, f"{derivation}: {how}")
