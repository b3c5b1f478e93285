"""``whatif``: the same prediction with something changed."""

from pathlib import Path

import pytest

import perfassert as pa

N = 1 << 22
LAUNCH = pa.Launch.cover((2048, 2048), block=(32, 8))


def stencil():
    fields = [pa.Field(name, shape=(2048, 2048), halo=1) for name in ("src", "dst")]
    loads = ["src[y, x]", "src[y, x + 1]", "src[y, x - 1]", "src[y + 1, x]", "src[y - 1, x]"]
    return pa.Kernel.from_accesses("jacobi", fields, loads, ["dst[y, x]"], flops=5, registers=24)


@pytest.fixture(scope="module")
def before():
    return pa.predict(stencil(), LAUNCH, "a100")


def test_without_changes_nothing_changes(before):
    result = pa.whatif(before)
    assert result.after == before
    assert result.speedup == 1
    assert "nothing changes" in str(result)


def test_before_is_the_prediction_itself(before):
    result = pa.whatif(before, dram_bandwidth=2.0)
    assert result.before is before
    assert pa.Prediction.from_dict(result.before.to_dict()) == before
    assert result.after == pa.predict(
        stencil(), LAUNCH, pa.device("a100").replace(dram_bandwidth=2 * 1382e9)
    )


def test_there_and_back_again(before):
    there = pa.whatif(before, dram_bandwidth=2.0, latency={"dram": 0.5}, block=(64, 4)).after
    back = pa.whatif(there, dram_bandwidth=0.5, latency={"dram": 2.0}, block=(32, 8)).after
    assert back.time == before.time
    assert back.volumes == before.volumes
    assert back.bounds == before.bounds


def test_factors_multiply_values_of_the_device(before):
    after = pa.whatif(before, dram_bandwidth=2.0).after
    assert float(after.bounds["dram"]) == pytest.approx(float(before.bounds["dram"]) / 2)
    assert after.volumes == before.volumes
    half = pa.whatif(before, compute_units=0.5, l2_bytes=1).after
    assert half.origin[2].compute_units == 54
    assert half.origin[2].l2_bytes == 40 << 20
    assert isinstance(half.origin[2].l2_bytes, int)


def test_latencies_of_levels_pipelines_and_classes(before):
    def device(latency):
        return pa.whatif(before, latency=latency).after.origin[2]

    old = before.origin[2]
    assert device({"dram": 1.5}).dram_latency == 1.5 * old.dram_latency
    changed = device({"global": 1.5})
    for key in ("l1_latency", "l2_latency", "dram_latency"):
        assert getattr(changed, key) == 1.5 * getattr(old, key)
    assert changed.operation("global_load").completion == (
        1.5 * old.operation("global_load").completion
    )
    changed = device({"fp64": 2.0})
    assert changed.operation("fp64").issue == 2 * old.operation("fp64").issue
    assert changed.operation("fp32") == old.operation("fp32")
    changed = device({"imad": pa.Latency(3, 9)})
    assert (changed.operation("imad").issue, changed.operation("imad").completion) == (3, 9)


def test_latencies_of_the_kernel_itself():
    g = pa.InstructionGraph.builder()
    g.op("mem", g.op("mem"))
    kernel = pa.Kernel.from_graph("chain", g.build(), {"mem": pa.Latency(2, 100, "global")})
    p = pa.predict(kernel, pa.Launch(1, 32), "a100")
    assert p.cycles == 200
    assert pa.whatif(p, latency={"mem": 0.5}).after.cycles == 100
    assert pa.whatif(p, latency={"global": 2.0}).after.cycles == 400
    other = pa.Latency(1, 7, "global")
    assert pa.whatif(p, latency={"mem": other}).after.cycles == 14
    ruled = pa.Kernel.from_graph("rule", g.build(), {"mem": lambda warps: pa.Latency(1, 50)})
    with pytest.raises(pa.KernelError, match="is a rule; give a Latency"):
        pa.whatif(pa.predict(ruled, pa.Launch(1, 32), "a100"), latency={"mem": 2.0})


def test_kernel_and_launch(before):
    after = pa.whatif(before, registers=128).after
    assert after.resources.registers == 128
    assert after.occupancy.limited_by == "registers"
    after = pa.whatif(before, block=(64, 4)).after
    assert after.block == (64, 4, 1)
    assert after.threads == before.threads
    after = pa.whatif(before, grid=(8, 8)).after
    assert after.threads == 64 * 256
    field = pa.Field("a", shape=(N,))
    kernel = pa.Kernel.from_accesses("strided", [field], ["a[stride * x]"])
    launch = pa.Launch.cover(1 << 16, 256, args={"stride": 1})
    wide = pa.whatif(pa.predict(kernel, launch, "a100"), args={"stride": 16}).after
    assert wide.volumes.l2_load.total == 4 * (1 << 16) * 32 / 4


def test_the_table_has_what_differs(before):
    text = str(pa.whatif(before, dram_bandwidth=2.0, latency={"dram": 0.5}))
    head, columns, _, *rows = text.splitlines()
    assert head.startswith("what if dram_bandwidth=2.0, latency={'dram': 0.5}: ")
    assert head.endswith("x as fast")
    assert columns.split() == ["metric", "before", "after", "difference"]
    names = [row.split("  ")[0] for row in rows]
    assert names[:2] == ["time", "roofline_time"]
    assert {"dram alone", "latency alone"} <= set(names)
    assert not {"dram_load", "occupancy", "compute alone"} & set(names)
    assert any(row.split()[-2:] == ["-50.0", "%"] for row in rows)
    text = pa.whatif(before, block=(1, 256)).table()
    assert any(row.split() == ["limiter", "dram", "l1"] for row in text.splitlines())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dram_bandwith": 2.0}, "no parameter 'dram_bandwith'; did you mean 'dram_bandwidth'"),
        ({"blok": 2.0}, "no parameter 'blok'; did you mean 'block'"),
        ({"name": 2.0}, "has no parameter 'name'"),
        ({"operations": 2.0}, "has no parameter 'operations'"),
        ({"dram_bandwidth": "2"}, "dram_bandwidth: a factor above 0, .* not '2'"),
        ({"dram_bandwidth": 0}, "a factor above 0, .* not 0"),
        ({"dram_bandwidth": True}, "a factor above 0, .* not True"),
        ({"dram_bandwidth": float("nan")}, "a factor above 0, .* not nan"),
        ({"clock_hz": 765e6}, "clock_hz: 765000000.0 is no factor"),
        ({"latency": {"dram": 1e-9}}, "dram: 1e-09 is no factor"),
        ({"latency": 2.0}, "latency must map classes to factors, not 2.0"),
        ({"latency": {"sharde": 2.0}}, "no operation class 'sharde'; did you mean 'shared'"),
        ({"latency": {"dram": "x"}}, "dram: a factor above 0"),
        ({"registers": "x"}, "registers must be an integer"),
    ],
)
def test_mistakes(before, changes, message):
    with pytest.raises(pa.KernelError, match=message):
        pa.whatif(before, **changes)


def test_impossible_devices_and_launches(before):
    with pytest.raises(pa.DeviceFileError, match="larger than l2_bandwidth"):
        pa.whatif(before, dram_bandwidth=100.0)
    with pytest.raises(pa.LaunchError):
        pa.whatif(before, block=4096)


def test_predictions_from_files_have_no_kernel(before):
    read = pa.Prediction.from_dict(before.to_dict())
    with pytest.raises(pa.KernelError, match="read from a file"):
        pa.whatif(read, dram_bandwidth=2.0)


def test_no_module_has_the_name_of_a_public_function():
    """Importing such a module would hide the function."""
    package = Path(pa.__file__).parent
    folders = {p.parent.name for p in package.glob("*/__init__.py")}
    assert (folders | {p.stem for p in package.glob("*.py")}) & {*pa.__all__} == set()
