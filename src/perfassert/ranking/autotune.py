"""``rank_autotune``: the configurations of an autotuned Triton kernel, ordered without a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any, Union

from perfassert.errors import KernelSourceError, PerfAssertError, RankingError, in_short
from perfassert.frontends.generators.triton import from_triton
from perfassert.hardware.load import device as load_device
from perfassert.hardware.model import Device
from perfassert.kernel.description import Kernel
from perfassert.kernel.launch import Extent, Launch
from perfassert.ranking.ranking import Key, Ranking
from perfassert.ranking.selection import check_share, measuring_order, rank_possible
from perfassert.report.tables import table

Grid = Union[Extent, Callable[[dict[str, Any]], Extent]]
_OPTIONS = ("num_warps", "num_stages", "maxnreg")
_OF_TRITON = (*_OPTIONS, "num_ctas", "ir_override", "pre_hook")
_SHOWN = {"num_warps": "warps", "num_stages": "stages"}


def rank_autotune(
    fn: Any,
    signature: Mapping[str, str],
    grid: Grid,
    args: Mapping[str, Any],
    device: Device | str | Path,
    *,
    constexprs: Mapping[str, Any] | None = None,
    assume: Mapping[str, str] | None = None,
) -> AutotuneRanking:
    """Predict every configuration of a Triton function under ``@triton.autotune``, fastest first.

    Each configuration is compiled for the device; heuristics and ``early_config_prune`` are
    applied.

    Args:
        fn: the function with its decorators.
        signature: Triton's types by parameter, as for :func:`from_triton`, without what
            configurations and ``@triton.heuristics`` say.
        grid: blocks, or a function of arguments and constants that gives them, as Triton takes it.
        args: of the launch, by name.
        device: a :class:`Device`, a name or alias, or the path of a device file.
        constexprs: values of the other parameters, where they have no default. Default: none.
        assume: assumed values loaded through a parameter, as for :func:`from_cuda`.

    Returns:
        An :class:`AutotuneRanking`; what cannot be compiled or started is in ``refused``.

    Raises:
        RankingError: nothing to choose from, a heuristic that fails, or no configuration that can
            be predicted.
        ToolchainMissing: Triton is not installed.

    Example:
        >>> import perfassert as pa
        >>> import triton  # doctest: +SKIP
        >>> import triton.language as tl  # doctest: +SKIP
        >>> configs = [triton.Config({"BLOCK": n}) for n in (128, 1024)]  # doctest: +SKIP
        >>> @triton.autotune(configs, key=[])  # doctest: +SKIP
        ... @triton.jit
        ... def double(x, BLOCK: tl.constexpr):
        ...     i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        ...     tl.store(x + i, 2 * tl.load(x + i))
        >>> def grid(meta):
        ...     return (1 << 20) // meta["BLOCK"]
        >>> ranking = pa.rank_autotune(double, {"x": "*fp32"}, grid, {}, "a100")  # doctest: +SKIP
        >>> len(ranking.configs), len(ranking.keep(share=0.5))  # doctest: +SKIP
        (2, 1)
    """
    target = load_device(device)
    call = AutotunedCall(tuple(layers_of(fn)), signature, grid, args, args, constexprs or {})
    configs = {label: same[0] for label, same in by_label(call.configs()).items()}
    ranking, failures = call.rank(configs, target, assume)
    refused = {str(label): str(error) for label, error in failures.items()}
    if ranking is None:
        reasons = "\n".join(f"{label}: {why}" for label, why in refused.items())
        raise RankingError(f"no configuration can be predicted on {target.name}:\n{reasons}")
    return AutotuneRanking(ranking, {k: v for k, v in configs.items() if k not in refused}, refused)


@dataclass(frozen=True)
class AutotuneRanking:
    """Configurations of an autotuned Triton function, ordered by predicted time.

    Args:
        ranking: the configurations that run, by label: ``"M=64 N=64 warps=4 stages=3"``.
        configs: label → ``triton.Config``.
        refused: label → why the configuration does not run.

    Example:
        >>> import perfassert as pa
        >>> fill = pa.Kernel.from_accesses("fill", [pa.Field("a", shape=1 << 20)], stores=["a[x]"])
        >>> launches = {f"BLOCK={n}": (fill, pa.Launch((1 << 20) // n, n)) for n in (32, 256)}
        >>> configs = {label: {"label": label} for label in launches}  # triton.Config objects
        >>> found = pa.AutotuneRanking(pa.rank(launches, "a100"), configs, refused={})
        >>> found.best, found.keep(share=0.5)
        ({'label': 'BLOCK=256'}, [{'label': 'BLOCK=256'}])
    """

    ranking: Ranking
    configs: Mapping[str, Any]
    refused: Mapping[str, str]

    @property
    def best(self) -> Any:
        """The fastest configuration, as a ``triton.Config``."""
        return self.configs[str(self.ranking.best)]

    def keep(self, share: float = 0.25) -> list[Any]:
        """Configurations worth measuring, fastest first, for ``triton.autotune(configs=...)``.

        One that spills registers comes after those whose order with it is undecided and that do
        not. :func:`perfassert.tuning.triton_prune` also keeps what is undecided beyond the share.

        Args:
            share: fraction of all configurations, those that do not run included, rounded up; at
                most all that run. Default: 0.25.

        Returns:
            ``triton.Config`` objects.

        Raises:
            RankingError: a share outside 0 to 1.
        """
        check_share(share, "share")
        count = ceil(share * (len(self.configs) + len(self.refused)))
        return [self.configs[str(key)] for key, _ in measuring_order(self.ranking)[:count]]

    def table(self) -> str:
        """Table of the ranking, and below it what does not run."""
        text = self.ranking.table()
        if not self.refused:
            return text
        rows = [(label, why.splitlines()[0]) for label, why in self.refused.items()]
        return f"{text}\n\n{table(('does not run', 'because'), rows)}"


def layers_of(fn: Any) -> Iterator[Any]:
    """Decorators from the outermost on; the function itself is last."""
    seen = 0
    while type(fn).__name__ in ("Autotuner", "Heuristics"):
        seen += type(fn).__name__ == "Autotuner"
        yield fn
        fn = fn.fn
    if not seen:
        raise RankingError(
            f"{in_short(fn)} has no configurations; decorate it with @triton.autotune, or rank "
            "kernels of your own with pa.rank"
        )
    yield fn


@dataclass(frozen=True)
class AutotunedCall:
    """A call of a function under ``@triton.autotune``, but for its configuration.

    Args:
        layers: decorators from the outermost on; the function itself is last.
        signature: types by parameter, as for :func:`from_triton`.
        grid: blocks, or a function that gives them.
        args: of the call, as grids and heuristics take them.
        launch_args: of the launch, as predictions take them.
        constexprs: values of the other parameters.
    """

    layers: tuple[Any, ...]
    signature: Mapping[str, str]
    grid: Grid
    args: Mapping[str, Any]
    launch_args: Mapping[str, Any]
    constexprs: Mapping[str, Any]

    def configs(self) -> list[Any]:
        """List what the autotuner would try; its own first pruning included, a model of times not.

        A pruning by predictions is left out: what it is given is ranked here.
        """
        tuner = next(layer for layer in self.layers if type(layer).__name__ == "Autotuner")
        prune = getattr(tuner, "early_config_prune", None)
        if prune is None or getattr(prune, "is_by_prediction", False):
            return list(tuner.configs)
        return list(prune(tuner.configs, dict(self.args), **self.constexprs))

    def rank(
        self, configs: Mapping[str, Any], device: Device, assume: Mapping[str, str] | None
    ) -> tuple[Ranking | None, dict[Key, PerfAssertError]]:
        """Rank configurations by their labels; see :func:`rank_possible`."""
        candidates: dict[Key, Callable[[], tuple[Kernel, Launch]]] = {
            label: partial(self.candidate, c, device, assume) for label, c in configs.items()
        }
        return rank_possible(candidates, device)

    def _constants(self, config: Any) -> dict[str, Any]:
        """Keywords as they reach the function, from decorator to decorator."""
        given = dict(self.constexprs)
        for layer in self.layers[:-1]:
            if type(layer).__name__ == "Autotuner":
                given |= config.all_kwargs()
                continue
            for name, rule in layer.values.items():
                try:
                    given[name] = rule({**self.args, **given})
                except Exception as error:  # it is the user's function
                    raise RankingError(
                        f"the heuristic for {name!r} fails with {type(error).__name__}: {error}; "
                        "give in args what it reads"
                    ) from error
        return given

    def candidate(
        self, config: Any, device: Device, assume: Mapping[str, str] | None
    ) -> tuple[Kernel, Launch]:
        """Return the kernel and the launch of one configuration."""
        given = self._constants(config)
        if given.get("num_ctas", 1) != 1:
            raise KernelSourceError("num_ctas above 1 (clusters) is not predicted")
        constants = {name: value for name, value in given.items() if name not in _OF_TRITON}
        options = {name: given[name] for name in _OPTIONS if given.get(name) is not None}
        kernel = from_triton(self.layers[-1], self.signature, constants, assume=assume, **options)
        blocks = self.grid({**self.args, **given}) if callable(self.grid) else self.grid
        threads = options["num_warps"] * device.warp_size
        return kernel, Launch(blocks, threads, self.launch_args)


def by_label(configs: Iterable[Any]) -> dict[str, list[Any]]:
    """Group configurations that differ in nothing that is predicted."""
    groups: dict[str, list[Any]] = {}
    for config in configs:
        groups.setdefault(_label(config), []).append(config)
    return groups


def _label(config: Any) -> str:
    """``"M=64 N=64 warps=4 stages=3"``."""
    shown = {k: v for k, v in config.all_kwargs().items() if k != "num_ctas" or v != 1}
    return " ".join(f"{_SHOWN.get(k, k)}={v}" for k, v in shown.items() if v is not None)
