"""A sweep of matrix products: sizes, tiles and stages, with rate and limiter of each.

``python benchmarks/gemm.py [DEVICE [SIZE …]]``: halves in and floats out. On an A100 it is
examples/kernels/gemm_cp_async.cu, on an H100 gemm_wgmma_tma.cu. For each tile the columns are
TFLOPS with the best number of stages, what limits it, those stages and the waves of its blocks;
below them what stages change for two tiles, and how the rate falls where a wave has few blocks.
"""

import sys
from dataclasses import dataclass
from math import ceil
from pathlib import Path

import perfassert as pa

KERNELS = Path(__file__).parents[1] / "examples" / "kernels"
SIZES = (512, 1024, 2048, 3072, 4096, 6144, 8192, 16384)
TILES = ((64, 64), (128, 64), (64, 128), (128, 128), (256, 128), (128, 256))
STAGES = (2, 3, 4, 5)


@dataclass(frozen=True, slots=True)
class Product:
    """A kernel of tiles; ``step``: halves along k that a stage holds of each row."""

    source: str
    step: int
    spare_bytes: int = 0

    def threads(self, rows, columns):
        if self.step == 64:  # a producer's warp group, and one for every 64 rows
            return 128 * (1 + rows // 64)
        return 32 * (rows // 64) * (columns // 64)

    def arguments(self, size, rows, columns):
        if self.step == 32:
            return {"n": size, "k": size}
        boxes = {"a": (rows, 64), "b": (columns, 64)}
        maps = {name: pa.TensorMap((size, size), box, swizzle=128) for name, box in boxes.items()}
        return {"n": size, "k": size, **maps}

    def predict(self, size, tile, stages, device):
        """None where a tile's shared memory or registers are more than the device has."""
        rows, columns = tile
        defines = {"TILE_M": rows, "TILE_N": columns, "STAGES": stages}
        launch = pa.Launch(
            (ceil(size / columns), ceil(size / rows)), self.threads(rows, columns),
            args=self.arguments(size, rows, columns),
            shared_bytes=stages * (rows + columns) * self.step * 2 + self.spare_bytes,
        )  # fmt: skip
        try:
            return pa.predict(pa.from_cuda(KERNELS / self.source, defines=defines), launch, device)
        except pa.LaunchError:
            return None


AMPERE = Product("gemm_cp_async.cu", 32)
HOPPER = Product("gemm_wgmma_tma.cu", 64, 1024)


def tflops(size, prediction):
    return 2 * size**3 / float(prediction.time) / 1e12


def waves(prediction, device):
    return prediction.blocks / (prediction.occupancy.resident_blocks * device.compute_units)


def cell(size, stages, prediction, device):
    limiter = prediction.limiter[:5]
    rate = f"{tflops(size, prediction):.1f} {limiter}"
    return f"{rate}/{stages} {waves(prediction, device):.1f}w"


def main(device="a100", *sizes):
    device = pa.device(device)
    product = HOPPER if device.arch == "sm_90" else AMPERE
    print(f"{device.name}, {product.source}: TFLOPS limiter/stages waves")
    print("n      ", *(f"{r}x{c}".rjust(19) for r, c in TILES), "  best")
    for size in map(int, sizes or SIZES):
        best = {}
        for tile in TILES:
            predictions = {s: product.predict(size, tile, s, device) for s in STAGES}
            predictions = {s: p for s, p in predictions.items() if p is not None}
            if predictions:
                stages = min(predictions, key=lambda s: float(predictions[s].time))
                best[tile] = (stages, predictions[stages])
        cells = [cell(size, *best[t], device) if t in best else "-" for t in TILES]
        winner = min(best, key=lambda t: float(best[t][1].time))
        line = (f"{size:<7}", *(c.rjust(19) for c in cells), f"  {winner[0]}x{winner[1]}")
        print(*line, flush=True)
    compare_stages(product, device)
    compare_waves(product, device)


def compare_stages(product, device, size=8192):
    """Print the rates by number of stages: more of them leave shared memory for fewer blocks."""
    print(f"\nstages at {size}: TFLOPS (blocks per unit)")
    for tile in ((64, 128), (128, 128)):
        shown = []
        for stages in STAGES:
            p = product.predict(size, tile, stages, device)
            shown.append(
                "-" if p is None else f"{tflops(size, p):.1f} ({p.occupancy.resident_blocks})"
            )
        print(f"{tile[0]}x{tile[1]}".ljust(8), *(text.rjust(12) for text in shown), flush=True)


def compare_waves(product, device, tile=(128, 128)):
    """A block more than fits at once is another wave: the rate falls in steps."""
    print("\nblocks, waves of 128x128, TFLOPS")
    resident = (
        product.predict(4096, tile, 3, device).occupancy.resident_blocks * device.compute_units
    )
    full = [int((n * resident) ** 0.5) for n in (1, 2, 4)]
    for count in sorted({c + more for c in full for more in (0, 1)}):
        prediction = product.predict(128 * count, tile, 3, device)
        rate = tflops(128 * count, prediction)
        print(f"{count * count:6} {waves(prediction, device):6.2f} {rate:8.1f}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
