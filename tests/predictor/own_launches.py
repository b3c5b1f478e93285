"""Small launches of every kernel of the own suite and the examples that has a closed form."""

import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import perfassert as pa
from perfassert.lab.validation.build import make_kernel, make_launch, row_names
from perfassert.lab.validation.read import read_suite

ROOT = Path(__file__).parents[2]
SUITE = ROOT / "validation" / "own_kernels.toml"
EXAMPLES = ROOT / "examples"

ROWS = [
    ({"n": 1100}, "copy gather_scattered gather_sorted scatter"),
    ({"n": 300}, "copy_strided copy_contiguous drift_structures spmv_rows spmv_ellpack"),
    ({"n": 600}, "copy_vector drift_arrays black_scholes"),
    ({"n": 3000, "grid": 3}, "saxpy histogram_global histogram_shared"),
    ({"n": 1000, "block": 64}, "triad"),
    ({"n": 90, "block": 4, "block_y": 64}, "jacobi2d_tall"),
    ({"n": 90, "block": 64, "block_y": 4}, "jacobi2d"),
    ({"n": 24, "block": 32, "block_y": 2, "block_z": 2}, "star3d"),
    ({"n": 24, "block": 32, "block_y": 4}, "star3d_march"),
    ({"n": 24, "block": 32, "block_y": 4, "block_z": 1}, "box3d"),
    ({"n": 96}, "transpose_naive transpose_conflicts transpose_padded"),
    ({"n": 1024}, "sum_divergent sum_tree scan_shared scan_shuffle"),
    ({"n": 8192, "grid": 3}, "sum_shuffle"),
    ({"n": 64},
     "matmul_naive matmul_tiled matmul_wmma convolve_global convolve_shared "
     "convolve_registers"),
    ({"n": 128}, "matmul_registers matmul_wmma_shared xgemm"),
    ({"n": 32}, "matmul_half"),
    ({"rows": 256, "columns": 64}, "matvec_thread"),
    ({"rows": 16, "columns": 128}, "matvec_warp"),
    ({"n": 512}, "nbody_global nbody_shared"),
    ({"rows": 3}, "softmax_passes softmax_registers layernorm_passes layernorm_vector"),
    ({"grid": 2, "block": 256},
     "chains_float chains_double chain_dependent smooth_double smooth_float "
     "special_precise special_fast hash divide_runtime divide_constant "
     "barrier_imbalanced barrier_balanced"),
    ({"grid": 2, "block": 128}, "branch_lanes branch_warps mma_chains grid_spread"),
    ({"n": 300, "block": 128}, "values_spilled values_kept"),
    ({"grid": 2, "block": 1024}, "grid_small"),
    ({"grid": 2, "block": 128, "stride": 64}, "chase"),
    ({"n": 300, "block": 64}, "sum_rolled sum_unrolled"),
    ({"n": 1100, "addresses": 1}, "add_one_address"),
    ({"n": 1100, "addresses": 48}, "add_addresses add_doubles"),
    ({"n": 96}, "add_swapped add_rows"),
    ({"grid": 2, "addresses": 1}, "add_one_shared"),
    ({"grid": 2, "addresses": 96}, "add_shared"),
]  # fmt: skip
OWN = {name: shape for shape, names in ROWS for name in names.split()}
"""Rows of the suite of own kernels, smaller than those that are measured."""
AS_ASSUMED = {"spmv_rows": "i // 16", "spmv_ellpack": "i % n"}
"""Contents that are what the suite assumes, where that only stands for what is measured."""

ORDINARY = {"black_scholes": {"price": "10 + i % 7", "strike": "12", "years": "1 + i % 3"}}
"""Contents that take no slow path, which zeros do: the root and the quotients of zero."""


@dataclass(frozen=True)
class Example:
    """A kernel of a file below ``examples`` and a small launch of it."""

    path: str
    kernel: str
    grid: object
    block: object
    args: dict
    more: dict = field(default_factory=dict)
    shared_bytes: int = 0
    gpus: tuple = ()


def image(*shape):
    return pa.Buffer(shape)


RELAX = {"source": image(70, 90), "target": image(70, 90), "columns": 90, "rows": 70, "weight": 1.0}
SQUARE = {"rows": 60, "columns": 90}
FOUND = [
    Example("kernels/saxpy.cu", "saxpy", 9, 128, {"n": 1111}),
    Example("kernels/saxpy.cu", "saxpy_grid_stride", 3, 64, {"n": 1000}),
    Example("kernels/matmul.cu", "matmul", (3, 3), (16, 16), {"n": 48}, {"defines": {"TILE": 16}}),
    Example("kernels/reduction.cu", "block_sums", 3, 256, {"n": 2000}, {"defines": {"BLOCK": 256}}),
    Example("kernels/histogram.cu", "histogram", 2, 256, {"n": 1500}),
    Example("kernels/star3d25pt.cu", "star3d25pt", (1, 5, 5), (32, 4, 4),
            {"nx": 29, "ny": 18, "nz": 17}),
    Example("kernels/transpose.cu", "transpose_naive", (3, 2), (32, 8), SQUARE),
    Example("kernels/transpose.cu", "transpose_tiled", (3, 2), (32, 8), SQUARE),
    Example("kernels/transpose.cu", "transpose_padded", (3, 2), (32, 8), SQUARE),
    Example("kernels/convolution.cu", "convolution", (4, 4), (16, 16), {}),
    Example("kernels/gemm_cp_async.cu", "gemm_cp_async", (2, 2), 128, {"n": 256, "k": 128},
            shared_bytes=3 * 256 * 32 * 2, gpus=("A100-SXM4-40GB", "H100-SXM5-80GB")),
    Example("kernels/flash_attention.cu", "flash_attention", (2, 2), 128,
            {"length": 128, "scale": 0.1}, gpus=("A100-SXM4-40GB", "H100-SXM5-80GB")),
    Example("kernels/softmax.cu", "softmax", 5, 64, {"n": 600}),
    Example("kernels/layer_norm.cu", "layer_norm", 5, 128, {"n": 640}),
    Example("plugin/scale.cu", "scale", 3, 64, {"n": 1000}),
    Example("plugin/scale.cu", "scale4", 3, 64, {"n": 4000}),
    Example("recording/kernels.cu", "filter", 5, 128, {"n": 600},
            {"constants": {"weights": [0.5] * 9, "steps": 2}}),
    Example("recording/kernels.cu", "total", 3, 128, {"n": 600}, shared_bytes=512),
    Example("recording/loop.cu", "step", 5, 128, {"n": 600}),
    Example("recording/streams.cu", "axpy", 5, 128, {"n": 600}),
    Example("recording/structures.cu", "relax", (3, 9), (32, 8), {"grid": RELAX}),
    Example("story/kernels/polynomial.cu", "polynomial", 3, 128, {"n": 300}),
    Example("story/kernels/smooth.cu", "smooth", (3, 9), (32, 8), {"nx": 90, "ny": 70}),
    Example("story/kernels/transpose.cu", "transpose", (3, 2), (32, 8), SQUARE),
]  # fmt: skip
ON_REAL_NUMBERS = ("xgemm",)
"""Own kernels that branch on a floating-point argument: closed forms know whole numbers only."""
ON_DATA = {"gather", "spmv_by_threads", "spmv_by_warps", "multiply"}
"""Kernels of examples whose addresses or trip counts are those of their data."""
NOT_EXECUTED = {"gemm_wgmma_tma", "gemm_tcgen05"}
"""Kernels of examples with bulk copies, which are not executed."""


def own(name, suite, device):
    """Kernel and small launch of one of the suite's."""
    spec = suite.kernels[name]
    cells = {k: str(v) for k, v in ({"block": 256} | OWN[name]).items()}
    names = row_names(spec, cells)
    kernel = make_kernel(spec, names, name)
    launch = make_launch(spec.launch, names, kernel, device)
    fills = {
        key: AS_ASSUMED.get(name, str(given["fill"]))
        for key, given in spec.launch["args"].items()
        if not isinstance(given, (int, float, str)) and given.get("fill", "random") != "random"
    }
    fills |= ORDINARY.get(name, {})
    filled = {key: _filled(launch.args[key], text, names) for key, text in fills.items()}
    return kernel, pa.Launch(launch.grid, launch.block, {**launch.args, **filled})


def _filled(buffer, text, names):
    i = np.arange(int(np.prod(buffer.shape)), dtype=np.int64)
    values = eval(text, {"__builtins__": {}}, {**names, "i": i})
    return pa.Buffer(data=np.broadcast_to(values, i.shape).astype(buffer.dtype))


def example(one):
    kernel = pa.from_cuda(EXAMPLES / one.path, kernel=one.kernel, **one.more)
    return kernel, pa.Launch(one.grid, one.block, one.args, shared_bytes=one.shared_bytes)


WRITTEN = r"__global__ void (?:__launch_bounds__\([^)]*\)\s*)?(\w+)\("


def suite():
    return read_suite(SUITE)


def written():
    """Return the kernels of the examples, by file and name."""
    return {
        (str(path.relative_to(EXAMPLES)), name)
        for path in EXAMPLES.rglob("*.cu")
        for name in re.findall(WRITTEN, path.read_text())
    }
