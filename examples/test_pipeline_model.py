"""The experiments of the pipeline model paper, as assertions.

The curves of its figures 2 and 3 are not at hand: nothing here is claimed against them.
"""

import pytest
from boat_hull import DEPENDENT, TABLE_II, cycles, draw
from matmul import FERMI, PASCAL, latencies, matmul, matmul_graph

import perfassert as pa

GROUPS = [(device, size) for device in (FERMI, PASCAL) for size in (8, 16)]
N = 1024


@pytest.mark.parametrize("operation", TABLE_II[FERMI])
@pytest.mark.parametrize("device", TABLE_II)
def test_micro_benchmarks_have_the_shape_of_a_boat_hull(device, operation):
    """Latency decides while W ≤ Λ/λ, then the pipeline issues one every λ (equation 1)."""
    issue, completion = TABLE_II[device][operation]
    for warps in range(1, 65):
        slowest = max(DEPENDENT * completion, DEPENDENT * warps * issue)
        assert slowest <= cycles(device, operation, warps) <= slowest + completion + 64 * issue


def simulated(device, size, resident, conflicts=False, order="dataflow"):
    unit = pa.device(device)
    blocks = -(-((N // size) ** 2) // unit.compute_units)
    return pa.simulate(
        matmul_graph(size).bound({"n": N}),
        max(1, size * size // unit.warp_size),
        min(blocks, 24),
        resident,
        latencies(device, size, conflicts),
        issue_order=order,
    )


@pytest.mark.parametrize(("device", "size"), GROUPS)
def test_matmul_gains_from_occupancy_until_a_pipeline_is_full(device, size):
    times = [simulated(device, size, resident).cycles for resident in (1, 2, 4, 8)]
    assert times[0] > 1.5 * times[1]
    assert times[3] < 1.02 * times[2] < 1.02 * times[1]


@pytest.mark.parametrize(("device", "size"), GROUPS)
def test_bank_conflicts_make_local_memory_the_bottleneck(device, size):
    """§IV.C: slower local memory, and nothing else, decides the time."""
    resident = 4
    plain = simulated(device, size, resident)
    conflicting = simulated(device, size, resident, conflicts=True)
    assert conflicting.cycles > 1.5 * plain.cycles
    busy = conflicting.events.busy
    assert max(busy, key=busy.get) == "local"
    assert busy["local"] > 0.6 * conflicting.cycles


@pytest.mark.perf(devices=[FERMI, PASCAL])
@pytest.mark.parametrize("size", [8, 16])
def test_the_same_through_predict(perf, size):
    """The graph, launched on the whole device: conflicts make the limiter ``shared``."""
    device = perf.device.name
    launch = pa.Launch((N // size, N // size), (size, size), args={"n": N})
    plain = perf(matmul(device, size), launch)
    conflicting = perf(matmul(device, size, conflicts=True), launch)
    conflicting.expect(limiter="shared")
    assert conflicting.time > 1.2 * plain.time
    assert plain.resources.instructions == conflicting.resources.instructions


def mix(arithmetic, warps, order="in-order"):
    """Volkov's instruction mix: every load is followed by dependent arithmetic."""
    g = pa.InstructionGraph.builder()
    with g.loop(64) as body:
        value = g.op("memory", body.carried("end"))
        for _ in range(arithmetic):
            value = g.op("fadd", value)
        g.op("fadd", value, name="end")
    table = {name: pa.Latency(*pair) for name, pair in TABLE_II[FERMI].items()}
    return pa.simulate(g.build(), warps, 1, 1, table, issue_order=order)


@pytest.mark.parametrize("arithmetic", [0, 7, 31, 127])
def test_latencies_of_a_mix_add_up_and_are_hidden_by_warps(arithmetic):
    """One warp: Λ_mem plus the chain; many: whatever pipeline is full, to a tenth."""
    issue = {name: pair[0] for name, pair in TABLE_II[FERMI].items()}
    completion = {name: pair[1] for name, pair in TABLE_II[FERMI].items()}
    adds = arithmetic + 1
    assert mix(arithmetic, 1).cycles == 64 * (completion["memory"] + adds * completion["fadd"])
    full = 64 * 64 * max(issue["memory"], adds * issue["fadd"])
    assert full <= mix(arithmetic, 64).cycles <= 1.1 * full + completion["memory"] * 2


def test_contention_makes_latencies_depend_on_the_warps():
    """§IV.B: memory reaches its peak later than a perfect pipeline would."""

    def contended(warps):
        return pa.Latency(23, 521 + 6 * warps)

    g = pa.InstructionGraph.builder()
    with g.loop(64) as body:
        g.op("memory", body.carried("m"), name="m")
    perfect = {"memory": pa.Latency(23, 521)}
    for warps, slower in ((4, True), (23, True), (48, False)):
        times = [
            pa.simulate(g.build(), warps, 1, 1, table).cycles
            for table in (perfect, {"memory": contended})
        ]
        assert (times[1] > 1.03 * times[0]) is slower


def test_the_picture_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    draw(tmp_path / "hull.png")
    assert (tmp_path / "hull.png").stat().st_size > 20_000
