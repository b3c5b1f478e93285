"""Application of rewrites to an instruction graph: to instructions, their order and costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch

from perfassert.engines.advisor.rewrites import (
    BalanceWarps,
    CopyAsynchronously,
    HalveCosts,
    HalveTransactions,
    LoadBeforeBarriers,
    OfInstructions,
    Reclassify,
    Remove,
    Reorder,
    Rewrite,
    Schedule,
    Unroll,
    Unspill,
    UseConstantMemory,
    WorkAlone,
)
from perfassert.kernel.graph import InstructionGraph, Latency, LatencyRule, Node, replace_costs
from perfassert.predictor.cost.memory import LOAD_STORE_UNIT
from perfassert.predictor.model import device_latency
from perfassert.predictor.rewrites.changed_graph import (
    asynchronous,
    balance_warps,
    with_nodes,
    without,
    work_alone,
)
from perfassert.predictor.rewrites.scheduling import load_before_barriers, remove, reschedule
from perfassert.predictor.rewrites.site import Site
from perfassert.predictor.rewrites.unrolling import unroll_loops


@dataclass(frozen=True)
class GraphRewrites:
    """Rewrites of the graph of one launch, applied in order."""

    rewrites: Sequence[Rewrite]
    site: Site

    def graph(self, graph: InstructionGraph) -> InstructionGraph:
        """Return the graph with rewritten instructions, in their new order."""
        for rewrite in self.rewrites:
            graph = rewrite_graph(rewrite, graph, self.site)
        return graph

    def costs(
        self, graph: InstructionGraph, latencies: Mapping[str, LatencyRule]
    ) -> InstructionGraph:
        """Return the graph with rewritten costs of instructions."""
        for rewrite in self.rewrites:
            graph = rewrite_costs(rewrite, graph, latencies, self.site)
        return graph


@singledispatch
def rewrite_graph(rewrite: Rewrite, graph: InstructionGraph, site: Site) -> InstructionGraph:
    """Return the graph with rewritten instructions; a rewrite of costs leaves it unchanged."""
    return graph


@rewrite_graph.register
def _(rewrite: BalanceWarps, graph: InstructionGraph, site: Site) -> InstructionGraph:
    return balance_warps(graph, site.model.warps, site.program)


@rewrite_graph.register
def _(rewrite: WorkAlone, graph: InstructionGraph, site: Site) -> InstructionGraph:
    return work_alone(graph, site.model.warps)


@rewrite_graph.register
def _(rewrite: LoadBeforeBarriers, graph: InstructionGraph, site: Site) -> InstructionGraph:
    return load_before_barriers(graph, site.device, site.program, site.accesses)


@rewrite_graph.register
def _(rewrite: Reclassify, graph: InstructionGraph, site: Site) -> InstructionGraph:
    changed = {}
    for instruction, name in rewrite.classes.items():
        longest = max(1, round(site.device.operation(name).completion))
        for n in site.copies.get(instruction, ()):
            node = graph.nodes[n]
            changed[n] = node._replace(operation=name, stall=min(node.stall, longest))
    return with_nodes(graph, changed)


@rewrite_graph.register(Remove)
@rewrite_graph.register(Unspill)
@rewrite_graph.register(UseConstantMemory)
def _(rewrite: OfInstructions, graph: InstructionGraph, site: Site) -> InstructionGraph:
    gone = site.nodes(rewrite.instructions)
    if not gone:
        return graph
    if site.program is None:
        return without(graph, gone)
    return remove(graph, gone, site.device, site.program, site.accesses)


@rewrite_graph.register
def _(rewrite: CopyAsynchronously, graph: InstructionGraph, site: Site) -> InstructionGraph:
    return asynchronous(graph, rewrite.loads)


@rewrite_graph.register
def _(rewrite: Unroll, graph: InstructionGraph, site: Site) -> InstructionGraph:
    loops = site.loops(rewrite.loops)
    return _reschedule(unroll_loops(graph, loops), loops, site) if loops else graph


@rewrite_graph.register
def _(rewrite: Schedule, graph: InstructionGraph, site: Site) -> InstructionGraph:
    return _reschedule(graph, site.loops(rewrite.loops), site)


@rewrite_graph.register
def _(rewrite: Reorder, graph: InstructionGraph, site: Site) -> InstructionGraph:
    return _reschedule(graph, site.loops(rewrite.loops), site, by_hand=True)


def _reschedule(
    graph: InstructionGraph, loops: frozenset[int], site: Site, by_hand: bool = False
) -> InstructionGraph:
    if not loops:
        return graph
    return reschedule(graph, loops, site.device, site.program, site.accesses, by_hand)


@singledispatch
def rewrite_costs(
    rewrite: Rewrite, graph: InstructionGraph, latencies: Mapping[str, LatencyRule], site: Site
) -> InstructionGraph:
    """Return the graph with rewritten costs; a rewrite of instructions leaves it unchanged.

    ``latencies``: operation class → latency that the kernel's author states.
    """
    return graph


@rewrite_costs.register
def _(
    rewrite: HalveTransactions,
    graph: InstructionGraph,
    latencies: Mapping[str, LatencyRule],
    site: Site,
) -> InstructionGraph:
    return _halve(graph, rewrite.instructions, latencies, site, completion=1.0)


@rewrite_costs.register
def _(
    rewrite: HalveCosts, graph: InstructionGraph, latencies: Mapping[str, LatencyRule], site: Site
) -> InstructionGraph:
    return _halve(graph, rewrite.instructions, latencies, site, completion=0.5)


def _halve(
    graph: InstructionGraph,
    instructions: frozenset[int],
    latencies: Mapping[str, LatencyRule],
    site: Site,
    completion: float,
) -> InstructionGraph:
    """Return the graph with λ and load-store demand halved, and Λ multiplied by ``completion``."""
    chosen = site.nodes(instructions)
    nodes = tuple(
        _half(n, latencies, site, completion) if n.index in chosen else n for n in graph.nodes
    )
    return replace_costs(graph, nodes=nodes)


def _half(node: Node, latencies: Mapping[str, LatencyRule], site: Site, completion: float) -> Node:
    rule = node.latency or latencies.get(node.operation) or device_latency(node, site.device)
    if not isinstance(rule, Latency):
        return node
    less = replace(rule, issue=rule.issue / 2, completion=rule.completion * completion)
    demands = tuple(
        (server, cycles / 2 if server == LOAD_STORE_UNIT else cycles)
        for server, cycles in node.demands
    )
    return node._replace(latency=less, demands=demands)
