"""Times of a kernel before and after a change, at a proposed launch if none is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from perfassert.comparison.compare import DEFAULT_TOLERANCE, time_tolerance
from perfassert.comparison.kernel_changes import CodeDiff, KernelDiff, Placed, verdict, worst_first
from perfassert.comparison.sides import SOURCES, Reading
from perfassert.comparison.status import Status
from perfassert.errors import PerfAssertError
from perfassert.facade.prediction import Prediction
from perfassert.facade.session import predict
from perfassert.frontends.cuda.inventory import parameters
from perfassert.frontends.cuda.kernels import from_cuda, from_ptx
from perfassert.frontends.cuda.proposals import (
    DOMAINS,
    is_structure,
    proposed_block,
    start_value,
)
from perfassert.frontends.toolchain.names import without_parameters
from perfassert.hardware.load import device_of
from perfassert.hardware.model import Device
from perfassert.kernel.launch import Launch
from perfassert.quantity import Quantity
from perfassert.report.tables import percent
from perfassert.source import CUDA_SUFFIXES

MOST = 8
"""Most kernels whose times are predicted: a comparison without launches stays quick."""
_LARGEST = 5_000 * 16  # bytes of code
_OPEN = (Status.WORSE, Status.MIXED, Status.BETTER)


@dataclass(frozen=True, slots=True)
class ProposedTimes:
    """Predicted times of both sides; ``launch``: in words."""

    base: Quantity
    head: Quantity
    device: str
    launch: str

    @property
    def relative_change(self) -> float:
        """Relative change of the time."""
        return float(self.head) / float(self.base) - 1

    def __str__(self) -> str:
        return (
            f"time {self.base} → {self.head} ({percent(self.relative_change)}) on {self.device}, "
            f"{self.launch}, which is proposed"
        )


def judge_by_proposed(
    code: CodeDiff,
    sides: tuple[Mapping[int, Placed], Mapping[int, Placed]],
    readings: tuple[Reading, Reading],
    device: Device | None,
    progress: Callable[[int, int], None],
) -> CodeDiff:
    """Judge kernels that are better, worse or both by their times, up to :data:`MOST` of them.

    Args:
        code: the comparison of the code.
        sides: of each side, its kernels by the ``id`` of their information.
        readings: how sources are compiled.
        device: that times are of; by default the first of each kernel's architecture.
        progress: is told how many kernels are predicted, of how many.
    """
    chosen = [k for k in code.kernels if k.status in _OPEN and _is_small(k)][:MOST]
    judged: dict[int, KernelDiff] = {}
    for number, kernel in enumerate(chosen):
        progress(number, len(chosen))
        times = _times(kernel, sides, readings, device)
        if times is not None:
            tolerance = time_tolerance(DEFAULT_TOLERANCE).above.share
            change = times.relative_change
            sign = 0 if abs(change) <= tolerance else (-1 if change > 0 else 1)
            status = verdict((sign,), kernel.failures)
            judged[id(kernel)] = replace(kernel, status=status, proposed=times)
    kernels = [judged.get(id(kernel), kernel) for kernel in code.kernels]
    return replace(code, kernels=tuple(sorted(kernels, key=worst_first)))


def _is_small(kernel: KernelDiff) -> bool:
    sides = (kernel.pair.base, kernel.pair.head)
    return all(info is not None and info.code_bytes <= _LARGEST for info in sides)


def _times(
    kernel: KernelDiff,
    sides: tuple[Mapping[int, Placed], Mapping[int, Placed]],
    readings: tuple[Reading, Reading],
    device: Device | None,
) -> ProposedTimes | None:
    """Predict both sides of a kernel.

    None without a launch to propose, where no thread of it stores anything, or where guesses
    differ.
    """
    arch = kernel.pair.known.arch
    target = device if device is not None and device.arch == arch.rstrip("af") else device_of(arch)
    infos = (kernel.pair.base, kernel.pair.head)
    coordinates = [c for info in infos if info for c in info.coordinates]
    predictions: list[Prediction] = []
    block: tuple[int, ...] = ()
    for info, placed_kernels, reading in zip(infos, sides, readings, strict=True):
        placed = placed_kernels.get(id(info))
        if placed is None or target is None or placed.path.suffix not in SOURCES:
            return None
        try:
            name = without_parameters(placed.info.name)
            block = block or proposed_block(placed.path, name, placed.info.max_threads, coordinates)
            predictions.append(_predict(placed, reading, block, target))
        except PerfAssertError:
            return None
    base, head = predictions
    is_idle = any(prediction.volumes.l2_store.total == 0 for prediction in predictions)
    if is_idle or head.probability_faster(base) is None:
        return None
    extent = "×".join(map(str, block))
    threads = "×".join(map(str, DOMAINS[len(block) - 1]))
    return ProposedTimes(base.time, head.time, base.device, f"{threads} threads, block {extent}")


def _predict(
    placed: Placed, reading: Reading, block: tuple[int, ...], device: Device
) -> Prediction:
    """Raise :class:`PerfAssertError` where only the kernel's author knows what it takes."""
    domain, name = DOMAINS[len(block) - 1], placed.info.mangled
    is_cuda = placed.path.suffix in CUDA_SUFFIXES
    given: dict[str, Any] = dict(reading.compilation) if is_cuda else {}
    if is_cuda:
        given["options"] = (*given.get("options", ()), *placed.options)
    if reading.toolchain:
        given["toolchain"] = reading.toolchain
    known = parameters(placed.path, device.arch, **given)[name]
    if any(is_structure(parameter) for parameter in known):
        raise PerfAssertError("a structure has no value to start from")
    numbers = {p.name: start_value(p, domain) for p in known if not p.pointer}
    read = from_cuda if is_cuda else from_ptx
    return predict(read(placed.path, name, **given), Launch.cover(domain, block, numbers), device)
