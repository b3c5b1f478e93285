"""Costs of memory instructions in the simulation, derived from the volumes.

An instruction is issued into a queue per scheduler. One load-store unit per SM takes it from there
and is occupied for its wavefronts; what misses asks the L2 in packets, and its sectors pass the
unit's share of the L2 bandwidth. Its result comes after the latency of the level that serves it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from perfassert.engines.volume.estimate import VolumeEstimate
from perfassert.engines.volume.executed import ExecutedGroup
from perfassert.engines.volume.first_touches import first_touches
from perfassert.engines.volume.on_chip import AccessCost
from perfassert.engines.volume.reuse import AnyGroup
from perfassert.engines.volume.roofline import dram_seconds
from perfassert.hardware.entries import Operation
from perfassert.hardware.model import Device
from perfassert.kernel.access import Access, Direction
from perfassert.kernel.bound import BoundAccess
from perfassert.kernel.description import Description, WrittenKernel
from perfassert.kernel.graph import InstructionGraph, Latency, Node, replace_costs
from perfassert.kernel.launch import Launch
from perfassert.kernel.machine import REGISTER_BYTES
from perfassert.kernel.program import CLUSTER
from perfassert.kernel.roles import Role
from perfassert.kernel_kind import KernelKind
from perfassert.predictor.cost.matrix_units import MatrixUnits
from perfassert.shipped import model_integer

QUEUE = "memory queue"
LOAD_STORE_UNIT = "load-store unit"
L2 = "L2 share"
PACKETS = "packets to the L2"
TRANSLATIONS = "address translation"
COPIES = "bulk copies"
CLUSTER_NETWORK = "cluster network"
GRAIN = 16  # derived costs are multiples of 1/16 cycle, so that periods exist
_ON_CHIP = ("shared", "global")
"""Pipelines of a device file that stand for the load-store unit."""
_LINES = model_integer("lines_per_load")
"""Lines of a warp's load, each of which may be the one that the load waits for."""


def with_touches(graph: InstructionGraph, kernel: WrittenKernel) -> InstructionGraph:
    """Return a hand-made graph whose nodes know the numbers of the accesses that they name."""
    loads = iter(range(len(kernel.loads)))
    stores = iter(range(len(kernel.loads), len(kernel.accesses)))
    nodes = tuple(
        n._replace(touches=(next(loads if n.produces else stores),)) if n.touches_global else n
        for n in graph.nodes
    )
    return replace(graph, nodes=nodes)


def _translation_cycles(estimate: VolumeEstimate, device: Device, active: int) -> float:
    """Return the cycles of an SM for each further page that a warp's lanes lie in.

    All SMs share the device's translations, unless their own tables hold all pages of a wave.
    """
    pages = estimate.diagnostics.get("wave_tlb_pages", 0.0)
    if not device.tlb_pages_per_cycle or pages <= device.tlb_pages:
        return 0.0
    return active / device.tlb_pages_per_cycle


@dataclass(frozen=True, slots=True)
class _Served:
    """Service of one load by the levels of memory.

    ``l1_miss``: share of its sectors that miss L1. ``waits``: how often it waits for a line from
    below, its own or one on the way. ``l2_miss``: share of the L1 misses that miss L2. ``behind``:
    cycles behind others.
    """

    l1_miss: float
    waits: float
    l2_miss: float
    behind: float


def _accesses(kernel: Description) -> tuple[Access, ...] | tuple[BoundAccess, ...]:
    """Return the accesses, in the order by which nodes and costs number them."""
    return kernel.accesses if isinstance(kernel, WrittenKernel) else kernel.bound


class MemorySystem:
    """Classes of their own for the memory nodes of a graph, as one launch finds them.

    ``active``: units that hold a block, among which bandwidth is shared; ``launch``: the one that
    the estimate is of.
    """

    def __init__(
        self,
        kernel: Description,
        estimate: VolumeEstimate,
        device: Device,
        active: int,
        launch: Launch,
    ) -> None:
        self.device = device
        self.launch = launch
        self.estimate = estimate
        self.counted = kernel.kind is KernelKind.COMPILED
        self.widths = [a.bytes for a in kernel.bound]
        self.spaces = [a.space for a in kernel.bound]
        self.past_l1 = _past_l1(kernel)
        self.pieces = [a.pieces for a in kernel.bound]
        self.reaches = [a.reaches for a in kernel.bound]
        self.fields = [(a.field, a.direction is Direction.LOAD) for a in _accesses(kernel)]
        share = device.l2_bandwidth / device.clock_hz / active
        self.sector_cycles = device.sector_bytes / min(share, device.l2_port_bytes_per_cycle)
        self.sectors_of_line = device.l1_line_bytes / device.sector_bytes
        self.packet_cycles = max(device.l2_port_packet_cycles, device.l2_packet_cycles * active)
        self.translation_cycles = _translation_cycles(estimate, device, active)
        self.dram_seconds = dram_seconds(estimate.volumes, device, active, estimate.per_activation)
        self.from_dram: dict[int, float] = {}

    def apply(
        self, graph: InstructionGraph, own_latencies: Mapping[str, object]
    ) -> InstructionGraph:
        """Return the graph with demands; classes in ``own_latencies`` keep their nodes."""
        self.served = self._serve_loads(graph)
        operations = graph.outlines.once("operations", lambda: {n.operation for n in graph.nodes})
        self.products = MatrixUnits(operations, self.device, LOAD_STORE_UNIT)
        nodes = list(graph.nodes)
        for index in self._costly(graph):
            node = nodes[index]
            # Volumes of hand-made graphs count once whatever the trips, those of code do not.
            trips = 1 if self.counted else graph.times(node)
            if node.operation not in own_latencies:
                nodes[index] = self.add_access(node, max(1, trips))
        return replace_costs(graph, nodes=tuple(nodes))

    def _costly(self, graph: InstructionGraph) -> Sequence[int]:
        """Return the nodes that touch memory; all where there are matrix products."""

        def find() -> tuple[int, ...]:
            return tuple(node.index for node in graph.nodes if node.touches or node.space)

        if self.counted and self.products.variants:
            return range(len(graph.nodes))
        return graph.outlines.once("touching", find)

    def add_access(self, node: Node, trips: int) -> Node:
        """Add to a node the demands of its accesses on queue, load-store unit and L2."""
        if self.counted and (product := self.products.add_product(node)):
            return product
        if node.touches and self.pieces and self.pieces[node.touches[0]]:
            return self.bulk(node, node.touches[0])
        known = [i for i in node.touches if i in self.estimate.accesses]
        operation = self.device.operation(node.operation) if known or node.space else None
        costs = [self.estimate.accesses[i] for i in known]
        if operation is not None and node.space == "constant":
            return self.look_up(node, operation, sum(c.cycles for c in costs))
        if operation is None or operation.pipeline not in _ON_CHIP:
            return node
        if node.space == "shared":
            wavefronts = max(1.0, sum(c.cycles for c in costs))
            cycles = max(operation.issue * wavefronts, self.device.shared_access_cycles)
            demands = [(LOAD_STORE_UNIT, cycles)]
            completion = operation.completion
            if known and self.fields[known[0]][0] == CLUSTER:
                demands = self._cluster_demands(known, costs, cycles)
                completion = self.device.cluster_latency or self.device.shared_latency
        else:
            cycles = max([operation.issue, *(c.cycles for c in costs)])
            sectors = self._requests_past_l1(known, [c.sectors for c in costs]) / trips
            packets = self._requests_past_l1(known, [c.packets for c in costs]) / trips
            pages = self._requests_past_l1(known, [c.pages for c in costs]) / trips
            completion = operation.completion
            if node.space == "local":
                missed = self.estimate.stack_miss if node.produces else 1.0  # stores go through
                sectors = missed * self._spilled_sectors(node)
                packets = sectors / self.sectors_of_line if node.produces else sectors
                beyond = max(0.0, self.device.l2_latency - completion)
                completion += _miss_probability(missed) * beyond
            if known and self.fields[known[0]][1]:
                completion = max(self._latency(i) for i in known)
                self.from_dram[node.index] = max(map(self._from_dram, known))
                if node.program in self.past_l1:
                    cycles = max([operation.issue, *self._on_chip(known, costs)])
                else:
                    cycles += sectors * self.device.l1_fill_cycles
            demands = [(LOAD_STORE_UNIT, cycles), (L2, sectors * self.sector_cycles),
                       (PACKETS, packets * self.packet_cycles),
                       (TRANSLATIONS, pages * self.translation_cycles)]  # fmt: skip
        after = max(1.0, completion - operation.issue)
        queue = _round_to_grain(self.device.memory_issue_cycles)
        return node._replace(
            latency=_queue_latency(queue, _round_to_grain(after)),
            demands=tuple((s, _round_to_grain(c)) for s, c in demands if c > 0),
        )

    def look_up(self, node: Node, operation: Operation, passes: float) -> Node:
        """Return the node of a constant load, with one pass per address that its lanes ask for."""
        again = operation.issue * max(0.0, passes - 1)
        if not again:
            return node
        scope = self.device.pipelines[operation.pipeline].value
        latency = Latency(
            _round_to_grain(operation.issue + again), _round_to_grain(operation.completion + again),
            operation.pipeline, scope,
        )  # fmt: skip
        return node._replace(latency=latency)

    def _cluster_demands(
        self, known: list[int], costs: list[AccessCost], cycles: float
    ) -> list[tuple[str, float]]:
        """Return the demands of accesses to another block's shared memory in a cluster.

        They use the unit's pipe twice, as other blocks ask it for as much, and the network between
        units.
        """
        bytes_ = sum(c.lanes * self.widths[i] for i, c in zip(known, costs, strict=True))
        width = self.device.cluster_bytes_per_cycle
        return [(LOAD_STORE_UNIT, 2 * cycles), (CLUSTER_NETWORK, bytes_ / width if width else 0.0)]

    def bulk(self, node: Node, number: int) -> Node:
        """Return the node of a bulk copy, which uses shared memory's pipe and L2, but no queue."""
        operation, device = self.device.operation(node.operation), self.device
        cost, load = self.estimate.accesses[number], self.fields[number][1]
        sectors = cost.sectors * self.pieces[number]
        bytes_ = sectors * device.sector_bytes
        completion = self._latency(number) if load else operation.completion
        if load:
            self.from_dram[node.index] = self._from_dram(number)
        latency = Latency(
            _round_to_grain(operation.issue), _round_to_grain(completion), COPIES, "unit"
        )
        # What the block starts for others of its cluster, they start for it: read once, it arrives
        # in each of them.
        received = self.reaches[number] * bytes_
        demands = ((LOAD_STORE_UNIT, received / device.l1_bytes_per_cycle),
                   (L2, max(sectors * self.sector_cycles,
                            received / device.l2_port_bytes_per_cycle)))  # fmt: skip
        return node._replace(
            latency=latency,
            demands=tuple((s, _round_to_grain(c)) for s, c in demands if c > 0),
        )

    def _on_chip(self, known: list[int], costs: list[AccessCost]) -> list[float]:
        """Return the cycles of those accesses that go to shared memory."""
        return [c.cycles for i, c in zip(known, costs, strict=True) if self.spaces[i] == "shared"]

    def _spilled_sectors(self, node: Node) -> float:
        """The words of a warp's threads lie side by side."""
        width = self.widths[node.touches[0]] if node.touches else REGISTER_BYTES
        return width * self.device.warp_size / self.device.sector_bytes

    def _requests_past_l1(self, known: list[int], asked: list[float]) -> float:
        """Return how much of what accesses ask for passes L1: all stores, and loads that miss."""
        total = 0.0
        for number, count in zip(known, asked, strict=True):
            served = self.served.get(number)
            total += count * (served.l1_miss if served is not None else 1.0)
        return total

    def growth(self, load: float) -> dict[int, float]:
        """Return by node the cycles that loads take longer if DRAM is busy for that share."""
        cycles = self.device.dram_latency * self.device.dram_latency_growth * load
        return {node: cycles * share for node, share in self.from_dram.items() if share}

    def _from_dram(self, number: int) -> float:
        served = self.served.get(number)
        return served.waits * served.l2_miss if served is not None else 0.0

    def _latency(self, number: int) -> float:
        """Return a load's latency in cycles, those of the levels that serve it mixed by share."""
        device, served = self.device, self.served.get(number)
        if served is None:
            return device.l1_latency
        far = device.l2_latency + served.l2_miss * (device.dram_latency - device.l2_latency)
        return device.l1_latency + served.waits * (far - device.l1_latency) + served.behind

    def _serve_loads(self, graph: InstructionGraph) -> dict[int, _Served]:
        """Return the service of each load.

        Of loads in flight together the first ones miss; the others find their lines on the way and
        return after them. The more lines from DRAM a warp waits for, the later the slowest of them
        returns.
        """
        volumes, estimate = self.estimate.volumes, self.estimate
        result: dict[int, _Served] = {}
        lines = 0.0  # from DRAM, outstanding
        together = list(_join_executed(estimate.groups))
        flights = _flights(graph, [[n for g in own for n in g.members] for own in together])
        for own in together:
            group = own[0]
            asked = estimate.requested.get(group.field, 0.0)
            if group.direction is not Direction.LOAD or not asked:
                continue
            from_l2 = float(volumes.l2_load.fields[group.field].total)
            below = volumes.dram_load.fields.get(group.field)
            l2_miss = _miss_probability(float(below.total) / from_l2) if below and from_l2 else 0.0
            past_l1 = estimate.past_l1[group.field]
            through_l1 = (from_l2 - past_l1) / (asked - past_l1) if asked > past_l1 else 1.0
            share = 1.0 if group.past_l1 else min(1.0, through_l1)
            for flight, missing, waits in self._split_misses(own, flights, share):
                for numbers in flight:
                    l1_miss = min(1.0, missing)
                    missing -= l1_miss
                    lines += _LINES * l1_miss * l2_miss
                    served = _Served(l1_miss, waits, l2_miss, self._slowest_line_delay(lines))
                    result |= dict.fromkeys(numbers, served)
        return result

    def _split_misses(
        self, groups: Sequence[AnyGroup], flights: Mapping[int, int], share: float
    ) -> Iterator[tuple[Sequence[Sequence[int]], float, float]]:
        """Yield loads in flight together, how many of them miss, and how often they wait for a
        line.

        What a warp has not touched before misses, but for what other warps have; of what it has,
        only what the L1 has lost meanwhile.
        """
        loads = (
            [g.members for g in groups] if len(groups) > 1 else [(n,) for n in groups[0].members]
        )
        of_loads = [flights.get(numbers[0], 0) for numbers in loads]
        touches = None
        if share < 1.0 and (groups[0].loops or len({*of_loads}) > 1):
            touches = first_touches(groups, self.launch, self.device)
        if touches is None:
            missing = share * len(loads)
            yield loads, missing, _miss_probability(missing)
            return
        new = touches.new_share(slice(None))
        others = min(1.0, share / new)
        lost = max(0.0, share - new) / (1 - new) if new < 1 else 0.0
        for number in dict.fromkeys(of_loads):
            first, count = of_loads.index(number), of_loads.count(number)
            flight = slice(first, first + count)
            own = touches.new_share(flight) * len(loads)
            arriving = touches.executions_with_arriving(flight)
            missing = others * own
            on_way = min(1.0, share / touches.shared) if groups[0].loops else others
            waits = (
                arriving * _miss_probability(max(on_way, missing / arriving)) if arriving else 0.0
            )
            again = lost * (count - own)
            yield loads[flight], missing + again, 1 - (1 - waits) * (1 - _miss_probability(again))

    def _slowest_line_delay(self, lines: float) -> float:
        """Return the cycles by which the slowest of ``lines`` is later than a single load.

        Of n latencies spread evenly about their mean, the last is (n − 1) / (n + 1) above it.
        """
        more, one = ((n - 1) / (n + 1) for n in (max(_LINES, lines), _LINES))
        return self.device.dram_latency * self.device.dram_latency_spread * (more - one)


@lru_cache(maxsize=4096)
def _queue_latency(issue: float, completion: float) -> Latency:
    return Latency(issue, completion, QUEUE, "scheduler")


def _past_l1(kernel: Description) -> frozenset[int]:
    """Instructions that pass the L1 by."""
    instructions = kernel.program.instructions if kernel.program else ()
    return frozenset(i.index for i in instructions if Role.BYPASSES_L1 in i.roles)


def _join_executed(groups: Sequence[AnyGroup]) -> Iterator[Sequence[AnyGroup]]:
    """Yield groups whose loads are in flight together.

    Such groups are one whose addresses differ by constants, or all executed instructions that load
    from one field in the same loops.
    """
    executed: dict[tuple[object, ...], list[AnyGroup]] = {}
    for group in groups:
        if isinstance(group, ExecutedGroup) and group.direction is Direction.LOAD:
            executed.setdefault((group.field, group.loops, group.past_l1), []).append(group)
        else:
            yield [group]
    for own in executed.values():
        yield sorted(own, key=lambda group: group.members)


def _flights(graph: InstructionGraph, groups: Sequence[Sequence[int]]) -> dict[int, int]:
    """Return the flight of its group in which each access is.

    A flight ends at the first use of a value that it loaded: as instructions are issued in order,
    later loads find its lines in the cache.
    """
    group_of = {number: g for g, members in enumerate(groups) for number in members}
    current = [0] * len(groups)
    loaded: dict[int, tuple[int, int]] = {}  # node → group and flight
    flights: dict[int, int] = {}
    for node in graph.nodes:
        for producer in {s.producer for e in node.edges for s in e.sources if not s.distance}:
            if producer in loaded:
                group, flight = loaded[producer]
                current[group] += flight == current[group]
        if node.produces and node.touches and node.touches[0] in group_of:
            group = group_of[node.touches[0]]
            loaded[node.index] = group, current[group]
            flights |= dict.fromkeys(node.touches, current[group])
    return flights


def _miss_probability(share: float) -> float:
    """Return the probability that some line of a load is among the ``share`` of lines that miss."""
    # A tenth of the lines miss: 1 - 0.9 * 0.9 = 0.19 of the loads of two lines wait for one.
    return float(1 - (1 - min(1.0, share)) ** _LINES)


def _round_to_grain(cycles: float) -> float:
    return max(1, round(cycles * GRAIN)) / GRAIN
