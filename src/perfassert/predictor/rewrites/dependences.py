"""Dependences among the instructions of a body: through registers, memory, branches, barriers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from perfassert.errors import DeviceFileError
from perfassert.hardware.model import Device
from perfassert.kernel.access import Direction
from perfassert.kernel.bound import BoundAccess
from perfassert.kernel.graph import BodyItem, Edge, InstructionGraph, ItemKind, Node
from perfassert.kernel.machine import REGISTER_BYTES
from perfassert.kernel.program import Program
from perfassert.kernel.roles import node_space
from perfassert.predictor.rewrites.changed_graph import OUTSIDE, inside, node_registers
from perfassert.predictor.rewrites.control_dependence import ControlDependence, control_dependence
from perfassert.predictor.rewrites.list_scheduling import Step


@dataclass(eq=False)
class Dependences:
    """Dependences of a graph: through registers and memory, on branches and on barriers.

    ``passing``: loads that barriers need not be waited for; ``ahead``: by node, the loop in which
    it loads for the next iteration.
    """

    graph: InstructionGraph
    device: Device
    program: Program | None
    bound: Sequence[BoundAccess]
    passing: frozenset[int] = frozenset()
    ahead: dict[int, int] = field(default_factory=dict)

    @cached_property
    def control(self) -> ControlDependence | None:
        """Control dependence of the code; None for a graph without code."""
        return None if self.program is None else control_dependence(self.program)

    def is_load(self, node: Node) -> bool:
        return node.produces and node_space(node) == "global" and not self.writes(node)

    def writes(self, node: Node) -> bool:
        accesses = [self.bound[i] for i in node.touches if i < len(self.bound)]
        stores = any(a.direction is Direction.STORE or a.atomic for a in accesses)
        return stores or node.operation.startswith("atomic") or node.operation.endswith("store")

    def fields(self, node: Node) -> Iterator[str]:
        return (self.bound[t].field for t in node.touches if t < len(self.bound))

    def registers(self, node: Node) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return node_registers(node, self.program)

    def completion(self, node: Node) -> int:
        try:
            return max(1, round(self.device.operation(node.operation).completion))
        except DeviceFileError:
            return max(1, node.stall)

    def members(self, step: Step) -> Iterator[Node]:
        return inside(self.graph, [step.item])

    def depend(self, steps: Sequence[Step]) -> None:
        """Let steps wait for each other: for registers, for memory, and as the graph says.

        A write to memory waits for all reads since the last write. Any access waits for the last
        write, which has waited for all before it.
        """
        place = {n.index: k for k, s in enumerate(steps) for n in self.members(s)}
        defined: dict[str, tuple[int, Node]] = {}
        memory: dict[tuple[str, str], list[int]] = {}  # the last write, or -1, and reads since
        for k, step in enumerate(steps):
            own: dict[str, Node] = {}
            for node in self.members(step):
                defines, uses = self.registers(node)
                for name in uses:
                    if name in defined and name not in own:
                        self.wait(steps, k, *defined[name])
                own.update(dict.fromkeys(defines, node))
                for edge in node.edges:
                    self.follow(steps, k, node, edge, place)
                for key, writes in self.touched_memory(node):
                    since = memory.setdefault(key, [-1])
                    for before in since if writes else since[:1]:
                        if before not in (-1, k):
                            step.waits.setdefault(before, 1)
                    if writes:
                        memory[key] = [k]
                    else:
                        since.append(k)
            defined.update((name, (k, node)) for name, node in own.items())

    def touched_memory(self, node: Node) -> Iterator[tuple[tuple[str, str], bool]]:
        """Yield the memory whose order matters, each with True if the node writes it.

        Global memory counts by field, the stack by word where that is known, shared memory as a
        whole. Branches and stores keep their order, too.
        """
        writes = self.writes(node)
        for number in node.touches if self.bound else ():
            access = self.bound[number]
            if access.space != "local":
                yield (access.space, access.field if access.space == "global" else ""), writes
            elif access.touched is None and not access.address.terms:
                first = access.address.constant // REGISTER_BYTES
                for word in range(first, first + max(1, access.bytes // REGISTER_BYTES)):
                    yield ("local", str(word)), writes
                yield ("local", ""), False
            else:  # what may be any word keeps its place among all of them
                yield ("local", ""), True
        if writes or node.operation == "branch":
            yield ("control", ""), node.operation == "branch"

    def wait(self, steps: Sequence[Step], k: int, before: int, node: Node) -> None:
        """Let step ``k`` wait for a register: a variable latency for a load, else a fixed one."""
        if before == k or self.ahead.get(node.index, OUTSIDE) >= 0:
            return
        instruction = self.program.instructions[node.program] if self.program else None
        varies = instruction is None or instruction.sets >= 0
        cycles = self.result_latency(node) if varies else self.completion(node)
        steps[k].waits[before] = max(steps[k].waits.get(before, 0), cycles)
        if not varies:
            steps[k].fixed[before] = max(steps[k].fixed.get(before, 0), cycles)

    def result_latency(self, node: Node) -> int:
        return round(self.device.l2_latency) if self.is_load(node) else self.completion(node)

    def follow(
        self, steps: Sequence[Step], k: int, node: Node, edge: Edge, place: Mapping[int, int]
    ) -> None:
        """Add an edge of the graph.

        An edge that only stands for a register read or a barrier that others share is left out, if
        both lie here.
        """
        for source in edge.sources:
            before = place.get(source.producer, k)
            if (
                before < k
                and source.distance == 0
                and self.is_true_dependence(source.producer, node)
            ):
                self.wait(steps, k, before, self.graph.nodes[source.producer])

    def is_true_dependence(self, producer: int, node: Node) -> bool:
        """Return True if a wait is for a result that the node uses, as far as registers tell."""
        defines, _ = self.registers(self.graph.nodes[producer])
        if self.program is None or not defines:
            own = self.graph.nodes[producer]
            frees = self.program is not None and own.program >= 0 and not own.produces
            return not frees
        return not set(defines).isdisjoint(self.registers(node)[1])

    def stay_in_branches(self, steps: Sequence[Step]) -> None:
        """Keep instructions between branches, except where they would be executed anyway.

        An instruction that a branch decides on stays behind this branch, and before the next branch
        that is reached either way.
        """
        if self.control is None:
            return
        always = self.control.always_follows
        branches: dict[int, int] = {}  # by step, the block
        known: dict[int, tuple[int, int | None]] = {}  # by block, after so many branches
        decided: dict[int, list[int]] = {}  # by the branch that decides, steps before the next one
        for k, step in enumerate(steps):
            nodes = [n for n in self.members(step) if n.program >= 0]
            block = self.control.block(nodes[0].program) if nodes else -1
            if known.get(block, (-1, None))[0] != len(branches):
                deciding = (b for b in reversed(branches) if not always(block, branches[b]))
                known[block] = len(branches), next(deciding, None)
            own = known[block][1]
            if own is not None and not self.is_speculative(step):
                step.waits.setdefault(own, 1)
            if not self.branches(step.item):
                decided.setdefault(-1 if own is None else own, []).append(k)
                continue
            for b in [b for b in decided if b >= 0 and always(block, branches[b])]:
                for before in decided.pop(b):
                    step.waits.setdefault(before, 1)
            branches[k] = block

    def is_speculative(self, step: Step) -> bool:
        """Return True if a step may execute without need: it computes, or reads shared memory."""
        node = step.node
        if node is None or self.writes(node):
            return False
        return self.computes(node) or node_space(node) == "shared"

    def computes(self, node: Node) -> bool:
        """Return True if a node reads and writes registers only."""
        return not (node_space(node) or node.fence or node.signal or node.operation == "branch")

    def stay_between_barriers(self, steps: Sequence[Step]) -> None:
        """Let a barrier wait for what came before it, and all later steps for the barrier.

        Exempt are loads of what nobody writes, and what is computed in registers.
        """
        fence, since = -1, list[int]()
        for k, step in enumerate(steps):
            node = step.node
            if node is not None and node.fence:
                step.waits.update({b: step.waits.get(b, 1) for b in since})
                fence, since = k, [k]
            elif not self.moves(step):
                if fence >= 0:
                    step.waits.setdefault(fence, 1)
                since.append(k)

    def moves(self, step: Step) -> bool:
        return step.node is not None and (
            step.node.index in self.passing or self.computes(step.node)
        )

    def branches(self, item: BodyItem) -> bool:
        return item.kind is ItemKind.NODE and self.graph.nodes[item.number].operation == "branch"

    def passing_loads(self) -> frozenset[int]:
        """Return the global loads of fields that the kernel has written in no iteration before.

        No barrier lets such a load see a value that was not there at first.
        """
        written: set[str] = set()
        result: set[int] = set()
        for item in self.graph.body if self.bound else ():
            nodes = [n for n in inside(self.graph, [item]) if node_space(n) == "global"]
            if item.kind is ItemKind.LOOP:
                written.update(f for n in nodes if self.writes(n) for f in self.fields(n))
            for n in nodes:
                if self.is_load(n) and n.touches and written.isdisjoint(self.fields(n)):
                    result.add(n.index)
                if self.writes(n):
                    written.update(self.fields(n))
        return frozenset(result)
