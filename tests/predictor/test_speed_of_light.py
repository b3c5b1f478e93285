"""The least time of a launch, against closed forms, counted sectors and the predicted time."""

from itertools import product

import pytest

import perfassert as pa
from perfassert.engines.volume.binding import bind_groups
from perfassert.engines.volume.compulsory import stores_once
from perfassert.errors import ExpectationError

A100 = pa.device("a100")
MANY = 1 << 24


def kernel(loads, stores=(), shape=(MANY,), **more):
    fields = [pa.Field(name, more.get("dtype", "float64"), shape=shape) for name in ("a", "b")]
    return pa.Kernel.from_accesses("k", fields, loads=loads, stores=stores, **more)


def light(kernel, launch=None, device=A100):
    return pa.predict(kernel, launch or pa.Launch.cover(MANY, 256), device).speed_of_light


def moves(byte_count, device=A100):
    return pytest.approx(byte_count / device.peak_dram_bandwidth, rel=1e-6)


@pytest.mark.parametrize(
    ("loads", "stores", "bytes_each"),
    [
        (["a[x]"], ["b[x]"], 16),
        (["a[x]"], ["a[x]"], 16),  # in place: loaded once, stored once
        (["a[x]", "a[x]"], [], 8),
        (["a[x // 2]"], [], 4),
        (["a[0]", "a[x]"], [], 8),
        ([], ["b[x]"], 8),
    ],
)
def test_every_byte_counts_once(loads, stores, bytes_each):
    assert light(kernel(loads, stores)) == moves(bytes_each * MANY)


def test_a_halo_is_loaded_once():
    shape = (128, 128, 128)
    neighbours = [f"a[{', '.join(at)}]" for at in (("z + 1", "y", "x"), ("z - 1", "y", "x"))]
    field = pa.Field("a", shape=shape, halo=(1, 0, 0))
    stencil = pa.Kernel.from_accesses("k", [field], loads=neighbours)
    launch = pa.Launch.cover((128, 128, 128), (32, 4, 2))
    seconds = 8 * 128 * 128 / A100.peak_dram_bandwidth
    assert 127.9 * seconds < light(stencil, launch) < 130.1 * seconds


def test_blocks_that_store_the_same_store_it_once():
    histogram = kernel([], ["b[threadIdx.x]"])
    assert light(histogram) == moves(8 * 256)


def test_whole_sectors_move():
    assert light(kernel(["a[4 * x]"]), pa.Launch.cover(MANY // 4, 256)) == moves(8 * MANY)


@pytest.mark.parametrize(("stride", "offset", "block"), list(product((1, 3), (0, 1, 5), (32, 96))))
def test_no_more_than_enumeration_counts(stride, offset, block):
    threads = 3000
    described = kernel([f"a[{stride} * x + {offset}]", "a[x % 100]"])
    launch = pa.Launch.cover(threads, block)
    indices = {stride * x + offset for x in range(threads)} | set(range(100))
    granules = {8 * index // A100.dram_granularity for index in indices}
    known = pa.predict(described, launch, A100).diagnostics["compulsory_load_bytes"]
    assert known <= len(granules) * A100.dram_granularity


@pytest.mark.parametrize(("dtype", "flops_per_cycle"), [("float64", 64), ("float32", 128)])
def test_arithmetic_at_the_peak_rate(dtype, flops_per_cycle):
    """9.7 and 19.5 TFLOPS, as the white paper has them."""
    computing = kernel(["a[x]"], flops=400, dtype=dtype)
    peak = flops_per_cycle * A100.compute_units * A100.clock_hz
    assert light(computing) == pytest.approx(400 * MANY / peak, rel=1e-6)


def graph_kernel(operation, trips=1000, **more):
    graph = pa.InstructionGraph.builder()
    with graph.loop(trips=trips):
        graph.op(operation)
    return pa.Kernel.from_graph("k", graph.build(), registers=32, **more)


def test_matrix_operations_at_the_peak_rate():
    """312 TFLOPS, as the white paper has them."""
    launch = pa.Launch(1080, 128)
    flops = 1080 * 4 * 1000 * 2 * 16 * 8 * 16
    product = graph_kernel("tensor.m16n8k16.f16.f32")
    assert light(product, launch) == pytest.approx(flops / 311.9e12, rel=1e-3)


def test_the_highest_known_clock_counts():
    fast = A100.replace(fastest_clock_hz=2 * A100.clock_hz)
    computing, launch = graph_kernel("fp32"), pa.Launch(1080, 128)
    assert light(computing, launch, fast) == pytest.approx(light(computing, launch) / 2)


def test_integers_addresses_and_an_authors_own_latencies_have_no_peak_rate():
    own = {"fp32": pa.Latency(issue=1000, completion=1000, pipeline="mine")}
    for unbounded in (graph_kernel("int32"), graph_kernel("fp32", latencies=own)):
        prediction = pa.predict(unbounded, pa.Launch(108, 128), A100)
        assert (float(prediction.speed_of_light), prediction.headroom) == (0.0, None)
        with pytest.raises(ExpectationError, match="computes nothing that has a peak rate"):
            prediction.expect(headroom="< 2")


@pytest.mark.parametrize("name", ["a100", "rtx-3090"])
def test_no_prediction_beats_it(name):
    for described in (
        kernel(["a[x]"], ["b[x]"]),
        kernel(["a[x]", "a[x // 7]"], flops=300),
        kernel([], ["b[x]"]),
        kernel(["a[x]"], flops=600, dtype="float32"),
    ):
        assert pa.predict(described, pa.Launch.cover(MANY, 256), name).headroom >= 1


def test_a_faster_memory_has_a_higher_peak():
    twice = A100.replace(dram_bandwidth=2 * A100.dram_bandwidth)
    assert twice.dram_peak_bandwidth == pytest.approx(2 * A100.dram_peak_bandwidth)


def test_without_a_nominal_bandwidth_the_measured_one_counts():
    unknown = A100.replace(dram_peak_bandwidth=0.0)
    bandwidth = A100.dram_bandwidth * A100.dram_alone_factor
    assert light(kernel(["a[x]"]), device=unknown) == pytest.approx(8 * MANY / bandwidth)


def test_headroom_is_a_metric_and_travels_with_the_prediction():
    prediction = pa.predict(kernel(["a[x]"], ["b[x]"]), pa.Launch.cover(MANY, 256), A100)
    prediction.expect(headroom="< 1.5", speed_of_light="172 us ± 1 %")
    with pytest.raises(pa.ExpectationFailed, match="headroom"):
        prediction.expect(headroom="< 1.05")
    data = prediction.to_dict()
    assert data["headroom"] == prediction.headroom
    assert pa.Prediction.from_dict(data) == prediction
    del data["headroom"], data["speed_of_light"]  # as a file of a former release
    assert pa.Prediction.from_dict(data).headroom is None


@pytest.mark.parametrize(
    ("subscript", "once"),
    [
        ("x + 64 * y", True),
        ("64 * x + y", True),
        ("2 * x + 128 * y", True),
        ("x + y", False),
        ("x + 63 * y", False),
        ("x", False),
        ("0 * x", False),
        ("threadIdx.x + 64 * y", False),
        ("threadIdx.x + 16 * blockIdx.x + 64 * y", True),
    ],
)
def test_strides_tell_whether_each_thread_stores_its_own(subscript, once):
    launch = pa.Launch.cover((64, 64), (16, 8))
    [group] = bind_groups(kernel([], [f"b[{subscript}]"]), launch)
    assert stores_once(group, launch) is once
    places = set()
    for x, y in product(range(64), range(64)):
        names = {"threadIdx.x": x % 16, "blockIdx.x": x // 16, "x": x, "y": y}
        text = subscript
        for name in sorted(names, key=len, reverse=True):
            text = text.replace(name, str(names[name]))
        places.add(
            sum(int(a) * int(b or 1) for a, _, b in (t.partition(" * ") for t in text.split(" + ")))
        )
    assert once <= (len(places) == 64 * 64)
