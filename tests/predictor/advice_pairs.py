"""Kernels of tests/advisor_kernels before and after a piece of advice is taken, by optimizer."""

from pathlib import Path

import perfassert as pa

SOURCE = Path(__file__).parents[1] / "advisor_kernels" / "pairs.cu"
N = 1 << 20
STREAM = pa.Launch(N // 256, 256, args={"n": N})
DIVIDED = pa.Launch(N // 256, 256, args={"n": N, "d": 7})
ALONE = pa.Launch(N // 64, 64, args={"n": N})  # no two warps of a block on one scheduler
TILES = pa.Launch(
    (43, 43), (16, 16),
    args={"n": 512, "steps": 2, "rx": 10.0, "ry": 10.0, "rz": 5120.0, "scale": 0.3},
)  # fmt: skip
MANY = pa.Launch(1 << 15, 256, args={"n": 1 << 23})
FEW = pa.Launch(216, 64, args={"n": N})
ROWS = pa.Launch(216, 256, args={"n": N})


def predicted(name, launch=STREAM, device="a100", **settings):
    return pa.predict(pa.from_cuda(SOURCE, kernel=name, **settings), launch, device)


def plane(block):
    width = 1024
    return pa.Launch.cover((width, width), block, args={"width": width})


def square(block):
    nx = ny = 4096
    return pa.Launch.cover((nx, ny), block, args={"nx": nx, "ny": ny})


PAIRS = {
    "Register Reuse": (
        lambda: predicted("many_values", options=("-maxrregcount=32",)),
        lambda: predicted("many_values"),
    ),
    "Strength Reduction": (
        lambda: predicted("double_constant"),
        lambda: predicted("float_constant"),
    ),
    "Strength Reduction (division)": (
        lambda: predicted("runtime_division", DIVIDED),
        lambda: predicted("constant_division", DIVIDED),
    ),
    "Strength Reduction (tiles)": (
        lambda: predicted("diffuse_double", TILES),
        lambda: predicted("diffuse_float", TILES),
    ),
    "Function Split": (
        lambda: predicted("long_code", ALONE, device="RTX-2080-Ti"),
        lambda: predicted("long_code", ALONE, device="RTX-2080-Ti", defines={"STEPS": 16}),
    ),
    "Fast Math": (lambda: predicted("precise"), lambda: predicted("approximate")),
    "Fast Math (loads)": (
        lambda: predicted("divided", FEW),
        lambda: predicted("divided_fast", FEW),
    ),
    "Warp Balance": (lambda: predicted("imbalanced"), lambda: predicted("balanced")),
    "Warp Balance (tail)": (
        lambda: predicted("tree_to_the_end", MANY),
        lambda: predicted("tree_of_one_warp", MANY),
    ),
    "Warp Balance (head)": (
        lambda: predicted("spread_together"),
        lambda: predicted("spread_alone"),
    ),
    "Warp Balance (phases)": (lambda: predicted("two_phases"), lambda: predicted("one_phase")),
    "Memory Transaction Reduction": (
        lambda: predicted("global_table"),
        lambda: predicted("constant_table"),
    ),
    "Loop Unrolling": (lambda: predicted("rolled", FEW), lambda: predicted("unrolled", FEW)),
    "Code Reordering": (
        lambda: predicted("gather_at_once", FEW),
        lambda: predicted("gather_ahead", FEW),
    ),
    "Code Reordering (barriers)": (
        lambda: predicted("rows_at_once", ROWS),
        lambda: predicted("rows_ahead", ROWS),
    ),
    "Function Inlining": (lambda: predicted("calls"), lambda: predicted("inlines")),
    "Block Increase": (
        lambda: predicted("work", pa.Launch(16, 1024, args={"n": N})),
        lambda: predicted("work", pa.Launch(128, 128, args={"n": N})),
    ),
    "Block Increase (uneven)": (
        lambda: predicted("work", pa.Launch(128, 512, args={"n": N})),
        lambda: predicted("work", pa.Launch(205, 320, args={"n": N})),
    ),
    "Thread Increase": (
        lambda: predicted("plane", plane((4, 4))),
        lambda: predicted("plane", plane((32, 8))),
    ),
    "Coalescing": (lambda: predicted("strided"), lambda: predicted("contiguous")),
    "Shared Bank Conflict Removal": (
        lambda: predicted("conflicts"),
        lambda: predicted("padded"),
    ),
    "Block Shape": (
        lambda: predicted("smooth", square((4, 64))),
        lambda: predicted("smooth", square((64, 4))),
    ),
}
