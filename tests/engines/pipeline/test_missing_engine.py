"""Without the compiled engine nothing is predicted: other digits would be worse than none."""

import pytest

import perfassert as pa
from perfassert.engines.pipeline import compiled
from perfassert.errors import PerfAssertError


@pytest.fixture
def without_engine(monkeypatch):
    monkeypatch.setattr(compiled, "available", lambda: False)


def test_a_prediction_is_refused_with_the_remedy(without_engine):
    field = pa.Field("a", shape=4096)
    kernel = pa.Kernel.from_accesses("fill", [field], stores=["a[x]"])
    with pytest.raises(PerfAssertError, match="pip install --force-reinstall"):
        pa.Session(budget=0).predict(kernel, pa.Launch(16, 256), "a100")


def test_the_pipeline_model_alone_is_simulated_all_the_same(without_engine):
    """To its end, with the same cycles: the reference is the oracle of the engine."""
    g = pa.InstructionGraph.builder()
    g.op("store", g.op("load"), produces=False)
    latencies = {"load": pa.Latency(4, 400, "mem"), "store": pa.Latency(4, 200, "mem")}
    assert pa.simulate(g.build(), 64, 1, 1, latencies).cycles == 656.0
