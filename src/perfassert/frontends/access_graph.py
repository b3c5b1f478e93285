"""Instruction graph of a kernel that is given by address expressions alone.

The graph begins with the arithmetic of the thread's index. The loads are independent of each other.
The floating-point arithmetic forms one dependent chain for each update and each of the ``ilp``
independent parts. The stores follow. Two flops count as one fused multiply-add.
"""

from __future__ import annotations

from perfassert.errors import KernelError
from perfassert.kernel.description import AccessKernel
from perfassert.kernel.graph import GraphBuilder, InstructionGraph, NodeRef
from perfassert.kernel.machine import FLOPS_PER_FMA

ARITHMETIC = {
    "float64": "fp64", "complex128": "fp64", "float32": "fp32", "complex64": "fp32",
    "float16": "fp16", "bfloat16": "fp16",
}  # fmt: skip
"""Dtype → operation class of its arithmetic; any other dtype counts as ``int32``."""
LOAD, STORE = "global_load", "global_store"
_MOST_CHAINS = 2**12  # more would not change the rate


def access_graph(kernel: AccessKernel) -> InstructionGraph:
    """Return the graph of loads, arithmetic and stores, built once per kernel and kept by it."""
    return kernel.found.once(access_graph, lambda: _graph(kernel))


def _graph(kernel: AccessKernel) -> InstructionGraph:
    g = InstructionGraph.builder()
    index = _index(g)
    loads = [g.op(LOAD, index, access=a.text, space="global", span=a.span) for a in kernel.loads]
    results = _arithmetic(g, kernel, loads)
    for access in kernel.stores:
        g.op(
            STORE, *(results or loads or [index]), produces=False,
            access=access.text, space="global", span=access.span,
        )  # fmt: skip
    return g.build()


def _index(g: GraphBuilder) -> NodeRef:
    """Add the index arithmetic (block and thread index, guard, address); return its last node."""
    thread, block = g.op("special_register"), g.op("special_register")
    index = g.op("imad", thread, block)
    return g.op("imad", index, g.op("compare", index))


def _arithmetic(g: GraphBuilder, kernel: AccessKernel, loads: list[NodeRef]) -> list[NodeRef]:
    """Add the chains of arithmetic; return their ends and the loads that no chain takes."""
    # 20 flops with ilp = 2 and 3 loads: 10 instructions in 2 chains of 5. Chain 0 takes loads 0
    # and 2, chain 1 takes load 1; a loop of 3 iterations holds the rest of both chains.
    count = -(-int(kernel.flops) // FLOPS_PER_FMA)
    chains = min(kernel.updates_per_thread * kernel.ilp, count)
    if not chains:
        return []
    if chains > _MOST_CHAINS:
        raise KernelError(
            f"kernel {kernel.name!r}: {chains} independent chains of arithmetic (ilp times "
            f"updates_per_thread) are more than the {_MOST_CHAINS} that are simulated"
        )
    operation = ARITHMETIC.get(kernel.dtype, "int32")
    length = -(-count // chains)
    taking = min(length, -(-len(loads) // chains))
    ends: list[NodeRef | None] = [None] * chains
    for step in range(taking):
        for chain in range(chains):
            inputs = [end] if (end := ends[chain]) is not None else []
            inputs += loads[step * chains + chain :][:1]
            ends[chain] = g.op(operation, *inputs)
    if length > taking:
        with g.loop(length - taking) as body:
            ends = [
                g.op(operation, body.carried(f"chain {i}", init=end), name=f"chain {i}")
                for i, end in enumerate(ends)
            ]
    rest = loads[taking * chains :]
    return [end for end in ends if end is not None] + rest
