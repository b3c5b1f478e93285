"""A launch made ready for the engines: bound kernel, volumes, and the unit to simulate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Protocol

from perfassert.engines.pipeline.bounds import Bounds, bounds
from perfassert.engines.pipeline.configuration import Unit
from perfassert.engines.pipeline.results import Duration
from perfassert.engines.pipeline.simulate import make_unit, run_bounded
from perfassert.engines.volume.estimate import VolumeEstimate, estimate_volumes
from perfassert.errors import DeviceFileError, GraphError
from perfassert.frontends.access_graph import access_graph
from perfassert.hardware.model import Device
from perfassert.hardware.occupancy import Occupancy, occupancy
from perfassert.kernel.description import (
    AccessKernel,
    BoundKernel,
    CompiledKernel,
    Description,
    GraphKernel,
    WrittenKernel,
)
from perfassert.kernel.executed import SampleWork
from perfassert.kernel.graph import (
    BodyItem,
    InstructionGraph,
    ItemKind,
    Latency,
    LatencyRule,
    Node,
    replace_costs,
)
from perfassert.kernel.launch import Launch
from perfassert.kernel_kind import KernelKind
from perfassert.predictor.answer import Answer
from perfassert.predictor.cost.fetching import Fetching
from perfassert.predictor.cost.memory import QUEUE, MemorySystem, with_touches
from perfassert.predictor.question import Question
from perfassert.predictor.rewrites.measured_volumes import with_measured
from perfassert.source import Assumption

BLOCK_LAUNCH = "block launch"
"""The class of the node that stands for it."""
Run = Callable[[Unit, int], Duration]
"""Simulation of a unit, of at most so many instructions."""
_TIMES = 4  # as often do loops run to tell what a block takes in any case from what grows
_GRAIN = 64  # derived costs are multiples of 1/64 cycle, so that periods exist


@dataclass(frozen=True, slots=True)
class BoundLaunch:
    """A kernel bound to its launch, and what it moves.

    ``threads``: unmasked ones; ``working``: blocks that have one; ``effective_launch``: the launch
    that the volumes are of: without the blocks that have nothing to do, and with those that loops
    over the grid stand for. ``notes``: what was given in place of an estimate.
    """

    kernel: Description
    device: Device
    occupancy: Occupancy
    estimate: VolumeEstimate
    threads: int
    shared_bytes: int
    working: int
    effective_launch: Launch
    notes: tuple[Assumption, ...] = ()


def bind_launch(question: Question) -> BoundLaunch:
    """Bind a kernel to its launch, and estimate what it moves."""
    kernel, launch, device = question.kernel, question.launch, question.device
    if isinstance(kernel, CompiledKernel):
        # It imports front ends, which take long.
        from perfassert.predictor.sample.executed import bind_question

        return estimate_question(question, *bind_question(question))
    return estimate_question(question, *kernel.bind(launch, device.arch, device.warp_size))


def estimate_question(
    question: Question, described: Description, effective_launch: Launch
) -> BoundLaunch:
    """Estimate what a bound kernel moves, or take what was measured of that."""
    launch, device = question.launch, question.device
    bound_launch = estimate_bound_launch(described, effective_launch, launch, device)
    if not question.volumes:
        return bound_launch
    return with_measured(bound_launch, launch, question.volumes)


def estimate_bound_launch(
    described: Description, effective_launch: Launch, launch: Launch, device: Device
) -> BoundLaunch:
    """Estimate what a bound kernel moves in ``effective_launch``."""
    shared = described.shared_bytes + launch.shared_bytes
    unit_occupancy = occupancy(device, launch.threads_per_block, described.registers, shared)
    # Blocks with nothing to do make room for the next ones at once: no wave has any.
    grid = effective_launch.working_grid(effective_launch)
    effective_launch = replace(effective_launch, grid=grid)
    estimate = estimate_volumes(described, effective_launch, device, unit_occupancy, launch)
    working = described.working or prod(launch.working_grid(effective_launch))
    return BoundLaunch(
        described,
        device,
        unit_occupancy,
        estimate,
        effective_launch.threads,
        shared,
        working,
        effective_launch,
    )


@dataclass(frozen=True, slots=True)
class Model:
    """Simulated parts of a launch.

    ``length``: instructions of a block, ``own`` without its launch; ``blocks``: of the busiest
    unit; ``active``: units that have one; times in seconds; ``run``: how units are simulated;
    ``longer``: that with loops that run several times as often, where data makes blocks differ;
    ``longest``: that of blocks that take longer than those of ``unit``.
    """

    bound_launch: BoundLaunch
    launch: Launch
    device: Device
    graph: InstructionGraph
    unit: Unit
    bounds: Bounds
    warps: int
    length: int
    own: int
    blocks: int
    active: int
    dram_seconds: float
    shared_cycles: float
    masked_cycles: float
    run: Run = field(compare=False)
    longer: Unit | None = None
    longest: Unit | None = None

    @property
    def by_hand(self) -> bool:
        """Tell whether the graph is the user's, which has no issue limit."""
        return self.bound_launch.kernel.kind is KernelKind.GRAPH

    @property
    def launch_nodes(self) -> frozenset[int]:
        """Nodes that are no instructions of the kernel."""
        return frozenset(n.index for n in self.graph.nodes if n.operation == BLOCK_LAUNCH)


class Edit(Protocol):
    """A change of the graph before what its nodes cost is known, and after."""

    def graph(self, graph: InstructionGraph) -> InstructionGraph:
        """Other nodes, in other bodies."""

    def costs(
        self, graph: InstructionGraph, latencies: Mapping[str, LatencyRule]
    ) -> InstructionGraph:
        """Other demands and latencies; ``latencies``: by class, as the kernel's author gives
        them."""


def model_of(prediction: Answer) -> Model:
    """Return what was simulated for a prediction that was made in this process."""
    assert prediction.asked is not None
    return prediction.asked.session.model(prediction.asked.question)


def make_model(
    bound_launch: BoundLaunch,
    launch: Launch,
    device: Device,
    edit: Edit | None = None,
    run: Run = run_bounded,
) -> Model:
    """The graph with what its memory accesses cost, on the unit that has most blocks.

    Raises :class:`~perfassert.errors.GraphError` for a graph without trip counts or latencies.
    """
    kernel, estimate = bound_launch.kernel, bound_launch.estimate
    by_hand = kernel.kind is KernelKind.GRAPH
    graph = _graph(kernel).bound(dict(launch.scalar_args()))
    if edit is not None:
        graph = edit.graph(graph)
    active = min(device.compute_units, bound_launch.working)
    memory = MemorySystem(kernel, estimate, device, active, bound_launch.effective_launch)
    graph = memory.apply(graph, kernel.latencies)
    latencies: dict[str, LatencyRule] = dict(kernel.latencies)
    graph = _with_sleep(graph, device)
    if edit is not None:
        graph = edit.costs(graph, latencies)
    warps = -(-launch.threads_per_block // device.warp_size)
    if isinstance(kernel, BoundKernel):
        latencies = _latencies(latencies, graph, device)
        graph = Fetching(kernel, device, warps, latencies).apply(graph)
    if device.block_launch_cycles and not by_hand:
        graph = _with_block_launch(graph)
        stores = bool(estimate.volumes.l2_store.total)
        launching = device.block_launch_cycles + stores * device.block_drain_cycles
        latencies[BLOCK_LAUNCH] = Latency(_round_to_grain(0), _round_to_grain(launching))
    blocks = -(-bound_launch.working // device.compute_units)

    def build_unit(
        graph: InstructionGraph, latencies: Mapping[str, LatencyRule], blocks: int
    ) -> Unit:
        return make_unit(
            graph,
            warps,
            blocks,
            bound_launch.occupancy.resident_blocks,
            _latencies(latencies, graph, device),
            issue_order="in-order",
            scheduler=device.warp_scheduler,
            schedulers=device.schedulers_per_unit,
            issue_width=None if by_hand else 1,  # the paper's graphs know no limit
            queues={QUEUE: device.memory_queue_depth},
        )

    unit = build_unit(graph, latencies, blocks)
    limits = bounds(unit, memory.growth(1.0).keys())
    growth: Mapping[int, float] = {}
    if (dram := memory.dram_seconds * device.clock_hz) and not by_hand:
        growth = memory.growth(dram / max(dram, limits.lower))

    unit = _with_longer_latencies(unit, growth)
    uneven = uneven_work(kernel) is not None
    longer = unit.with_trips(_with_longer_loops(graph)) if uneven else None
    length = unit.block_length
    return Model(
        bound_launch, launch, device, graph, unit, limits, warps, length,
        length - warps * (BLOCK_LAUNCH in latencies), blocks, active, memory.dram_seconds,
        _shared_cycles(bound_launch, device), _masked_cycles(bound_launch, launch, device), run,
        longer, _longest_unit(kernel, launch, estimate, device, build_unit),
    )  # fmt: skip


def _longest_unit(
    kernel: Description,
    launch: Launch,
    estimate: VolumeEstimate,
    device: Device,
    build: Callable[[InstructionGraph, Mapping[str, LatencyRule], int], Unit],
) -> Unit | None:
    """The blocks that take longest, with units and bandwidths of their own."""
    if not isinstance(kernel, BoundKernel) or kernel.longest is None:
        return None
    graph, count = kernel.longest.graph, kernel.longest.count
    active = min(device.compute_units, count)
    memory = MemorySystem(kernel, estimate, device, active, launch)
    graph = _with_sleep(memory.apply(graph.bound(dict(launch.scalar_args())), {}), device)
    return build(graph, {}, -(-count // device.compute_units))


def uneven_work(kernel: Description) -> SampleWork | None:
    """Return the work of executed blocks if it is uneven and without a closed form."""
    work = kernel.work if kernel.working is None else None
    return work if work is not None and work.uneven else None


def _with_longer_loops(graph: InstructionGraph) -> InstructionGraph:
    """The graph with outermost loops that run several times as often."""
    loops = tuple(
        replace(x, trips=_TIMES * graph.trips(x.index), each=tuple(_TIMES * n for n in x.each))
        if x.parent < 0
        else x
        for x in graph.loops
    )
    return replace_costs(graph, loops=loops)


def _graph(kernel: Description) -> InstructionGraph:
    """Return the instruction graph; its nodes know the numbers of the accesses they stand for."""
    if isinstance(kernel, BoundKernel):
        return kernel.graph
    assert isinstance(kernel, WrittenKernel)
    return kernel.found.once(_graph_of_written, lambda: _graph_of_written(kernel))


def _graph_of_written(kernel: WrittenKernel) -> InstructionGraph:
    if isinstance(kernel, GraphKernel):
        return with_touches(kernel.with_spaces(), kernel)
    assert isinstance(kernel, AccessKernel)
    return with_touches(access_graph(kernel), kernel)


def _shared_cycles(bound_launch: BoundLaunch, device: Device) -> float:
    """Return the cycles that the busiest SM needs for its wavefronts of shared memory."""
    per_block = float(bound_launch.estimate.volumes.shared_wavefronts.total) / bound_launch.working
    if not per_block:
        return 0.0
    blocks = -(-bound_launch.working // device.compute_units)
    return per_block * blocks * device.operation("shared_load").issue


def _masked_cycles(bound_launch: BoundLaunch, launch: Launch, device: Device) -> float:
    """Blocks whose threads are all masked cost their launch and no more."""
    masked = (launch.blocks - bound_launch.working) / device.compute_units
    return masked * device.block_launch_cycles / bound_launch.occupancy.resident_blocks


def _with_longer_latencies(unit: Unit, growth: Mapping[int, float]) -> Unit:
    """The unit with completion latencies of graph nodes grown by so many cycles."""
    if not growth:
        return unit
    ticks = {node: round(cycles * unit.pipelines.ticks) for node, cycles in growth.items()}
    return replace(unit, programs=tuple(p.with_later_completions(ticks) for p in unit.programs))


def _with_sleep(graph: InstructionGraph, device: Device) -> InstructionGraph:
    """Nodes that sleep are complete when they have slept, on the clock of the device."""
    if not any(node.sleep for node in graph.nodes):
        return graph
    nodes = []
    for node in graph.nodes:
        if node.sleep:
            own = node.latency or device_latency(node, device)
            slept = _round_to_grain(node.sleep * 1e-9 * device.clock_hz)
            latency = replace(own, completion=max(own.completion, slept))
            node = node._replace(latency=latency)
        nodes.append(node)
    return replace_costs(graph, nodes=tuple(nodes))


def _latencies(
    own_latencies: Mapping[str, LatencyRule], graph: InstructionGraph, device: Device
) -> dict[str, LatencyRule]:
    """Return the latency rule of each operation: the kernel's own, else the device's."""
    result = dict(own_latencies)
    for node in graph.nodes:
        if node.latency is None and node.operation not in result:
            result[node.operation] = device_latency(node, device)
    return result


def _with_block_launch(graph: InstructionGraph) -> InstructionGraph:
    """No warp of a block starts before the block has been set up."""
    launch = Node(len(graph.nodes), BLOCK_LAUNCH, "", (), fence=True)
    body = (BodyItem(ItemKind.NODE, launch.index), *graph.body)
    known = graph.outlines.once(BLOCK_LAUNCH, lambda: replace(graph, body=body))
    nodes, loops, channels = (*graph.nodes, launch), graph.loops, graph.channels
    return replace_costs(known, nodes=nodes, loops=loops, channels=channels)


def device_latency(node: Node, device: Device) -> Latency:
    """Return a node's latency by the device file; raise :class:`GraphError` if it has none."""
    try:
        return _latency_of(node.operation, device)
    except DeviceFileError as error:
        raise GraphError(f"{node}: the kernel gives no latency, and {error}") from None


def _latency_of(operation: str, device: Device) -> Latency:
    entry = device.operation(operation)
    scope = device.pipelines[entry.pipeline].value
    return Latency(
        _round_to_grain(entry.issue), _round_to_grain(entry.completion), entry.pipeline, scope
    )


def _round_to_grain(cycles: float) -> float:
    return max(1, round(cycles * _GRAIN)) / _GRAIN
