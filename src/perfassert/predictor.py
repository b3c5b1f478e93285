"""The one place where descriptions and engines meet: kernel + launch + device → prediction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from perfassert.engines.pipeline.bounds import Bounds, bounds
from perfassert.engines.pipeline.configuration import Totals, Unit
from perfassert.engines.pipeline.simulate import LatencyRule, make_unit, run_bounded
from perfassert.engines.volume.estimate import VolumeEstimate, estimate_volumes
from perfassert.engines.volume.roofline import roofline
from perfassert.errors import DeviceFileError, GraphError, LaunchError
from perfassert.frontends.access_graph import ARITHMETIC, access_graph
from perfassert.hardware.load import device as load_device
from perfassert.hardware.model import Device
from perfassert.hardware.occupancy import Occupancy, occupancy
from perfassert.kernel.description import Kernel
from perfassert.kernel.graph import InstructionGraph, Latency, Node
from perfassert.kernel.launch import Launch
from perfassert.prediction.prediction import OccupancyResult, Prediction, Resources
from perfassert.quantity import Quantity, round_significant
from perfassert.source import Assumption
from perfassert.version import MODEL_VERSION

_EXACT = frozenset({"occupancy", "registers"})
_SHARED = ("dram", "l2")
"""Servers of the whole device: what one unit leaves idle another one uses, so that they bound the
time from below but do not add to what the simulated unit waits for."""
_SERVER = {"global": "memory", "shared": "shared", "local": "shared", "barrier": "latency"}
"""What a pipeline of that name stands for; any other is arithmetic."""
_SATURATED = 0.5  # of the time: a server that is busy for so long is the limiter
_GRAIN = 64  # derived costs are multiples of 1/64 cycle, so that periods exist
_LIMIT = 4_000_000  # simulated instructions without a recurrence, before extrapolation
_COMPILED_LIMIT = 400_000  # the same for compiled code: thousands of instructions, not ten
_BLOCK_LAUNCH = "block launch"  # the class of the node that stands for it
_PHASES = (0.5, 1.0)  # shares of a block's time over which the first blocks are spread
_WAVES = 6  # so many resident sets of blocks are enough where the graph is only a sketch


def predict(kernel: Kernel, launch: Launch, device: Device | str | Path) -> Prediction:
    """Predict one launch.

    Raises :class:`~perfassert.errors.LaunchError` for a launch that the device cannot run,
    :class:`~perfassert.errors.AddressExpressionError` for expressions that do not fit it, and
    :class:`~perfassert.errors.GraphError` for a graph without trip counts or latencies.
    """
    for what, value, kind in (("kernel", kernel, Kernel), ("launch", launch, Launch)):
        if not isinstance(value, kind):
            raise LaunchError(f"{what} must be a {kind.__name__}, not {value!r}")
    target = load_device(device)
    _check_block(launch, target)
    case = _estimated(kernel, launch, target)
    kernel, held, estimate, threads = case.kernel, case.held, case.estimate, case.threads
    arithmetic = ARITHMETIC.get(kernel.dtype, "int32")
    alone = dict(roofline(kernel, launch, target, estimate.volumes, arithmetic))
    run = _simulate(kernel, launch, target, held, alone, estimate)
    issue = run.instructions / launch.blocks * run.blocks / target.schedulers_per_unit
    cycles = max(run.cycles, issue)
    busy = max(cycles / target.clock_hz, *(alone[server] for server in _SHARED))
    seconds = busy + target.launch_overhead
    servers = _servers(alone, run, kernel, target) | {"issue": issue / target.clock_hz}
    idle = target.compute_units / min(target.compute_units, launch.blocks)
    servers["parallelism"] = min(seconds, max(alone.values()) * idle) if idle > 1 else 0.0
    roofline_limiter = max(alone, key=lambda key: alone[key])
    return Prediction(
        kernel=kernel.name,
        device=target.name,
        device_digest=target.digest,
        model_version=MODEL_VERSION,
        grid=launch.grid,
        block=launch.block,
        threads=threads,
        updates=threads * kernel.updates_per_thread,
        warps=_warps(launch, target) * launch.blocks,
        blocks=launch.blocks,
        time=Quantity(round_significant(seconds), "s"),
        cycles=Quantity(round_significant(busy * target.clock_hz)),
        spread=round_significant(run.spread),
        limiter=_limiter(servers, seconds, launch, target),
        bounds={k: Quantity(round_significant(v), "s") for k, v in servers.items()},
        roofline_time=Quantity(round_significant(alone[roofline_limiter]), "s"),
        roofline_limiter=roofline_limiter,
        volumes=estimate.volumes,
        occupancy=OccupancyResult(
            round_significant(held.fraction),
            held.resident_blocks,
            held.warps_per_unit,
            held.limited_by,
        ),
        resources=Resources(
            kernel.registers, case.shared_bytes, kernel.spill_bytes, run.instructions
        ),
        stalls={},
        advice=None,
        assumptions=(*kernel.assumptions, *run.assumptions),
        exact=_EXACT | {"instructions"} if kernel.graph is not None else _EXACT,
        diagnostics={
            k: round_significant(v) for k, v in {**estimate.diagnostics, **run.diagnostics}.items()
        },
    )


def access_costs(
    kernel: Kernel, launch: Launch, device: Device
) -> tuple[dict[int, list[tuple[float, float]]], tuple[Assumption, ...]]:
    """Of compiled code: wavefronts and sectors per warp instruction of each access, by number of
    the instruction in its program; and what the binding had to assume."""
    if kernel.compiled is None:
        return {}, ()
    case = _estimated(kernel, launch, device)
    known = case.estimate.accesses
    assert case.kernel.graph is not None
    costs = {
        n.program: [(known[i].wavefronts, known[i].sectors) for i in n.touches if i in known]
        for n in case.kernel.graph.nodes
        if n.touches
    }
    return costs, case.kernel.assumptions


@dataclass(frozen=True, slots=True)
class _Case:
    """A kernel bound to its launch, and what it moves; ``threads``: unmasked ones."""

    kernel: Kernel
    held: Occupancy
    estimate: VolumeEstimate
    threads: int
    shared_bytes: int


def _estimated(kernel: Kernel, launch: Launch, device: Device) -> _Case:
    work = launch
    if kernel.compiled is not None:
        kernel, work = kernel.compiled.bind(launch, device.arch, device.warp_size)
    shared = kernel.shared_bytes + launch.shared_bytes
    held = occupancy(device, launch.threads_per_block, kernel.registers, shared)
    estimate = estimate_volumes(kernel, work, device, held, launch)
    return _Case(kernel, held, estimate, work.threads, shared)


def _check_block(launch: Launch, device: Device) -> None:
    if launch.block[2] > device.max_block_z:
        raise LaunchError(
            f"a block {launch.block[2]} threads deep is more than the {device.max_block_z} that "
            f"{device.name} allows in z"
        )


def _warps(launch: Launch, device: Device) -> int:
    return -(-launch.threads_per_block // device.warp_size)


@dataclass(frozen=True, slots=True)
class _Run:
    """What the pipeline engine says about the busiest unit; times in cycles."""

    cycles: float
    spread: float
    instructions: float
    blocks: int
    bounds: Bounds
    shared_cycles: float
    assumptions: tuple[Assumption, ...]
    diagnostics: Mapping[str, float]


def _simulate(
    kernel: Kernel,
    launch: Launch,
    device: Device,
    held: Occupancy,
    alone: Mapping[str, float],
    estimate: VolumeEstimate,
) -> _Run:
    graph = kernel.graph or access_graph(kernel)
    if kernel.bound is not None:
        graph, costs = _costed(graph, estimate, device)
        kernel = replace(kernel, latencies={**kernel.latencies, **costs})
    graph = graph.bound(dict(launch.scalar_args()))
    warps = _warps(launch, device)
    blocks = -(-launch.blocks // device.compute_units)
    unit = make_unit(
        graph,
        warps,
        blocks,
        held.resident_blocks,
        _latencies(kernel, graph, launch, device, alone),
        issue_order="in-order",
        scheduler="greedy-then-oldest",
        schedulers=device.schedulers_per_unit,
        # The slots of a width lie at whole cycles: a sketch's λ = 2.02 would become 3.
        issue_width=None if kernel.bound is None else 1,
    )
    length = sum(unit.programs[v].length for v in unit.variant)
    own = length - warps * (_BLOCK_LAUNCH in (n.operation for n in graph.nodes))
    sketch = _WAVES * length * unit.resident if kernel.graph is None else _LIMIT
    limit = _LIMIT if kernel.bound is None else _COMPILED_LIMIT
    totals = run_bounded(unit, min(sketch, limit))
    assumptions, end = _extrapolated(totals, length * blocks)
    ends = [end]
    if kernel.bound is not None and unit.resident > 1:
        ends += [
            _extrapolated(run_bounded(replace(unit, stagger=s), limit), length * blocks)[1]
            for s in _start_phases(unit, end)
        ]
    end = median(ends)
    if kernel.graph and any(n.touches_global and n.loop >= 0 for n in kernel.graph.nodes):
        assumptions = (*assumptions, _COUNTED_ONCE)
    cycles = end / unit.pipelines.ticks
    spread = (max(ends) - min(ends)) / end if end else 0.0
    limits = bounds(unit)
    return _Run(
        cycles,
        spread,
        float(own * launch.blocks),
        blocks,
        limits,
        _shared_cycles(estimate, launch, device),
        assumptions,
        {"simulated_instructions": float(totals.simulated), "path_cycles": limits.path},
    )


def _costed(
    graph: InstructionGraph, estimate: VolumeEstimate, device: Device
) -> tuple[InstructionGraph, dict[str, Latency]]:
    """Memory nodes of compiled code in classes of their own: λ is what the access costs.

    One load-store unit serves them all. Shared memory: the device's λ for every wavefront; global
    memory: the cycles of the L1. Global loads: Λ is the latency of the levels that serve them,
    mixed by the kernel's hit shares.
    """
    costs: dict[str, Latency] = {}
    nodes = []
    left: dict[str, float] = {}

    def whole(operation: str, cycles: float) -> int:
        """Whole cycles, as issue slots are; the rest is carried on to the next such node."""
        cycles += left.get(operation, 0.0)
        taken = max(1, int(cycles))
        left[operation] = cycles - taken
        return taken

    pipe = _latency_of("shared_load", device)
    served = _load_latency(estimate, device)
    for node in graph.nodes:
        known = [estimate.accesses[i] for i in node.touches if i in estimate.accesses]
        if known:
            latency = _device_latency(node, device)
            if node.space == "shared":
                exact = latency.issue * max(1.0, sum(k.cycles for k in known))
                issue = whole(node.operation, exact)
                completion = latency.completion + issue - latency.issue
            else:
                issue = whole(node.operation, max(latency.issue, *(k.cycles for k in known)))
                loads = node.operation == "global_load"
                completion = max(served if loads else latency.completion, issue)
            name = f"{node.operation} {issue}"
            costs[name] = Latency(issue, _grained(completion), pipe.pipeline, pipe.scope)
            node = replace(node, operation=name)
        nodes.append(node)
    if device.block_launch_cycles:  # no warp of a block starts before the block has been set up
        launch = Node(len(nodes), _BLOCK_LAUNCH, "", (), fence=True)
        costs[_BLOCK_LAUNCH] = Latency(_grained(0), device.block_launch_cycles)
        body = (("node", launch.index), *graph.body)
        return InstructionGraph((*nodes, launch), graph.loops, body), costs
    return InstructionGraph(tuple(nodes), graph.loops, graph.body), costs


def _shared_cycles(estimate: VolumeEstimate, launch: Launch, device: Device) -> float:
    """How long the busiest unit's wavefronts of shared memory take."""
    per_block = float(estimate.volumes.shared_wavefronts.total) / launch.blocks
    if not per_block:
        return 0.0
    blocks = -(-launch.blocks // device.compute_units)
    return per_block * blocks * device.operation("shared_load").issue


def _load_latency(estimate: VolumeEstimate, device: Device) -> float:
    """Mean latency of a global load in cycles, by the shares that L1, L2 and DRAM serve."""
    from_l2, asked = estimate.volumes.l2_load.total, estimate.diagnostics["requested_bytes"]
    missed = min(1.0, from_l2 / asked) if asked else 1.0
    below = estimate.volumes.dram_load.total / from_l2 if from_l2 else 0.0
    far = device.l2_latency + min(1.0, below) * (device.dram_latency - device.l2_latency)
    return device.l1_latency + missed * (far - device.l1_latency)


def _start_phases(unit: Unit, end: float) -> tuple[int, ...]:
    """Staggers of the first blocks in ticks: half of what spreads them over one block's time, and
    all of it. Blocks that start together stay in step, which real ones do not for long."""
    apart = end / unit.blocks
    return tuple(int(apart * share) for share in _PHASES)


_COUNTED_ONCE = Assumption("accesses in loops count once in the volumes, whatever the trips")


def _extrapolated(totals: Totals, instructions: int) -> tuple[tuple[Assumption, ...], float]:
    """The end in ticks; what was not simulated goes on at the rate of the second half."""
    if not totals.cut_short:
        return (), totals.end
    count = sum(totals.issued)
    rate = (totals.end - totals.half_time) / (count - totals.half_count)
    text = (
        f"no recurrence within {totals.simulated} simulated instructions: the time of the other "
        f"{instructions - count} of {instructions} is extrapolated"
    )
    return (Assumption(text),), totals.end + rate * (instructions - count)


def _latencies(
    kernel: Kernel,
    graph: InstructionGraph,
    launch: Launch,
    device: Device,
    alone: Mapping[str, float],
) -> dict[str, LatencyRule]:
    """The kernel's own, else the device's; memory nodes with an access cost what they move.

    λ of such a node is its share of the cycles of the unit's L1 pipe.
    """
    given = dict(kernel.latencies)
    touching = {n.operation for n in graph.nodes if n.touches_global}
    issue = _memory_issue(kernel, launch, device, alone["l1"]) if kernel.accesses else 0.0
    for node in graph.nodes:
        if node.operation in given:
            continue
        latency = _device_latency(node, device)
        if node.operation in touching:
            completion = max(latency.completion, issue)
            latency = Latency(issue, completion, latency.pipeline, latency.scope)
        given[node.operation] = latency
    return given


def _memory_issue(kernel: Kernel, launch: Launch, device: Device, seconds: float) -> float:
    """Cycles of a unit's L1 pipe per warp memory instruction."""
    instructions = len(kernel.accesses) * _warps(launch, device) * launch.blocks
    return _grained(seconds * device.clock_hz * device.compute_units / instructions)


def _device_latency(node: Node, device: Device) -> Latency:
    try:
        return _latency_of(node.operation, device)
    except DeviceFileError as error:
        raise GraphError(f"{node}: the kernel gives no latency, and {error}") from None


def _latency_of(operation: str, device: Device) -> Latency:
    found = device.operation(operation)
    scope = device.pipelines[found.pipeline].value
    return Latency(_grained(found.issue), _grained(found.completion), found.pipeline, scope)


def _grained(cycles: float) -> float:
    return max(1, round(cycles * _GRAIN)) / _GRAIN


def _servers(
    alone: Mapping[str, float], run: _Run, kernel: Kernel, device: Device
) -> dict[str, float]:
    """Seconds that each limiter would take alone: of the roofline and of the simulated unit."""
    servers = {**alone, "shared": 0.0}
    for pipeline, cycles in run.bounds.pipelines.items():
        name = _SERVER.get(pipeline, "compute")
        if name == "shared" and kernel.bound is not None:
            cycles = run.shared_cycles  # without what else the load-store unit does
        if name == "memory":  # with accesses λ is the L1's, else it stands for all of memory
            if kernel.graph is None:
                continue  # the roofline has the exact figure
            name = "l1" if kernel.accesses or kernel.bound else "dram"
        if name != "latency":
            servers[name] = max(servers[name], cycles / device.clock_hz)
    servers["latency"] = run.bounds.path / device.clock_hz
    return servers


def _limiter(servers: Mapping[str, float], seconds: float, launch: Launch, device: Device) -> str:
    """The busiest server, if it is busy for half of the time; else what keeps it from being so."""
    throughput = {k: v for k, v in servers.items() if k not in ("latency", "parallelism")}
    busiest = max(throughput, key=lambda key: throughput[key])
    if throughput[busiest] >= _SATURATED * seconds:
        return busiest
    return "parallelism" if launch.blocks < device.compute_units else "latency"
