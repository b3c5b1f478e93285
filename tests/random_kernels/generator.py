"""Draws random kernels: ``generate(seed, number)`` is always the same one.

Each is of a kind that occurs in practice (:data:`KINDS`), with types, strides, guards, loops, items
and launch drawn at random. What turns out to be no valid kernel is drawn again.
"""

from random import Random

from . import oracle
from .arithmetic import bits, mixture, offset_calculator, rows_and_columns
from .draw import Draw
from .expressions import Rejected
from .loops import block_per_row, grid_stride, loops, tiled
from .program import Text
from .stencils import layout, numba, stencil, wide_stencil

_ATTEMPTS = 400
KINDS = {
    stencil: 5, wide_stencil: 2, rows_and_columns: 4, bits: 3, grid_stride: 4, loops: 5,
    block_per_row: 2, tiled: 3, numba: 2, layout: 3, offset_calculator: 2, mixture: 6,
}  # fmt: skip


def generate(seed, number, kinds=KINDS):
    """The kernel of that number, with the run of all of its threads; ``kinds``: kind → weight."""
    kind = Random(f"{seed}/{number}").choices(list(kinds), list(kinds.values()))[0]
    for attempt in range(_ATTEMPTS):
        draw = Draw(seed, number, attempt, kind.__name__)
        try:
            kernel = kind(draw)
            kernel.body.insert(0, Text("float sum = 0.0f;"))
            draw.choose_packing()
            run = kernel.run()
            oracle.check(kernel, run)
            oracle.keep_order(kernel, run)
            oracle.check_size(kernel, run)
        except Rejected:
            continue
        return kernel, run
    raise RuntimeError(f"no kernel {number} of seed {seed} in {_ATTEMPTS} attempts")
