"""How often does a better GPU make a prediction worse? List scheduling has anomalies: a faster part
can change the order of issue for the worse. Of every example kernel this prints the largest one:
by how much its time rises when one value of the device gets better by 10 %.

Usage: python examples/anomalies.py [DEVICE]     (needs perfassert[cuda])
"""

import sys
from pathlib import Path

from star3d25pt import DOMAIN, star3d25pt

import perfassert as pa

KERNELS = Path(__file__).parent / "kernels"
MORE = (
    "clock_hz", "dram_bandwidth", "dram_alone_factor", "l2_bandwidth", "l2_port_bytes_per_cycle",
)  # fmt: skip
LESS = (
    "l1_latency", "l2_latency", "dram_latency", "dram_latency_growth", "dram_latency_spread",
    "block_launch_cycles", "block_drain_cycles",
)  # fmt: skip
BETTER = dict.fromkeys(MORE, 1.1) | dict.fromkeys(LESS, 1 / 1.1)
"""Value of the device → factor that makes it better."""

N = 1 << 24
STREAM = pa.Launch(N // 256, 256, args={"n": N})
GRID_STRIDE = pa.Launch(4 * 108, 256, args={"n": N})
MATRIX = pa.Launch((128, 128), (32, 8), args={"rows": 4096, "columns": 4096})


def cuda(file, name=None, **defines):
    """A kernel of ``examples/kernels``."""
    return pa.from_cuda(KERNELS / f"{file}.cu", name, defines=defines)


def star_by_code():
    sizes = dict(zip(("nx", "ny", "nz"), DOMAIN, strict=True))
    return cuda("star3d25pt"), pa.Launch.cover(DOMAIN, (16, 2, 8), args=sizes)


CASES = {
    "star3d25pt, expressions": lambda: (star3d25pt(), pa.Launch.cover(DOMAIN, (16, 2, 8))),
    "star3d25pt": star_by_code,
    "saxpy": lambda: (cuda("saxpy", "saxpy"), STREAM),
    "saxpy_grid_stride": lambda: (cuda("saxpy", "saxpy_grid_stride"), GRID_STRIDE),
    "gather": lambda: (cuda("gather"), STREAM),
    "histogram": lambda: (cuda("histogram"), GRID_STRIDE),
    "block_sums": lambda: (cuda("reduction", BLOCK=256), GRID_STRIDE),
    "transpose_naive": lambda: (cuda("transpose", "transpose_naive"), MATRIX),
    "transpose_tiled": lambda: (cuda("transpose", "transpose_tiled"), MATRIX),
    "transpose_padded": lambda: (cuda("transpose", "transpose_padded"), MATRIX),
    "matmul": lambda: (cuda("matmul", TILE=16), pa.Launch((64, 64), (16, 16), args={"n": 1024})),
    "convolution": lambda: (
        cuda("convolution", block_size_x=32, block_size_y=8), pa.Launch((64, 256), (32, 8))
    ),
}  # fmt: skip
"""Name → kernel and launch."""


def largest(prediction):
    """The value whose improvement lengthens the time most, and by which share; or none."""
    rises = {
        key: 1 / pa.whatif(prediction, **{key: factor}).speedup - 1
        for key, factor in BETTER.items()
        if getattr(prediction.origin[2], key)
    }
    worst = max(rises, key=lambda key: rises[key])
    return (worst, rises[worst]) if rises[worst] > 0 else ("none", 0.0)


def rows(names, device):
    """Name, time, value and rise."""
    for name in names:
        prediction = pa.predict(*CASES[name](), device)
        yield (name, prediction.time, *largest(prediction))


def main(names=tuple(CASES), device="A100-SXM4-40GB"):
    print(f"{'kernel':24}  {'time':>9}  {'largest rise':>12}  with a better")
    for name, time, value, rise in rows(names, device):
        print(f"{name:24}  {time!s:>9}  {rise:12.2%}  {value}", flush=True)


if __name__ == "__main__":
    main(device=sys.argv[1] if len(sys.argv) > 1 else "A100-SXM4-40GB")
