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
from perfassert.predictor.memory import L2, LOAD_STORE_UNIT, QUEUE, MemorySystem, with_touches
from perfassert.quantity import Quantity, round_significant
from perfassert.source import Assumption
from perfassert.version import MODEL_VERSION

_EXACT = frozenset({"occupancy", "registers"})
_SERVER = {
    "global": "memory", "shared": "shared", "local": "shared", "barrier": "latency",
    QUEUE: "issue", LOAD_STORE_UNIT: "load-store", L2: "l2",
}  # fmt: skip
"""What a pipeline of that name stands for; any other is arithmetic."""
_SATURATED = 0.5  # of the time: a server that is busy for so long is the limiter
_GRAIN = 64  # derived costs are multiples of 1/64 cycle, so that periods exist
_LIMIT = 4_000_000  # simulated instructions without a recurrence, before extrapolation
_ISSUED_LIMIT = 400_000  # the same where there are issue slots: less seldom recurs
_BLOCK_LAUNCH = "block launch"  # the class of the node that stands for it
_PHASES = (0.5, 1.0)  # shares of a block's time over which the first blocks are spread


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
    given = kernel
    case = _estimated(kernel, launch, target)
    kernel, held, estimate, threads = case.kernel, case.held, case.estimate, case.threads
    arithmetic = ARITHMETIC.get(kernel.dtype, "int32")
    alone = dict(roofline(kernel, launch, target, estimate.volumes, arithmetic))
    run = _simulate(kernel, launch, target, held, estimate)
    issue = run.instructions / launch.blocks * run.blocks / target.schedulers_per_unit
    cycles = max(run.cycles, issue)
    dram = run.dram_seconds
    busy = max(_behind_dram(cycles / target.clock_hz, dram, target.dram_knee), alone["l2"])
    seconds = busy + target.launch_overhead
    servers = _servers({**alone, "dram": dram, "issue": issue / target.clock_hz}, run, target)
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
        origin=(given, launch, target),
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


def _behind_dram(alone: float, dram: float, knee: float) -> float:
    """Time where both the units and DRAM need theirs: (a^q + b^q)^(1/q).

    That is latency that grows with the utilisation ρ of DRAM as (1 − ρ^q)^(−1/q), and what the
    bandwidth of streaming kernels over occupancy shows.
    """
    longer, shorter = max(alone, dram), min(alone, dram)
    return longer * (1 + (shorter / longer) ** knee) ** (1 / knee) if longer else 0.0


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
    dram_seconds: float
    assumptions: tuple[Assumption, ...]
    diagnostics: Mapping[str, float]


def _simulate(
    kernel: Kernel,
    launch: Launch,
    device: Device,
    held: Occupancy,
    estimate: VolumeEstimate,
) -> _Run:
    by_hand = kernel.graph is not None and kernel.bound is None
    graph = kernel.graph or access_graph(kernel)
    if kernel.bound is None:
        graph = with_touches(graph, kernel)
    graph = graph.bound(dict(launch.scalar_args()))
    active = min(device.compute_units, launch.blocks)
    memory = MemorySystem(kernel, estimate, device, active)
    graph = memory.apply(graph, kernel.latencies)
    latencies = dict(kernel.latencies) | memory.latencies
    if device.block_launch_cycles and not by_hand:
        graph = _with_block_launch(graph)
        stores = bool(estimate.volumes.l2_store.total)
        launching = device.block_launch_cycles + stores * device.block_drain_cycles
        latencies[_BLOCK_LAUNCH] = Latency(_grained(0), _grained(launching))
    warps = _warps(launch, device)
    blocks = -(-launch.blocks // device.compute_units)
    unit = make_unit(
        graph,
        warps,
        blocks,
        held.resident_blocks,
        _latencies(latencies, graph, device),
        issue_order="in-order",
        scheduler="greedy-then-oldest",
        schedulers=device.schedulers_per_unit,
        issue_width=None if by_hand else 1,  # the paper's graphs know no limit
        queues={QUEUE: device.memory_queue_depth},
    )
    limits = bounds(unit)
    if (dram := memory.dram_seconds * device.clock_hz) and not by_hand:
        load = dram / max(dram, limits.lower)
        unit = _loaded(unit, memory.growth(load))
    length = sum(unit.programs[v].length for v in unit.variant)
    own = length - warps * (_BLOCK_LAUNCH in latencies)
    limit = _LIMIT if by_hand else _ISSUED_LIMIT
    totals = run_bounded(unit, limit)
    assumptions, end = _extrapolated(totals, length * blocks)
    ends = [end]
    if not by_hand and unit.resident > 1:
        ends += [
            _extrapolated(run_bounded(replace(unit, stagger=s), limit), length * blocks)[1]
            for s in _start_phases(unit, end)
        ]
    end = median(ends)
    if by_hand and any(n.touches_global and n.loop >= 0 for n in graph.nodes):
        assumptions = (*assumptions, _COUNTED_ONCE)
    cycles = end / unit.pipelines.ticks
    spread = (max(ends) - min(ends)) / end if end else 0.0
    return _Run(
        cycles,
        spread,
        float(own * launch.blocks),
        blocks,
        limits,
        _shared_cycles(estimate, launch, device),
        memory.dram_seconds,
        assumptions,
        {"simulated_instructions": float(totals.simulated), "path_cycles": limits.path},
    )


def _shared_cycles(estimate: VolumeEstimate, launch: Launch, device: Device) -> float:
    """How long the busiest unit's wavefronts of shared memory take."""
    per_block = float(estimate.volumes.shared_wavefronts.total) / launch.blocks
    if not per_block:
        return 0.0
    blocks = -(-launch.blocks // device.compute_units)
    return per_block * blocks * device.operation("shared_load").issue


def _loaded(unit: Unit, growth: Mapping[int, float]) -> Unit:
    """The unit with completion latencies of graph nodes grown by so many cycles."""
    ticks = unit.pipelines.ticks
    programs = tuple(
        replace(
            p,
            nodes=tuple(
                replace(n, completion=n.completion + round(growth[n.graph_node] * ticks))
                if n.graph_node in growth
                else n
                for n in p.nodes
            ),
        )
        for p in unit.programs
    )
    return replace(unit, programs=programs)


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
    given: Mapping[str, LatencyRule], graph: InstructionGraph, device: Device
) -> dict[str, LatencyRule]:
    """Those that are given, else the device's."""
    result = dict(given)
    for node in graph.nodes:
        if node.operation not in result:
            result[node.operation] = _device_latency(node, device)
    return result


def _with_block_launch(graph: InstructionGraph) -> InstructionGraph:
    """No warp of a block starts before the block has been set up."""
    launch = Node(len(graph.nodes), _BLOCK_LAUNCH, "", (), fence=True)
    return replace(
        graph, nodes=(*graph.nodes, launch), body=(("node", launch.index), *graph.body)
    )


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


def _servers(alone: Mapping[str, float], run: _Run, device: Device) -> dict[str, float]:
    """Seconds that each limiter would take alone: of the roofline and of the simulated unit."""
    servers = {**alone, "shared": 0.0}
    for pipeline, cycles in run.bounds.pipelines.items():
        name = _SERVER.get(pipeline, "compute")
        if name == "load-store":  # serves both; it counts for the one that needs it more
            shared = run.shared_cycles / device.clock_hz
            servers["shared"] = max(servers["shared"], shared)
            name = "shared" if shared > servers["l1"] else "l1"
        if name == "memory":  # a hand-made graph's own latencies stand for all of memory
            name = "dram"
        if name != "latency":
            servers[name] = max(servers.get(name, 0.0), cycles / device.clock_hz)
    servers["latency"] = run.bounds.path / device.clock_hz
    return servers


def _limiter(servers: Mapping[str, float], seconds: float, launch: Launch, device: Device) -> str:
    """The busiest server, if it is busy for half of the time; else what keeps it from being so."""
    throughput = {k: v for k, v in servers.items() if k not in ("latency", "parallelism")}
    busiest = max(throughput, key=lambda key: throughput[key])
    if throughput[busiest] >= _SATURATED * seconds:
        return busiest
    return "parallelism" if launch.blocks < device.compute_units else "latency"
