"""Whether a kernel does the same work in blocks of another size."""

from __future__ import annotations

from perfassert.kernel.description import BoundKernel, Description
from perfassert.kernel.program import Program
from perfassert.prediction.prediction import Prediction

_ALIKE = 1.25  # times as much from and to DRAM: more is other data, not another order


def axes_asked_for(program: Program) -> tuple[frozenset[str], frozenset[str]]:
    """Directions in which threads touch memory, and those in which the code reads the block's
    size."""
    symbols = program.symbols
    names = {
        str(symbols.atoms[a].name)
        for i in program.instructions
        for access in i.accesses
        for a in symbols.free_atoms(access.address)
    }
    return tuple(
        frozenset(n[-1] for n in names if n.startswith(f"{builtin}."))
        for builtin in ("threadIdx", "blockDim")
    )  # type: ignore[return-value]


def resizable(kernel: Description) -> bool:
    """Whether the size of a block is a matter of the launch: compiled code reads it wherever it
    uses a thread's index."""
    if not isinstance(kernel, BoundKernel):
        return True
    used, asked = axes_asked_for(kernel.program)
    return used <= asked


def same_work(before: Prediction, after: Prediction) -> bool:
    """Whether as many threads in other blocks touch as much: a block that has a row of its own does
    not."""
    moved = [
        float(p.volumes.dram_load.total) + float(p.volumes.dram_store.total)
        for p in (before, after)
    ]
    return max(moved) <= _ALIKE * min(moved)
