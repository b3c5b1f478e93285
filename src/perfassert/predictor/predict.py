"""Kernel + launch + device → prediction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from perfassert.errors import LaunchError, in_short
from perfassert.hardware.load import device as load_device
from perfassert.hardware.matrix import MatrixVariant
from perfassert.hardware.model import Device
from perfassert.hardware.occupancy import Occupancy
from perfassert.kernel.description import BoundKernel, CompiledKernel, Kernel
from perfassert.kernel.executed import IssueCounts
from perfassert.kernel.launch import Launch
from perfassert.kernel.program import CLUSTER
from perfassert.prediction.prediction import Diagnosis, OccupancyResult, Prediction, Resources
from perfassert.prediction.seal import seal_prediction
from perfassert.predictor.confidence import (
    DECIDED_WITHIN,
    confidence_by_band,
    judge_confidence,
    may_be_bounded,
)
from perfassert.predictor.errors import (
    add_clock_range,
    bands_of_guess,
    error_bands,
    exact_metrics,
    read_traits,
)
from perfassert.predictor.measured_volumes import with_measured
from perfassert.predictor.model import BoundLaunch, Model, bind_launch, estimate_bound_launch
from perfassert.predictor.speed_of_light import speed_of_light
from perfassert.predictor.time import (
    Time,
    launch_time,
    loaded_model,
    version_of,
    versioned_model,
)
from perfassert.quantity import Quantity, round_significant
from perfassert.source import Assumption
from perfassert.system.collection import without_collections
from perfassert.version import MODEL_VERSION

_COUNTED_ONCE = Assumption("accesses in loops count once in the volumes, whatever the trips")


def predict(
    kernel: Kernel,
    launch: Launch,
    device: Device | str | Path,
    *,
    volumes: Mapping[str, str | float] | None = None,
) -> Prediction:
    """Predict time, data volumes and bottlenecks of one launch, without a GPU.

    Args:
        kernel: from any entry point.
        launch: grid, block and arguments.
        device: a :class:`Device`, a name or alias, or the path of a device file.
        volumes: measured volumes in place of predicted ones: ``{"dram_load": "8 B/update"}``, of
            ``l2_load l2_store dram_load dram_store``, in bytes or as text with ``/thread``,
            ``/update``, ``/warp`` or ``/block``. Such a prediction has neither stalls nor advice.

    Returns:
        The prediction; the same question has the same answer on every machine.

    Raises:
        LaunchError: a launch that the device cannot run, or that does not fit the kernel.
        AddressExpressionError: an address expression that leaves its field, or lacks an argument.
        GraphError: a graph without trip counts or latencies.
        KernelSourceError: code that does not compile.
        ToolchainMissing: a tool that the code needs is not installed.
        UnknownDevice, DeviceFileError: as of :func:`perfassert.device`.

    Example:
        >>> import perfassert as pa
        >>> field = pa.Field("a", "float32", shape=(1024, 1024))
        >>> flip = pa.Kernel.from_accesses("flip", [field], loads=["a[x, y]"], stores=["a[y, x]"])
        >>> prediction = pa.predict(flip, pa.Launch.cover((1024, 1024), block=(32, 8)), "a100")
        >>> prediction.volumes.l2_store.per_thread, prediction.occupancy.limited_by
        (4 B/thread, 'warps')

    Source:
        Ernst et al., Warpspeed, arXiv 2204.14242 (volumes). Cornelis and Lemeire, *The Pipeline
        Performance Model* (time). ``docs/explanation/model.md`` says where perfassert departs from
        them.
    """
    for argument, value, kind in (("kernel", kernel, Kernel), ("launch", launch, Launch)):
        if not isinstance(value, kind):
            raise LaunchError(f"{argument} must be a {kind.__name__}, not {in_short(value)}")
    target = load_device(device)
    _check_block(launch, target)
    if volumes is not None:
        return _phenomenological(kernel, launch, target, volumes)
    with without_collections(), _files_as_they_are(kernel):
        version = version_of(kernel, target)
        predicted = _predict_cached if version is not None else _predict_cached.__wrapped__
        return predicted(kernel, launch, target, version)


def _files_as_they_are(kernel: Kernel) -> AbstractContextManager[None]:
    """Within it, compiled code is that of one state of its files. Other kernels need no front end,
    whose import takes longer than their predictions."""
    if not isinstance(kernel, CompiledKernel):
        return nullcontext()
    from perfassert.frontends.cuda.kernels import files_as_they_are

    return files_as_they_are()


@lru_cache(maxsize=512)
def _predict_cached(
    kernel: Kernel, launch: Launch, target: Device, version: str | None
) -> Prediction:
    """Predictions are immutable: the same question has the same answer."""
    return _of(versioned_model(kernel, launch, target, version), kernel, launch, target)


def _phenomenological(
    kernel: Kernel, launch: Launch, target: Device, volumes: Mapping[str, str | float]
) -> Prediction:
    """With measured volumes. It does not know its kernel: what is predicted again has others."""
    bound_launch, notes = _with_volumes(bind_launch(kernel, launch, target), launch, volumes)
    model = loaded_model(bound_launch, launch, target)
    prediction = _of(model, kernel, launch, target, volumes)
    measured = replace(
        prediction,
        assumptions=(*prediction.assumptions, *notes),
        origin=None,
        diagnose=lambda _: Diagnosis(MappingProxyType({}), None),
    )
    return seal_prediction(measured)


def _with_volumes(
    bound_launch: BoundLaunch, launch: Launch, volumes: Mapping[str, str | float]
) -> tuple[BoundLaunch, tuple[Assumption, ...]]:
    warps = -(-launch.threads_per_block // bound_launch.device.warp_size)
    return with_measured(bound_launch, launch, warps, volumes)


def _of(
    model: Model,
    kernel: Kernel,
    launch: Launch,
    target: Device,
    volumes: Mapping[str, str | float] = MappingProxyType({}),
) -> Prediction:
    """``volumes``: the measured ones that the model has."""
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
            least = _least_model(model, kernel, launch, target, volumes)
            light = min(light, speed_of_light(least))
            apart = abs(1 - launch_time(least).seconds / time.seconds)
        if apart <= DECIDED_WITHIN:
            confidence = confidence_by_band(bands["time"])
        else:
            bands = bands_of_guess(bands, apart)
    prediction = Prediction(
        kernel=bound.name,
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
        volumes=estimate.volumes,
        occupancy=_occupancy(occupancy),
        resources=Resources(
            bound.registers,
            bound_launch.shared_bytes,
            bound.spill_bytes,
            float(model.own * bound_launch.working),
        ),
        assumptions=(
            *bound.assumptions,
            *estimate.assumptions,
            *time.run.assumptions,
            *_approximations(model),
        ),
        exact=exact_metrics(model),
        error_bands=bands,
        confidence=confidence,
        confidence_reasons=reasons,
        diagnostics=diagnostics,
        speed_of_light=_seconds(light),
        origin=(kernel, launch, target),
        diagnose=_diagnose,
    )
    return seal_prediction(prediction)


def _least_model(
    model: Model,
    kernel: Kernel,
    launch: Launch,
    target: Device,
    volumes: Mapping[str, str | float],
) -> Model:
    """The same launch with the least of what is assumed where data decides."""
    bound = model.bound_launch.kernel
    assert isinstance(bound, BoundKernel)
    from perfassert.predictor.executed import bind_least

    described = bind_least(kernel, launch, target, bound)
    least = estimate_bound_launch(*described, launch, target)
    return loaded_model(_with_volumes(least, launch, volumes)[0], launch, target)


def _diagnose(prediction: Prediction) -> Diagnosis:
    """Stalls and advice, whose engine is imported when they are asked for."""
    from perfassert.predictor.diagnose import diagnose

    return diagnose(prediction, predict)


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
    """What the model simplifies about this launch."""
    looped = model.by_hand and any(n.touches_global and n.loop >= 0 for n in model.graph.nodes)
    return (
        *((_COUNTED_ONCE,) if looped else ()),
        *_derived_rate_assumptions(model),
        *_clocked_down(model),
        *_cluster_memory_assumption(model),
    )


def _clocked_down(model: Model) -> Iterator[Assumption]:
    """A clock below the nominal one."""
    clock, nominal = model.device.clock_hz, model.bound_launch.device.clock_hz
    if clock < nominal:
        yield Assumption(
            f"matrix units in use: the clock is taken to fall from {nominal / 1e9:.3g} to "
            f"{clock / 1e9:.3g} GHz"
        )


def _cluster_memory_assumption(model: Model) -> Iterator[Assumption]:
    """Shared memory of other blocks, on a device of which no latency is known."""
    kernel, device = model.bound_launch.kernel, model.device
    bound = kernel.bound if isinstance(kernel, BoundKernel) else ()
    if not device.cluster_latency and any(a.field == CLUSTER for a in bound):
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
    """What volumes and time rest on, by name."""
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
    """What tells whether kernels like this one were measured."""
    kernel, volumes = model.bound_launch.kernel, model.bound_launch.estimate.volumes
    sector = model.device.sector_bytes
    stored, loaded = (float(v.total) + sector for v in (volumes.l2_store, volumes.l2_load))
    return {
        "code_bytes": float(kernel.code_bytes if isinstance(kernel, BoundKernel) else 0),
        "stores_per_load": stored / loaded,
    }


def single_dependencies(prediction: Prediction) -> tuple[float, float]:
    """How much of a prediction's dependency graph has a single source per operand, before and after
    pruning (GPA §VI.C)."""
    from perfassert.predictor.diagnose import dependency_coverage

    return dependency_coverage(prediction, predict)


def access_costs(
    kernel: Kernel, launch: Launch, device: Device
) -> tuple[dict[int, list[tuple[float, float]]], tuple[Assumption, ...], Mapping[int, IssueCounts]]:
    """Of compiled code: wavefronts and sectors per warp instruction of each access, by number of
    the instruction in its program; what the binding had to assume; and, by address, what executed
    warps did, where a sample of blocks was executed."""
    if not isinstance(kernel, CompiledKernel):
        return {}, (), {}
    bound_launch = bind_launch(kernel, launch, device)
    known = bound_launch.estimate.accesses
    assert isinstance(bound_launch.kernel, BoundKernel)
    costs = {
        n.program: [(known[i].wavefronts, known[i].sectors) for i in n.touches if i in known]
        for n in bound_launch.kernel.graph.nodes
        if n.touches
    }
    work = bound_launch.kernel.work
    return costs, bound_launch.kernel.assumptions, {} if work is None else work.issued


def _check_block(launch: Launch, device: Device) -> None:
    if launch.block[2] > device.max_block_z:
        raise LaunchError(
            f"a block {launch.block[2]} threads deep is more than the {device.max_block_z} that "
            f"{device.name} allows in z"
        )
