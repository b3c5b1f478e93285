"""The one clock: a model of a launch → seconds, and what bounds them.

Everything that states a time asks here: predictions, what-if, rankings, and the advisor's
simulations of a changed kernel. The unit that has most blocks is simulated; behind it stand DRAM,
which all units share, and what no launch can be faster than.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import fmean
from typing import NamedTuple

from perfassert.engines.pipeline.configuration import Unit
from perfassert.engines.pipeline.results import Duration
from perfassert.engines.pipeline.simulate import run_bounded
from perfassert.engines.volume.roofline import roofline
from perfassert.frontends.access_graph import ARITHMETIC
from perfassert.hardware.matrix import MatrixVariant
from perfassert.hardware.model import Device
from perfassert.kernel.launch import Launch
from perfassert.predictor.cost.atomics import atomic_cycles
from perfassert.predictor.cost.fetching import FETCH
from perfassert.predictor.cost.matrix_units import HANDED_OVER, MATRIX_QUEUE
from perfassert.predictor.cost.memory import (
    CLUSTER_NETWORK,
    L2,
    LOAD_STORE_UNIT,
    PACKETS,
    QUEUE,
    TRANSLATIONS,
)
from perfassert.predictor.model import (
    BoundLaunch,
    Edit,
    Model,
    Run,
    make_model,
    uneven_work,
)
from perfassert.predictor.simulate.dealing import BlockTime, unevenness
from perfassert.predictor.simulate.shortening import represents_all_blocks, shorter_units
from perfassert.source import Assumption
from perfassert.system.process_pool import map_in_threads

_SERVER = {
    "global": "memory", "shared": "shared", "local": "shared", "barrier": "latency",
    QUEUE: "issue", FETCH: "issue", LOAD_STORE_UNIT: "load-store", L2: "l2", MATRIX_QUEUE: "issue",
    HANDED_OVER: "issue", CLUSTER_NETWORK: "shared", PACKETS: "l2",
    TRANSLATIONS: "l2",
}  # fmt: skip
_SATURATED = 0.5  # of the time: a server that is busy for so long is the limiter
_LIMIT = 4_000_000  # simulated instructions without a recurrence, before extrapolation
_ISSUED_LIMIT = 400_000  # the same where there are issue slots: less seldom recurs
_WAVES = 12  # so many sets of resident blocks are enough: more move the time by 1 %
_WORTH_THREADS = 100_000  # simulated instructions: milliseconds
_WORTH_SAYING = 1.01
_MOSTLY_TAIL = 2.0  # from here on most of the time there are units without work
_PHASES = (0.5, 1.0)  # shares of a block's time over which the first blocks are spread


@dataclass(frozen=True, slots=True)
class Time:
    """Time of a launch in seconds, with and without (``busy``) its overhead.

    ``bounds``: what each limiter would take alone, by name; no entry exceeds ``seconds``.
    ``roofline``: those of the multi-limiter roofline. ``run``: the simulated unit.
    """

    seconds: float
    busy: float
    bounds: Mapping[str, float]
    roofline: Mapping[str, float]
    limiter: str
    run: UnitRun


@dataclass(frozen=True, slots=True)
class UnitRun:
    """Result of the pipeline engine for the busiest unit.

    ``cycles``: the mean over start phases; ``spread``: how far they lie apart, as a share;
    ``uneven``: how many times as long as with equal blocks that is.
    """

    cycles: float
    spread: float
    simulated: int
    assumptions: tuple[Assumption, ...]
    uneven: float = 1.0


def loaded_model(
    bound_launch: BoundLaunch,
    launch: Launch,
    device: Device,
    edit: Edit | None = None,
    run: Run = run_bounded,
) -> Model:
    """Return the model of a launch at the clock that its load leaves.

    With ρ, the share of the time at the nominal clock f for which matrix units are busy, that is
    f − ρ · (f − s), where s is what the device sustains under their load.
    """
    model = make_model(bound_launch, launch, device, edit, run)
    sustained = device.sustained_clock_hz
    pipelines = _matrix_pipelines(model) if sustained else ()
    busy = max((model.bounds.pipelines.get(name, 0.0) for name in pipelines), default=0.0)
    if not busy:
        return model
    share = busy / (launch_time(model).busy * device.clock_hz)
    clock = device.clock_hz - share * (device.clock_hz - sustained)
    return make_model(bound_launch, launch, device.replace(clock_hz=clock), edit, run)


def _matrix_pipelines(model: Model) -> Iterator[str]:
    """Pipelines that matrix instructions of the launch are issued to."""
    for name in {node.operation for node in model.graph.nodes}:
        if MatrixVariant.from_name(name):
            yield model.device.operation(name).pipeline


def launch_time(model: Model) -> Time:
    """Return the time of a launch: its simulated unit with DRAM behind it, at least every bound."""
    return _combine(model, _roofline(model))


def least_seconds(model: Model) -> float:
    """Return a lower bound of the launch's time in seconds, computed without a simulation."""
    device, limits = model.device, _limits(model, _roofline(model))
    alone = max(model.masked_cycles, _least_cycles(model)) / device.clock_hz
    together = behind_dram(model, alone)
    return max(together, *limits.values()) + device.launch_overhead


def _roofline(model: Model) -> Mapping[str, float]:
    kernel, estimate = model.bound_launch.kernel, model.bound_launch.estimate
    arithmetic = kernel.arithmetic or ARITHMETIC.get(kernel.dtype, "int32")
    working = model.launch.working_grid(model.bound_launch.effective_launch)
    return roofline(
        kernel, replace(model.launch, grid=working), model.device, estimate.volumes, arithmetic,
        model.active, estimate.per_activation,
    )  # fmt: skip


def _server(pipeline: str) -> str:
    """Return the server that a pipeline of the unit stands for; an unnamed one is arithmetic."""
    return _SERVER.get(pipeline, "compute")


def _combine(model: Model, alone: Mapping[str, float]) -> Time:
    device = model.device
    run, dispatch = _run(model), _dispatch_cycles(model)
    cycles = max(run.cycles + model.masked_cycles, _least_cycles(model))
    limits = _limits(model, alone)
    together = behind_dram(model, cycles / device.clock_hz)
    busy = max(together, *limits.values())
    seconds = busy + device.launch_overhead
    idle = device.compute_units / min(device.compute_units, model.launch.blocks)
    idling = min(seconds, max(alone.values()) * idle) if idle > 1 else 0.0
    waited = seconds * (1 - 1 / max(1.0, run.uneven))
    limits["parallelism"] = max(idling, waited, dispatch / device.clock_hz)
    limiter = _limiter(limits, seconds, model, run.uneven, dispatch / device.clock_hz)
    return Time(seconds, busy, limits, alone, limiter, run)


def _least_cycles(model: Model) -> float:
    """Return the cycles that issue slots or the start of blocks need at least."""
    return max(_issue_cycles(model), _dispatch_cycles(model))


def _issue_cycles(model: Model) -> float:
    return model.own * model.blocks / model.device.schedulers_per_unit


def _dispatch_cycles(model: Model) -> float:
    return 0.0 if model.by_hand else model.launch.blocks * model.device.block_dispatch_cycles


def behind_dram(model: Model, alone: float) -> float:
    """Time where both the units, which take ``alone``, and DRAM need theirs: (a^q + b^q)^(1/q).

    That is latency that grows with the utilisation ρ of DRAM as (1 − ρ^q)^(−1/q), and what the
    bandwidth of streaming kernels over occupancy shows.
    """
    dram, knee = _dram_span(model, alone), model.device.dram_knee
    longer, shorter = max(alone, dram), min(alone, dram)
    return longer * (1 + (shorter / longer) ** knee) ** (1 / knee) if longer else 0.0


def _dram_span(model: Model, alone: float) -> float:
    """DRAM's time, and that for which it waits for units that have one block at a time.

    A block asks DRAM for nothing before its first load and after its last one. Other blocks of the
    unit do meanwhile. Without others, the busier DRAM is, the more all units are in step, and wait
    for it, and keep it waiting, at the same time.
    """
    dram = model.dram_seconds
    if model.unit.resident > 1 or not alone:
        return dram
    in_step = float(min(1.0, dram / alone) ** model.device.dram_knee)
    return dram + in_step * model.bounds.around_watched * model.blocks / model.device.clock_hz


def _run(model: Model) -> UnitRun:
    """Simulate, with the first blocks in step and apart."""
    unit = model.unit
    enough = _WAVES * model.length * unit.resident
    limit = _LIMIT if model.by_hand else min(_ISSUED_LIMIT, enough)
    duration = model.run(unit, limit)
    whole = model.by_hand or represents_all_blocks(duration, unit)
    shorter = None if whole else shorter_units(model, limit)
    simulated = duration.simulated
    if shorter is None:
        run = _run_staggered(model, unit, limit, duration)
        end, assumptions = run.end, run.assumptions
    else:
        near, run = (_run_staggered(model, u, limit, model.run(u, limit)) for u in shorter)
        least, most = (u.block_length for u in shorter)
        end = near.end + (model.length - least) / (most - least) * (run.end - near.end)
        simulated += near.simulated + run.simulated
        assumptions = (_describe_shortening(model, most),)
    uneven = _unevenness_factor(model, end)
    if model.longest is not None:
        longest = (
            _end_of(model, model.longest, model.longest.blocks) / model.longest.pipelines.ticks
        )
        uneven = max(uneven, longest * unit.pipelines.ticks / end if end else 1.0)
    return UnitRun(
        end * uneven / unit.pipelines.ticks,
        run.spread,
        simulated,
        (*assumptions, *_unevenness_assumption(uneven)),
        uneven,
    )


def _describe_shortening(model: Model, length: int) -> Assumption:
    text = (
        f"no recurrence within {_ISSUED_LIMIT} simulated instructions: the time of {model.length} "
        f"instructions of a block is extrapolated from {length} and half as many, in shorter loops"
    )
    return Assumption(text)


class _StaggeredRuns(NamedTuple):
    """The mean end over start phases, in ticks, and how far they lie apart as a share."""

    end: float
    spread: float
    simulated: int
    assumptions: tuple[Assumption, ...]


def _run_staggered(model: Model, unit: Unit, limit: int, duration: Duration) -> _StaggeredRuns:
    """``duration``: of the unit with its first blocks in step."""
    instructions = unit.block_length * unit.blocks
    assumptions, end = _extrapolate_end(duration, instructions)
    ends = [end]
    if not model.by_hand and unit.resident > 1:
        staggers = _start_phases(unit, end, duration)
        # With one more set of blocks, less one set alone: without the time until all have started.
        wave, more = unit.resident, unit.blocks + unit.resident
        units = [replace(unit, stagger=s, blocks=b) for s in staggers for b in (wave, more)]
        run_each = map_in_threads if duration.simulated >= _WORTH_THREADS else map
        further = limit * more // unit.blocks  # by as much as there is more
        apart = iter(run_each(lambda u: model.run(u, further), units))
        for stagger, alone, together in zip(staggers, apart, apart, strict=True):
            if _all_started(unit, stagger, together):
                first = _extrapolate_end(alone, unit.block_length * wave)[1]
                ends.append(_extrapolate_end(together, unit.block_length * more)[1] - first)
    end = fmean(ends)
    spread = (max(ends) - min(ends)) / end if end else 0.0
    return _StaggeredRuns(end, spread, duration.simulated, assumptions)


def _unevenness_factor(model: Model, end: float) -> float:
    """Return the time of the unit with most work over that with equal blocks."""
    work, unit = uneven_work(model.bound_launch.kernel), model.unit
    if work is None:
        return 1.0
    return unevenness(
        work.blocks, work.longest, model.bound_launch.working, model.device.compute_units,
        model.bound_launch.occupancy.resident_blocks, end / unit.blocks, _alone(model),
    )  # fmt: skip


def _alone(model: Model) -> BlockTime:
    """Return the time of a block alone, from the mean block and one with longer loops."""
    mean, length = _one_block(model, model.unit)
    if model.longer is None:
        return BlockTime(0.0, mean)
    much, long = _one_block(model, model.longer)
    growing = mean if long == length else min(mean, (much - mean) / (long - length) * length)
    return BlockTime(mean - growing, growing)


def _one_block(model: Model, unit: Unit) -> tuple[float, int]:
    """Ticks that a block takes by itself, and instructions of its longest warp."""
    end = _end_of(model, replace(unit, resident=1), 1)
    return end, max(unit.programs[v].length for v in unit.variant)


def _end_of(model: Model, unit: Unit, blocks: int) -> float:
    """Ticks that so many blocks of a unit take by themselves."""
    duration = model.run(replace(unit, blocks=blocks), _ISSUED_LIMIT)
    return _extrapolate_end(duration, unit.block_length * blocks)[1]


def _unevenness_assumption(uneven: float) -> tuple[Assumption, ...]:
    if uneven < _WORTH_SAYING:
        return ()
    text = f"blocks differ in work: they take {uneven:.3g} times as long as equal ones"
    return (Assumption(text),)


def _start_phases(unit: Unit, end: float, duration: Duration) -> tuple[int, ...]:
    """Return the staggers in ticks that spread the first blocks' starts over a block's time.

    Simulated blocks that start together stay in step, which real ones do not for long. One stagger
    spreads the starts over half of the time, one over all of it.

    A simulation that is cut short before the last of them starts would tell of the first alone:
    what spreads them over more than half of its window is left out, here and after its run, which
    may be cut short where that of blocks in step was not.
    """
    apart = end / unit.blocks
    staggers = [int(apart * share) for share in _PHASES]
    return tuple(s for s in staggers if _all_started(unit, s, duration))


def _all_started(unit: Unit, stagger: int, duration: Duration) -> bool:
    """Return True if blocks so far apart have all started in the first half of the simulation."""
    return not duration.cut_short or stagger * (unit.resident - 1) <= duration.end / 2


def _extrapolate_end(duration: Duration, instructions: int) -> tuple[tuple[Assumption, ...], float]:
    """Return the end in ticks; what was not simulated goes on at the rate of the second half."""
    if not duration.cut_short:
        return (), duration.end
    count = duration.instructions
    rate = (duration.end - duration.half_time) / (count - duration.half_count)
    text = (
        f"no recurrence within {duration.simulated} simulated instructions: the time of the other "
        f"{instructions - count} of {instructions} is extrapolated"
    )
    return (Assumption(text),), duration.end + rate * (instructions - count)


def _limits(model: Model, alone: Mapping[str, float]) -> dict[str, float]:
    """Seconds that each limiter would take alone: of the roofline and of the simulated unit."""
    clock_hz = model.device.clock_hz
    limits = {**alone, "issue": _issue_cycles(model) / clock_hz, "shared": 0.0}
    for pipeline, cycles in model.bounds.pipelines.items():
        name = _server(pipeline)
        if name == "load-store":  # serves both; it counts for the one that needs it more
            shared = model.shared_cycles / clock_hz
            limits["shared"] = max(limits["shared"], shared)
            name = "shared" if shared > limits.get("l1", 0.0) else "l1"
        if name == "memory":
            name = "dram"
        if name != "latency":
            limits[name] = max(limits.get(name, 0.0), cycles / clock_hz)
    limits["latency"] = model.bounds.path / clock_hz
    if cycles := atomic_cycles(model):
        limits["atomics"] = cycles / clock_hz
    return limits


def _limiter(
    bounds: Mapping[str, float], seconds: float, model: Model, uneven: float, dispatch: float
) -> str:
    """Return the busiest server if it is busy for half of the time, else what holds it back.

    Blocks too small for the rate at which the device starts them are a lack of parallelism.
    """
    throughput = {k: v for k, v in bounds.items() if k not in ("latency", "parallelism")}
    throughput["parallelism"] = dispatch
    busiest = max(throughput, key=lambda key: throughput[key])
    if throughput[busiest] >= _SATURATED * seconds:
        return busiest
    few = model.launch.blocks < model.device.compute_units
    return "parallelism" if few or uneven >= _MOSTLY_TAIL else "latency"
