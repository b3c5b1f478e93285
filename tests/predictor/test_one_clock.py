"""No time lies below a bound of its own, whatever kernel, launch and device; facts alone are exact.

Every kernel of the examples, the story, the advisor's pairs and the validation suite, each on two
devices that take turns; on all of them with PERFASSERT_EXHAUSTIVE=1.
"""

import os
from pathlib import Path

import advice_pairs as pairs
import pytest
from star3d25pt import star3d25pt

import perfassert as pa
from perfassert.engines.advisor.case import Match
from perfassert.engines.advisor.rewrites import BalanceWarps
from perfassert.lab.validation.build import make_device, make_kernel, make_launch, row_names
from perfassert.lab.validation.read import read_suite
from perfassert.perf_toml.cases import TestCase
from perfassert.perf_toml.read import read_perf_file
from perfassert.predictor.model import bind_launch
from perfassert.predictor.rewrites.resimulation import Resimulation
from perfassert.predictor.session import DEFAULT
from perfassert.predictor.simulate.time import loaded_model

pytestmark = pytest.mark.exhaustive(one_in=2)

ROOT = Path(__file__).parents[2]
STORY = ROOT / "examples" / "story" / "kernels"
ROUNDING = 1 + 1e-9  # predictions have ten digits
DEVICES = pa.devices()
AT_ONCE = len(DEVICES) if os.environ.get("PERFASSERT_EXHAUSTIVE") else 2
SUITE = read_suite(ROOT / "validation" / "own_kernels.toml")
N = 4096


def story(name, launch):
    return lambda device: pa.predict(pa.from_cuda(STORY / f"{name}.cu", name), launch, device)


def example(case):
    return lambda device: pa.predict(case.kernel, case.launch, device)


def measured(name):
    def predict(device):
        spec = SUITE.kernels[name]
        cells = {**spec.rows[0], "device": device, "clock_hz": ""}
        names = row_names(spec, cells)
        chosen = make_device(SUITE.device, cells)
        kernel = make_kernel(spec, names, name)
        return pa.predict(kernel, make_launch(spec.launch, names, kernel, chosen), chosen)

    return predict


def paired(make):
    def predict(device):
        original = pairs.predicted

        def elsewhere(name, launch=pairs.STREAM, device=device, **settings):
            return original(name, launch, device_of_the_test, **settings)

        device_of_the_test = device
        pairs.predicted = elsewhere
        try:
            return make()
        finally:
            pairs.predicted = original

    return predict


def corpus():
    yield (
        "star",
        lambda d: pa.predict(star3d25pt(), pa.Launch.cover((640, 512, 512), (16, 2, 8)), d),
    )
    launch = pa.Launch((128, 128), (32, 8), args={"rows": N, "columns": N})
    yield "story transpose", story("transpose", launch)
    yield "story polynomial", story("polynomial", pa.Launch(3456, 256, args={"n": 1 << 26}))
    smooth = pa.Launch.cover((8192, 8192), (32, 8), args={"nx": 8192, "ny": 8192})
    yield "story smooth", story("smooth", smooth)
    for case in read_perf_file(ROOT / "examples" / "kernels.perf.toml"):
        if isinstance(case, TestCase):
            yield f"example {case.header.name}", example(case)
    for title, both in pairs.PAIRS.items():
        for when, make in zip(("before", "after"), both, strict=False):
            yield f"{title} {when}", paired(make)
    for name in SUITE.kernels:
        yield f"suite {name}", measured(name)


CORPUS = list(corpus())


def turns(number):
    """The devices of the kernel of that number."""
    return [DEVICES[(3 * number + k) % len(DEVICES)] for k in range(AT_ONCE)]


CASES = [
    pytest.param(predict, device, id=f"{name}, {device}")
    for number, (name, predict) in enumerate(CORPUS)
    for device in turns(number)
]


@pytest.mark.parametrize(("predict", "device"), CASES)
@pytest.mark.exhaustive(one_in=36)
def test_no_time_lies_below_a_bound(predict, device):
    try:
        p = predict(device)
    except pa.ToolchainMissing as missing:
        pytest.skip(str(missing))
    except (pa.LaunchError, pa.GraphError, pa.DeviceFileError, pa.KernelSourceError) as refused:
        if device not in str(refused) and "sm_" not in str(refused):
            raise
        pytest.skip(f"{device} cannot run it: {refused}")
    limit = float(p.time) * ROUNDING
    over = {name: bound for name, bound in p.bounds.items() if not 0 <= float(bound) <= limit}
    assert not over, f"time {p.time}"
    assert 0 <= float(p.roofline_time) <= limit
    assert {name for name, band in p.error_bands.items() if band.exact} == p.exact
    assert (p.confidence == "guessed") <= bool(p.confidence_reasons)


@pytest.mark.parametrize("block", [(64, 8), (32, 32), (512, 1)])
def test_an_unchanged_kernel_takes_as_long_as_it_was_predicted_to(block):
    size = 8192
    jacobi = pa.Kernel.from_accesses(
        "jacobi",
        [pa.Field(name, "float64", (size, size), halo=1) for name in "ab"],
        ["a[y, x]", "a[y, x - 1]", "a[y, x + 1]", "a[y - 1, x]", "a[y + 1, x]"],
        ["b[y, x]"],
    )
    launch, device = pa.Launch.cover((size, size), block), pa.device("a100")
    prediction = pa.predict(jacobi, launch, device)
    model = loaded_model(bind_launch(DEFAULT.ask(jacobi, launch, device)), launch, device)
    unchanged = Resimulation(prediction, pa.predict, model, None)
    edited = Match("nothing", rewrites=(BalanceWarps(),))
    assert unchanged.speedup(edited) == pytest.approx(1, rel=1e-9)
