"""The one place where descriptions and engines meet: kernel + launch + device → prediction."""

from __future__ import annotations

from pathlib import Path

from perfassert.engines.volume.estimate import estimate_volumes
from perfassert.engines.volume.roofline import roofline
from perfassert.errors import LaunchError
from perfassert.hardware.load import device as load_device
from perfassert.hardware.model import Device
from perfassert.hardware.occupancy import occupancy
from perfassert.kernel.description import Kernel
from perfassert.kernel.launch import Launch
from perfassert.prediction.prediction import OccupancyResult, Prediction, Resources
from perfassert.quantity import Quantity, round_significant
from perfassert.source import Assumption
from perfassert.version import MODEL_VERSION

_EXACT = frozenset({"occupancy", "registers"})


def predict(kernel: Kernel, launch: Launch, device: Device | str | Path) -> Prediction:
    """Predict one launch.

    Raises :class:`~perfassert.errors.LaunchError` for a launch that the device cannot run and
    :class:`~perfassert.errors.AddressExpressionError` for expressions that do not fit it.
    """
    for what, value, kind in (("kernel", kernel, Kernel), ("launch", launch, Launch)):
        if not isinstance(value, kind):
            raise LaunchError(f"{what} must be a {kind.__name__}, not {value!r}")
    target = load_device(device)
    _check_block(launch, target)
    shared = kernel.shared_bytes + launch.shared_bytes
    held = occupancy(target, launch.threads_per_block, kernel.registers, shared)
    estimate = estimate_volumes(kernel, launch, target, held)
    bounds = roofline(kernel, launch, target, estimate.volumes)
    limiter = max(bounds, key=lambda key: bounds[key])
    seconds = round_significant(bounds[limiter])
    warps = -(-launch.threads_per_block // target.warp_size) * launch.blocks
    return Prediction(
        kernel=kernel.name,
        device=target.name,
        device_digest=target.digest,
        model_version=MODEL_VERSION,
        grid=launch.grid,
        block=launch.block,
        threads=launch.threads,
        updates=launch.threads * kernel.updates_per_thread,
        warps=warps,
        blocks=launch.blocks,
        time=Quantity(seconds, "s"),
        cycles=Quantity(round_significant(bounds[limiter] * target.clock_hz)),
        spread=0.0,
        limiter=limiter,
        bounds={k: Quantity(round_significant(v), "s") for k, v in bounds.items()},
        roofline_time=Quantity(seconds, "s"),
        roofline_limiter=limiter,
        volumes=estimate.volumes,
        occupancy=OccupancyResult(
            round_significant(held.fraction),
            held.resident_blocks,
            held.warps_per_unit,
            held.limited_by,
        ),
        resources=Resources(kernel.registers, shared),
        stalls={},
        advice=None,
        assumptions=(*kernel.assumptions, _ROOFLINE),
        exact=_EXACT,
        diagnostics={k: round_significant(v) for k, v in estimate.diagnostics.items()},
    )


_ROOFLINE = Assumption("time is the roofline time: latency and issue are not simulated")


def _check_block(launch: Launch, device: Device) -> None:
    if launch.block[2] > device.max_block_z:
        raise LaunchError(
            f"a block {launch.block[2]} threads deep is more than the {device.max_block_z} that "
            f"{device.name} allows in z"
        )
