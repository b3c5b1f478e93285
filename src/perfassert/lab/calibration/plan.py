"""Measurements of the calibration, shot by shot, and the device values that each one yields."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd

from perfassert.hardware.entries import Scope
from perfassert.hardware.model import Device
from perfassert.lab.calibration.driver import Properties, Shot

REPEATS = 9
WARPS = (1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64)
"""Resident warps of a unit; more than 32 are in two blocks."""
_BLOCK = 32  # warps of the largest block
LINE = 128  # bytes between two pointers of a chase
CHASED = 16384  # pointers that are timed
_PER_OCTAVE = 4  # sizes of a chase
_CHASE_REPEATS = 3
DISTANCES = (4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256)
PAIRS = 2048
_PAIR_SPACING = 4096
HITS = 4096
SPIN = 2000  # cycles of a block
_HELD = 3_000_000  # cycles that the queue waits, so that no launch comes late for its timing
_HELD_LONG = 30_000_000  # where hundreds of launches are timed
_WARM = 1 << 23  # links of a chain that brings the GPU to its clock
_READ_AT_ONCE = 64  # bytes of a thread, in the kernel `read`
_MIB = 2**20
_STORED = 512  # stores of a thread
STORE_PACKETS = 2  # of each
_ADDED = 64  # additions of a thread to a word of its own
_ADDED_TO_ONE = 8  # to one that all share
_ATOMICS = (
    ("add_integers", 0, "l2_atomic_cycles"),
    ("add_floats", 0, "l2_update_cycles"),
    ("add_floats", 4, "l2_atomic_lane_cycles"),
)
"""Kernel, bytes from word to word, and the key of the result."""


@dataclass(frozen=True, slots=True)
class Chain:
    """Dependent chain of an instruction class, and the other instructions in a link of it.

    ``minus`` are classes whose times :mod:`evaluate` subtracts; from λ only those of the same
    pipeline. ``most``: the largest number of warps, as more would measure another limit. ``since``:
    compute capability × 10.
    """

    length: int = 16384
    minus: tuple[str, ...] = ()
    most: int = 64
    since: int = 70


CHAINS = {
    "int32": Chain(),
    "imad": Chain(),
    "fp32": Chain(),
    "fp64": Chain(4096),
    "fp16": Chain(),
    "sfu": Chain(),
    "convert": Chain(),
    "compare": Chain(minus=("int32",)),
    "shuffle": Chain(),
    "tensor": Chain(8192, since=75),
    "tensor_fp64": Chain(4096, since=80),
    "shared_load": Chain(8192),
    "shared_store": Chain(8192, minus=("shared_load",)),
    "atomic_shared": Chain(4096),
    "atomic_global": Chain(2048, minus=("int32", "int32"), most=_BLOCK),
    "constant_load": Chain(4096),
}
"""Operation class → its chain; classes that others subtract come first."""
BARRIERS = 4096  # that a warp waits for: long beside a launch


@dataclass(frozen=True, slots=True)
class Measurement:
    """Curve with a shot for each ``x``, taken ``repeats`` times.

    ``yields`` are keys of the device file, such as ``values.clock_hz`` or ``operations.fp32``.
    """

    key: str
    x: tuple[float, ...]
    shots: tuple[Shot, ...]
    yields: tuple[str, ...]
    repeats: int = REPEATS


def plan(gpu: Properties, nearest: Device) -> list[Measurement]:
    """Return all measurements of a GPU; ``nearest`` gives the classes and their pipelines."""
    return [
        _clock(gpu),
        *(_hull(gpu, nearest, name) for name in CHAINS if _has_chain(gpu, nearest, name)),
        _barrier(gpu),
        _hits(gpu),
        _chase(gpu),
        _pairs(gpu),
        _l2(gpu),
        _port(gpu),
        *(_dram(gpu, kernel) for kernel in ("scale", "read", "write")),
        _packets(gpu),
        _packet_port(gpu),
        *(_atomics(gpu, *kind) for kind in _ATOMICS),
        _dispatch(gpu),
        *(_blocks(gpu, stores) for stores in (False, True)),
        _kernels(gpu),
    ]


def _has_chain(gpu: Properties, nearest: Device, name: str) -> bool:
    return name in nearest.operations and int(gpu.arch.removeprefix("sm_")) >= CHAINS[name].since


def _hold(cycles: int = _HELD) -> Shot:
    """Return a shot that keeps the GPU busy without touching memory."""
    return Shot("launch", "spin", 1, 32, cycles, records=False)


def _clock(gpu: Properties) -> Measurement:
    """Return the measurement of the clock: all units are busy for some milliseconds.

    They are also busy for a tenth of a second before.
    """
    threads = gpu.max_threads_per_block
    warm = Shot("chain:fp32", "chain", gpu.compute_units, threads, _WARM)
    shot = Shot("chain:fp32", "chain", gpu.compute_units, threads, 1 << 19, before=(warm,))
    return Measurement("clock", (1.0,), (shot,), ("values.clock_hz",))


def resident(gpu: Properties, most: int) -> Iterator[tuple[int, int, int]]:
    """Yield warps of a unit, blocks of the launch, and threads of a block."""
    for warps in WARPS:
        if warps <= min(most, gpu.max_warps_per_unit):
            blocks = 1 if warps <= _BLOCK else 2
            launched = 1 if blocks == 1 else blocks * gpu.compute_units
            yield warps, launched, warps // blocks * gpu.warp_size


def _hull(gpu: Properties, nearest: Device, name: str) -> Measurement:
    chain = CHAINS[name]
    schedulers = pipelines_per_unit(nearest, name)
    shots, x = [], []
    for warps, blocks, threads in resident(gpu, chain.most):
        if warps % schedulers:
            continue
        size = 4 * blocks * threads
        fill = Shot("memory", "write", 1, 256, size, 1, 0, size, records=False)
        before = (fill,) if name == "atomic_global" else ()
        shots.append(
            Shot(f"chain:{name}", "chain", blocks, threads, chain.length, buffer_bytes=size,
                 before=before)
        )  # fmt: skip
        x.append(warps / schedulers)
    yields = [f"operations.{name}"]
    yields += ["values.shared_latency"] if name == "shared_load" else []
    yields += ["values.constant_latency"] if name == "constant_load" else []
    return Measurement(f"hull {name}", tuple(x), tuple(shots), tuple(yields))


def pipelines_per_unit(nearest: Device, name: str) -> int:
    """Return the number of a class's pipelines in a unit."""
    scope = nearest.pipelines[nearest.operations[name].pipeline]
    return nearest.schedulers_per_unit if scope is Scope.SCHEDULER else 1


def _barrier(gpu: Properties) -> Measurement:
    counts = [w for w in WARPS if w <= _BLOCK]
    shots = tuple(Shot("chain:barrier", "chain", 1, 32 * w, BARRIERS) for w in counts)
    return Measurement("barrier", tuple(map(float, counts)), shots, ("operations.barrier",))


def _hits(gpu: Properties) -> Measurement:
    counts = [w for w in WARPS if 4 <= w <= _BLOCK]
    shots = tuple(Shot("memory", "hits", 1, 32 * w, HITS, buffer_bytes=1 << 16) for w in counts)
    yields = ("values.l1_bytes_per_cycle", "operations.global_load")
    return Measurement("hits", tuple(map(float, counts)), shots, yields)


def _chase(gpu: Properties) -> Measurement:
    shots, sizes = [], []
    lines = 32
    top = 4 * gpu.l2_bytes // LINE
    step = 0
    while (count := round(lines * 2 ** (step / _PER_OCTAVE))) <= top:
        step += 1
        size = count * LINE
        cold = size > gpu.l2_bytes
        room = (size + _MIB) // _MIB * _MIB
        blocks = 4 * gpu.compute_units
        link = Shot("memory", "link", blocks, 256, count, coprime(count), LINE, room, records=False)
        before: tuple[Shot, ...] = (link,)
        if cold:
            flush = Shot("memory", "read", blocks, 256, 2 * gpu.l2_bytes, 1, room,
                         room + 2 * gpu.l2_bytes)  # fmt: skip
            before = (replace_buffer(link, flush.buffer_bytes), flush)
        shots.append(
            Shot("memory", "chase", 1, 1, CHASED, 0 if cold else count, LINE,
                 before[-1].buffer_bytes, before=before)
        )  # fmt: skip
        sizes.append(float(size))
    yields = ("l1_latency", "l2_latency", "dram_latency", "l1_bytes", "l2_partitions")
    keys = tuple(f"values.{key}" for key in yields)
    return Measurement("chase", tuple(sizes), tuple(shots), keys, _CHASE_REPEATS)


def replace_buffer(shot: Shot, size: int) -> Shot:
    """Return the same shot in a larger buffer, so that the buffer does not move in between."""
    from dataclasses import replace

    return replace(shot, buffer_bytes=size)


def coprime(count: int) -> int:
    """Return a step near the golden section of ``count`` that visits every place."""
    step = max(1, round(count * 0.618))
    while gcd(step, count) != 1:
        step += 1
    return step


def _pairs(gpu: Properties) -> Measurement:
    room = (PAIRS + 1) * _PAIR_SPACING
    size = room + 2 * gpu.l2_bytes
    blocks = 4 * gpu.compute_units
    before = (
        Shot("memory", "write", blocks, 256, room, 1, 0, size, records=False),
        Shot("memory", "read", blocks, 256, 2 * gpu.l2_bytes, 1, room, size),
    )
    shots = tuple(
        Shot("memory", "pairs", 1, 1, PAIRS, distance, _PAIR_SPACING, size, before=before)
        for distance in DISTANCES
    )
    yields = ("values.sector_bytes", "values.dram_granularity")
    return Measurement("pairs", tuple(map(float, DISTANCES)), shots, yields, _CHASE_REPEATS)


def _loads(gpu: Properties) -> tuple[int, ...]:
    """Return numbers of blocks of 256 threads on a unit."""
    return tuple(k for k in (1, 2, 3, 4, 6, 8) if 256 * k <= gpu.max_threads_per_unit)


def _l2(gpu: Properties) -> Measurement:
    """Return the measurement of the L2 with about a quarter of it, which fits one partition.

    The size is what all threads read in whole steps; otherwise some would wait for those with one
    more.
    """
    loads = _loads(gpu)
    shots = []
    for k in loads:
        step = k * gpu.compute_units * 256 * _READ_AT_ONCE
        size = max(1, round(gpu.l2_bytes / 4 / step)) * step
        shots.append(
            Shot("memory", "read", k * gpu.compute_units, 256, size, max(4, 2**31 // size), 0, size,
                 before=(_hold(),))
        )  # fmt: skip
    return Measurement("l2", tuple(map(float, loads)), tuple(shots), ("values.l2_bandwidth",), 5)


def _port(gpu: Properties) -> Measurement:
    size = _MIB
    threads = tuple(range(128, 1025, 128))
    warm = Shot("memory", "read", gpu.compute_units, 256, size, 1, 0, size)
    shots = tuple(
        Shot("memory", "read", 1, count, size, 4, 0, size, before=(warm,)) for count in threads
    )
    keys = ("values.l2_port_bytes_per_cycle",)
    return Measurement("port", tuple(map(float, threads)), shots, keys)


def dram_bytes(gpu: Properties) -> int:
    """Return the bytes of one stream: 512 MiB, or a quarter of the free memory if that is less."""
    return min(512 * _MIB, gpu.free_bytes // 4 // _MIB * _MIB)


def _dram(gpu: Properties, kernel: str) -> Measurement:
    size = dram_bytes(gpu) * (1 if kernel == "scale" else 2)
    loads = _loads(gpu)
    shots = tuple(
        Shot("memory", kernel, k * gpu.compute_units, 256, size, 4, 0, 2 * dram_bytes(gpu),
             records=kernel == "read", before=(_hold(),))
        for k in loads
    )  # fmt: skip
    key = "dram_bandwidth" if kernel == "scale" else "dram_alone_factor"
    keys = (f"values.{key}",)
    return Measurement(f"dram {kernel}", tuple(map(float, loads)), shots, keys, 5)


def _packets(gpu: Properties) -> Measurement:
    """Return the measurement of stores of 4 bytes, each in a line of its own that the L2 holds.

    Such a store takes two packets: the sector, and the mask of its valid bytes.
    """
    loads = _loads(gpu)
    shots = tuple(_store_lines(gpu, k * gpu.compute_units, 256) for k in loads)
    return Measurement("packets", tuple(map(float, loads)), shots, ("values.l2_packet_cycles",), 5)


def _packet_port(gpu: Properties) -> Measurement:
    threads = tuple(range(128, 1025, 128))
    shots = tuple(_store_lines(gpu, 1, count) for count in threads)
    keys = ("values.l2_port_packet_cycles",)
    return Measurement("packets of one unit", tuple(map(float, threads)), shots, keys, 5)


def _store_lines(gpu: Properties, blocks: int, threads: int) -> Shot:
    size = gpu.l2_bytes // 8 // LINE * LINE
    return Shot("memory", "store_lines", blocks, threads, _STORED, size, 0, size, before=(_hold(),))


def _atomics(gpu: Properties, kernel: str, stride: int, key: str) -> Measurement:
    """Return the measurement of atomics from all units, on one address or a word per thread."""
    loads = _loads(gpu)
    number = _ADDED if stride else _ADDED_TO_ONE
    size = max(4, stride * gpu.compute_units * 256 * max(loads))
    shots = tuple(
        Shot("memory", kernel, k * gpu.compute_units, 256, number, stride, 0, size, records=False,
             before=(_hold(),))
        for k in loads
    )  # fmt: skip
    name = f"atomics {kernel} {stride}"
    return Measurement(name, tuple(map(float, loads)), shots, (f"values.{key}",), 5)


def _dispatch(gpu: Properties) -> Measurement:
    """Return the measurement of blocks of one warp without work."""
    counts = (1 << 17, 1 << 18, 1 << 19)
    shots = tuple(
        Shot("launch", "empty", count, 32, 0, records=False, before=(_hold(),)) for count in counts
    )
    return Measurement(
        "dispatch", tuple(map(float, counts)), shots, ("values.block_dispatch_cycles",), 5
    )


def _blocks(gpu: Properties, stores: bool) -> Measurement:
    """Return the measurement of blocks in sequence on each unit: shared memory lets one reside."""
    counts = (16, 32, 48, 64, 96, 128)
    size = 4 * max(counts) * gpu.compute_units * 256
    shots = tuple(
        Shot("launch", "spin", count * gpu.compute_units, 256, SPIN, int(stores), 0, size,
             gpu.shared_bytes_per_block, records=False, before=(_hold(),))
        for count in counts
    )  # fmt: skip
    key = "values.block_drain_cycles" if stores else "values.block_launch_cycles"
    name = "blocks that store" if stores else "blocks"
    return Measurement(name, tuple(map(float, counts)), shots, (key,))


def _kernels(gpu: Properties) -> Measurement:
    """Return the measurement of empty kernels that wait in the queue behind a long one."""
    counts = (16, 32, 64, 128, 256)
    shots = tuple(
        Shot("launch", "empty", 1, 32, 0, count=count, records=False, before=(_hold(_HELD_LONG),))
        for count in counts
    )
    return Measurement("kernels", tuple(map(float, counts)), shots, ("values.launch_overhead",))
