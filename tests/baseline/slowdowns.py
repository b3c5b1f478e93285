"""Slowdowns made on purpose in the example kernels: what is edited, and what the first sentence of
the cause has to say. Each edit is one that a reviewer has seen in a pull request."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import perfassert as pa

FOLDER = Path(__file__).parents[2] / "examples" / "kernels"
N = 1 << 24


@dataclass(frozen=True)
class Slowdown:
    """``edits``: pairs of old and new text; ``options``: for the compiler, of the second version;
    ``again``: what the second launch has in place of ``launch``; ``says``: a pattern of the
    cause."""

    file: str
    kernel: str
    launch: pa.Launch
    says: str
    edits: tuple[tuple[str, str], ...] = ()
    options: tuple[str, ...] = ()
    again: pa.Launch | None = None
    defines: dict[str, Any] = field(default_factory=dict)

    def predict(self, folder: Path, device: str = "a100") -> tuple[pa.Prediction, pa.Prediction]:
        """Before and after; the edited source is written to a folder."""
        source = FOLDER / self.file
        edited = source.read_text()
        for old, new in self.edits:
            assert edited.count(old) >= 1, (self.file, old)
            edited = edited.replace(old, new)
        changed = folder / self.file
        changed.write_text(edited)
        before, after = (
            pa.from_cuda(
                path, kernel=self.kernel, defines=self.defines, options=options,
                include_dirs=[FOLDER],
            )
            for path, options in ((source, ()), (changed, self.options))
        )  # fmt: skip
        first = pa.predict(before, self.launch, device)
        return first, pa.predict(after, self.again or self.launch, device)


def buffer(*shape, dtype="float32"):
    return pa.Buffer(shape, dtype=dtype)


IMAGE = 4096
TRANSPOSE = pa.Launch(
    (128, 128),
    (32, 8),
    {"in": buffer(4096, 4096), "out": buffer(4096, 4096), "rows": 4096, "columns": 4096},
)
MATMUL = pa.Launch(
    (64, 64),
    (16, 16),
    {"a": buffer(1024, 1024), "b": buffer(1024, 1024), "c": buffer(1024, 1024), "n": 1024},
)
ROWS = 1 << 14
NORM = pa.Launch(
    ROWS // 4,
    128,
    {
        "from": buffer(ROWS, 1024),
        "scale": buffer(1024),
        "shift": buffer(1024),
        "to": buffer(ROWS, 1024),
        "n": 1024,
    },
)
SOFTMAX = pa.Launch(ROWS, 128, {"from": buffer(ROWS, 2048), "to": buffer(ROWS, 2048), "n": 2048})
SUMS = pa.Launch(864, 256, {"in": buffer(N), "sums": buffer(864), "n": N})
CONVOLUTION = pa.Launch(
    (64, 512), (32, 4), {"output": buffer(IMAGE * IMAGE), "input": buffer((IMAGE + 14) ** 2)}
)
SAXPY = pa.Launch(N // 256, 256, {"n": N, "a": 2.0, "x": buffer(N), "y": buffer(N)})
STAR = pa.Launch.cover(
    (512, 256, 256), (32, 4, 4),
    {
        "src": buffer(264 * 264 * 520, dtype="float64"),
        "dst": buffer(264 * 264 * 520, dtype="float64"),
        "nx": 512, "ny": 256, "nz": 256,
    },
)  # fmt: skip

SLOWDOWNS = {
    "bank conflicts": Slowdown(
        "transpose.cu", "transpose_padded", TRANSPOSE, "wavefronts of shared memory",
        ((("transpose_tile<TILE + 1>"), "transpose_tile<TILE>"),),
    ),
    "bank conflicts of a product": Slowdown(
        "matmul.cu", "matmul", MATMUL, "wavefronts of shared memory",
        (("tile_b[i][tx];", "tile_b[tx][i];"),),
    ),
    "uncoalesced stores": Slowdown(
        "transpose.cu", "transpose_padded", TRANSPOSE, "stores? of out",
        (("out[(row + j) * rows + column] = tile[threadIdx.x][threadIdx.y + j];",
          "out[column * rows + row + j] = tile[threadIdx.x][threadIdx.y + j];"),),
    ),
    "uncoalesced loads": Slowdown(
        "matmul.cu", "matmul", MATMUL, "loads? of a",
        (("a[row * n + k + tx]", "a[(k + tx) * n + row]"),),
    ),
    "strided loads": Slowdown(
        "saxpy.cu", "saxpy", SAXPY, "of [xy]", (("x[i]", "x[(i * 8) % n]"),),
    ),
    "an array that is read twice": Slowdown(
        "softmax.cu", "softmax", SOFTMAX, "loads? of from",
        (("    most = over_block<true>(most, held);",
          "    most = over_block<true>(most, held);\n    for (int i = 0; i < ROUNDS; ++i)\n"
          "    part[i] = __ldcv((const float4*)from + threadIdx.x + i * blockDim.x);"),),
    ),
    "double precision": Slowdown(
        "convolution.cu", "convolution", CONVOLUTION, "arithmetic|instructions",
        (("* weights[i * FILTER + j]", "* (weights[i * FILTER + j] + 1e-9)"),),
    ),
    "division": Slowdown(
        "matmul.cu", "matmul", MATMUL, "instructions|arithmetic",
        (("sum += tile_a[ty][i] * tile_b[i][tx];", "sum += tile_a[ty][i] / tile_b[i][tx];"),),
    ),
    "spills by a limit of registers": Slowdown(
        "convolution.cu", "convolution",
        pa.Launch((32, 128), (32, 4), CONVOLUTION.args), "spilled registers",
        defines={"tile_size_x": 4, "tile_size_y": 8}, options=("-maxrregcount=32",),
    ),
    "spills by launch bounds": Slowdown(
        "convolution.cu", "convolution",
        pa.Launch((32, 128), (32, 4), CONVOLUTION.args), "spilled registers",
        ((('extern "C" __global__ void convolution'),
          'extern "C" __global__ void __launch_bounds__(128, 16) convolution'),),
        defines={"tile_size_x": 4, "tile_size_y": 8},
    ),
    "occupancy by shared memory": Slowdown(
        "reduction.cu", "block_sums", pa.Launch(1728, 256, SUMS.args), "reside",
        (("__shared__ float partial[BLOCK];", "__shared__ float partial[BLOCK * 44];"),),
    ),
    "too few blocks": Slowdown(
        "reduction.cu", "block_sums", SUMS, "54 instead of 864 blocks",
        again=pa.Launch(54, 256, SUMS.args),
    ),
    "more work": Slowdown(
        "matmul.cu", "matmul", MATMUL, "2.25 times the work",
        again=pa.Launch(
            (96, 96), (16, 16),
            {"a": buffer(1536, 1536), "b": buffer(1536, 1536), "c": buffer(1536, 1536), "n": 1536},
        ),
    ),
    "a longer loop by an argument": Slowdown(
        "matmul.cu", "matmul",
        pa.Launch((16, 16), (16, 16), {**MATMUL.args, "n": 1024}), "other arguments",
        again=pa.Launch(
            (16, 16), (16, 16), {**dict.fromkeys("abc", buffer(2048, 2048)), "n": 2048}
        ),
    ),
    "another block": Slowdown(
        "star3d25pt.cu", "star3d25pt", STAR, "blocks of 1×16×32",
        again=pa.Launch.cover((512, 256, 256), (1, 16, 32), STAR.args),
    ),
    "divergence": Slowdown(
        "matmul.cu", "matmul", MATMUL, "instructions",
        (("sum += tile_a[ty][i] * tile_b[i][tx];",
          "if (tx % 4 == 0) sum += tile_a[ty][i] * __sinf(tile_b[i][tx]);\n"
          "            else if (tx % 4 == 1) sum -= __expf(tile_a[ty][i]) * tile_b[i][tx];\n"
          "            else if (tx % 4 == 2) sum += rsqrtf(tile_a[ty][i]) * tile_b[i][tx];\n"
          "            else sum += __logf(tile_a[ty][i] * tile_b[i][tx]);"),),
    ),
    "atomics": Slowdown(
        "reduction.cu", "block_sums", SUMS, "atomic",
        (("partial[t] = sum;", "partial[t] = sum; atomicAdd(sums, sum); atomicAdd(sums, t);"),),
    ),
    "lost overlap": Slowdown(
        "gemm_cp_async.cu", "gemm_cp_async",
        pa.Launch(
            (12, 9), 128,
            {"a": buffer(4096, 4096, dtype="float16"), "b": buffer(4096, 4096, dtype="float16"),
             "c": buffer(4096, 4096), "n": 4096, "k": 4096},
            3 * (128 + 128) * 32 * 2,
        ),
        "wait longer",
        (("commit();\n        const half* tile =",
          "commit(); wait_for_copies<0>(); __syncthreads();\n        const half* tile ="),),
    ),
    "no unrolling": Slowdown(
        "convolution.cu", "convolution", CONVOLUTION, "instructions",
        (("#pragma unroll\n        for (int inner", "#pragma unroll 1\n        for (int inner"),),
    ),
    "no tile": Slowdown(
        "transpose.cu", "transpose_padded", TRANSPOSE, "shared memory is hardly used|stores of out",
        (("transpose_tile<TILE + 1>(in, out, rows, columns);",
          "const int column = blockIdx.x * TILE + threadIdx.x;\n"
          "    const int row = blockIdx.y * TILE + threadIdx.y;\n"
          "    for (int j = 0; j < TILE; j += blockDim.y)\n"
          "        out[column * rows + row + j] = in[(row + j) * columns + column];"),),
    ),
    "lost vectors": Slowdown(
        "layer_norm.cu", "layer_norm", NORM, "instructions|wavefronts of the L1|of (from|to)",
        (("*(const float4*)(from + row + at)",
          "make_float4(one[0], one[1], one[2], one[3])"),
         ("        part[i] = at < n ?",
          "        const volatile float* one = from + row + at;\n        part[i] = at < n ?")),
    ),
}  # fmt: skip
