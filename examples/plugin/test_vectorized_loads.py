"""The tests of a plug-in: perfassert's conformance suite, and what it is there for."""

from functools import cache
from pathlib import Path

import perfassert_vectorized_loads as plugin
import pytest

import perfassert as pa
from perfassert import conformance, plugins

SOURCE = Path(__file__).with_name("scale.cu")
N = 1 << 20
LAUNCH = pa.Launch(216, 256, args={"n": N})
pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(autouse=True)
def _registered():
    """Also where the package is not installed."""
    if plugins.is_registered(plugin):
        yield
        return
    plugins.register(plugin, "vectorized-loads")
    yield
    plugins.unregister("vectorized-loads")


@cache
def scale(kernel):
    return pa.predict(pa.from_cuda(SOURCE, kernel), LAUNCH, "a100")


def test_optimizer():
    narrow, wide = scale("scale"), scale("scale4")
    conformance.check_optimizer(plugin.VectorizedLoads(), matches=[narrow], silent_on=[wide])


def test_metric():
    narrow, wide = scale("scale"), scale("scale4")
    (metric,) = plugin.perfassert_metrics()
    conformance.check_metric(metric, [narrow, wide])
    conformance.check_expectable(metric, wide)


def test_advice_is_taken():
    narrow, wide = scale("scale"), scale("scale4")
    narrow.expect(advice="in top 3: Vectorized Loads", sectors_per_request=4)
    wide.expect(advice="!Vectorized Loads", sectors_per_request="> 15.9")
    assert wide.time < narrow.time
