"""``kernel_tuner_objective``: a strategy for Kernel Tuner that measures the best by prediction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Union

from perfassert.errors import KernelSourceError
from perfassert.frontends.generators.objects import from_source_object
from perfassert.hardware.model import Device
from perfassert.hardware.occupancy import check_block
from perfassert.kernel.description import Kernel
from perfassert.kernel.launch import Buffer, Launch
from perfassert.ranking.ranking import Key
from perfassert.ranking.selection import rank_possible
from perfassert.tuning.tuner import Settings


def kernel_tuner_objective(
    keep: float = 0.2,
    device: Device | str | Path | None = None,
    *,
    options: Sequence[str] = (),
    include_dirs: Sequence[Union[str, PathLike[str]]] = (),
    trip_counts: Mapping[str, int] | None = None,
    assume: Mapping[str, str] | None = None,
) -> Any:
    """Return a strategy for Kernel Tuner whose objective is the predicted time.

    Pass it as ``strategy=`` of ``kernel_tuner.tune_kernel``. It compiles each configuration of the
    search space as Kernel Tuner would, launches nothing, and lets Kernel Tuner measure a share of
    them, fastest first, and those that are not decided to be slower than the first. With
    ``simulation_mode=True`` measurements come from the cache file, and no GPU is needed. How many
    it kept is logged to ``perfassert.tuning``.

    Args:
        keep: fraction of all configurations, rounded up. Default: 0.2. With ``max_fevals`` in
            ``strategy_options`` Kernel Tuner stops after so many of those that are kept.
        device: a :class:`Device`, a name or alias, or the path of a device file. Default (None):
            that of Kernel Tuner, or of its cache file.
        options: of the compiler, as Kernel Tuner gets them in ``compiler_options``. Default: none.
        include_dirs: folders of headers. Default: none.
        trip_counts: iterations of loops whose end depends on data, as for :func:`from_cuda`.
        assume: assumed values loaded through a parameter, as for :func:`from_cuda`.

    Returns:
        An object with ``tune``, as Kernel Tuner takes user-defined strategies.

    Raises:
        RankingError: ``keep`` outside 0 to 1.
        UnknownDevice: no such device.
        KernelSourceError: when it tunes, a kernel that is not CUDA.

    Example:
        >>> import perfassert as pa
        >>> strategy = pa.tuning.kernel_tuner_objective(keep=0.1, device="a100")
        >>> callable(strategy.tune)  # tune_kernel(..., strategy=strategy)
        True
    """
    given = _Given(tuple(options), tuple(map(str, include_dirs)), trip_counts, assume)
    return _Strategy(Settings.validate(keep, device), given)


@dataclass(frozen=True)
class _Given:
    """Settings of a kernel that Kernel Tuner does not pass to its strategies."""

    options: tuple[str, ...]
    include_dirs: tuple[str, ...]
    trip_counts: Mapping[str, int] | None
    assume: Mapping[str, str] | None


@dataclass(frozen=True, eq=False)
class _Strategy:
    """See :func:`kernel_tuner_objective`."""

    settings: Settings
    given: _Given

    def tune(self, searchspace: Any, runner: Any, tuning_options: Any) -> list[Any]:
        """Let the runner evaluate what is worth it, as Kernel Tuner calls its strategies."""
        from kernel_tuner.strategies.common import CostFunc
        from kernel_tuner.util import StopCriterionReached

        source, kernel_options = runner.kernel_source, runner.kernel_options
        if source.lang not in ("CUDA", "CUPY", "NVCUDA"):
            raise KernelSourceError(
                f"kernel {source.kernel_name!r} is in {source.lang}; kernels in CUDA are predicted"
            )
        device = self.settings.target(getattr(runner.dev, "name", None))
        names = list(searchspace.tune_params)
        elements = {",".join(map(str, e)): e for e in searchspace.sorted_list()}
        with ExitStack() as files:
            candidates: dict[Key, Callable[[], tuple[Kernel, Launch]]] = {
                label: partial(
                    self._candidate, source, kernel_options, dict(zip(names, element, strict=True)),
                    device, files,
                )
                for label, element in elements.items()
            }  # fmt: skip
            ranking, failures = rank_possible(candidates, device)
        selection = self.settings.select(source.kernel_name, device, ranking, failures)
        evaluate = CostFunc(searchspace, tuning_options, runner, scaling=False, snap=False)
        try:
            evaluate.eval_all([elements[str(k)] for k in selection.kept], check_restrictions=False)
        except StopCriterionReached as reason:
            if tuning_options.verbose:
                print(reason)
        results: list[Any] = evaluate.results
        return results

    def _candidate(
        self, source: Any, kernel_options: Any, params: Mapping[str, Any], device: Device,
        files: ExitStack,
    ) -> tuple[Kernel, Launch]:  # fmt: skip
        """The kernel that Kernel Tuner would compile for these values, and its launch."""
        from kernel_tuner.core import DeviceInterface
        from kernel_tuner.util import ErrorConfig, get_smem_args, looks_like_a_filename

        limits = SimpleNamespace(dev=SimpleNamespace(max_threads=device.max_threads_per_block))
        instance = DeviceInterface.create_kernel_instance(
            limits, source, kernel_options, dict(params), False
        )
        if isinstance(instance, ErrorConfig):
            check_block(device, (device.max_threads_per_block + 1, 1, 1), 0)
        files.callback(instance.delete_temp_files)
        primary = source.kernel_sources[0]
        folder = [str(Path(primary).parent)] if looks_like_a_filename(primary) else []
        kernel = from_source_object(
            SimpleNamespace(code=instance.kernel_string),
            instance.name,
            options=self.given.options,
            include_dirs=(*self.given.include_dirs, *folder),
            trip_counts=self.given.trip_counts,
            assume=self.given.assume,
            constants=kernel_options.cmem_args or {},
        )
        shared = get_smem_args(kernel_options.smem_args or {}, dict(params)).get("size", 0)
        arguments = tuple(map(_launch_argument, instance.arguments))
        return kernel, Launch(instance.grid, instance.threads, arguments, int(shared))


def _launch_argument(value: Any) -> Any:
    """An argument of a launch; of arrays of integers, which may be indices, also what they hold."""
    dtype = getattr(value, "dtype", None)
    if dtype is None or not getattr(value, "shape", ()):
        return value.item() if hasattr(value, "item") else value
    if getattr(dtype, "kind", "") in ("i", "u") and hasattr(value, "__array_interface__"):
        return value
    return Buffer(tuple(value.shape), str(dtype).rpartition(".")[2])
