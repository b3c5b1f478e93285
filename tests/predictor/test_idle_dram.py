"""DRAM waits for units that have one block: closed forms."""

import pytest

import perfassert as pa
from perfassert.engines.pipeline.bounds import bounds
from perfassert.engines.pipeline.simulate import make_unit
from perfassert.predictor.session import launch_model

V100 = pa.device("v100")
BLOCKS = 10  # of a unit


def test_time_around_the_watched_nodes():
    """``a`` leads to the first load, ``c`` and the store follow the last one; the other load takes
    longer."""
    g = pa.InstructionGraph.builder()
    a = g.op("a")
    near, far = g.op("near", a), g.op("far", a)
    g.op("store", g.op("c", near, far), produces=False)
    times = {
        "a": pa.Latency(1, 10, "alu"), "near": pa.Latency(2, 100, "mem"),
        "far": pa.Latency(2, 300, "mem"), "c": pa.Latency(1, 7, "alu"),
        "store": pa.Latency(4, 50, "mem"),
    }  # fmt: skip
    unit = make_unit(
        g.build(), 1, 1, 1, times,
        issue_order="dataflow", scheduler="loose-round-robin", schedulers=1,
        issue_width=None,
    )  # fmt: skip
    assert bounds(unit).around_watched == 0
    assert bounds(unit, [1, 2]).around_watched == 10 + 100 + 7 + 4
    assert bounds(unit, [2]).around_watched == 10 + 300 + 7 + 4


def predicted(resident):
    """A copy that DRAM limits: at a hundredth of its bandwidth nothing else matters."""
    slow = V100.replace(dram_bandwidth=V100.dram_bandwidth / 100)
    fields = [pa.Field(n, "float64", shape=(BLOCKS * slow.compute_units * 256,)) for n in "ab"]
    kernel = pa.Kernel.from_accesses("copy", fields, ["a[x]"], ["b[x]"])
    shared = V100.shared_bytes_per_unit // resident - 1024
    launch = pa.Launch(BLOCKS * slow.compute_units, 256, shared_bytes=shared)
    return pa.predict(kernel, launch, slow), launch_model(kernel, launch, slow)


def test_dram_waits_for_every_block_of_a_unit_that_has_one():
    prediction, model = predicted(1)
    assert prediction.occupancy.resident_blocks == 1
    waits = BLOCKS * model.bounds.around_watched / V100.clock_hz
    assert waits > 0.01 * model.dram_seconds
    expected = model.dram_seconds + waits + V100.launch_overhead
    assert float(prediction.time) == pytest.approx(expected, rel=1e-4)


def test_a_second_block_keeps_dram_busy():
    prediction, model = predicted(2)
    assert prediction.occupancy.resident_blocks == 2
    expected = model.dram_seconds + V100.launch_overhead
    assert float(prediction.time) == pytest.approx(expected, rel=1e-4)
