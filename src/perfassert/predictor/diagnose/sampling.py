"""The simulator's profile as samples: what sampling every scheduler round robin would show.

Expectations instead of a random draw: a warp that spends ``c`` cycles in a state is in it in a
share ``c / total`` of the samples, whatever the period, and a sample is a latency sample as often
as the scheduler idles meanwhile.

| simulator | reason | Nsight Compute |
|---|---|---|
| issue slot | ``selected`` | ``stall_selected`` |
| another warp took the slot | ``not_selected`` | ``stall_not_selected`` |
| stall count of the instruction before | ``execution_dependency`` | ``stall_wait`` |
| result of a global, local or texture access | ``memory_dependency`` | ``stall_long_sb`` |
| result of a constant load | ``constant_dependency`` | ``stall_imc``, ``stall_short_sb`` |
| any other result, operands not read yet | ``execution_dependency`` | ``stall_short_sb`` |
| barrier, fence | ``synchronization`` | ``stall_barrier``, ``stall_membar`` |
| memory queue full or taken | ``memory_throttle`` | ``stall_lg``, ``stall_mio``, ``stall_tex`` |
| pipeline taken | ``pipe_busy`` | ``stall_math`` |
| ``nanosleep`` | ``sleeping`` | ``stall_sleeping`` |
| DRAM, beyond its latency | ``memory_dependency`` | ``stall_long_sb`` |
| code beyond the instruction cache | ``instruction_fetch`` | ``stall_no_inst`` |

A measured ``stall_short_sb`` counts as
an execution dependency until its source is known to be a constant load. ``stall_drain``,
``stall_branch_resolving``, ``stall_dispatch`` and ``stall_misc`` have no event.
"""

from __future__ import annotations

from perfassert.engines.pipeline.configuration import Unit
from perfassert.engines.pipeline.results import StallProfile
from perfassert.kernel.graph import InstructionGraph, Node
from perfassert.kernel.roles import is_outside_sm, node_space
from perfassert.kernel.samples import SELECTED, Count, Samples
from perfassert.predictor.cost.memory import QUEUE

_FETCH = "instruction_fetch"


def samples(
    profile: StallProfile,
    unit: Unit,
    graph: InstructionGraph,
    skipped: frozenset[int],
    slower: float,
) -> Samples:
    """Samples of the nodes not in ``skipped``, in warp cycles of the simulated unit.

    Nodes of compiled code count for the instruction that they are copies of. ``slower``: the
    launch takes so many times as long as the simulation, because DRAM is shared by all units;
    the difference is waited for where results from memory are, else where memory is throttled.
    """
    return _Sampler(profile, unit, graph, skipped).samples(slower)


class _Sampler:
    def __init__(
        self, profile: StallProfile, unit: Unit, graph: InstructionGraph, skipped: frozenset[int]
    ) -> None:
        self.profile = profile
        self.ticks = unit.pipelines.ticks
        self.graph = graph
        self.skipped = skipped
        self.queued = unit.nodes_on(QUEUE)
        # What comes first waits for its block's launch: the warp is not there yet.
        orders = [program.outline.nodes for program in unit.programs] if skipped else []
        self.first = {nodes[1].graph_node for nodes in orders if len(nodes) > 1}
        far = {self.number(n.index) for n in graph.nodes if is_outside_sm(node_space(n))}
        self.far = frozenset(far)
        self.counts: dict[tuple[int, str], Count] = {}
        self.edges: dict[tuple[int, int], Count] = {}
        self.issued: dict[int, float] = {}

    def samples(self, slower: float) -> Samples:
        for number, spent in self.profile.spent.items():
            if number in self.skipped or not spent.issued:
                continue
            at = self.number(number)
            slots = spent.issued * self.ticks
            self.issued[at] = self.issued.get(at, 0.0) + spent.issued
            throttled = "memory_throttle" if number in self.queued else "pipe_busy"
            self.add(at, SELECTED, slots, 0)
            self.add(at, "not_selected", spent.not_selected, 0)
            self.add(at, "execution_dependency", spent.stall, spent.stall_idle)
            self.add(at, throttled, spent.pipe, spent.pipe_idle)
            if number not in self.first:
                self.add(at, "synchronization", spent.fence, spent.fence_idle)
        for (use, producer), (ticks, idle) in self.profile.waits.items():
            if {use, producer} & self.skipped:
                continue
            edge = self.number(use), self.number(producer)
            reason = reason_of(self.graph.nodes[producer])
            self.add(edge[0], reason, ticks, idle)
            if reason != _FETCH:
                self.edges[edge] = self.edges.get(edge, Count()).plus(self.count(ticks, idle))
        self.behind_dram(slower)
        return Samples(self.counts, self.issued, self.edges)

    def number(self, node: int) -> int:
        return self.graph.nodes[node].instruction

    def count(self, ticks: int, idle: int) -> Count:
        return Count(ticks / self.ticks, idle / self.ticks)

    def add(self, at: int, reason: str, ticks: int, idle: int) -> None:
        if ticks:
            before = self.counts.get((at, reason), Count())
            self.counts[at, reason] = before.plus(self.count(ticks, idle))

    def behind_dram(self, slower: float) -> None:
        """Spread the time that DRAM adds: nothing is issued in it."""
        total = sum(c.all for c in self.counts.values())
        for reason in ("memory_dependency", "memory_throttle"):
            waits = {key: c for key, c in self.counts.items() if key[1] == reason and c.all}
            there = sum(c.all for c in waits.values())
            if not there or slower <= 1:
                continue
            more = total * (slower - 1) / there
            for key, count in waits.items():
                self.counts[key] = count.plus(Count(count.all * more, count.all * more))
            for edge, count in self.edges.items():
                if reason == "memory_dependency" and edge[1] in self.far:
                    self.edges[edge] = count.plus(Count(count.all * more, count.all * more))
            return


def reason_of(producer: Node) -> str:
    """Why one waits for a node; operands that are not read yet are no result."""
    if producer.fetches:
        return _FETCH
    if producer.holds:
        return "sleeping" if producer.sleep else "synchronization"
    if not producer.produces:
        return "execution_dependency"
    space = node_space(producer)
    if space == "constant":
        return "constant_dependency"
    return "memory_dependency" if is_outside_sm(space) else "execution_dependency"
