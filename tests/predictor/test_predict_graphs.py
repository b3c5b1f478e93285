"""Kernels given by graphs, through ``predict``."""

import pytest

import perfassert as pa


def saxpy(**more):
    g = pa.InstructionGraph.builder()
    i = g.op("index")
    a, b = g.op("mem", i), g.op("mem", i)
    g.op("mem", g.op("fmadd", a, b), produces=False)
    latencies = {"mem": pa.Latency(issue=23, completion=521, pipeline="global")}
    return pa.Kernel.from_graph("saxpy", g.build(), latencies=latencies, registers=20, **more)


def test_one_warp_takes_the_sum_of_its_path():
    """Latencies that the kernel leaves out come from the device, by their everyday names."""
    device = pa.device("C2050")
    prediction = pa.predict(saxpy(), pa.Launch(1, 32), device)
    index, fmadd = (device.operation(name).completion for name in ("index", "fmadd"))
    assert prediction.cycles == index + 521 + 23 + fmadd + 23
    assert prediction.time == pytest.approx(float(prediction.cycles) / device.clock_hz)
    assert prediction.limiter == "parallelism"
    assert prediction.resources.instructions == 5
    assert prediction.volumes.dram_load.total == 0
    for metric in ({"dram_load": "< 1 GB"}, {"l2_volume": "< 1 GB"}, {"roofline_time": "< 1 s"}):
        with pytest.raises(pa.ExpectationError, match="cannot have it; it needs accesses"):
            prediction.expect(**metric)


def test_full_launches_are_limited_by_the_memory_pipeline():
    prediction = pa.predict(saxpy(), pa.Launch(14 * 400, 256), "C2050")
    assert prediction.limiter in ("dram", "l2", "l1")
    busy = 400 * 8 * 3 * 23
    assert busy <= prediction.cycles <= 1.1 * busy
    assert not prediction.assumptions


def test_the_busiest_unit_counts():
    """Partial last waves, blocks that are no multiple of a warp, grids smaller than the device."""

    def cycles(grid, block=256):
        return pa.predict(saxpy(), pa.Launch(grid, block), "C2050").cycles

    assert cycles(1) == cycles(14) < cycles(15) == cycles(28)
    assert cycles(14, 225) == cycles(14, 256) > cycles(14, 224)


def test_nodes_with_accesses_have_volumes():
    n = 1 << 20
    g = pa.InstructionGraph.builder()
    value = g.op("global_load", access="a[x]", space="global")
    g.op("global_store", g.op("fadd", value), produces=False, access="b[x]", space="global")
    fields = [pa.Field(name, "float32", (n,)) for name in "ab"]
    kernel = pa.Kernel.from_graph("scale", g.build(), fields=fields, flops=1)
    prediction = pa.predict(kernel, pa.Launch.cover(n, 256), "a100")
    prediction.expect(
        dram_load="4 B/thread ± 1 %", dram_store="4 B/thread ± 1 %", limiter="dram",
        instructions="3 /warp ± 0.1 %",
    )  # fmt: skip


def test_loads_in_loops_occupy_the_l1_every_time():
    g = pa.InstructionGraph.builder()
    with g.loop(100):
        g.op("global_load", access="a[x]")
    field = pa.Field("a", "float32", (1 << 20,))
    kernel = pa.Kernel.from_graph("again", g.build(), fields=[field])
    prediction = pa.predict(kernel, pa.Launch.cover(1 << 20, 256), "a100")
    assert prediction.limiter == "l1"
    assert any("count once" in a.text for a in prediction.assumptions)


def test_loads_of_some_warps_are_said_to_count_for_all():
    g = pa.InstructionGraph.builder()
    with g.only(warps=[0]):
        g.op("global_load", access="a[x]")
    field = pa.Field("a", "float32", (1 << 20,))
    kernel = pa.Kernel.from_graph("some", g.build(), fields=[field])
    prediction = pa.predict(kernel, pa.Launch.cover(1 << 20, 256), "a100")
    assert prediction.volumes.dram_load.per_thread == 4
    assert any("of some warps" in a.text for a in prediction.assumptions)


def test_shared_accesses_have_no_global_volumes():
    g = pa.InstructionGraph.builder()
    g.op("shared_load", access="tile[x]", space="shared")
    kernel = pa.Kernel.from_graph("k", g.build())
    assert pa.predict(kernel, pa.Launch(1, 32), "a100").volumes.l2_load.total == 0
    with pytest.raises(pa.KernelError, match="no access whose values"):
        pa.Kernel.from_graph("k", g.build(), assume={"i[x]": "x"})


def test_graphs_without_instructions():
    g = pa.InstructionGraph.builder()
    with g.loop("n"):
        g.op("fadd")
    kernel = pa.Kernel.from_graph("none", g.build())
    assert pa.predict(kernel, pa.Launch(1, 32, args={"n": 0}), "a100").time == 0


def test_trips_come_from_the_arguments():
    g = pa.InstructionGraph.builder()
    with g.loop("n // 2") as body:
        g.op("fadd", body.carried("s"), name="s")
    kernel = pa.Kernel.from_graph("sum", g.build())
    counted = pa.predict(kernel, pa.Launch(1, 32, args={"n": 64}), "a100")
    assert counted.resources.instructions == 32
    with pytest.raises(pa.GraphError, match="'n // 2': unknown name 'n'"):
        pa.predict(kernel, pa.Launch(1, 32), "a100")
    with pytest.raises(pa.LaunchError, match="argument 'n' of kernel 'sum' must be an integer"):
        pa.predict(kernel, pa.Launch(1, 32, args={"n": 64.0}), "a100")


def test_unknown_operations_are_named():
    g = pa.InstructionGraph.builder()
    g.op("fmad", name="mul")
    kernel = pa.Kernel.from_graph("k", g.build())
    with pytest.raises(pa.GraphError, match=r"node mul \(fmad\): .*did you mean 'fmadd'"):
        pa.predict(kernel, pa.Launch(1, 32), "a100")
    with pytest.raises(pa.KernelError, match="graph must be built"):
        pa.Kernel.from_graph("k", g)


def test_simulations_without_a_recurrence_say_so():
    """Incommensurable latencies: extrapolated after a fixed count, and marked."""
    g = pa.InstructionGraph.builder()
    with g.loop(1000):
        value = g.op("mem", g.op("fadd"))
        for _ in range(20):
            value = g.op("fadd", value)
    latencies = {
        "mem": pa.Latency(3.17, 411.3, "global"), "fadd": pa.Latency(1.03, 17.9, "fma")
    }  # fmt: skip
    kernel = pa.Kernel.from_graph("long", g.build(), latencies=latencies)
    prediction = pa.predict(kernel, pa.Launch(14 * 4000, 256), "C2050")
    cut = [a for a in prediction.assumptions if "extrapolated" in a.text]
    simulated = prediction.diagnostics["simulated_instructions"]
    assert bool(cut) == (simulated >= 4_000_000)
    busy = 4000 * 8 * 1000 * 22 * 1.03
    assert 0.95 * busy < prediction.cycles < 1.3 * busy


def looped(operation, pipeline):
    g = pa.InstructionGraph.builder()
    with g.loop(trips=128) as body:
        g.op("fp32", g.op(operation), body.carried("s"), name="s")
    latencies = {operation: pa.Latency(issue=4, completion=521, pipeline=pipeline)}
    return pa.Kernel.from_graph("looped", g.build(), latencies, registers=20)


@pytest.mark.parametrize(
    ("operation", "pipeline", "like"),
    [("mem", "global", "global_load"), ("lds", "shared", "shared_load"),
     ("lds", "local", "shared_load")],
)  # fmt: skip
def test_a_pipeline_says_which_memory_a_class_is(operation, pipeline, like):
    """A wait for a user's class is as that for the class of the same memory."""
    launch = pa.Launch(grid=1000, block=64)
    own = pa.predict(looped(operation, pipeline), launch, "a100")
    known = pa.predict(looped(like, pipeline), launch, "a100")
    assert own.stalls == known.stalls
    assert [a.optimizer for a in own.advice] == [a.optimizer for a in known.advice]
    assert ("memory_dependency" in own.stalls) == (pipeline == "global")
    assert "Strength Reduction" not in [a.optimizer for a in own.advice]


@pytest.mark.parametrize(
    ("space", "hint"),
    [("foo", "; spaces: global, shared, local, constant"), ("Global", "; did you mean 'global'"),
     ("", "; spaces: global")],
)  # fmt: skip
def test_a_node_of_an_unknown_space_is_an_error(space, hint):
    """Otherwise its traffic would vanish from the volumes."""
    with pytest.raises(pa.GraphError, match=f"unknown space '{space}'{hint}"):
        pa.InstructionGraph.builder().op("load", access="src[x]", space=space)


def test_what_a_node_says_itself_comes_first():
    g = pa.InstructionGraph.builder()
    g.op("mem", space="constant")
    g.op("mem")
    latencies = {"mem": pa.Latency(issue=4, completion=521, pipeline="global")}
    kernel = pa.Kernel.from_graph("k", g.build(), latencies)
    assert [n.space for n in kernel.with_spaces().nodes] == ["constant", "global"]
    assert [n.space for n in kernel.graph.nodes] == ["constant", None]  # as it was drawn
