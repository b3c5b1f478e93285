"""``triton_prune``: the ``early_config_prune`` of an autotuned Triton function."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar

from perfassert.errors import KernelSourceError, RankingError
from perfassert.frontends.generators.triton_arguments import describe_arguments
from perfassert.hardware.model import Device
from perfassert.ranking.autotune import AutotunedCall, Grid, by_label, layers_of
from perfassert.tuning.tuner import LOG, Settings


def triton_prune(
    keep: float = 0.2,
    device: Device | str | Path | None = None,
    *,
    grid: Grid | None = None,
    assume: Mapping[str, str] | None = None,
) -> Callable[..., list[Any]]:
    """Return what prunes an autotuned Triton function to the configurations worth measuring.

    Pass it as ``prune_configs_by={"early_config_prune": ...}`` of ``@triton.autotune``. It compiles
    each configuration for the types and alignments of the call's own arguments, launches nothing,
    and keeps a share of them, fastest first, and those that are not decided to be slower than the
    first. What cannot be predicted is kept; what the device cannot run is not. How many it kept is
    logged to ``perfassert.tuning``.

    Args:
        keep: fraction of all configurations, rounded up. Default: 0.2.
        device: a :class:`Device`, a name or alias, or the path of a device file. Default (None):
            PyTorch's current CUDA device.
        grid: as Triton takes it, for callers that do not pass it on. Default (None): the call's.
        assume: assumed values loaded through a parameter, as for :func:`from_cuda`.

    Returns:
        A function of configurations, arguments by name and keywords.

    Raises:
        RankingError: ``keep`` outside 0 to 1; when called, no CUDA device and no ``device``, or a
            caller that is no autotuner of Triton's.
        UnknownDevice: no such device.

    Example:
        >>> import perfassert as pa
        >>> import triton  # doctest: +SKIP
        >>> import triton.language as tl  # doctest: +SKIP
        >>> @triton.autotune(  # doctest: +SKIP
        ...     [triton.Config({"BLOCK": n}) for n in (128, 256, 512, 1024)],
        ...     key=["n"],
        ...     prune_configs_by={"early_config_prune": pa.tuning.triton_prune(0.25, "a100")},
        ... )
        ... @triton.jit
        ... def double(x, n, BLOCK: tl.constexpr):
        ...     i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        ...     tl.store(x + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)
    """
    return _TritonPrune(Settings.validate(keep, device), grid, assume)


@dataclass(frozen=True, eq=False)
class _TritonPrune:
    """See :func:`triton_prune`."""

    settings: Settings
    grid: Grid | None
    assume: Mapping[str, str] | None
    is_by_prediction: ClassVar[bool] = True

    def __call__(
        self, configs: Sequence[Any], named_args: Mapping[str, Any], **kwargs: Any
    ) -> list[Any]:
        layers = tuple(layers_of(_calling_tuner(sys._getframe(1))))
        name = layers[-1].__name__
        grid = kwargs.pop("grid", None) or self.grid
        if grid is None:
            LOG.warning("%s: kept all %d configurations: give grid=", name, len(configs))
            return list(configs)
        kwargs.pop("warmup", None)
        values = {**named_args, **kwargs}
        device = self.settings.target()
        try:
            call = describe_arguments(layers[-1], values)
        except KernelSourceError as error:
            LOG.warning("%s: kept all %d configurations: %s", name, len(configs), error)
            return list(configs)
        options = {k: v for k, v in kwargs.items() if k not in layers[-1].arg_names}
        whole = AutotunedCall(
            layers, call.signature, grid, values, call.launch, {**call.constants, **options}
        )
        groups = by_label(configs)
        ranking, failures = whole.rank(
            {label: same[0] for label, same in groups.items()}, device, self.assume
        )
        selection = self.settings.select(name, device, ranking, failures)
        kept = [config for label in selection.kept for config in groups[str(label)]]
        return kept or list(configs)


def _calling_tuner(frame: FrameType | None) -> Any:
    """Find the autotuner that calls: Triton tells a pruning neither it nor the function."""
    while frame is not None:
        for value in frame.f_locals.values():
            if type(value).__name__ == "Autotuner":
                return value
        frame = frame.f_back
    raise RankingError(
        "triton_prune was called by no autotuner; pass it to @triton.autotune as "
        'prune_configs_by={"early_config_prune": pa.tuning.triton_prune(...)}'
    )
