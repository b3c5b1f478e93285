"""Kernel + launch + device → prediction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from statistics import fmean

from perfassert.engines.pipeline.configuration import Unit
from perfassert.engines.pipeline.results import Totals
from perfassert.engines.pipeline.simulate import run_bounded
from perfassert.engines.volume.roofline import roofline
from perfassert.errors import LaunchError
from perfassert.frontends.access_graph import ARITHMETIC
from perfassert.frontends.cuda.kernels import CompiledCode
from perfassert.hardware.load import device as load_device
from perfassert.hardware.model import Device
from perfassert.kernel.description import AccessKernel, BoundKernel, CompiledKernel, Kernel
from perfassert.kernel.launch import Launch
from perfassert.prediction.prediction import OccupancyResult, Prediction, Resources
from perfassert.predictor.diagnose import diagnose
from perfassert.predictor.memory import L2, LOAD_STORE_UNIT, QUEUE, behind_dram
from perfassert.predictor.model import Model, estimated, make_model
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
_LIMIT = 4_000_000  # simulated instructions without a recurrence, before extrapolation
_ISSUED_LIMIT = 400_000  # the same where there are issue slots: less seldom recurs
_WAVES = 12  # so many sets of resident blocks are enough: more move the time by 1 %
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
    code = kernel.compiled if isinstance(kernel, CompiledKernel) else None
    if code is None:
        return _predicted(kernel, launch, target, "")
    if isinstance(code, CompiledCode):  # compiled again if its file has changed
        return _predicted(kernel, launch, target, code.binary(target.arch).digest)
    return _predicted.__wrapped__(kernel, launch, target, "")


@lru_cache(maxsize=512)
def _predicted(kernel: Kernel, launch: Launch, target: Device, digest: str) -> Prediction:
    """Predictions are immutable: the same question has the same answer."""
    case = estimated(kernel, launch, target)
    bound, held, estimate = case.kernel, case.held, case.estimate
    arithmetic = ARITHMETIC.get(bound.dtype, "int32")
    alone = dict(roofline(bound, launch, target, estimate.volumes, arithmetic))
    model = make_model(case, launch, target)
    run = _run(model)
    issue = model.own * model.blocks / target.schedulers_per_unit
    cycles, dram = max(run.cycles, issue) + model.masked_cycles, model.dram_seconds
    busy = max(behind_dram(cycles / target.clock_hz, dram, target.dram_knee), alone["l2"])
    seconds = busy + target.launch_overhead
    servers = _servers({**alone, "dram": dram, "issue": issue / target.clock_hz}, model)
    idle = target.compute_units / min(target.compute_units, launch.blocks)
    servers["parallelism"] = min(seconds, max(alone.values()) * idle) if idle > 1 else 0.0
    roofline_limiter = max(alone, key=lambda key: alone[key])
    return Prediction(
        kernel=bound.name,
        device=target.name,
        device_digest=target.digest,
        model_version=MODEL_VERSION,
        grid=launch.grid,
        block=launch.block,
        threads=case.threads,
        updates=case.threads * bound.updates_per_thread,
        warps=model.warps * launch.blocks,
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
            bound.registers,
            case.shared_bytes,
            bound.spill_bytes,
            float(model.own * case.working),
        ),
        assumptions=(*bound.assumptions, *run.assumptions),
        exact=_EXACT if isinstance(bound, AccessKernel) else _EXACT | {"instructions"},
        diagnostics={
            k: round_significant(v) for k, v in {**estimate.diagnostics, **run.diagnostics}.items()
        },
        origin=(kernel, launch, target),
        diagnose=partial(diagnose, predict=predict),
    )


def access_costs(
    kernel: Kernel, launch: Launch, device: Device
) -> tuple[dict[int, list[tuple[float, float]]], tuple[Assumption, ...]]:
    """Of compiled code: wavefronts and sectors per warp instruction of each access, by number of
    the instruction in its program; and what the binding had to assume."""
    if not isinstance(kernel, CompiledKernel):
        return {}, ()
    case = estimated(kernel, launch, device)
    known = case.estimate.accesses
    assert isinstance(case.kernel, BoundKernel)
    costs = {
        n.program: [(known[i].wavefronts, known[i].sectors) for i in n.touches if i in known]
        for n in case.kernel.graph.nodes
        if n.touches
    }
    return costs, case.kernel.assumptions


def _check_block(launch: Launch, device: Device) -> None:
    if launch.block[2] > device.max_block_z:
        raise LaunchError(
            f"a block {launch.block[2]} threads deep is more than the {device.max_block_z} that "
            f"{device.name} allows in z"
        )


@dataclass(frozen=True, slots=True)
class _Run:
    """What the pipeline engine says about the busiest unit; ``cycles`` is their mean."""

    cycles: float
    spread: float
    assumptions: tuple[Assumption, ...]
    diagnostics: Mapping[str, float]


def _run(model: Model) -> _Run:
    """Simulate, with the first blocks in step and apart."""
    unit, instructions = model.unit, model.length * model.blocks
    enough = _WAVES * model.length * unit.resident
    limit = _LIMIT if model.by_hand else min(_ISSUED_LIMIT, enough)
    totals = run_bounded(unit, limit)
    assumptions, end = _extrapolated(totals, instructions)
    ends = [end]
    if not model.by_hand and unit.resident > 1:
        ends += [
            _extrapolated(run_bounded(replace(unit, stagger=s), limit), instructions)[1]
            for s in _start_phases(unit, end)
        ]
    end = fmean(ends)
    if model.by_hand and any(n.touches_global and n.loop >= 0 for n in model.graph.nodes):
        assumptions = (*assumptions, _COUNTED_ONCE)
    return _Run(
        end / unit.pipelines.ticks,
        (max(ends) - min(ends)) / end if end else 0.0,
        assumptions,
        {
            "simulated_instructions": float(totals.simulated),
            "simulated_cycles": end / unit.pipelines.ticks,
            "path_cycles": model.bounds.path,
        },
    )


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


def _servers(alone: Mapping[str, float], model: Model) -> dict[str, float]:
    """Seconds that each limiter would take alone: of the roofline and of the simulated unit."""
    servers = {**alone, "shared": 0.0}
    clock_hz = model.device.clock_hz
    for pipeline, cycles in model.bounds.pipelines.items():
        name = _SERVER.get(pipeline, "compute")
        if name == "load-store":  # serves both; it counts for the one that needs it more
            shared = model.shared_cycles / clock_hz
            servers["shared"] = max(servers["shared"], shared)
            name = "shared" if shared > servers["l1"] else "l1"
        if name == "memory":  # a hand-made graph's own latencies stand for all of memory
            name = "dram"
        if name != "latency":
            servers[name] = max(servers.get(name, 0.0), cycles / clock_hz)
    servers["latency"] = model.bounds.path / clock_hz
    return servers


def _limiter(servers: Mapping[str, float], seconds: float, launch: Launch, device: Device) -> str:
    """The busiest server, if it is busy for half of the time; else what keeps it from being so."""
    throughput = {k: v for k, v in servers.items() if k not in ("latency", "parallelism")}
    busiest = max(throughput, key=lambda key: throughput[key])
    if throughput[busiest] >= _SATURATED * seconds:
        return busiest
    return "parallelism" if launch.blocks < device.compute_units else "latency"
