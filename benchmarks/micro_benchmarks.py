"""The pipeline paper's micro-benchmarks (Table II) through ``predict``, against its equation 1.

Usage: python benchmarks/micro_benchmarks.py     (prints; tests/predictor asserts)
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

from boat_hull import DEPENDENT, TABLE_II, benchmark

import perfassert as pa

LARGEST_BLOCK = 32  # warps; more are two blocks on each SM


def equation_1(instructions, warps, issue, completion):
    """Cycles of ``warps`` warps with so many dependent instructions each."""
    if warps <= completion / issue:
        return instructions * completion + (warps - 1) * issue
    return completion + (instructions * warps - 1) * issue


def launches(device):
    """Yield (resident warps, launch) with one or two blocks on each SM."""
    for warps in range(1, device.max_warps_per_unit + 1):
        blocks = 1 if warps <= LARGEST_BLOCK else 2
        if warps % blocks == 0:
            threads = warps * device.warp_size // blocks
            yield warps, pa.Launch(blocks * device.compute_units, threads)


def errors(device, operation):
    """Relative error of the predicted cycles, by resident warps."""
    issue, completion = TABLE_II[device.name][operation]
    kernel = pa.Kernel.from_graph(operation, benchmark(operation), registers=1)
    return {
        warps: pa.predict(kernel, launch, device).cycles
        / equation_1(DEPENDENT, warps, issue, completion)
        - 1
        for warps, launch in launches(device)
    }


def summary(found):
    """Mean and largest error."""
    sizes = [abs(error) for error in found.values()]
    return sum(sizes) / len(sizes), max(sizes)


if __name__ == "__main__":
    print(f"{'device':14} {'scheduler':20} {'benchmark':9}  mean   worst")
    for name, table in TABLE_II.items():
        for scheduler in ("loose-round-robin", "greedy-then-oldest"):
            device = pa.device(name).replace(warp_scheduler=scheduler)
            for operation in table:
                mean, worst = summary(errors(device, operation))
                print(f"{name:14} {scheduler:20} {operation:9} {mean:6.2%} {worst:6.2%}")
