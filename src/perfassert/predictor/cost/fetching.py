"""Instruction fetch in the simulation: code that does not stay in a unit has to be fetched again.

What comes next is fetched while what is there is executed: a buffer of lines ahead is nearly as
good as a cache that never misses (Huerta et al., *Analyzing Modern NVIDIA GPU cores*, 2025, §5.2).
So code costs bandwidth, and latency only where control goes back to the start of a loop. It passes
a server of the unit once for each scheduler that has warps of the block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import floor

from perfassert.engines.volume.fetch_and_spill import Pass, instructions, passes
from perfassert.hardware.model import Device
from perfassert.kernel.description import BoundKernel
from perfassert.kernel.graph import (
    Edge,
    EdgeSource,
    InstructionGraph,
    ItemKind,
    Latency,
    LatencyRule,
    Node,
)
from perfassert.predictor.cost.memory import GRAIN

FETCH = "instruction fetch"
_AT_ONCE = 512  # bytes of code that are asked for at a time; only their sum matters
_ASKING = frozenset({"int32", "imad", "fp32", "move", "compare"})


class Fetching:
    """Nodes that request code.

    ``latencies`` of all classes gets their latency. The warps of a block on one scheduler wait for
    the same lines, and each requests its part of them.
    """

    def __init__(
        self,
        kernel: BoundKernel,
        device: Device,
        warps: int,
        latencies: dict[str, LatencyRule],
    ) -> None:
        self.kernel = kernel
        self.device = device
        self.streams = min(warps, device.schedulers_per_unit) / warps
        self.latencies = latencies
        self.changed: dict[int, Node] = {}

    def apply(self, graph: InstructionGraph) -> InstructionGraph:
        """Return the graph with fetches; unchanged where its code fits into the unit's cache."""
        code_passes = passes(graph, self.kernel, self.device)
        if not code_passes or not self.device.instruction_fetch_bytes_per_cycle:
            return graph
        waited_for = {s.producer for n in graph.nodes for e in n.edges for s in e.sources}
        for code_pass in code_passes:
            self.fetch(graph, code_pass, waited_for)
        return replace(graph, nodes=tuple(self.changed.get(n.index, n) for n in graph.nodes))

    def fetch(self, graph: InstructionGraph, code_pass: Pass, waited_for: set[int]) -> None:
        """Let an instruction before each piece of the pass request this piece.

        The last instruction requests the start of the next iteration.
        """
        first = last = asking = None
        owed = size = 0.0
        per_byte = code_pass.missed * self.streams / self.device.instruction_fetch_bytes_per_cycle
        for node, more in _pieces(graph, code_pass):
            size += more
            owed += more * per_byte
            if node is None or not _is_uniform_arithmetic(node) or node.index in waited_for:
                continue
            last = node
            if asking is not None and size < _AT_ONCE:
                continue
            if asking is not None:
                owed = self.ask(asking, owed)
                self.wait(node, EdgeSource(asking.index, node.loop, 0))
            first, asking, size = first or node, node, 0.0
        if first is None or last is None or asking is None:
            return
        if code_pass.loop < 0 or last is not asking:
            self.ask(asking, owed)
            owed = 0.0
        if code_pass.loop >= 0:
            from_l2 = code_pass.missed * self.device.instruction_fetch_share
            self.ask(last, owed, from_l2 * self.device.l2_latency)
            self.wait(first, EdgeSource(last.index, code_pass.loop, 1))

    def ask(self, node: Node, cycles: float, latency: float = 0.0) -> float:
        """Let the node request code for whole grains of cycles; return the cycles left over."""
        served = floor(cycles * GRAIN) / GRAIN
        rule = node.latency or self.latencies[node.operation]
        assert isinstance(rule, Latency)
        later = replace(rule, completion=rule.completion + round(latency * GRAIN) / GRAIN)
        now = self.changed.get(node.index, node)
        demands = ((FETCH, served),) if served else ()
        self.changed[node.index] = now._replace(
            latency=later, demands=demands, produces=True, fetches=True
        )
        return cycles - served

    def wait(self, node: Node, source: EdgeSource) -> None:
        """Let the node wait for code that another node has requested."""
        now = self.changed.get(node.index, node)
        self.changed[node.index] = now._replace(edges=(*now.edges, Edge((source,))))


def _is_uniform_arithmetic(node: Node) -> bool:
    """Return True if all warps execute the instruction and it is arithmetic of fixed latency."""
    return node.operation in _ASKING and node.warps is None and not node.demands


def _pieces(graph: InstructionGraph, code_pass: Pass) -> Iterator[tuple[Node | None, float]]:
    """Yield the nodes of a pass (None for a loop that fits) with the bytes of code new to it."""
    each = code_pass.bytes / max(1, len(set(instructions(graph, code_pass.body))))
    seen: set[int] = set()
    for item in code_pass.body:
        new = set(instructions(graph, [item])) - seen
        seen |= new
        node = graph.nodes[item.number] if item.kind is ItemKind.NODE else None
        yield node, len(new) * each
