"""The matrix multiplication of the pipeline model paper (Listing 1, §IV.C) as a graph.

The inner loop is unrolled; the multiply-adds chain; only the outer loop and the final write are
in the graph, as in the paper.
"""

import perfassert as pa

FERMI, PASCAL = "C2050", "GTX-1060-6GB"
TABLE_III = {
    FERMI: {
        "loop": (4, 58), "local": (2, 47), "fmadd": (1, 18), "barrier": (3, 40),
        8: {"A": (20, 162), "B": (45, 479)}, 16: {"A": (13, 244), "B": (17, 561)},
    },
    PASCAL: {
        "loop": (1.75, 29), "local": (1, 30), "fmadd": (0.25, 6), "barrier": (2, 70),
        8: {"A": (7, 210), "B": (8, 409)}, 16: {"A": (6, 247), "B": (10, 444)},
    },
}  # fmt: skip
"""λ and Λ per operation; those of the matrix accesses depend on the size of the group."""
CONFLICTS = {FERMI: (16, 250), PASCAL: (7, 100)}
"""λ and Λ of local memory with bank conflicts (§IV.C)."""


def matmul_graph(size):
    """The graph for groups of size × size; trips follow from the argument ``n``."""
    g = pa.InstructionGraph.builder()
    start = g.op("loop")
    with g.loop(trips=f"n // {size}") as tile:
        index = g.op("loop", tile.carried("index", init=start), name="index")
        a, b = g.op("A", index), g.op("B", index)
        g.op("local", a, produces=False)
        g.op("local", b, produces=False)
        g.barrier()
        total = tile.carried("sum", init=start)
        for k in range(size):
            left, right = g.op("local"), g.op("local")
            total = g.op("fmadd", left, right, total, name="sum" if k == size - 1 else "")
        g.barrier()
    g.op("C", total, produces=False)
    return g.build()


def latencies(device, size, conflicts=False):
    """Table III for one device and group size, by operation class."""
    rows = TABLE_III[device]
    named = {name: rows[name] for name in ("loop", "local", "fmadd", "barrier")} | rows[size]
    named["C"] = rows[size]["A"]
    if conflicts:
        named["local"] = CONFLICTS[device]
    pipelines = {"loop": "alu", "fmadd": "alu", "local": "local", "barrier": "barrier"}
    return {
        name: pa.Latency(issue, completion, pipelines.get(name, "global"))
        for name, (issue, completion) in named.items()
    }


def matmul(device, size, conflicts=False, registers=20):
    """The kernel for ``predict``: launch it with ``args={"n": …}``."""
    return pa.Kernel.from_graph(
        f"mmul{size:02d}",
        matmul_graph(size),
        latencies=latencies(device, size, conflicts),
        registers=registers,
        shared_bytes=2 * 4 * size * size,
    )
