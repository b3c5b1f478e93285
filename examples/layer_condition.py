"""Draw DRAM load volume over the plane size for blocks of growing depth (paper's figure 23).

Usage: python examples/layer_condition.py [PICTURE]     (needs matplotlib)
"""

import sys
from pathlib import Path

from star3d25pt import star3d25pt

import perfassert as pa

DEPTHS = (1, 2, 4, 8, 16, 32)
PLANES = range(64, 1345, 32)
UPDATES = 640 * 512 * 512


def loaded(plane, depth, device="A100-SXM4-40GB"):
    """Bytes loaded from DRAM per update; all domains have about the same number of updates."""
    layers = max(64, UPDATES // plane**2)
    launch = pa.Launch.cover((plane, plane, layers), (max(32, 512 // depth), 1, depth))
    prediction = pa.predict(star3d25pt((plane, plane, layers)), launch, device)
    return float(prediction.volumes.dram_load.per_update)


def draw(path):
    """Save the picture."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    for depth in DEPTHS:
        axes.plot(PLANES, [loaded(n, depth) for n in PLANES], label=f"{depth} deep", marker=".")
        axes.axhline(8 * (depth + 8) / depth, color="0.8", zorder=0)
    axes.axhline(8, color="0.5", linestyle="--", zorder=0)
    axes.set(
        title="25-point star, float64, A100-SXM4-40GB: layer condition",
        xlabel="extent of the square xy plane",
        ylabel="DRAM load volume in B per update",
        ylim=(0, 80),
    )
    axes.legend(title="thread block")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "layer-condition.png")
    draw(target)
    print(f"wrote {target}")
