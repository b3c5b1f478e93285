"""A change of the code, carried out on the graph that is simulated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from perfassert.engines.advisor.case import Case
from perfassert.engines.advisor.change import Change
from perfassert.kernel.description import BoundKernel
from perfassert.kernel.graph import InstructionGraph, Latency, LatencyRule, Node
from perfassert.kernel.roles import node_space
from perfassert.predictor.cost.memory import LOAD_STORE_UNIT
from perfassert.predictor.model import Model, device_latency
from perfassert.predictor.rewrites.changed_graph import (
    OUTSIDE,
    asynchronous,
    balance_warps,
    copies_of_loops,
    with_nodes,
    without,
    work_alone,
)
from perfassert.predictor.rewrites.list_scheduling import IN_FLIGHT
from perfassert.predictor.rewrites.scheduling import (
    load_before_barriers,
    registers_of_reordering,
    remove,
    reschedule,
)
from perfassert.predictor.rewrites.unrolling import unroll_factor, unroll_loops

_WORD = 4  # bytes of a register


@dataclass(frozen=True)
class CodeChange:
    """One change of one launch."""

    change: Change
    model: Model
    case: Case

    @cached_property
    def copies(self) -> Mapping[int, tuple[int, ...]]:
        """Nodes of the unchanged graph by instruction."""
        by_instruction: dict[int, list[int]] = {}
        launching = self.model.launch_nodes
        for node in self.model.graph.nodes:
            if node.index not in launching:
                by_instruction.setdefault(node.instruction, []).append(node.index)
        return {n: tuple(nodes) for n, nodes in by_instruction.items()}

    def touched_accesses(self, instructions: Iterable[int]) -> frozenset[int]:
        """Numbers of their accesses."""
        nodes = self.model.graph.nodes
        return frozenset(
            t for i in instructions for n in self.copies.get(i, ()) for t in nodes[n].touches
        )

    @cached_property
    def loops(self) -> Mapping[int, Sequence[int]]:
        """Loops of the graph by the loop of the code that they stand for."""
        return {OUTSIDE: [OUTSIDE], **copies_of_loops(self.case.code, self.model.graph)}

    def of(self, loops: Iterable[int]) -> frozenset[int]:
        """Loops of the graph that stand for these."""
        return frozenset(x for loop in loops for x in self.loops.get(loop, ()))

    def registers(self) -> int:
        """What was spilled, and what is loaded earlier or by copies of a loop's body, is held in
        registers."""
        change, kernel, graph = self.change, self.model.bound_launch.kernel, self.model.graph
        if change.registers is not None:
            return change.registers
        if kernel.spill_bytes:
            loaded = 0
        elif change.reordered and isinstance(kernel, BoundKernel):
            needed = registers_of_reordering(
                graph, self.of(change.reordered), self.model.device, kernel.program, kernel.bound
            )
            loaded = max(0, needed - kernel.registers)
        else:
            loaded = max(map(self._loaded_by_copies, self.of(change.unrolled)), default=0)
        spilled = (kernel.spill_bytes or 0) // _WORD if change.unspilled else 0
        most = self.model.device.max_registers_per_thread
        return min(kernel.registers + spilled + min(loaded, IN_FLIGHT), most)

    def _loaded_by_copies(self, loop: int) -> int:
        graph = self.model.graph
        nodes = [n for n in graph.nodes if n.loop == loop and n.produces]
        loads = [n for n in nodes if node_space(n) == "global"]
        return (unroll_factor(graph, loop) - 1) * len(loads)

    def graph(self, graph: InstructionGraph) -> InstructionGraph:
        """The changes of instructions and their order."""
        change = self.change
        kernel = self.model.bound_launch.kernel
        program = kernel.program if isinstance(kernel, BoundKernel) else None
        accesses = kernel.bound if isinstance(kernel, BoundKernel) else ()
        if change.balanced:
            graph = balance_warps(graph, self.model.warps, program)
        if change.alone:
            graph = work_alone(graph, self.model.warps)
        if change.early:
            graph = load_before_barriers(graph, self.model.device, program, accesses)
        gone = {n for i in change.removed | change.constant for n in self.copies.get(i, ())}
        if change.classes:
            graph = with_nodes(graph, self._reclassified_nodes(graph))
        if gone and program is not None:
            graph = remove(graph, frozenset(gone), self.model.device, program, accesses)
        elif gone:
            graph = without(graph, gone)
        if change.asynchronous:
            graph = asynchronous(graph, change.asynchronous)
        unrolled = self.of(change.unrolled)
        if unrolled:
            graph = unroll_loops(graph, unrolled)
        if loops := unrolled | self.of(change.reordered | change.scheduled):
            graph = reschedule(graph, loops, self.model.device, program, accesses,
                              bool(change.reordered))  # fmt: skip
        return graph

    def _reclassified_nodes(self, graph: InstructionGraph) -> dict[int, Node]:
        classes = {
            n: name for i, name in self.change.classes.items() for n in self.copies.get(i, ())
        }
        return {
            n: graph.nodes[n]._replace(operation=name, stall=self._stall(graph.nodes[n], name))
            for n, name in classes.items()
        }

    def _stall(self, node: Node, operation: str) -> int:
        """No longer than the new operation takes."""
        return min(node.stall, max(1, round(self.model.device.operation(operation).completion)))

    def costs(
        self, graph: InstructionGraph, latencies: Mapping[str, LatencyRule]
    ) -> InstructionGraph:
        """Arithmetic of half the cost; accesses with half of the transactions."""
        cheaper = {n for i in self.change.cheaper for n in self.copies.get(i, ())}
        halved = {n for i in self.change.halved for n in self.copies.get(i, ())}
        changed = {}
        for node in graph.nodes:
            if node.index not in cheaper and node.index not in halved:
                continue
            own = node.latency or latencies.get(node.operation)
            rule = own or device_latency(node, self.model.device)
            if not isinstance(rule, Latency):
                continue
            less = replace(rule, issue=rule.issue / 2)
            if node.index in cheaper:
                less = replace(less, completion=rule.completion / 2)
            demands = tuple(
                (server, cycles / 2 if server == LOAD_STORE_UNIT else cycles)
                for server, cycles in node.demands
            )
            changed[node.index] = node._replace(latency=less, demands=demands)
        return with_nodes(graph, changed)
