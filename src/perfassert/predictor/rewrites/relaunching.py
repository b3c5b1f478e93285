"""Tests for kernels that do the same work in blocks of another size, or in more of them."""

from __future__ import annotations

from perfassert.kernel.description import (
    AccessKernel,
    BoundKernel,
    Description,
    Kernel,
    WrittenKernel,
)
from perfassert.kernel.expression import AXES, variables
from perfassert.kernel.launch import Launch
from perfassert.kernel.program import Program
from perfassert.prediction.prediction import PredictionValues

Extent = tuple[int, int, int]
_ALIKE = 1.25  # times as much from and to DRAM: more is other data, not another order


def axes_asked_for(kernel: Description) -> tuple[frozenset[str], frozenset[str]]:
    """Return the axes along which threads touch memory, and those whose block size is read.

    A global coordinate does both.
    """
    if isinstance(kernel, BoundKernel):
        names = _names_in_code(kernel.program)
    else:
        assert isinstance(kernel, WrittenKernel)
        subscripts = (s for a in kernel.accesses for s in a.subscripts)
        names = {v.name for s in subscripts for v in variables(s)}
    return tuple(
        frozenset(n[-1] for n in names if n in AXES or n.startswith(f"{builtin}."))
        for builtin in ("threadIdx", "blockDim")
    )  # type: ignore[return-value]


def _names_in_code(program: Program) -> set[str]:
    symbols = program.symbols
    return {
        str(symbols.atoms[a].name)
        for i in program.instructions
        for access in i.accesses
        for a in symbols.free_atoms(access.address)
    }


def resizable(kernel: Description) -> bool:
    """Return True if the launch alone sets the block size.

    The code then reads the size on every axis on which it uses a thread's index.
    """
    used, asked = axes_asked_for(kernel)
    return used <= asked


def asks_for_grid(kernel: Description) -> bool:
    """Tell code that goes on by the size of the grid: some address depends on it."""
    if not isinstance(kernel, BoundKernel):
        return False
    return any(name.startswith("gridDim.") for name in _names_in_code(kernel.program))


def resize_blocks(launch: Launch, block: Extent, kernel: Kernel) -> dict[str, object]:
    """Return the changes, for what-if, to blocks of another size that cover the same threads."""
    if launch.domain is not None or isinstance(kernel, AccessKernel):
        return {"block": block}
    pairs = zip(launch.grid, launch.block, block, strict=True)
    return {"block": block, "grid": tuple(-(-g * b // n) for g, b, n in pairs)}


def same_work(before: PredictionValues, after: PredictionValues) -> bool:
    """Return True if the DRAM traffic of both launches is alike.

    The other block shape then kept the work. Blocks with a row of their own change it.
    """
    moved = [
        float(p.volumes.dram_load.total) + float(p.volumes.dram_store.total)
        for p in (before, after)
    ]
    return max(moved) <= _ALIKE * min(moved)
