"""Sessions and ``predict`` of the public contract."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from perfassert.facade.prediction import Prediction
from perfassert.hardware.model import Device
from perfassert.kernel.description import Kernel
from perfassert.kernel.launch import Launch
from perfassert.predictor import session
from perfassert.predictor.session import DEFAULT


class Session(session.Session):
    """Results that predictions share, within a budget of memory.

    A prediction is the same in any session, after any other prediction; only its time differs.
    Threads may share a session.

    Args:
        budget: bytes that it keeps at most; 0: everything is made anew. Default: 512 MB.

    Example:
        >>> import perfassert as pa
        >>> fill = pa.Kernel.from_accesses("fill", [pa.Field("a", shape=4096)], stores=["a[x]"])
        >>> with pa.Session() as session:
        ...     session.predict(fill, pa.Launch(16, 256), "a100").limiter
        'parallelism'
    """

    def predict(
        self,
        kernel: Kernel,
        launch: Launch,
        device: Device | str | Path,
        *,
        volumes: Mapping[str, str | float] | None = None,
        prove: int | None = None,
    ) -> Prediction:
        """Predict a launch, as :func:`perfassert.predict` does.

        Args:
            kernel: from any entry point.
            launch: grid, block and arguments.
            device: a :class:`Device`, a name or alias, or the path of a device file.
            volumes: measured volumes in place of predicted ones.
            prove: changed copies of the source that advice compiles at most. Default (None): four,
                of kernels that compile quickly.
        """
        return Prediction.of_values(
            super().predict(kernel, launch, device, volumes=volumes, prove=prove)
        )


def predict(
    kernel: Kernel,
    launch: Launch,
    device: Device | str | Path,
    *,
    volumes: Mapping[str, str | float] | None = None,
    prove: int | None = None,
) -> Prediction:
    """Predict time, data volumes and bottlenecks of one launch, without a GPU.

    Args:
        kernel: from any entry point.
        launch: grid, block and arguments.
        device: a :class:`Device`, a name or alias, or the path of a device file.
        volumes: measured volumes in place of predicted ones: ``{"dram_load": "8 B/update"}``, of
            ``l2_load l2_store dram_load dram_store``, in bytes or as text with ``/thread``,
            ``/update``, ``/warp`` or ``/block``. Such a prediction has neither stalls nor advice.
        prove: changed copies of the source that advice compiles at most; part of the question.
            Default (None): four, of kernels that compile quickly.

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
    return Prediction.of_values(
        DEFAULT.predict(kernel, launch, device, volumes=volumes, prove=prove)
    )


def recall(kernel: Kernel, launch: Launch, device: Device | str | Path) -> Prediction:
    """Predict as :func:`predict`, or recall the answer of an earlier process from the cache."""
    return Prediction.of_values(DEFAULT.recall(kernel, launch, device))
