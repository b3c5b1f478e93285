"""Graph of a kernel that is described by address expressions alone.

It begins with its index; its loads are independent; its arithmetic is one chain for each update
and each of the ``ilp`` independent parts; its stores follow. Every two flops are taken for one
fused multiply-add.
"""

from __future__ import annotations

from perfassert.errors import KernelError
from perfassert.kernel.description import AccessKernel
from perfassert.kernel.graph import GraphBuilder, InstructionGraph, NodeRef

ARITHMETIC = {
    "float64": "fp64", "complex128": "fp64", "float32": "fp32", "complex64": "fp32",
    "float16": "fp16", "bfloat16": "fp16",
}  # fmt: skip
"""Operation class that does the arithmetic of a dtype; else ``int32``."""
LOAD, STORE = "global_load", "global_store"
_FLOPS_PER_INSTRUCTION = 2
_MOST_CHAINS = 2**12


def access_graph(kernel: AccessKernel) -> InstructionGraph:
    """Return a graph of loads, arithmetic and stores; memory nodes carry their access."""
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
    """Thread and block index, their combination, the guard, the address."""
    thread, block = g.op("special_register"), g.op("special_register")
    index = g.op("imad", thread, block)
    return g.op("imad", index, g.op("compare", index))


def _arithmetic(g: GraphBuilder, kernel: AccessKernel, loads: list[NodeRef]) -> list[NodeRef]:
    """The chains; their first instructions take the loads in turn."""
    count = -(-int(kernel.flops) // _FLOPS_PER_INSTRUCTION)
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
