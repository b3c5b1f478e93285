"""The conformance suite: what perfassert brings itself passes, what is wrong is told."""

from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

import perfassert as pa
from perfassert import conformance
from perfassert.engines.advisor.advise import own_optimizers
from perfassert.engines.advisor.case import Match
from perfassert.engines.advisor.optimizer import PARALLEL
from perfassert.expect.metrics import METRICS, Kind, Metric
from perfassert.frontends.cuda.kernels import from_cubin, from_cuda
from perfassert.report.document import document, to_json

pytestmark = pytest.mark.exhaustive(one_in=2)

ROOT = Path(__file__).parents[2]
MODERN = [p for p in sorted((ROOT / "devices").glob("*.toml")) if p.stem[0] != "C"]


@pytest.mark.parametrize("path", MODERN, ids=lambda p: p.stem)
def test_our_devices(path):
    assert conformance.check_device(path).name == path.stem


def test_a_device_of_another_name(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_bytes((ROOT / "devices/A40.toml").read_bytes())
    with pytest.raises(AssertionError, match=r"its name must be A40\.toml"):
        conformance.check_device(path)
    path.write_text("schema = 1")
    with pytest.raises(pa.DeviceFileError, match="name: missing"):
        conformance.check_device(path)


OURS = [n for n, m in METRICS.items() if m.kind is not Kind.ADVICE and n != "spill_bytes"]


@pytest.mark.parametrize("name", OURS)  # only compiled code spills
def test_our_metrics(name):
    conformance.check_metric(replace(METRICS[name], name=f"{name}_again"))


def limiter(p):
    return p.limiter


METRIC_FAULTS = [
    (object(), "is no Metric"),
    (Metric("Big", float), "must be a lower-case name"),
    (Metric("time", float), "perfassert itself has a metric of that name"),
    (Metric("m", float, kind=Kind.ADVICE), "only perfassert's own metric is advice"),
    (Metric("m", limiter, kind=Kind.NAME), "names its values in names="),
    (Metric("m", limiter, kind=Kind.NAME, names=("dram",)), "is none of names="),
    (Metric("m", lambda p: p.time, "us"), "must be the base unit 's'"),
    (Metric("m", lambda p: None), "no prediction has it"),
    (Metric("m", lambda p: 1.0 if p.kernel == "copy" else None), "needs= says what"),
    (Metric("m", lambda p: float("nan")), "differ"),
    (Metric("m", lambda p: float("inf")), "is inf"),
    (Metric("m", lambda p: 2.0, kind=Kind.FRACTION), "no share between 0 and 1"),
    (Metric("m", lambda p: 1.0 if p.origin else 2.0), "written to JSON and read again"),
]


@pytest.mark.parametrize(("metric", "reason"), METRIC_FAULTS)
def test_faults_of_metrics(metric, reason):
    with pytest.raises(AssertionError, match=reason):
        conformance.check_metric(metric)


def test_a_metric_is_expectable():
    prediction = conformance.reference_predictions()[0]
    conformance.check_expectable(METRICS["time"], prediction)
    with pytest.raises(AssertionError, match="unknown metric 'm'"):
        conformance.check_expectable(Metric("m", lambda p: 1.0), prediction)


@pytest.mark.parametrize("optimizer", own_optimizers(), ids=lambda o: o.name)
def test_our_optimizers(optimizer):
    conformance.check_optimizer(optimizer)


def chain():
    return conformance.reference_predictions()[2]


def optimizer(match, name="Mine", category=PARALLEL):
    return SimpleNamespace(name=name, category=category, match=match)


def blamed(case, **changes):
    return [replace(b, **changes) for b in case.blames]


def spoil(case):
    case.trips.clear()


OPTIMIZER_FAULTS = [
    (optimizer(lambda c: None, name=" "), "has no name"),
    (optimizer(lambda c: None, name="A|B"), "part of the language of conditions"),
    (optimizer(lambda c: None, name="fast math"), "perfassert itself has"),
    (optimizer(lambda c: None, category="fast"), "category must be one of"),
    (optimizer(lambda c: "x"), "neither a Match nor None"),
    (optimizer(lambda c: Match(" ", c.blames)), "suggests nothing"),
    (optimizer(lambda c: Match("x")), "without blames"),
    (optimizer(lambda c: Match("x", speedup=-1.0)), "speedup is -1"),
    (optimizer(lambda c: Match("x", blamed(c, source=99))), "is no blame of the case"),
    (optimizer(lambda c: Match("x", c.blames * 2)), "samples"),
    (optimizer(spoil), "the case was changed"),
    (optimizer(lambda c: Match("x", speedup=2.0 + id(c) % 997)), "two matches differ"),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "reason"), OPTIMIZER_FAULTS)
def test_faults_of_optimizers(fault, reason):
    with pytest.raises(AssertionError, match=reason):
        conformance.check_optimizer(fault)


def test_changes_are_tried():
    unknown = optimizer(lambda c: Match("x", speedup=2.0, changes={"blok": 1}))
    with pytest.raises(pa.KernelError, match="has no parameter 'blok'"):
        conformance.check_optimizer(unknown)


def test_what_an_optimizer_should_find():
    silent, loud = optimizer(lambda c: None), optimizer(lambda c: Match("x", speedup=2.0))
    conformance.check_optimizer(silent, silent_on=[chain()])
    conformance.check_optimizer(loud, matches=[chain()])
    with pytest.raises(AssertionError, match="says nothing of chain"):
        conformance.check_optimizer(silent, matches=[chain()])
    with pytest.raises(AssertionError, match="matches chain, which it should not"):
        conformance.check_optimizer(loud, silent_on=[chain()])


def test_cases():
    assert conformance.case_of(chain()).device.name == conformance.REFERENCE_DEVICE
    with pytest.raises(ValueError, match="has no instructions"):
        conformance.case_of(conformance.reference_predictions()[0])
    with pytest.raises(ValueError, match="predict it here"):
        conformance.case_of(pa.Prediction.from_dict(chain().to_dict()))


def test_our_front_ends(tmp_path):
    source = tmp_path / "scale.cu"
    source.write_text(
        'extern "C" __global__ void scale(float* a) { a[threadIdx.x] *= 2; }', "utf-8"
    )
    try:
        conformance.check_frontend(from_cuda, source, "scale", pa.Launch(8, 64))
    except pa.ToolchainMissing as missing:
        pytest.skip(str(missing))


def reader(path, kernel, name="k"):
    """Reads files that hold a number of elements."""
    try:
        n = int(path.read_text())
    except OSError as error:
        raise pa.KernelSourceError(f"{path}: {error.strerror}") from None
    if kernel not in (None, name):
        raise pa.KernelSourceError(f"{path}: no kernel {kernel!r}, only {name!r}")
    return pa.Kernel.from_accesses(name, [pa.Field("a", shape=(n,))], ["a[x]"])


def careless(path, kernel):
    return reader(path, None)


def rough(path, kernel):
    return pa.Kernel.from_accesses(
        kernel or "k", [pa.Field("a", shape=(int(path.read_text()),))], ["a[x]"]
    )


def vague(path, kernel):
    try:
        return reader(path, kernel)
    except pa.KernelSourceError:
        raise pa.KernelSourceError("it failed") from None


def test_faults_of_front_ends(tmp_path):
    path = tmp_path / "k.elements"
    path.write_text("1024")
    made = conformance.check_frontend(reader, path, "k", pa.Launch.cover(1024, 64))
    assert made.name == "k"
    conformance.check_frontend(reader, path)
    for make, reason in (
        (lambda path, kernel: None, "which is no Kernel"),
        (careless, "an unknown kernel raises nothing"),
        (rough, "a missing file raises FileNotFoundError, not KernelSourceError"),
        (vague, "the error about a missing file names no file"),
        (lambda path, kernel: reader(path, None, "other"), "is named 'other', not 'k'"),
    ):
        with pytest.raises(AssertionError, match=reason):
            conformance.check_frontend(make, path, "k")
    with pytest.raises(pa.KernelSourceError):
        conformance.check_frontend(from_cubin, tmp_path / "none.cubin")


def test_our_report_format():
    def json_lines(predictions):
        test = {"nodeid": "", "device": "", "predictions": predictions}
        return to_json(document([test]))

    assert "A100-SXM4-40GB" in conformance.check_report_format(json_lines)


COUNT = count()


def rewrite(predictions):
    for p in predictions:
        p["kernel"] = ""
    return ""


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (lambda predictions: None, "which is no text"),
        (lambda predictions: f"copy strided chain A100-SXM4-40GB {next(COUNT)}", "differ"),
        (lambda predictions: "", "the kernel 'copy' is not named"),
        (rewrite, "the predictions were changed"),
    ],
)
def test_faults_of_report_formats(write, reason):
    with pytest.raises(AssertionError, match=reason):
        conformance.check_report_format(write)


def test_a_format_may_leave_names_out():
    assert conformance.check_report_format(lambda ps: str(len(ps)), named=False) == "3"
