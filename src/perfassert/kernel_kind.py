"""The kinds of kernels, which decide what is a fact of a prediction and which errors it has.

Descriptions of kernels and values of predictions both carry a kind, so it lies below both.
"""

from __future__ import annotations

from enum import Enum


class KernelKind(str, Enum):
    """Way in which a kernel was described, with the values of JSON and the tables of errors."""

    COMPILED = "compiled"
    """Code of a compiler, which knows the registers that it spills."""
    DESCRIBED = "described"
    """Address expressions."""
    GRAPH = "graph"
    """A user-built instruction graph, whose author has counted the instructions."""

    @classmethod
    def of_values(cls, has_spill_bytes: bool, counts_instructions: bool = False) -> KernelKind:
        """Derive the kind where data does not state it: in baselines, and in what 0.3 wrote.

        Args:
            has_spill_bytes: the data has a number of bytes that a thread spills, 0 included.
            counts_instructions: the number of instructions is exact.
        """
        if has_spill_bytes:
            return cls.COMPILED
        return cls.GRAPH if counts_instructions else cls.DESCRIBED
