"""Speed of the pipeline simulator: fast-forward, plain, blocks apart, anomalies of list scheduling.

Usage: python benchmarks/pipeline.py     (prints; nothing is asserted)
"""

import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

from matmul import FERMI, latencies, matmul_graph

import perfassert as pa
from perfassert.engines.pipeline.compiled import time_compiled
from perfassert.engines.pipeline.simulate import make_unit


def simulate_timed(*arguments, **options):
    """A simulation and the processor seconds that it took."""
    start = time.process_time()
    result = pa.simulate(*arguments, **options)
    return result, time.process_time() - start


def matmul(size, n, resident, **options):
    """The paper's matrix multiplication on the busiest of the C2050's units."""
    blocks = -(-((n // size) ** 2) // pa.device(FERMI).compute_units)
    graph = matmul_graph(size).bound({"n": n})
    warps = max(1, size * size // 32)
    return simulate_timed(graph, warps, blocks, resident, latencies(FERMI, size), **options)


def straight_line(instructions=1000, trips=40):
    """A loop as compiled code has them: long, with loads, shared memory and short dependences."""
    source = random.Random(1)
    g = pa.InstructionGraph.builder()
    nodes = []
    with g.loop(trips):
        for _ in range(instructions):
            inputs = [nodes[-source.randrange(1, 12)] for _ in range(2) if len(nodes) > 12]
            nodes.append(g.op(source.choices(("ldg", "lds", "ffma"), (10, 15, 75))[0], *inputs))
    return g.build(), {
        "ldg": pa.Latency(1, 300, "lsu"),
        "lds": pa.Latency(1, 23, "lsu"),
        "ffma": pa.Latency(2, 4, "fma", "scheduler"),
    }


def report(label, result, seconds):
    """Print one line: simulated instructions, speed, fraction that was skipped."""
    rate = result.instructions * (1 - result.skipped) / seconds / 1e6
    print(
        f"{label}: {result.instructions:.4g} warp instructions, {result.cycles:.6g} cycles in "
        f"{seconds:.4f} s; skipped {result.skipped:.4%}, {rate:.1f} million simulated per second"
    )


def fast_forward():
    for n in (1024, 16384):
        for order in ("dataflow", "in-order"):
            best = min((matmul(8, n, 8, issue_order=order) for _ in range(3)), key=lambda r: r[1])
            report(f"matmul 8x8, n = {n}, {order}", *best)


def plain():
    for size, resident in ((8, 8), (16, 6)):
        options = {"issue_order": "in-order", "fast_forward": False}
        best = min((matmul(size, 512, resident, **options) for _ in range(3)), key=lambda r: r[1])
        report(f"plain in order, matmul {size}x{size}", *best)
    for schedulers, width in ((1, None), (4, 1)):
        best = long_loop(schedulers, width)
        report(f"plain in order, 1000 instructions, {schedulers} schedulers, width {width}", *best)
    count, seconds = time_alone()
    print(f"the last for its time alone: {count / seconds / 1e6:.1f} million simulated per second")


def long_loop(schedulers, width, repeats=3):
    """The best run of the straight line on a unit."""
    unit = unit_of_straight_line(schedulers, width)
    runs = [simulate_timed(**unit, fast_forward=False) for _ in range(repeats)]
    return min(runs, key=lambda r: r[1])


def unit_of_straight_line(schedulers, width):
    """Arguments of ``pa.simulate``."""
    graph, table = straight_line()
    return {
        "graph": graph, "warps_per_block": 8, "blocks": 12, "resident_blocks": 4,
        "latencies": table, "issue_order": "in-order", "scheduler": "greedy-then-oldest",
        "schedulers": schedulers, "issue_width": width,
    }  # fmt: skip


def time_alone(repeats=3):
    """Instructions and the least seconds of the straight line on a unit, as predictions ask."""
    unit = make_unit(**unit_of_straight_line(4, 1))
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        duration = time_compiled(unit, fast_forward=False)
        seconds.append(time.process_time() - start)
    return duration.instructions, min(seconds)


def plain_rate(schedulers, width):
    """Warp instructions per second."""
    result, seconds = long_loop(schedulers, width, repeats=7)
    return result.instructions / seconds


def blocks_apart():
    """Predictions of one long loop, whose blocks are also simulated with starts that lie apart."""
    field = pa.Field("a", "float32", shape=(1 << 22,))
    for flops in (1000, 4000, 20000):
        kernel = pa.Kernel.from_accesses("k", [field], ["a[x]"], flops=flops, dtype="float32")
        start = time.process_time()
        pa.predict(kernel, pa.Launch.cover(field.shape, 256), "A40")
        print(f"prediction of a loop of {flops} flops: {time.process_time() - start:.3f} s")


def anomalies():
    """Print the largest speedup of the paper's matrix multiplication by a slower instruction."""
    for size in (8, 16):
        table = latencies(FERMI, size)
        graph = matmul_graph(size).bound({"n": 256})
        warps = max(1, size * size // 32)
        usual = pa.simulate(graph, warps, 12, 4, table).cycles
        worst, where = 0.0, "none"
        for name, latency in table.items():
            for factor in (1.25, 1.5, 2):
                for field in ("issue", "completion"):
                    values = {"issue": latency.issue, "completion": latency.completion}
                    values[field] *= factor
                    slower = pa.Latency(pipeline=latency.pipeline, **values)
                    gain = usual / pa.simulate(graph, warps, 12, 4, {**table, name: slower}).cycles
                    if gain - 1 > worst:
                        worst, where = gain - 1, f"{field} of {name} times {factor}"
        print(f"matmul {size}x{size}: largest anomaly {worst:.2%} faster ({where})")


if __name__ == "__main__":
    fast_forward()
    plain()
    blocks_apart()
    anomalies()
