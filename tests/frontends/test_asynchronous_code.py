"""Producers and consumers in compiled code: who waits for whom, and what bulk copies move."""

import os
from pathlib import Path

import numpy as np
import pytest
from described import KERNELS, missing

import perfassert as pa

pytestmark = pytest.mark.exhaustive(one_in=8)

EXAMPLES = Path(__file__).parents[2] / "examples" / "kernels"
H100 = "H100-SXM5-80GB"


@pytest.fixture(autouse=True)
def toolchain():
    if missing():
        pytest.skip(f"{missing()} is not installed")


def gemm(n=1024, k=1024, maps=True, **defines):
    """The warp-specialised GEMM, and a launch of it."""
    kernel = pa.from_cuda(EXAMPLES / "gemm_wgmma_tma.cu", defines=defines)
    args = {"n": n, "k": k}
    if maps:
        args |= {name: pa.TensorMap((n, k), (128, 64), swizzle=128) for name in "ab"}
    stages = int(defines.get("STAGES", 4))
    return kernel, pa.Launch((n // 128, n // 128), 384, args, shared_bytes=32768 * stages + 1024)


def bound(kernel, launch):
    return bound_on(kernel, launch, pa.device(H100))


def bound_on(kernel, launch, device):
    return kernel.bind(launch, device.arch, device.warp_size)[0]


def signals(kernel, launch):
    """(channel, warps, arrives, waits, copies, lead, expects) of all nodes that have one."""
    graph = bound(kernel, launch).graph
    return graph, [(n.signal, n.warps) for n in graph.nodes if n.signal is not None]


def test_each_stage_has_a_channel_for_full_and_one_for_empty():
    graph, found = signals(*gemm())
    assert sorted(c.arrivals for c in graph.channels) == [1] * 4 + [2] * 4
    consumers = frozenset(range(4, 12))
    for signal, warps in found:
        full = graph.channels[signal.channel].arrivals == 1
        if signal.waits:
            assert (warps, signal.lead) == ((consumers, 0) if full else ({0}, 1))
        elif signal.arrives:
            assert (warps, signal.expects) == (({0}, 2) if full else ({4, 8}, 0))
        else:
            assert (signal.copies, full, warps) == (True, True, {0})


def test_who_goes_round_some_stages_has_one_channel_for_them():
    """Sixteen of 19 steps are unrolled by four; a loop goes round the first three stages."""
    graph, found = signals(*gemm(k=64 * 19))
    assert sorted(c.arrivals for c in graph.channels) == [1, 1, 2, 2]
    assert {s.lead for s, warps in found if s.waits and warps == {0}} == {3, 1}


@pytest.mark.parametrize("k", [64, 1024, 64 * 19])
def test_nothing_is_guessed_and_boxes_are_their_bytes(k):
    kernel, launch = gemm(k=k)
    p = pa.predict(kernel, launch, H100)
    assert p.confidence != "guessed"
    assert not any("loop" in a.text or "branch" in a.text for a in p.assumptions)
    boxes = launch.blocks * (k // 64) * 128 * 64 * 2
    for field in "ab":
        assert float(p.volumes.l2_load.fields[field].total) == boxes
        assert float(p.volumes.l1_cycles.fields[field].total) == 0


def test_without_its_map_a_box_is_what_coordinates_and_barrier_say():
    given, guessed = (pa.predict(*gemm(maps=maps), H100) for maps in (True, False))
    assert float(guessed.time) == float(given.time)
    assert guessed.confidence == "guessed"
    said = [a.text for a in guessed.assumptions if "tensor map" in a.text]
    assert len(said) == 2
    assert "boxes are taken to be 128×64 of 2 B" in said[0]
    assert "say args={'a': pa.TensorMap(…)}" in said[0]


def test_more_stages_hide_more():
    times = [float(pa.predict(*gemm(k=4096, STAGES=n), H100).time) for n in (1, 2, 4)]
    assert times[0] > 1.3 * times[1] > 1.3 * times[2]


@pytest.mark.parametrize("scaled", [(0.4, 1, 64), (0.6, 1, 64), (10, 1, 640), (10, 8, 640)])
def test_with_enough_stages_the_slowest_part_is_all(scaled):
    """Copies and products take the longer of their times, whichever that is, and little more."""
    device = pa.device(H100)
    l2, dram, port = scaled
    device = device.replace(
        l2_bandwidth=l2 * device.l2_bandwidth, dram_bandwidth=dram * device.dram_bandwidth,
        l2_port_bytes_per_cycle=port,
    )  # fmt: skip
    p = pa.predict(*gemm(n=4096, k=4096), device)
    slowest = max(float(b) for b in p.bounds.values())
    assert slowest <= float(p.time) < 1.1 * slowest


def test_named_barriers_join_some_warps():
    kernel = pa.from_cuda(KERNELS / "asynchronous.cu", "by_turns")
    graph, found = signals(kernel, pa.Launch(1, 128, {"n": 9}))
    assert {c.name for c in graph.channels} == {"barrier 1", "barrier 2"}
    assert [c.arrivals for c in graph.channels] == [4, 4]
    arriving = {(s.channel, warps) for s, warps in found if s.arrives and not s.waits}
    meeting = {(s.channel, warps) for s, warps in found if s.arrives and s.waits}
    first, second = frozenset({0, 1}), frozenset({2, 3})
    assert {warps for _, warps in arriving | meeting} == {first, second}
    assert {c for c, w in arriving if w == first} == {c for c, w in meeting if w == second}
    p = pa.predict(kernel, pa.Launch(1, 128, {"n": 9}), H100)
    assert p.confidence != "guessed"


def test_plain_bulk_copies_are_their_bytes():
    kernel = pa.from_cuda(KERNELS / "asynchronous.cu", "rows")
    p = pa.predict(kernel, pa.Launch(500, 256, {"n": 7}), H100)
    assert p.confidence != "guessed"
    assert float(p.volumes.l2_load.fields["from"].total) == 500 * 7 * 1024
    assert float(p.volumes.dram_load.fields["from"].total) == 500 * 7 * 1024
    # what one row after the other takes at least, of which one unit has four blocks
    device = pa.device(H100)
    assert p.cycles > 7 * device.dram_latency


def test_copies_arrive_when_they_are_complete():
    kernel = pa.from_cuda(KERNELS / "asynchronous.cu", "copies_that_arrive")
    launch = pa.Launch(132, 256, {"n": 9})
    graph, found = signals(kernel, launch)
    (channel,) = graph.channels
    assert channel.arrivals == 8
    copies = sum(s.copies for s, _ in found)
    assert copies == sum(s.arrives for s, _ in found) > 0
    assert all(s.expects == 1 for s, _ in found if s.arrives)
    p = pa.predict(kernel, launch, H100)
    assert p.confidence != "guessed"
    assert p.cycles > 9 * pa.device(H100).dram_latency  # one row after the other


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("stages", [2, 3, 4, 5])
def test_a_counted_wait_is_for_the_copies_of_as_many_iterations_ago(stages):
    """With S stages an iteration waits for what was copied S - 1 iterations before."""
    kernel = pa.from_cuda(EXAMPLES / "gemm_cp_async.cu", defines={"STAGES": stages})
    launch = pa.Launch(4, 128, {"n": 512, "k": 4096}, shared_bytes=stages * 16384)
    device = pa.device("A100-SXM4-40GB")
    bound = kernel.bind(launch, device.arch, device.warp_size)[0]
    code = bound.program.instructions
    wait, *last = (  # iterations that copy nothing more may be a loop of their own
        n for n in bound.graph.nodes if n.loop >= 0 and code[n.program].text.startswith("DEPBAR")
    )
    assert sum(bound.graph.trips(n.loop) for n in (wait, *last)) == 128
    carried = [e.sources[0] for e in wait.edges if e.sources[0].distance]
    assert len(carried) == 8  # of each thread
    for source in carried:
        assert source.distance == stages - 1
        assert code[bound.graph.nodes[source.producer].program].text.startswith(("LDGSTS", "@"))


def test_boxes_end_with_their_tensor():
    kernel = pa.from_cuda(KERNELS / "asynchronous.cu", "edge")
    tensor = pa.TensorMap((40, 72), (32, 32), "float32")
    p = pa.predict(kernel, pa.Launch((3, 2), 32, {"from": tensor}), H100)
    assert float(p.volumes.l2_load.fields["from"].total) == 40 * 72 * 4


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("wide", [16, 32, 48, 64])
@pytest.mark.parametrize("end", [0, 24])
def test_narrow_rows_of_a_box_are_as_many_sectors_as_they_touch(wide, end):
    """A row of 16 bytes is one sector, though its elements are of one byte each."""
    steps, blocks, defines = 8, 3, {"WIDE": wide}
    kernel = pa.from_cuda(KERNELS / "asynchronous.cu", "narrow", defines=defines)
    rows = 64 * blocks - end  # the last box ends with its tensor
    tensor = pa.TensorMap((rows, wide * steps), (64, wide), "uint8")
    launch = pa.Launch(blocks, 64, {"from": tensor, "n": steps})
    p = pa.predict(kernel, launch, H100)
    sectors = rows * steps * -(-wide // 32)
    assert float(p.volumes.l2_load.fields["from"].total) == pytest.approx(32 * sectors, rel=1e-3)


def test_copies_of_an_unrolled_loop_belong_to_the_arrival_behind_them():
    kernel = pa.from_cuda(KERNELS / "asynchronous.cu", "copies_first")
    tensor = pa.TensorMap((128, 32), (32, 32), "float32")
    _, found = signals(kernel, pa.Launch(1, 64, {"from": tensor}))
    assert [s.expects for s, _ in found if s.arrives] == [1, 1, 1, 1]
    kinds = ["copies" if s.copies else "arrives" for s, _ in found if s.copies or s.arrives]
    assert kinds == ["arrives", "copies"] * 4


def test_a_commit_lets_its_thread_go_on():
    """Products of one step start while those of the step before are under way: if copies are soon
    there, a block is as fast as what passes shared memory."""
    device, stages, cycles = pa.device("B200"), 4, {}
    device = device.replace(dram_latency=device.l2_latency)
    kernel = pa.from_cuda(EXAMPLES / "gemm_tcgen05.cu", defines={"STAGES": stages})
    for k in (4096, 8192):
        args = {name: pa.TensorMap((128, k), (128, 64), swizzle=128) for name in "ab"}
        args |= {"n": 128, "k": k}
        launch = pa.Launch(1, 192, args, shared_bytes=32768 * stages + 1024)
        graph = bound_on(kernel, launch, device).graph
        commits = {n.index for n in graph.nodes if n.operation == "tcgen05_commit"}
        waited = {s.producer for n in graph.nodes for e in n.edges for s in e.sources}
        assert commits
        assert not commits & waited
        cycles[k] = float(pa.predict(kernel, launch, device).cycles)
    step = (cycles[8192] - cycles[4096]) / 64
    passed = 2 * 32768 / device.l1_bytes_per_cycle  # written by copies, read by products
    assert step == pytest.approx(passed, rel=0.05)


@pytest.mark.parametrize("cluster", [1, 2, (4, 1)])
def test_blocks_of_a_cluster_wait_for_their_warps(cluster):
    kernel = pa.from_cuda(KERNELS / "asynchronous.cu", "clustered")
    launch = pa.Launch(1000, 128, cluster=cluster)
    p = pa.predict(kernel, launch, H100)
    assert p.confidence != "guessed"
    assert not any(a.stands_for for a in p.assumptions)
    assert float(p.volumes.dram_load.total) == 1000 * 128 * 4
    _, found = signals(kernel, launch)
    assert bool(found) == launch.clustered  # else it is a barrier of the block


def test_what_is_multicast_is_read_once_and_arrives_in_every_block():
    """Rows of 128 bytes pass shared memory in a cycle, those of the others of the cluster, too."""
    device, steps, blocks, cycles = pa.device(H100), 64, 132, {}
    tensor = pa.TensorMap((32 * steps, 32 * blocks), (32, 32), "float32")
    for parts in (1, 2, 4):
        kernel = pa.from_cuda(KERNELS / "asynchronous.cu", "together", defines={"PARTS": parts})
        launch = pa.Launch(blocks, 128, {"from": tensor, "n": steps}, cluster=parts)
        p = pa.predict(kernel, launch, device)
        assert p.confidence != "guessed"
        assert float(p.volumes.l2_load.fields["from"].total) == 32 * steps * 32 * blocks * 4
        cycles[parts] = float(p.bounds["l1"]) * device.clock_hz
        received = parts * steps * 32 * 32 * 4
        assert float(p.bounds["l2"]) * device.clock_hz >= received / device.l2_port_bytes_per_cycle
    for parts in (2, 4):
        more = (parts - 1) * steps * 32
        assert cycles[parts] - cycles[1] == pytest.approx(more, rel=0.01)


def test_clusters_divide_the_grid():
    assert pa.Launch.cover((1000, 5), (32, 1), cluster=(4, 2)).grid == (32, 6, 1)
    with pytest.raises(pa.LaunchError, match="a grid of 7×1×1 blocks is no multiple of clusters"):
        pa.Launch(7, 32, cluster=2)
    with pytest.raises(pa.LaunchError, match="cluster must be at least 1"):
        pa.Launch(8, 32, cluster=0)


EVERYWHERE = ("sm_80", "sm_90", "sm_100", "sm_120")
MATRIX_KERNELS = [
    ("gemm_cp_async", {}, EVERYWHERE),
    ("gemm_cp_async", {"SPLIT": 4}, EVERYWHERE),
    ("gemm_cp_async", {"FP8": 1}, ("sm_90", "sm_100", "sm_120")),
    ("flash_attention", {}, EVERYWHERE),
    ("softmax", {}, EVERYWHERE),
    ("layer_norm", {}, EVERYWHERE),
    ("gemm_wgmma_tma", {}, ("sm_90",)),
    ("gemm_wgmma_tma", {"TILE_M": 256}, ("sm_90",)),
    ("gemm_wgmma_tma", {"TILE_N": 256, "STAGES": 3}, ("sm_90",)),
    ("gemm_tcgen05", {}, ("sm_100",)),
]
MATRIX_CASES = [(name, d, arch) for name, d, archs in MATRIX_KERNELS for arch in archs]


@pytest.mark.parametrize(("name", "defines", "arch"), MATRIX_CASES)
@pytest.mark.exhaustive(one_in=8)
def test_every_opcode_of_the_matrix_kernels_has_a_class(name, defines, arch):
    code = pa.from_cuda(EXAMPLES / f"{name}.cu", defines=defines).compiled
    program = code.program(arch)
    assert len(program.instructions) > 50
    assert not [a.text for a in program.assumptions if a.stands_for == "opcode"]
    multiplies = {i.operation for i in program.instructions if "MMA." in i.opcode}
    assert not {"tensor", "wgmma", "tcgen05"} & multiplies  # each by its shape and types


NEWEST = {"sm_80": "A100-SXM4-40GB", "sm_90": H100, "sm_100": "B200", "sm_120": "RTX-5090"}
# The examples predict the others, too, and want the same confidence.
PREDICTED = MATRIX_CASES if os.environ.get("PERFASSERT_EXHAUSTIVE") else MATRIX_CASES[:1]


@pytest.mark.parametrize(("name", "defines", "arch"), PREDICTED)
def test_no_matrix_kernel_is_a_guess(name, defines, arch):
    kernel = pa.from_cuda(EXAMPLES / f"{name}.cu", defines=defines)
    rows, columns = defines.get("TILE_M", 128), defines.get("TILE_N", 128)
    stages = defines.get("STAGES", 4 if name.endswith(("tma", "tcgen05")) else 3)
    size = 1024
    sizes = {"n": size, "k": size}
    maps = {field: pa.TensorMap((size, size), (height, 64), swizzle=128)
            for field, height in (("a", rows), ("b", columns))}  # fmt: skip
    grid = (size // columns, size // rows, defines.get("SPLIT", 1))
    launch = {
        "flash_attention": pa.Launch((16, 8), 128, {"length": 1024, "scale": 0.1}),
        "softmax": pa.Launch(1024, 256, {"n": 4096}),
        "layer_norm": pa.Launch(1024, 128, {"n": 1024}),
        "gemm_cp_async": pa.Launch(grid, 128, sizes, stages * 16384),
        "gemm_wgmma_tma": pa.Launch(
            grid, 128 + 2 * rows, sizes | maps, stages * (rows + columns) * 128 + 1024
        ),
        "gemm_tcgen05": pa.Launch(grid, 192, sizes | maps, stages * 32768 + 1024),
    }[name]
    assert pa.predict(kernel, launch, NEWEST[arch]).confidence != "guessed"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"shape": (8, 0), "box": (1, 1)}, "shape must be at least 1, not 0"),
        ({"shape": (8, 8), "box": (1,)}, "box must be 2 integers from 1 on"),
        ({"shape": (8, 8), "box": (1, 1), "dtype": "half"}, "dtype must be a type of 1 to 8"),
        ({"shape": (8, 8), "box": (1, 1), "swizzle": 7}, "swizzle must be 0, 32, 64 or 128"),
        ({"shape": (8, 8), "box": (1, 1), "strides": (1, 2)}, "strides must be 1 integer"),
        ({"shape": (8, 8), "box": (1, 1), "strides": (-8,)}, "strides must be at least 0"),
    ],
)
def test_a_map_that_cannot_be_is_refused(arguments, said):
    with pytest.raises(pa.LaunchError, match=said):
        pa.TensorMap(**arguments)


def test_a_map_has_as_many_axes_as_the_copy():
    kernel, launch = gemm()
    flat = {**launch.args, "a": pa.TensorMap((1024,), (128,))}
    with pytest.raises(pa.LaunchError, match="the tensor map 'a' has 1 axes, the copy 'UTMALDG"):
        pa.predict(kernel, pa.Launch(launch.grid, 384, flat, launch.shared_bytes), H100)


def test_a_barrier_of_changing_groups_keeps_nobody_waiting():
    """Two pairs of warps use one number by turns: which of them meet, the model does not tell."""
    kernel = pa.from_cuda(KERNELS / "asynchronous.cu", "pairs")
    p = pa.predict(kernel, pa.Launch(8, 128, {"n": 4}), H100)
    said = [a.text for a in p.assumptions if "barrier 1" in a.text]
    assert said == ["barrier 1 is taken to keep no warp waiting: 4 warps arrive, 2 at a time"]


def test_who_keeps_nobody_waiting_is_no_barrier_of_the_block():
    """The producer, whom the consumers wait for, does not come to where they meet."""
    kernel = pa.from_cuda(KERNELS / "asynchronous.cu", "pairs_of_consumers")
    p = pa.predict(kernel, pa.Launch(8, 160, {"n": 4}), H100)
    said = [a.text for a in p.assumptions if "barrier 1" in a.text]
    assert said == ["barrier 1 is taken to keep no warp waiting: 4 warps arrive, 2 at a time"]


def test_executed_blocks_are_granted_what_they_ask_for():
    """Copies that are waited for, registers: who asks in a loop asks once, so blocks end."""
    kernel = pa.from_cuda(KERNELS / "asynchronous.cu", "counted_rows")
    ends = np.full(8, 5, np.int32)
    p = pa.predict(kernel, pa.Launch(8, 256, {"ends": ends}), H100)
    assert not [a.text for a in p.assumptions if a.stands_for == "trip count"]


def test_a_map_needs_a_parameter_that_holds_it():
    kernel, launch = gemm()
    wrong = pa.Launch(launch.grid, launch.block, {**launch.args, "c": launch.args["a"]})
    with pytest.raises(pa.LaunchError, match="argument 'c'.*has no place for a tensor map"):
        pa.predict(kernel, wrong, H100)
