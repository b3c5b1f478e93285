"""Digests of kernels of every kind, as they stand in baselines that were written long ago.

A change here makes every baseline's kernel look edited: it belongs into the changelog.
"""

from dataclasses import replace
from pathlib import Path

import pytest

import perfassert as pa
from perfassert.baseline.identity import digest
from perfassert.kernel.access import Direction
from perfassert.kernel.affine import Affine, AffineCall, Quotient, below_zero
from perfassert.kernel.bound import BoundAccess
from perfassert.kernel.description import BoundKernel, CompiledKernel
from perfassert.kernel.names import LoopCounter
from perfassert.toml.tables import loads

HERE = Path(__file__).parent
LISTINGS = HERE.parent / "frontends" / "fixtures"
N = 1 << 16
LAUNCH = pa.Launch(N // 256, 256)


def copy():
    fields = [pa.Field("a", shape=(N,)), pa.Field("b", shape=(N,))]
    return pa.Kernel.from_accesses("copy", fields, ["a[x]"], ["b[x]"])


def stencil():
    src = pa.Field("src", "float32", (64, 64, 64), halo=(1, 2, 4), pitch=128, alignment=64)
    dst = pa.Field("dst", "float32", (64, 64, 64), offset=4)
    return pa.Kernel.from_accesses(
        "stencil", [src, dst], ["src[z, y, x - 1]", "src[z, y - n % 3, 2 * (x // 2) + 1]"],
        ["dst[z, y, x]"], flops=25, dtype="float32", registers=48, shared_bytes=1024,
        updates_per_thread=2, ilp=2,
    )  # fmt: skip


def gather():
    fields = [pa.Field("a", shape=(N,)), pa.Field("i", "int32", shape=(N,))]
    assume = {"i[x]": "x * 7 % 1000"}
    return pa.Kernel.from_accesses("gather", fields, ["a[i[x]]"], assume=assume)


def saxpy_graph():
    g = pa.InstructionGraph.builder()
    index = g.op("index")
    first, second = g.op("mem", index), g.op("mem", index)
    g.op("mem", g.op("fmadd", first, second), produces=False)
    latencies = {
        "index": pa.Latency(1, 4), "mem": pa.Latency(23, 521, "global", "scheduler"),
        "fmadd": lambda warps: pa.Latency(warps / 4, 9.5),
    }  # fmt: skip
    return pa.Kernel.from_graph("saxpy", g.build(), latencies, registers=20)


def loops_graph():
    g = pa.InstructionGraph.builder()
    start = g.op("int32")
    with g.loop("n // 16") as outer:
        load = g.op("global_load", start, access="a[x + 1]", space="global")
        with g.loop(4) as inner:
            g.op("fp32", load, inner.carried("s", outer.carried("s"), distance=2), name="s")
        g.barrier()
    with g.only(warps=range(2)):
        g.op("global_store", access="a[x]", produces=False)
    g.barrier(start)
    fields = [pa.Field("a", "float32", shape=(N,), halo=1)]
    return pa.Kernel.from_graph("loops", g.build(), fields=fields, flops=8.0, shared_bytes=64)


def listing(name, **said):
    return pa.from_cubin(LISTINGS / f"{name}.sass", **said)


def bound():
    """Code that another front end compiles enters as what it is for the launch."""
    row = Affine(0, (("threadIdx.x", 1), (Quotient(Affine(3, (("x", 1),)), 4), 8)))
    least = AffineCall("min", (row, Affine(N)))
    counter = LoopCounter(0)
    access = BoundAccess(
        "p0", "global", Direction.LOAD, 4, Affine(16, (("x", 4), (least, 2), (counter, 128))),
        {counter: (0, 7), "x": (0, N - 1)}, (below_zero(row),), (counter,), False, "p0", None,
    )  # fmt: skip
    g = pa.InstructionGraph.builder()
    with g.loop(8):
        g.op("fp32", g.op("global_load", space="global"))
    graph = g.build()
    load = graph.nodes[0]._replace(touches=(0,), program=3, stall=2, demands=(("l2", 1.5),))
    graph = replace(graph, nodes=(load, *graph.nodes[1:]))
    return BoundKernel(
        name="bound", fields={"p0": pa.Field.pointer("p0")}, flops=16, dtype="float32",
        registers=24, graph=graph, bound=(access,), spill_bytes=8, program=None, code_bytes=512,
    )  # fmt: skip


class Bound:
    """A front end of its own."""

    def bind(self, launch, arch, warp_size):
        return bound(), launch


KERNELS = {
    "copy": copy,
    "stencil": stencil,
    "gather": gather,
    "saxpy-graph": saxpy_graph,
    "loops-graph": loops_graph,
    "saxpy-code": lambda: listing("saxpy", trip_counts={"saxpy.cu:7": 3}),
    "transpose-code": lambda: listing("transpose", updates_per_thread=4),
    "bound": lambda: CompiledKernel(name="bound", compiled=Bound()),
}


def digest_of(name):
    device = "H100-PCIE-80GB" if name == "transpose-code" else "A100-SXM4-40GB"
    return digest(KERNELS[name](), LAUNCH, pa.device(device))


def golden():
    return loads((HERE / "digests.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", KERNELS)
def test_as_ever(name):
    assert digest_of(name) == golden()[name]


def test_all_differ():
    assert sorted(golden()) == sorted(KERNELS)
    assert len(set(golden().values())) == len(KERNELS)
