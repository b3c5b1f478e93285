"""Predictions of changes (what-if): a launch predicted again with something changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, TypeGuard

from perfassert.errors import KernelError, PerfAssertError, close_matches, in_short
from perfassert.frontends.cuda.kernels import BuiltCode
from perfassert.hardware.entries import Operation
from perfassert.hardware.model import Device
from perfassert.kernel.description import (
    AccessKernel,
    CompiledKernel,
    GraphKernel,
    Kernel,
)
from perfassert.kernel.graph import Latency
from perfassert.kernel.launch import Launch
from perfassert.predictor.answer import Answer
from perfassert.quantity import to_real

Predict = Callable[[Kernel, Launch, Device], Answer]
"""A function that predicts a launch; handed in, as predictions hand over to their diagnosis."""

_LAUNCH = ("grid", "block", "args")
_KERNEL = ("registers", "shared_bytes", "ilp", "updates_per_thread", "flops")
_LEVELS = {"l1": ("l1_latency",), "l2": ("l2_latency",), "dram": ("dram_latency",),
           "global": ("l1_latency", "l2_latency", "dram_latency")}  # fmt: skip
"""Device latencies for which a level's name in ``latency`` stands.

Names of operation classes and pipelines are accepted too.
"""
_MOST = 1000.0  # times as much, or as little: beyond it somebody meant the value itself
_FIXED = (
    "name",
    "arch",
    "aliases",
    "digest",
    "operations",
    "pipelines",
    "curves",
    "provenance",
    "references",
    "capacity_fits",
)


def predict_with(prediction: Answer, predict: Predict, changes: Mapping[str, Any]) -> Answer | None:
    """Predict with :func:`with_changes`; None where no compiler or device takes the change."""
    try:
        return predict(*with_changes(prediction, changes))
    except PerfAssertError:
        return None


def with_changes(prediction: Answer, changes: Mapping[str, Any]) -> tuple[Kernel, Launch, Device]:
    """Return the kernel, launch and device with ``changes`` as :func:`perfassert.whatif` takes.

    Raises :class:`~perfassert.errors.KernelError` for a change that it does not know.
    """
    origin = prediction.origin
    if origin is None:
        raise KernelError(
            "whatif() needs the kernel: this prediction was read from a file, or has measured "
            "volumes; predict it again, without"
        )
    kernel, launch, device = origin
    rest = dict(changes)
    latency = rest.pop("latency", {})
    if not isinstance(latency, Mapping):
        raise KernelError(f"latency must map classes to factors, not {in_short(latency)}")
    for name, change in latency.items():
        kernel, device = _with_latency(kernel, device, name, change)
    launch = _change_launch(launch, {k: rest.pop(k) for k in _LAUNCH if k in rest})
    if "options" in rest or "source" in rest:
        kernel = _compile_otherwise(kernel, rest.pop("options", ()), rest.pop("source", None))
    kernel = _change_kernel(kernel, {k: rest.pop(k) for k in _KERNEL if k in rest})
    return kernel, launch, _change_device(device, rest)


def _change_launch(launch: Launch, changes: Mapping[str, Any]) -> Launch:
    if not changes:
        return launch
    block, args = changes.get("block", launch.block), changes.get("args", launch.args)
    if "grid" in changes:
        grid = changes["grid"]
        return Launch(grid, block, args, launch.shared_bytes, cluster=launch.cluster)
    if "block" not in changes:
        return replace(launch, args=args)
    domain = launch.extent if launch.domain is None else launch.domain
    return Launch.cover(domain, block, args, launch.shared_bytes, cluster=launch.cluster)


def _change_kernel(kernel: Kernel, changes: Mapping[str, Any]) -> Kernel:
    if not changes:
        return kernel
    if "ilp" in changes and not isinstance(kernel, AccessKernel):
        raise KernelError("ilp: only address expressions leave open how arithmetic depends")
    if isinstance(kernel, CompiledKernel):
        return replace(kernel, overrides={**kernel.overrides, **changes})
    return replace(kernel, **changes)


def is_cuda_source(kernel: Kernel) -> TypeGuard[CompiledKernel]:
    """Tell a kernel of a prediction that is compiled from CUDA source."""
    code = kernel.compiled if isinstance(kernel, CompiledKernel) else None
    return isinstance(code, BuiltCode) and code.is_cuda


def _compile_otherwise(kernel: Kernel, options: str | Sequence[str], text: object) -> Kernel:
    """The kernel with further options of the compiler, or another text."""
    if not is_cuda_source(kernel):
        what = "options" if text is None else "source"
        raise KernelError(f"{what}: kernel {kernel.name!r} is not compiled from CUDA source")
    if not (text is None or isinstance(text, str)):
        raise KernelError(f"source must be the text of the CUDA source, not {in_short(text)}")
    assert isinstance(kernel.compiled, BuiltCode)
    words = (options,) if isinstance(options, str) else tuple(options)
    return replace(kernel, compiled=kernel.compiled.compile_otherwise(words, text))


def _with_latency(
    kernel: Kernel, device: Device, name: str, change: object
) -> tuple[Kernel, Device]:
    """λ and Λ of an operation class, or of all classes of a pipeline, times a factor."""
    rules = kernel.latencies if isinstance(kernel, GraphKernel) else {}
    own = {
        key: _change_latency(rule, change, kernel, key)
        for key, rule in rules.items()
        if name == key or (isinstance(rule, Latency) and name == rule.pipeline)
    }
    classes = {
        key: operation
        for key, operation in device.operations.items()
        if name in (key, operation.pipeline)
    }
    levels = _LEVELS.get(name, ())
    if not own and not classes and not levels:
        names = [*rules, *device.operations, *device.pipelines, *_LEVELS]
        raise KernelError(f"latency: no operation class {name!r}{close_matches(name, names)}")
    operations = {key: _operation(value, change, key) for key, value in classes.items()}
    if isinstance(change, Latency) and not own and not classes:
        raise KernelError(f"latency: {name!r} is a level of memory and takes a factor")
    scaled = {} if isinstance(change, Latency) else {
        key: getattr(device, key) * _factor(name, change) for key in levels
    }  # fmt: skip
    changed = device.replace(operations={**device.operations, **operations}, **scaled)
    if isinstance(kernel, GraphKernel):
        kernel = replace(kernel, latencies={**rules, **own})
    return kernel, changed


def _change_latency(rule: Any, change: object, kernel: Kernel, key: str) -> Latency:
    if isinstance(change, Latency):
        return change
    factor = _factor(key, change)
    if not isinstance(rule, Latency):
        raise KernelError(f"kernel {kernel.name!r}: latency of {key!r} is a rule; give a Latency")
    return replace(rule, issue=rule.issue * factor, completion=rule.completion * factor)


def _operation(operation: Operation, change: object, name: str) -> Operation:
    if isinstance(change, Latency):
        return replace(operation, issue=change.issue, completion=change.completion)
    factor = _factor(name, change)
    return replace(
        operation, issue=operation.issue * factor, completion=operation.completion * factor
    )


def _change_device(device: Device, changes: Mapping[str, Any]) -> Device:
    """Values of the device times a factor."""
    values: dict[str, Any] = {}
    for key, change in changes.items():
        known = key in device.__dataclass_fields__ and key not in _FIXED
        value = getattr(device, key) if known else None
        if not isinstance(value, Real) or isinstance(value, bool):
            fields = [f for f in device.__dataclass_fields__ if f not in _FIXED]
            names = ["latency", "options", "source", *_LAUNCH, *_KERNEL, *fields]
            raise KernelError(f"what if has no parameter {key!r}{close_matches(key, names)}")
        scaled = float(value) * _factor(key, change)
        values[key] = round(scaled) if isinstance(value, int) else scaled
    return device.replace(**values) if values else device


def _factor(name: str, change: object) -> float:
    factor = float(
        to_real(change, f"{name}: a factor above 0, as in {name}=2.0,", KernelError, above=0)
    )
    if not 1 / _MOST <= factor <= _MOST:
        raise KernelError(
            f"{name}: {change!r} is no factor, of at most {_MOST:g} and at least {1 / _MOST:g}; "
            f"write {name}=0.5 for half of what it is, or predict on device.replace(...)"
        )
    return factor
