"""Checks for the tests of a plug-in: its additions keep to what perfassert relies on.

Every function raises ``AssertionError`` with the reason, or returns. They need no GPU and no test
framework::

    def test_metric():
        check_metric(my_metric)
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import Any

from perfassert.engines.advisor.advise import advise, own_optimizers
from perfassert.engines.advisor.case import Case, Match
from perfassert.engines.advisor.optimizer import CATEGORIES, Optimizer
from perfassert.errors import KernelSourceError, PerfAssertError
from perfassert.expect.check import evaluate
from perfassert.expect.metrics import METRICS, Kind, Metric
from perfassert.facade.prediction import Prediction
from perfassert.facade.session import predict
from perfassert.hardware.load import load_device
from perfassert.hardware.model import Device
from perfassert.kernel.description import BoundKernel, GraphKernel, Kernel
from perfassert.kernel.field import Field
from perfassert.kernel.graph import InstructionGraph
from perfassert.kernel.launch import Launch
from perfassert.predictor.diagnose.diagnose import advisor_case
from perfassert.predictor.rewrites.whatif import with_changes
from perfassert.quantity import parse_quantity

REFERENCE_DEVICE = "A100-SXM4-40GB"
_N = 1 << 20  # elements of the fields


def reference_kernels() -> tuple[tuple[Kernel, Launch], ...]:
    """Kernels that the checks use: a copy, a gather with strides, a graph without accesses."""
    fields = [Field("a", "float32", (_N,)), Field("b", "float32", (_N,))]
    strided = [Field("a", "float32", (32 * _N,)), Field("b", "float32", (_N,))]
    graph = InstructionGraph.builder()
    first = graph.op("int32")
    with graph.loop(trips=16) as body:
        graph.op("fp32", first, body.carried("sum"), name="sum")
    return (
        (Kernel.from_accesses("copy", fields, ["a[x]"], ["b[x]"]), Launch.cover(_N, 256)),
        (Kernel.from_accesses("strided", strided, ["a[32 * x]"], ["b[x]"]), Launch.cover(_N, 128)),
        (Kernel.from_graph("chain", graph.build()), Launch(64, 64)),
    )


@lru_cache(maxsize=1)
def reference_predictions() -> tuple[Prediction, ...]:
    """Return the predictions of the reference kernels on an A100."""
    return tuple(predict(k, launch, REFERENCE_DEVICE) for k, launch in reference_kernels())


def case_of(prediction: Prediction) -> Case:
    """Return the case that an optimizer is shown of a prediction, for the optimizer's own tests.

    Raises ``ValueError`` for a kernel without instructions and for a prediction that was read from
    a file, of which there is none.
    """
    if prediction.origin is None:
        raise ValueError(f"the kernel {prediction.kernel!r} is not known; predict it here")
    case = advisor_case(prediction, predict)
    if case is None:
        raise ValueError(f"kernel {prediction.kernel!r} has no instructions; give code or a graph")
    return case


def check_device(path: str | Path) -> Device:
    """Check that a device file is complete, well named, and predicts; return its device."""
    place = Path(path)
    device = load_device(place)  # raises DeviceFileError, which names file, key and reason
    _require(place.stem == device.name, f"{place}: its name must be {device.name}.toml")
    for key, origin in device.provenance.items():
        _require(bool(origin.source.strip()), f"{place}: {key} has an empty source")
    for kernel, launch in reference_kernels():
        if missing := {n.operation for n in _nodes(kernel)} - set(device.operations):
            raise AssertionError(f"{place}: no operation class {', '.join(sorted(missing))}")
        prediction = predict(kernel, launch, device)
        name = f"{place}: {kernel.name}"
        _require(
            isfinite(prediction.time) and prediction.time > 0,
            f"{name}: predicted to take {prediction.time}",
        )
        again = predict(kernel, launch, load_device(place))
        _require(prediction.to_dict() == again.to_dict(), f"{name}: two predictions differ")
    return device


def check_metric(metric: Metric, predictions: Iterable[Prediction] = ()) -> None:
    """Check that a metric is named and typed for ``expect()``, and reads a prediction repeatably.

    ``predictions``: besides the reference ones, where those cannot have it.
    """
    _require(isinstance(metric, Metric), f"{metric!r} is no Metric")
    name = metric.name
    _require(name.isidentifier() and name == name.lower(), f"{name!r}: must be a lower-case name")
    _require(name not in METRICS, f"{name}: perfassert itself has a metric of that name")
    _require(metric.kind is not Kind.ADVICE, f"{name}: only perfassert's own metric is advice")
    if metric.kind is Kind.NAME:
        _require(bool(metric.names), f"{name}: names its values in names=")
    elif metric.unit:
        unit = parse_quantity(f"1 {metric.unit}").unit
        _require(unit == metric.unit, f"{name}: unit must be the base unit {unit!r}")
    examples = (*reference_predictions(), *predictions)
    having = [p for p in examples if metric.read(p) is not None]
    _require(bool(having), f"{name}: no prediction has it; give one that does in predictions=")
    if len(having) < len(examples):
        _require(bool(metric.needs), f"{name}: needs= says what a kernel lacks that has no value")
    for prediction in having:
        _check_reading(metric, prediction)


def _check_reading(metric: Metric, prediction: Prediction) -> None:
    where, value = f"{metric.name} of {prediction.kernel}", metric.read(prediction)
    _require(metric.read(prediction) == value, f"{where}: two readings differ")
    again = Prediction.from_dict(json.loads(json.dumps(prediction.to_dict())))
    _require(
        metric.read(again) == value,
        f"{where}: differs once the prediction was written to JSON and read again",
    )
    if metric.kind is Kind.NAME:
        _require(value in metric.names, f"{where}: {value!r} is none of names=")
        return
    number = float(value)  # type: ignore[arg-type]
    _require(isfinite(number), f"{where}: is {number}")
    if metric.kind is Kind.FRACTION:
        _require(0 <= number <= 1, f"{where}: {number} is no share between 0 and 1")


def check_optimizer(
    optimizer: Optimizer,
    matches: Sequence[Prediction] = (),
    silent_on: Sequence[Prediction] = (),
) -> None:
    """Check an optimizer's name and category; its matches are sound, repeatable, change nothing.

    ``matches``: predictions that it must have something to say of; ``silent_on``: none. Besides,
    it is shown the reference predictions.
    """
    name = optimizer.name
    _require(isinstance(name, str) and bool(name.strip()), f"{optimizer!r}: has no name")
    _require(not set(name) & set("|!:"), f"{name!r}: | ! : are part of the language of conditions")
    if type(optimizer) not in map(type, own_optimizers()):
        taken = name.casefold() in {o.name.casefold() for o in own_optimizers()}
        _require(not taken, f"{name}: perfassert itself has an optimizer of that name")
    known = ", ".join(map(repr, CATEGORIES))
    _require(optimizer.category in CATEGORIES, f"{name}: category must be one of {known}")
    for prediction in matches:
        match = _check_match(optimizer, prediction)
        _require(match is not None, f"{name}: says nothing of {prediction.kernel}")
    for prediction in silent_on:
        match = _check_match(optimizer, prediction)
        _require(match is None, f"{name}: matches {prediction.kernel}, which it should not")
    for prediction in reference_predictions():
        if advisor_case(prediction, predict) is not None:
            _check_match(optimizer, prediction)


def _check_match(optimizer: Optimizer, prediction: Prediction) -> Match | None:
    case = case_of(prediction)
    where = f"{optimizer.name} on {prediction.kernel}"
    before = (tuple(case.blames), dict(case.samples.counts), dict(case.trips), dict(case.accesses))
    match = optimizer.match(case)
    after = (tuple(case.blames), dict(case.samples.counts), dict(case.trips), dict(case.accesses))
    _require(before == after, f"{where}: the case was changed")
    again = optimizer.match(case_of(prediction))
    _require(again == match, f"{where}: two matches differ")
    if match is None:
        return None
    _require(isinstance(match, Match), f"{where}: gives {match!r}, neither a Match nor None")
    _require(bool(match.suggestion.strip()), f"{where}: suggests nothing")
    pairs = {(b.source, b.use) for b in case.blames}
    for blame in match.blames:
        _require((blame.source, blame.use) in pairs, f"{where}: {blame} is no blame of the case")
    whole, total = match.count.all, case.total.all
    _require(whole <= total * (1 + 1e-9), f"{where}: blames {whole:g} of {total:g} samples")
    _require(
        bool(match.blames) or match.speedup is not None,
        f"{where}: without blames its speedup cannot be estimated; give speedup=",
    )
    if match.speedup is not None:
        _require(
            isfinite(match.speedup) and match.speedup > 0, f"{where}: speedup is {match.speedup}"
        )
    if match.changes is not None:
        with_changes(prediction, match.changes)  # raises KernelError for an unknown change
    advise(case, [optimizer])
    return match


def check_frontend(
    make: Callable[[Path, str | None], Kernel],
    path: str | Path,
    kernel: str | None = None,
    launch: Launch | None = None,
    device: str | Path | Device = REFERENCE_DEVICE,
) -> Kernel:
    """Check that ``make`` repeats its kernel and reports a wrong path or name; return the kernel.

    ``launch``, where given, is predicted too.
    """
    place = Path(path)
    made = make(place, kernel)
    _require(isinstance(made, Kernel), f"{place}: gives {made!r}, which is no Kernel")
    if kernel is not None:
        _require(made.name == kernel, f"{place}: the kernel is named {made.name!r}, not {kernel!r}")
    if launch is not None:
        first, second = (predict(k, launch, device) for k in (made, make(place, kernel)))
        _require(first.to_dict() == second.to_dict(), f"{place}: two predictions differ")
    missing = place.with_name(f"no-such-file{place.suffix}")
    for wrong, name in ((missing, kernel), (place, "no_such_kernel")):
        subject = "a missing file" if wrong is missing else "an unknown kernel"
        try:
            lazy = make(wrong, name)
            predict(lazy, launch or Launch(1, 32), device)  # compilers may look only now
        except KernelSourceError as error:
            _require(wrong.name in str(error), f"{place}: the error about {subject} names no file")
        except Exception as error:
            raise AssertionError(
                f"{place}: {subject} raises {type(error).__name__}, not KernelSourceError"
            ) from error
        else:
            raise AssertionError(f"{place}: {subject} raises nothing")
    return made


def check_report_format(
    write: Callable[[Sequence[Mapping[str, Any]]], str], named: bool = True
) -> str:
    """Check reports of no, one and several predictions for repeatability; return that of several.

    ``named``: every kernel and device is named in it.
    """
    data = [json.loads(p.to_json()) for p in reference_predictions()]
    bare = [p.to_dict(diagnosis=False) for p in reference_predictions()]
    for records in ([], data[:1], data, bare):
        before = copy.deepcopy(records)
        text = write(records)
        _require(isinstance(text, str), f"gives {text!r}, which is no text")
        _require(records == before, "the predictions were changed")
        _require(write(records) == text, "two reports of the same predictions differ")
        if named:
            for record in records:
                for key in ("kernel", "device"):
                    _require(record[key] in text, f"the {key} {record[key]!r} is not named")
    return write(data)


def check_expectable(metric: Metric, prediction: Prediction) -> None:
    """``expect()`` accepts the metric's own value as a condition, and it holds.

    The plug-in must be registered, as by its entry point.
    """
    value = metric.read(prediction)
    try:
        (outcome,) = evaluate(prediction, {metric.name: value})
    except PerfAssertError as error:
        raise AssertionError(f"expect({metric.name}={value!r}): {error}") from error
    _require(outcome.passed, f"expect({metric.name}={value!r}) does not hold")


def _nodes(kernel: Kernel) -> Sequence[Any]:
    return kernel.graph.nodes if isinstance(kernel, (GraphKernel, BoundKernel)) else ()


def _require(holds: bool, reason: str) -> None:
    if not holds:
        raise AssertionError(reason)
