"""Volumes of executed fields against a brute-force count over all blocks of the launch."""

from dataclasses import dataclass
from dataclasses import field as dataclass_field
from pathlib import Path

import numpy as np
import pytest

import perfassert as pa
from perfassert.engines.volume.activations import Window
from perfassert.engines.volume.executed import executed_groups
from perfassert.engines.volume.executed_waves import launch_waves
from perfassert.engines.volume.launch_groups import group_launch
from perfassert.frontends.toolchain import tools
from perfassert.hardware.load import device
from perfassert.kernel.access import Direction
from perfassert.predictor.model import bind_launch
from perfassert.predictor.session import DEFAULT

KERNELS = Path(__file__).with_name("data_dependent.cu")
BLOCK = 128


@dataclass
class Case:
    """``loads``, ``stores``: by buffer, thread and byte address of every access of the launch.

    ``requested``: by buffer of an atomic, the bytes of the sectors that its warps ask the L2 for.
    """

    kernel: str
    grid: int
    args: dict
    loads: dict
    stores: dict
    block: int = BLOCK
    requested: dict = dataclass_field(default_factory=dict)


def accesses(*parts, item=4):
    threads = np.concatenate([np.broadcast_to(t, np.shape(i)).ravel() for t, i in parts])
    return threads, np.concatenate([np.ravel(i) for _, i in parts]).astype(np.int64) * item


def matrix(rows, skew, columns, seed=1):
    draw = np.random.default_rng(seed)
    lengths = np.full(rows, 12)
    if skew:
        lengths = np.minimum(draw.zipf(1.8, rows), 200)
    pointers = np.concatenate(([0], np.cumsum(lengths)))
    of = np.repeat(np.arange(rows), lengths)
    if columns == "random":
        return pointers, of, draw.integers(0, rows, len(of))
    return pointers, of, np.clip(of + np.arange(len(of)) - pointers[of] - 6, 0, rows - 1)


def csr_scalar(skew=False, columns="random", n=1 << 17):
    pointers, of, column = matrix(n, skew, columns)
    e, i = np.arange(len(of)), np.arange(n)
    args = {
        "n": n, "rows": pointers.astype(np.int32), "columns": column.astype(np.int32),
        "values": pa.Buffer(len(of)), "x": pa.Buffer(n), "y": pa.Buffer(n),
    }  # fmt: skip
    loads = {
        "rows": accesses((i, i), (i, i + 1)), "columns": accesses((of, e)),
        "values": accesses((of, e)), "x": accesses((of, column)),
    }  # fmt: skip
    return Case("csr_scalar", n // BLOCK, args, loads, {"y": accesses((i, i))})


def csr_vector(skew=False, columns="random", n=1 << 14):
    found = csr_scalar(skew, columns, n)
    pointers = found.args["rows"]
    of = np.repeat(np.arange(n), np.diff(pointers))
    lane = (np.arange(len(of)) - pointers[of]) % 32
    thread = of * 32 + lane
    loads = {name: (thread, found.loads[name][1]) for name in ("columns", "values", "x")}
    i = np.arange(n)
    loads["rows"] = accesses((i * 32, i), (i * 32, i + 1))
    return Case("csr_vector", n * 32 // BLOCK, found.args, loads, {"y": accesses((i * 32, i))})


def bfs(skew=False, columns="random", n=1 << 16):
    pointers, _, column = matrix(n, skew, columns)
    draw = np.random.default_rng(3)
    frontier = np.sort(draw.permutation(n)[: n // 2])
    distance = np.where(draw.random(n) < 0.4, 1, -1)
    lengths = np.diff(pointers)[frontier]
    of = np.repeat(np.arange(len(frontier)), lengths)
    e = np.arange(len(of)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    e = e + pointers[frontier][of]
    u, i = column[e], np.arange(len(frontier))
    args = {
        "n": len(frontier), "frontier": frontier.astype(np.int32),
        "rows": pointers.astype(np.int32), "edges": column.astype(np.int32),
        "distance": distance.astype(np.int32), "next": pa.Buffer(n, fill="constant 0"),
    }  # fmt: skip
    loads = {
        "frontier": accesses((i, i)), "rows": accesses((i, frontier), (i, frontier + 1)),
        "edges": accesses((of, e)), "distance": accesses((of, u)),
    }  # fmt: skip
    new = distance[u] < 0
    return Case("bfs", len(frontier) // BLOCK, args, loads, {"next": accesses((of[new], u[new]))})


def histogram(skewed=False, n=1 << 18, bins=1 << 14):
    draw = np.random.default_rng(2)
    data = draw.integers(0, bins, n)
    if skewed:
        data = np.minimum(draw.zipf(1.5, n), bins) - 1
    i = np.arange(n)
    args = {"n": n, "data": data.astype(np.int32), "bins": pa.Buffer(bins, fill="constant 0")}
    loads = {"data": accesses((i, i))}
    return Case("histogram", n // BLOCK, args, loads, {"bins": accesses((i, data))})


def hash_insert(full=0.5, n=1 << 13, size=1 << 18):
    draw = np.random.default_rng(4)
    keys = draw.choice(1 << 28, n, replace=False).astype(np.uint32) + 1
    table = (draw.random(size) < full).astype(np.uint32)
    slot = ((keys * np.uint32(2654435769)) >> np.uint32(7)) & np.uint32(size - 1)
    pending, taken, parts = np.arange(n), table.copy(), []
    while len(pending):
        parts.append((pending, slot[pending].astype(np.int64)))
        here = slot[pending]
        free = np.zeros(len(pending), bool)
        free[np.unique(here, return_index=True)[1]] = True
        free &= taken[here] == 0
        taken[here[free]] = 1
        pending = pending[~free]
        slot[pending] = (slot[pending] + 1) & (size - 1)
    i = np.arange(n)
    args = {"n": n, "mask": size - 1, "keys": keys, "table": table}
    loads = {"keys": accesses((i, i)), "table": accesses(*parts)}  # an atomic with a result
    # the L1 keeps no result of an atomic: each iteration of each warp asks the L2 again
    requested = sum(unique(accesses(part), block=32) for part in parts)
    return Case("hash_insert", n // BLOCK, args, loads, {}, requested={"table": requested})


def search(ordered=False, n=1 << 14, size=1 << 18):
    wanted = np.random.default_rng(5).integers(0, size, n)
    if ordered:
        wanted = np.sort(wanted)
    low, high, parts = np.zeros(n, np.int64), np.full(n, size), []
    i = np.arange(n)
    while (open_ := low < high).any():
        middle = (low + high) // 2
        parts.append((i[open_], middle[open_]))
        right = open_ & (middle < wanted)
        low, high = np.where(right, middle + 1, low), np.where(open_ & ~right, middle, high)
    args = {
        "n": n, "size": size, "keys": np.arange(size, dtype=np.int32),
        "wanted": wanted.astype(np.int32), "places": pa.Buffer(n),
    }  # fmt: skip
    loads = {"keys": accesses(*parts), "wanted": accesses((i, i))}
    return Case("search", n // BLOCK, args, loads, {"places": accesses((i, i))})


def radix_pass(skewed=False, n=1 << 18):
    draw = np.random.default_rng(6)
    keys = draw.integers(0, 1 << 32, n, dtype=np.uint32)
    if skewed:
        keys = (np.minimum(draw.zipf(1.6, n), 255) << 8).astype(np.uint32)
    digit, i = (keys >> np.uint32(8) & np.uint32(255)).astype(np.int64), np.arange(n)
    block = i // BLOCK
    order = np.argsort(digit, kind="stable")
    place = np.empty(n, np.int64)
    place[order] = i  # blocks in order within a digit, as the offsets say
    offsets = np.zeros((n // BLOCK, 256), np.int64)
    counts = np.zeros_like(offsets)
    np.add.at(counts, (block, digit), 1)
    offsets.T.ravel()[:] = 0
    flat = counts.T.ravel()
    offsets = (np.cumsum(flat) - flat).reshape(256, -1).T
    args = {
        "n": n, "shift": 8, "keys": keys, "offsets": offsets.astype(np.int32).ravel(),
        "sorted": pa.Buffer(n),
    }  # fmt: skip
    loads = {"keys": accesses((i, i)), "offsets": accesses((i, block * 256 + digit))}
    return Case("radix_pass", n // BLOCK, args, loads, {"sorted": accesses((i, place))})


def smith_waterman(letters=4, n=1 << 14):
    draw = np.random.default_rng(7)
    a, b = draw.integers(0, letters, n), draw.integers(0, letters, n + 1)
    i, width = np.arange(n), n + 2
    column = n - i
    at = (i + 1) * width + column
    args = {
        "n": n, "width": width, "diagonal": n, "a": a.astype(np.int32), "b": b.astype(np.int32),
        "score": pa.Buffer(256 * 256), "h": pa.Buffer((n + 2) * width),
    }  # fmt: skip
    loads = {
        "a": accesses((i, i)), "b": accesses((i, column)),
        "score": accesses((i, a * 256 + b[column])),
        "h": accesses((i, at - width - 1), (i, at - width), (i, at - 1)),
    }  # fmt: skip
    return Case("smith_waterman", n // BLOCK, args, loads, {"h": accesses((i, at))})


def causal(short=False, n=1 << 9):
    lengths = np.full(n // 64, n if not short else 40)
    last = np.minimum(np.arange(n), lengths[np.arange(n) // 64])
    row = np.repeat(np.arange(n), last + 1)
    j = np.arange(len(row)) - np.repeat(np.cumsum(last + 1) - last - 1, last + 1)
    every = np.arange(0, 64, 8)  # a sector each
    i, own = np.arange(n), np.arange(n) * 64
    args = {
        "n": n, "q": pa.Buffer(n * 64), "k": pa.Buffer(n * 64),
        "lengths": lengths.astype(np.int32), "out": pa.Buffer(n * 64),
    }  # fmt: skip
    loads = {
        "k": accesses((row[:, None] * 64, j[:, None] * 64 + every)),
        "q": accesses((own[:, None], own[:, None] + every)),
        "lengths": accesses((i * 64, i // 64)),
    }  # fmt: skip
    stores = {"out": accesses((own[:, None], own[:, None] + every))}
    return Case("causal", n, args, loads, stores, block=64)


CASES = {
    "csr scalar": csr_scalar,
    "csr scalar, power law": lambda: csr_scalar(skew=True, n=1 << 12),
    "csr scalar, banded": lambda: csr_scalar(columns="band"),
    "csr vector": csr_vector,
    "csr vector, power law": lambda: csr_vector(skew=True, n=1 << 10),
    "bfs": bfs,
    "bfs, power law": lambda: bfs(skew=True, n=1 << 12),
    "histogram": histogram,
    "histogram, skewed": lambda: histogram(skewed=True),
    "hash insert": hash_insert,
    "hash insert, fuller": lambda: hash_insert(full=0.8),
    "search": search,
    "search, in order": lambda: search(ordered=True),
    "radix pass": radix_pass,
    "radix pass, skewed": lambda: radix_pass(skewed=True),
    "smith-waterman": smith_waterman,
    "smith-waterman, proteins": lambda: smith_waterman(letters=256),
    "causal": causal,
    "causal, short": lambda: causal(short=True),
}
WITHIN = 0.03


def unique(found, block, per=1):
    """Sectors of every ``per`` blocks, each for itself, in bytes."""
    threads, addresses = found
    return 32 * len(np.unique((threads // (block * per)) << 40 | addresses // 32))


pytestmark = [
    pytest.mark.exhaustive(one_in=4),
    pytest.mark.xdist_group("executed volumes"),  # of what is predicted, all take part
]


@pytest.fixture(scope="module")
def predicted():
    for tool in ("nvrtc", "nvdisasm"):
        if tools.find(tool) is None:
            pytest.skip(f"{tool} is not installed")
    known = {}

    def made(name):
        if name not in known:
            case = CASES[name]()
            kernel = pa.from_cuda(KERNELS, kernel=case.kernel)
            launch = pa.Launch(case.grid, case.block, args=case.args)
            known[name] = case, launch, bind_launch(DEFAULT.ask(kernel, launch, device("2080ti")))
        return known[name]

    return made


@pytest.mark.exhaustive(one_in=8)
@pytest.mark.parametrize("name", CASES)
def test_sectors_of_blocks_are_those_of_a_brute_force_count(predicted, name):
    case, _, found = predicted(name)
    fields = found.estimate.volumes.l2_load.fields
    executed = {group.field for group in executed_groups(found.kernel, "global")}
    assert executed
    for field, touched in case.loads.items():
        if field not in executed:
            continue  # a closed form; tests/engines/volume
        expected = case.requested.get(field) or unique(touched, case.block)
        assert float(fields[field].parts["compulsory"]) == pytest.approx(expected, rel=WITHIN), (
            field
        )


@pytest.mark.parametrize("name", CASES)
def test_sectors_of_waves_are_those_of_a_brute_force_count(predicted, name):
    case, _, found = predicted(name)
    gpu = device("2080ti")
    concurrent = found.occupancy.resident_blocks * gpu.compute_units
    groups = {}
    for group in executed_groups(found.kernel, "global"):
        groups.setdefault(group.field, []).append(group)
    assert groups or name == "causal"
    for field, own in groups.items():
        loads = [g for g in own if g.direction is Direction.LOAD]
        stores = [g for g in own if g.direction is Direction.STORE]
        counted = launch_waves(loads, stores, gpu, concurrent)
        if field in case.loads:
            expected = unique(case.loads[field], case.block, concurrent)
            assert counted.load == pytest.approx(expected, rel=WITHIN), (field, "load")
        if field in case.stores:
            expected = unique(case.stores[field], case.block, concurrent)
            assert counted.store == pytest.approx(expected, rel=WITHIN), (field, "store")


@pytest.mark.parametrize("name", CASES)
def test_bytes_per_activation_are_those_of_a_brute_force_count(predicted, name):
    case, launch, found = predicted(name)
    groups = group_launch(found.kernel, launch, launch, found.device, found.occupancy)
    page, least = found.device.dram_page_bytes, found.device.dram_granularity
    window = Window(groups, 0, 8, waiting=1.0, around=1.0)
    for field, own in groups.executed.items():
        numbers = own[0].sampled.run[slice(*window.executed_places(own[0].sampled, window.waiting))]
        for direction, touched in ((Direction.LOAD, case.loads), (Direction.STORE, case.stores)):
            if field not in touched:
                continue
            threads, addresses = touched[field]
            inside = addresses[np.isin(threads // case.block, numbers)]
            fill = 32 * len(np.unique(inside // 32)) / len(np.unique(inside // page))
            expected = min(max(fill, least), page)
            counted = window.bytes_per_activation(field, direction)
            assert counted == pytest.approx(expected, rel=WITHIN), (field, direction)


def test_window_of_a_loop_over_the_grid_is_that_of_the_blocks_that_are_started(predicted):
    """Volumes are of a larger launch than the one whose blocks were executed."""
    _, launch, found = predicted("histogram")
    larger = pa.Launch(8 * launch.grid[0], launch.block, args=launch.args)
    groups = group_launch(found.kernel, larger, launch, found.device, found.occupancy)
    sampled = next(own[0].sampled for own in groups.executed.values())
    last = 8 * launch.grid[0]
    window = Window(groups, last - 16, last, waiting=1.0, around=1.0)
    first, last = window.executed_places(sampled, window.waiting)
    assert last - first == 2
    assert last <= len(sampled.run)


@pytest.mark.parametrize(
    ("less", "more", "volume", "field"),
    [
        ("csr scalar, banded", "csr scalar", "l2_load", "x"),
        ("histogram, skewed", "histogram", "l2_store", "bins"),
        ("search, in order", "search", "l2_load", "keys"),
        ("radix pass, skewed", "radix pass", "l2_store", "sorted"),
        ("hash insert", "hash insert, fuller", "l2_load", "table"),
        ("smith-waterman", "smith-waterman, proteins", "l2_load", "score"),
        ("causal, short", "causal", "l2_load", "k"),
    ],
)
def test_data_that_ask_for_more_get_more(predicted, less, more, volume, field):
    few, many = (
        float(getattr(predicted(n)[2].estimate.volumes, volume).fields[field].total)
        for n in (less, more)
    )
    assert few < 0.9 * many


@pytest.mark.parametrize("by", [8, 64])
def test_addresses_far_outside_of_all_buffers_belong_to_no_other_block(tmp_path, by):
    """They wrap around below 0, and have bits where the numbers of blocks are kept."""
    path, blocks = tmp_path / "far.cu", 7
    path.write_text(
        f"""extern "C" __global__ void far(const float* a, float* b) {{
            size_t i = blockIdx.x * blockDim.x + threadIdx.x;
            b[i] = a[(i - 50) / {by} + 100];
        }}"""
    )
    prediction = pa.predict(pa.from_cuda(path), pa.Launch(blocks, BLOCK), "a100")
    places = [((i - 50) % 2**64) // by + 100 for i in range(blocks * BLOCK)]
    sectors = {(i // BLOCK, place // 8) for i, place in enumerate(places)}
    near = {sector for sector in sectors if sector[1] < 2**30}
    counted = float(prediction.volumes.l2_load.parts["compulsory"]) / 32
    assert len(near) <= counted <= len(sectors)
