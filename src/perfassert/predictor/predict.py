"""Kernel + launch + device → prediction."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from perfassert.hardware.model import Device
from perfassert.kernel.description import BoundKernel, CompiledKernel, Kernel
from perfassert.kernel.executed import IssueCounts
from perfassert.kernel.launch import Launch
from perfassert.prediction.prediction import Prediction
from perfassert.predictor.session import DEFAULT
from perfassert.source import Assumption


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
    return DEFAULT.predict(kernel, launch, device, volumes=volumes)


def access_costs(
    kernel: Kernel, launch: Launch, device: Device
) -> tuple[dict[int, list[tuple[float, float]]], tuple[Assumption, ...], Mapping[int, IssueCounts]]:
    """Of compiled code: wavefronts and sectors per warp instruction of each access, by number of
    the instruction in its program; what the binding had to assume; and, by address, what executed
    warps did, where a sample of blocks was executed."""
    if not isinstance(kernel, CompiledKernel):
        return {}, (), {}
    bound_launch = DEFAULT.bound_launch(DEFAULT.ask(kernel, launch, device))
    known = bound_launch.estimate.accesses
    assert isinstance(bound_launch.kernel, BoundKernel)
    costs = {
        n.program: [(known[i].wavefronts, known[i].sectors) for i in n.touches if i in known]
        for n in bound_launch.kernel.graph.nodes
        if n.touches
    }
    work = bound_launch.kernel.work
    return costs, bound_launch.kernel.assumptions, {} if work is None else work.issued
