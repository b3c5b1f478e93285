"""Judging a simulated launch: its values, their error bands, and how sure they are."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy

from perfassert.hardware.matrix import MatrixVariant
from perfassert.hardware.occupancy import Occupancy
from perfassert.kernel.description import BoundKernel
from perfassert.kernel.program import CLUSTER
from perfassert.prediction.prediction import OccupancyResult, PredictionValues, Resources
from perfassert.prediction.seal import seal_values
from perfassert.predictor.judge.confidence import (
    DECIDED_WITHIN,
    confidence_by_band,
    judge_confidence,
    may_be_bounded,
)
from perfassert.predictor.judge.errors import (
    add_clock_range,
    bands_of_guess,
    error_bands,
    exact_metrics,
    read_traits,
)
from perfassert.predictor.judge.speed_of_light import speed_of_light
from perfassert.predictor.model import Model, estimate_question
from perfassert.predictor.question import Question
from perfassert.predictor.simulate.time import Time, launch_time, loaded_model
from perfassert.quantity import Quantity, round_significant
from perfassert.source import Assumption
from perfassert.version import MODEL_VERSION

_COUNTED_ONCE = Assumption(
    "accesses in loops, or of some warps only, count once for every warp in the volumes"
)


def judge(question: Question, model: Model) -> PredictionValues:
    """Return the prediction: values, bands and confidence of a simulated launch.

    Args:
        question: what was asked.
        model: what is simulated of it.
    """
    launch, target = question.launch, question.device
    bound_launch, time = model.bound_launch, launch_time(model)
    bound, occupancy, estimate = bound_launch.kernel, bound_launch.occupancy, bound_launch.estimate
    roofline_limiter = max(time.roofline, key=lambda key: time.roofline[key])
    diagnostics = _diagnostics(model, time)
    bands = error_bands(model, time.limiter, read_traits(diagnostics, bound.registers))
    bands["time"] = add_clock_range(bands["time"], target, time)
    light = speed_of_light(model)
    confidence, reasons = judge_confidence(model, bands["time"], time.limiter)
    if confidence == "guessed":
        apart = 1.0
        if may_be_bounded(reasons):
            least = _least_model(question, model)
            light = min(light, speed_of_light(least))
            apart = abs(1 - launch_time(least).seconds / time.seconds)
        if apart <= DECIDED_WITHIN:
            confidence = confidence_by_band(bands["time"])
        else:
            bands = bands_of_guess(bands, apart)
    prediction = PredictionValues(
        kernel=bound.name,
        kernel_kind=bound.kind,
        device=target.name,
        device_digest=target.digest,
        model_version=MODEL_VERSION,
        grid=launch.grid,
        block=launch.block,
        threads=bound_launch.threads,
        updates=bound_launch.threads * bound.updates_per_thread,
        warps=model.warps * launch.blocks,
        blocks=launch.blocks,
        time=_seconds(time.seconds),
        cycles=Quantity(round_significant(time.busy * model.device.clock_hz)),
        spread=round_significant(time.run.spread),
        limiter=time.limiter,
        bounds={name: _seconds(bound) for name, bound in time.bounds.items()},
        roofline_time=_seconds(time.roofline[roofline_limiter]),
        roofline_limiter=roofline_limiter,
        volumes=deepcopy(estimate.volumes),  # the model's stay, whatever is done to these
        occupancy=_occupancy(occupancy),
        resources=Resources(
            bound.registers,
            bound_launch.shared_bytes,
            bound.spill_bytes,
            _instructions(model),
        ),
        assumptions=(
            *bound.assumptions,
            *estimate.assumptions,
            *time.run.assumptions,
            *_approximations(model),
            *bound_launch.notes,
        ),
        exact=exact_metrics(model),
        error_bands=bands,
        confidence=confidence,
        confidence_reasons=reasons,
        diagnostics=diagnostics,
        speed_of_light=_seconds(light),
        question=question.digest,
    )
    return seal_values(prediction)


def _least_model(question: Question, model: Model) -> Model:
    """Return the model of the same launch with the least of what is assumed about data."""
    bound = model.bound_launch.kernel
    assert isinstance(bound, BoundKernel)
    from perfassert.predictor.sample.executed import bind_least

    least = estimate_question(question, *bind_least(question, bound))
    return loaded_model(least, question.launch, question.device, run=model.run)


def _instructions(model: Model) -> float:
    """Return the warp instructions of all blocks, including blocks without work."""
    kernel, working = model.bound_launch.kernel, float(model.bound_launch.working)
    if not isinstance(kernel, BoundKernel):
        return model.own * working
    return model.own * (working if kernel.amount is None else kernel.amount) + kernel.idle


def _seconds(value: float) -> Quantity:
    return Quantity(round_significant(value), "s")


def _occupancy(occupancy: Occupancy) -> OccupancyResult:
    return OccupancyResult(
        round_significant(occupancy.fraction),
        occupancy.resident_blocks,
        occupancy.warps_per_unit,
        occupancy.limited_by,
    )


def _approximations(model: Model) -> tuple[Assumption, ...]:
    """Return the simplifications that the model makes for this launch."""
    once = model.by_hand and any(
        node.touches_global and (node.loop >= 0 or node.warps is not None)
        for node in model.graph.nodes
    )
    return (
        *((_COUNTED_ONCE,) if once else ()),
        *_derived_rate_assumptions(model),
        *_clocked_down(model),
        *_cluster_memory_assumption(model),
    )


def _clocked_down(model: Model) -> Iterator[Assumption]:
    """Yield an assumption for a clock below the nominal one."""
    clock, nominal = model.device.clock_hz, model.bound_launch.device.clock_hz
    if clock < nominal:
        yield Assumption(
            f"matrix units in use: the clock is taken to fall from {nominal / 1e9:.3g} to "
            f"{clock / 1e9:.3g} GHz"
        )


def _cluster_memory_assumption(model: Model) -> Iterator[Assumption]:
    """Shared memory of other blocks, on a device of which no latency is known."""
    kernel, device = model.bound_launch.kernel, model.device
    if not device.cluster_latency and any(a.field == CLUSTER for a in kernel.bound):
        yield Assumption(
            f"{device.name} has no cluster_latency: shared memory of other blocks counts as a "
            "block's own"
        )


def _derived_rate_assumptions(model: Model) -> Iterator[Assumption]:
    """Matrix instructions that the device file does not list."""
    device = model.device
    for name in sorted({node.operation for node in model.graph.nodes}):
        variant = MatrixVariant.from_name(name)
        rate = variant and device.derive_variant(variant)
        if rate:
            yield Assumption(rate.how)


def _diagnostics(model: Model, time: Time) -> dict[str, float]:
    """Return the diagnostics on which volumes and time rest, by name."""
    simulated = {
        "simulated_instructions": float(time.run.simulated),
        "simulated_cycles": time.run.cycles,
        "path_cycles": model.bounds.path,
        "uneven_blocks": time.run.uneven,
        **_traits(model),
    }
    values = {**model.bound_launch.estimate.diagnostics, **simulated}
    return {name: round_significant(value) for name, value in values.items()}


def _traits(model: Model) -> dict[str, float]:
    """Return the traits that tell if kernels like this one were measured."""
    kernel, volumes = model.bound_launch.kernel, model.bound_launch.estimate.volumes
    sector = model.device.sector_bytes
    stored, loaded = (float(v.total) + sector for v in (volumes.l2_store, volumes.l2_load))
    return {
        "code_bytes": float(kernel.code_bytes),
        "stores_per_load": stored / loaded,
    }
