"""``helion_autotuner``: an autotuner for Helion that measures the best by prediction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from perfassert.errors import KernelSourceError, RankingError, in_short
from perfassert.frontends.generators.triton import from_triton
from perfassert.frontends.generators.triton_arguments import describe_arguments
from perfassert.hardware.model import Device
from perfassert.kernel.description import Kernel
from perfassert.kernel.launch import Launch
from perfassert.kernel.machine import WARP_LANES
from perfassert.quantity import to_integer
from perfassert.ranking.ranking import Key
from perfassert.ranking.selection import rank_possible
from perfassert.tuning.tuner import Settings

_OPTIONS = ("num_warps", "num_stages", "maxnreg")


def helion_autotuner(
    keep: float = 0.2,
    device: Device | str | Path | None = None,
    *,
    configs: Sequence[Any] = (),
    count: int = 100,
    measure: bool = True,
    assume: Mapping[str, str] | None = None,
) -> Callable[..., Any]:
    """Return what makes an autotuner for Helion that measures the best by prediction.

    Pass it as ``autotuner_fn=`` of ``@helion.kernel``. Helion generates and Triton compiles each
    configuration; its host function runs on fake tensors, and nothing is launched. Helion's
    ``FiniteSearch`` then measures a share of them, fastest first, and those that are not decided to
    be slower than the first. How many it kept is logged to ``perfassert.tuning``.

    Args:
        keep: fraction of all configurations, rounded up. Default: 0.2.
        device: a :class:`Device`, a name or alias, or the path of a device file. Default (None):
            PyTorch's current CUDA device.
        configs: ``helion.Config`` objects to choose from. Default: none; then those of the kernel,
            or, if it has fewer than two, ``count`` that Helion draws at random.
        count: how many to draw. Default: 100.
        measure: False to take the first without a measurement, for a machine without a GPU.
            Default: True.
        assume: assumed values loaded through a parameter, as for :func:`from_cuda`.

    Returns:
        A function of a bound kernel and its arguments, as Helion calls it.

    Raises:
        RankingError: ``keep`` outside 0 to 1, or ``count`` below 1; when called, no CUDA device and
            no ``device``, or without ``measure`` no configuration that can be predicted.
        UnknownDevice: no such device.

    Example:
        >>> import perfassert as pa
        >>> autotuner = pa.tuning.helion_autotuner(device="h100", measure=False)
        >>> callable(autotuner)  # @helion.kernel(autotuner_fn=autotuner)
        True
    """
    settings = Settings.validate(keep, device)
    drawn = to_integer(count, "count", RankingError, 1)

    def make(bound_kernel: Any, args: Sequence[Any], **kwargs: Any) -> _HelionAutotuner:
        return _HelionAutotuner(
            settings, bound_kernel, tuple(args), tuple(configs), drawn, measure, assume
        )

    return make


@dataclass(frozen=True, eq=False)
class _HelionAutotuner:
    """See :func:`helion_autotuner`; Helion's interface is that of its ``BaseAutotuner``."""

    settings: Settings
    bound_kernel: Any
    args: tuple[Any, ...]
    configs: tuple[Any, ...]
    count: int
    measure: bool
    assume: Mapping[str, str] | None

    def autotune(self, *, skip_cache: bool = False) -> Any:
        """Return the fastest configuration: as measured, or without a measurement as predicted."""
        device = self.settings.target()
        configs = {str(config): config for config in self._candidates()}
        candidates: dict[Key, Callable[[], tuple[Kernel, Launch]]] = {
            label: partial(self._candidate, config, device) for label, config in configs.items()
        }
        ranking, failures = rank_possible(candidates, device)
        name = self.bound_kernel.kernel.name
        selection = self.settings.select(name, device, ranking, failures)
        kept = [configs[str(label)] for label in selection.kept] or list(configs.values())
        if not self.measure and ranking is None:
            reasons = "\n".join(map(str, failures.values()))
            raise RankingError(f"no configuration of {name!r} can be predicted:\n{reasons}")
        if not self.measure or len(kept) == 1:
            return kept[0]
        from helion.autotuner import FiniteSearch

        return FiniteSearch(self.bound_kernel, self.args, kept).autotune(skip_cache=skip_cache)

    def _candidates(self) -> list[Any]:
        if self.configs or len(self.bound_kernel.configs) > 1:
            return list(self.configs or self.bound_kernel.configs)
        generation = self.bound_kernel.config_spec.create_config_generation(
            overrides=self.bound_kernel.settings.autotune_config_overrides or None,
            advanced_controls_files=self.bound_kernel.settings.autotune_search_acf or None,
            process_group_name=self.bound_kernel.env.process_group_name,
        )
        return list(generation.random_population(self.count))

    def _candidate(self, config: Any, device: Device) -> tuple[Kernel, Launch]:
        """The kernel of a configuration, and the launch that its host function makes of it."""
        launches = self._record(config, device)
        if len(launches) != 1:
            raise KernelSourceError(
                f"{self.bound_kernel.kernel.name!r} launches {len(launches)} kernels; one is "
                "predicted"
            )
        function, grid, values, keywords = launches[0]
        if keywords.get("num_ctas", 1) != 1:
            raise KernelSourceError("num_ctas above 1 (clusters) is not predicted")
        call = describe_arguments(
            function, dict(zip(function.arg_names, values, strict=False)) | keywords
        )
        options = {name: keywords[name] for name in _OPTIONS if keywords.get(name) is not None}
        kernel = from_triton(
            function, call.signature, call.constants, assume=self.assume, **options
        )
        threads = options.get("num_warps", 4) * WARP_LANES
        return kernel, Launch(tuple(map(int, grid)), threads, call.launch)

    def _record(
        self, config: Any, device: Device
    ) -> list[tuple[Any, Any, tuple[Any, ...], dict[str, Any]]]:
        """Kernels with grid, arguments and keywords that the host function would launch."""
        import helion
        from torch import Tensor
        from torch._subclasses.fake_tensor import FakeTensorMode
        from torch.utils._pytree import tree_map_only

        launches: list[tuple[Any, Any, tuple[Any, ...], dict[str, Any]]] = []

        def units(_: Any, *, reserved_sms: int = 0) -> int:
            return max(device.compute_units - reserved_sms, 1)

        def launcher(function: Any, grid: Any, *values: Any, **keywords: Any) -> None:
            launches.append((function, grid, values, keywords))

        try:
            host = self.bound_kernel.compile_config(config, allow_print=False)
            with (
                patch.object(helion.runtime, "get_num_sm", units),
                FakeTensorMode(allow_non_fake_inputs=True) as mode,
            ):
                args = tree_map_only(Tensor, mode.from_tensor, self.args)
                host(*args, _launcher=launcher)
        except Exception as error:  # whatever Helion raises for a configuration
            raise KernelSourceError(
                f"Helion generates no code for {in_short(config)}: {type(error).__name__}: {error}"
            ) from error
        return launches
