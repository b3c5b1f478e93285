"""Performance assertions for GPU kernels, predicted without a GPU.

Importing this package imports only the standard library; every public name loads what it needs
when it is first touched. The contract of these names is in ``docs/reference/index.md``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perfassert import tuning as tuning
    from perfassert.comparison.what_if import whatif as whatif
    from perfassert.engines.pipeline.results import Simulation as Simulation
    from perfassert.engines.pipeline.simulate import simulate as simulate
    from perfassert.errors import AddressExpressionError as AddressExpressionError
    from perfassert.errors import BaselineError as BaselineError
    from perfassert.errors import DeviceFileError as DeviceFileError
    from perfassert.errors import ExpectationError as ExpectationError
    from perfassert.errors import ExpectationFailed as ExpectationFailed
    from perfassert.errors import GraphError as GraphError
    from perfassert.errors import KernelError as KernelError
    from perfassert.errors import KernelSourceError as KernelSourceError
    from perfassert.errors import LaunchError as LaunchError
    from perfassert.errors import PerfAssertError as PerfAssertError
    from perfassert.errors import PerfAssertWarning as PerfAssertWarning
    from perfassert.errors import PerfFileError as PerfFileError
    from perfassert.errors import PluginError as PluginError
    from perfassert.errors import PluginWarning as PluginWarning
    from perfassert.errors import PredictionDataError as PredictionDataError
    from perfassert.errors import RankingError as RankingError
    from perfassert.errors import RecordError as RecordError
    from perfassert.errors import ReportError as ReportError
    from perfassert.errors import SamplesError as SamplesError
    from perfassert.errors import SuiteError as SuiteError
    from perfassert.errors import ToolchainMissing as ToolchainMissing
    from perfassert.errors import UnitError as UnitError
    from perfassert.errors import UnknownDevice as UnknownDevice
    from perfassert.facade.prediction import Prediction as Prediction
    from perfassert.facade.session import Session as Session
    from perfassert.facade.session import predict as predict
    from perfassert.frontends.cuda.inventory import KernelInfo as KernelInfo
    from perfassert.frontends.cuda.inventory import kernels as kernels
    from perfassert.frontends.cuda.kernels import from_cubin as from_cubin
    from perfassert.frontends.cuda.kernels import from_cuda as from_cuda
    from perfassert.frontends.cuda.kernels import from_ptx as from_ptx
    from perfassert.frontends.generators.cute import from_cute as from_cute
    from perfassert.frontends.generators.helion import from_helion as from_helion
    from perfassert.frontends.generators.inductor import InductorKernel as InductorKernel
    from perfassert.frontends.generators.inductor import from_inductor as from_inductor
    from perfassert.frontends.generators.numba import from_numba as from_numba
    from perfassert.frontends.generators.objects import from_cupy as from_cupy
    from perfassert.frontends.generators.objects import from_source_object as from_source_object
    from perfassert.frontends.generators.pystencils import from_pystencils as from_pystencils
    from perfassert.frontends.generators.triton import from_triton as from_triton
    from perfassert.frontends.generators.warp import from_warp as from_warp
    from perfassert.frontends.nsight import read_samples as read_samples
    from perfassert.hardware.load import device as device
    from perfassert.hardware.load import devices as devices
    from perfassert.hardware.model import Device as Device
    from perfassert.kernel.description import Kernel as Kernel
    from perfassert.kernel.field import Field as Field
    from perfassert.kernel.graph import InstructionGraph as InstructionGraph
    from perfassert.kernel.graph import Latency as Latency
    from perfassert.kernel.launch import Buffer as Buffer
    from perfassert.kernel.launch import Launch as Launch
    from perfassert.kernel.tensor_map import TensorMap as TensorMap
    from perfassert.perf_toml.launches import RecordedLaunch as RecordedLaunch
    from perfassert.perf_toml.launches import launches as launches
    from perfassert.prediction.prediction import Advice as Advice
    from perfassert.predictor.diagnose.measured_advice import advise as advise
    from perfassert.pytest_plugin.session import Perf as Perf
    from perfassert.quantity import Quantity as Quantity
    from perfassert.ranking.autotune import AutotuneRanking as AutotuneRanking
    from perfassert.ranking.autotune import rank_autotune as rank_autotune
    from perfassert.ranking.ranking import Ranking as Ranking
    from perfassert.ranking.ranking import rank as rank

    __version__: str

_HOMES = {
    "engines.pipeline.results": ("Simulation",),
    "engines.pipeline.simulate": ("simulate",),
    "hardware.load": ("device", "devices"),
    "hardware.model": ("Device",),
    "errors": (
        "AddressExpressionError", "BaselineError", "DeviceFileError", "ExpectationError",
        "ExpectationFailed", "GraphError", "KernelError", "KernelSourceError", "LaunchError",
        "PerfAssertError", "PerfAssertWarning", "PerfFileError", "PluginError", "PluginWarning",
        "PredictionDataError", "RankingError", "RecordError", "ReportError", "SamplesError",
        "SuiteError", "ToolchainMissing", "UnitError", "UnknownDevice",
    ),
    "frontends.cuda.inventory": ("KernelInfo", "kernels"),
    "frontends.cuda.kernels": ("from_cubin", "from_cuda", "from_ptx"),
    "frontends.generators.cute": ("from_cute",),
    "frontends.generators.helion": ("from_helion",),
    "frontends.generators.inductor": ("InductorKernel", "from_inductor"),
    "frontends.generators.numba": ("from_numba",),
    "frontends.generators.objects": ("from_cupy", "from_source_object"),
    "frontends.generators.pystencils": ("from_pystencils",),
    "frontends.generators.triton": ("from_triton",),
    "frontends.generators.warp": ("from_warp",),
    "kernel.description": ("Kernel",),
    "kernel.field": ("Field",),
    "kernel.graph": ("InstructionGraph", "Latency"),
    "kernel.launch": ("Buffer", "Launch"),
    "kernel.tensor_map": ("TensorMap",),
    "frontends.nsight": ("read_samples",),
    "perf_toml.launches": ("RecordedLaunch", "launches"),
    "predictor.diagnose.measured_advice": ("advise",),
    "facade.prediction": ("Prediction",),
    "facade.session": ("Session", "predict"),
    "prediction.prediction": ("Advice",),
    "pytest_plugin.session": ("Perf",),
    "quantity": ("Quantity",),
    "ranking.autotune": ("AutotuneRanking", "rank_autotune"),
    "ranking.ranking": ("Ranking", "rank"),
    "comparison.what_if": ("whatif",),
}  # fmt: skip
_PACKAGES = ("tuning",)
"""Packages whose names are public as ``pa.PACKAGE.name``."""
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "__version__":
        return import_module("perfassert.version").VERSION
    if name in _PACKAGES:
        return import_module(f"perfassert.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'perfassert' has no attribute {name!r}")
    value = getattr(import_module(f"perfassert.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, *_PACKAGES, "__version__"]
