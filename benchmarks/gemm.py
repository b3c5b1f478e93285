"""A sweep of matrix products: sizes, tiles and stages, with rate and limiter of each.

``python benchmarks/gemm.py [DEVICE [SIZE …]]``: examples/kernels/gemm_cp_async.cu, halves in and
floats out, on an A100. The columns are TFLOPS for each tile with its best number of stages; below,
the waves of the largest tile, and what stages change for it.
"""

import sys
from math import ceil
from pathlib import Path

import perfassert as pa

SOURCE = Path(__file__).parents[1] / "examples" / "kernels" / "gemm_cp_async.cu"
SIZES = (512, 1024, 2048, 3072, 4096, 6144, 8192, 16384)
TILES = ((64, 64), (128, 64), (64, 128), (128, 128), (256, 128), (128, 256))
STAGES = (2, 3, 4, 5)


def predicted(size, tile, stages, device):
    """None where a tile's shared memory or registers are more than the device has."""
    rows, columns = tile
    kernel = pa.from_cuda(SOURCE, defines={"TILE_M": rows, "TILE_N": columns, "STAGES": stages})
    threads = 32 * (rows // 64) * (columns // 64)
    grid = (ceil(size / columns), ceil(size / rows))
    shared = stages * (rows + columns) * 64
    launch = pa.Launch(grid, threads, args={"n": size, "k": size}, shared_bytes=shared)
    try:
        return pa.predict(kernel, launch, device)
    except pa.LaunchError:
        return None


def tflops(size, prediction):
    return 2 * size**3 / float(prediction.time) / 1e12


def main(device="a100", *sizes):
    device = pa.device(device)
    print("n      ", *(f"{r}x{c}".rjust(14) for r, c in TILES), "  best")
    for size in map(int, sizes or SIZES):
        best = {}
        for tile in TILES:
            found = {s: predicted(size, tile, s, device) for s in STAGES}
            found = {s: p for s, p in found.items() if p is not None}
            if found:
                stages = min(found, key=lambda s: found[s].time)
                best[tile] = (stages, found[stages])
        cells = [
            f"{tflops(size, best[t][1]):6.1f} {best[t][1].limiter[:5]}/{best[t][0]}" if t in best
            else "-" for t in TILES
        ]  # fmt: skip
        winner = min(best, key=lambda t: best[t][1].time)
        print(
            f"{size:<7}",
            *(cell.rjust(14) for cell in cells),
            f"  {winner[0]}x{winner[1]}",
            flush=True,
        )
    waves(device)


def waves(device, tile=(128, 128)):
    """A block more than fits at once is another wave: the rate falls in steps."""
    print("\nblocks, waves of 128x128, TFLOPS")
    for count in (10, 14, 15, 20, 21):
        size = 128 * count
        found = predicted(size, tile, 3, device)
        held = found.occupancy.resident_blocks * device.compute_units
        print(f"{count * count:6} {count * count / held:6.2f} {tflops(size, found):8.1f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
