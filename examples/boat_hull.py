"""The micro-benchmarks of the pipeline model paper (Table II): time and throughput over warps.

Usage: python examples/boat_hull.py [PICTURE]     (needs matplotlib)
"""

import sys
from pathlib import Path

import perfassert as pa

TABLE_II = {
    "C2050": {"fadd": (1, 18), "cos": (8, 40), "loop": (4, 58), "memory": (23, 521)},
    "GTX-1060-6GB": {"fadd": (0.25, 6), "cos": (1, 14), "loop": (1.75, 29), "memory": (12, 378)},
}
"""λ and Λ in cycles of one compute unit."""
DEPENDENT = 512


def benchmark(operation, length=DEPENDENT):
    """A kernel of dependent instructions of one class."""
    g = pa.InstructionGraph.builder()
    with g.loop(length) as body:
        g.op(operation, body.carried(operation), name=operation)
    return g.build()


def cycles(device, operation, warps, length=DEPENDENT):
    """Cycles of one unit with so many resident warps."""
    latency = pa.Latency(*TABLE_II[device][operation])
    return pa.simulate(benchmark(operation, length), warps, 1, 1, {operation: latency}).cycles


def draw(path):
    """Time falls along the hull's slope, throughput rises to 1/λ."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    warps = range(1, 65)
    figure, axes = pyplot.subplots(2, 2, figsize=(10, 7), layout="constrained", sharex=True)
    for column, (device, table) in enumerate(TABLE_II.items()):
        for operation, (issue, completion) in table.items():
            times = [cycles(device, operation, w) for w in warps]
            label = f"{operation}: λ = {issue}, Λ = {completion}"
            axes[0][column].plot(
                warps, [t / w / DEPENDENT for t, w in zip(times, warps, strict=True)], label=label
            )
            axes[1][column].plot(
                warps,
                [w * DEPENDENT / t * issue for t, w in zip(times, warps, strict=True)],
                label=label,
            )
        axes[0][column].set(title=device, yscale="log", ylabel="cycles per warp instruction")
        axes[1][column].set(xlabel="resident warps", ylabel="share of the peak throughput")
        axes[0][column].legend(fontsize="small")
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "boat-hull.png")
    draw(target)
    print(f"wrote {target}")
