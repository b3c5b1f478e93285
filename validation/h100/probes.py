"""Time what a suite cannot express: cycles of single warps, rates of atomics, latencies by page.

``python validation/h100/probes.py FOLDER`` writes a CSV file for each experiment to a folder. It
needs a GPU, and takes less than a minute. docs/results/h100.md has what the files show.
"""

from __future__ import annotations

import csv
import ctypes
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfassert.frontends.toolchain.binary import Source
from perfassert.frontends.toolchain.compilers import from_cuda
from perfassert.lab.calibration.cuda_driver import CudaDriver
from perfassert.lab.calibration.plan import coprime

KERNELS = Path(__file__).resolve().parent / "kernels" / "probes.cu"
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
LINE = 128
ROOM = 64 * GIB  # of zeros, less where the GPU has less
MAX_WARPS = 132 * 64
MAX_UNITS = 256
REPEATS = 3
SHORT = 1e-3  # seconds of a launch that overhead hardly matters to
CLUSTER_SIZES = (2, 5, 6, 7, 8, 16)  # of more than 8 blocks only with leave
GOLDEN = 0x9E3779B1  # an odd factor that scatters

Row = dict[str, Any]


class Prober:
    """A GPU with the probes' kernels, a large buffer of zeros and one for results."""

    def __init__(self) -> None:
        self.driver = CudaDriver(0)
        self.call = self.driver.call
        about = self.driver.properties()
        self.units = about.compute_units
        image = compile_kernels(about.arch)
        self.module = self.call("cuModuleLoadData", image)
        self.room = ROOM
        free, _ = self.call("cuMemGetInfo")
        while self.room > 0.9 * free:
            self.room //= 2
        self.data = int(self.call("cuMemAlloc", self.room))
        self.call("cuMemsetD8", self.data, 0, self.room)
        self.results = int(self.call("cuMemAlloc", 80 * MAX_WARPS))
        self.marks = int(self.call("cuMemAlloc", MAX_UNITS))
        self.mark_units(range(MAX_UNITS))
        self.events = [self.call("cuEventCreate", 0) for _ in range(2)]

    def launch(self, name: str, blocks: int, threads: int, *values: int) -> float:
        """Launch a kernel whose parameters are pointers, 64-bit or 32-bit integers; seconds."""
        function = self.call("cuModuleGetFunction", self.module, name.encode())
        kinds = tuple(ctypes.c_uint32 if k == 4 else ctypes.c_uint64 for k in PARAMETERS[name])
        start, stop = self.events
        self.call("cuEventRecord", start, 0)
        self.call("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, 0, (values, kinds), 0)
        self.call("cuEventRecord", stop, 0)
        self.call("cuEventSynchronize", stop)
        return 1e-3 * float(self.call("cuEventElapsedTime", start, stop))

    def allow_large_clusters(self, name: str) -> None:
        """A kernel may have clusters that not every GPU of its architecture can hold."""
        function = self.call("cuModuleGetFunction", self.module, name.encode())
        attributes = self.driver.cuda.CUfunction_attribute
        key = attributes.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
        self.call("cuFuncSetAttribute", function, key, 1)

    def mark_units(self, units: Iterable[int]) -> None:
        """Only these SMs visit places."""
        marks = np.zeros(MAX_UNITS, dtype=np.uint8)
        marks[list(units)] = 1
        self.call("cuMemcpyHtoD", self.marks, marks.ctypes.data, marks.nbytes)

    def clear(self) -> None:
        """Results of blocks that take no part are zeros."""
        self.call("cuMemsetD8", self.results, 0, 80 * MAX_WARPS)

    def read(self, warps: int, columns: int = 4) -> NDArray[np.int64]:
        """A row of results for each warp."""
        rows = np.zeros((warps, columns), dtype=np.int64)
        self.call("cuMemcpyDtoH", rows.ctypes.data, self.results, rows.nbytes)
        return rows

    def clock_hz(self) -> float:
        """Cycles per second while the GPU is busy."""
        self.launch("count_cycles", 1, 32, self.results, 2_000_000)
        start, stop, _, nanoseconds = self.read(1)[0]
        return 1e9 * float(stop - start) / float(nanoseconds)


PARAMETERS: Mapping[str, Sequence[int]] = {
    "count_cycles": (8, 8),
    "chase": (8, 8, 4, 4, 8, 4, 4, 4),
    **dict.fromkeys(("visit_places", "visit_places_by_l1"), (8, 8, 8, 4, 8, 4, 4, 4, 4, 4)),
    **dict.fromkeys([f"clusters_{size}" for size in CLUSTER_SIZES], (8,)),
    **dict.fromkeys(("read_runs", "write_runs"), (8, 4, 4, 4)),
    **dict.fromkeys(
        ("add_float", "add_double", "add_integer", "add_long", "add_and_wait"), (8, 4, 8, 4, 4)
    ),
    **dict.fromkeys([f"use_shared_{kind}" for kind in range(6)], (8, 4, 4, 4)),
    **dict.fromkeys(("swap_in_global", "swap_in_shared"), (8, 8, 4, 4)),
    **dict.fromkeys(
        ("float_chains_1", "float_chains_2", "float_chains_4", "integer_chains_1",
         "integer_chains_2"), (8, 4)
    ),
    **dict.fromkeys([f"hit_{near}{n}" for near in ("", "near_") for n in (1, 2, 4)], (8, 8, 4, 4)),
}  # fmt: skip
"""Bytes of each parameter of each kernel."""


def compile_kernels(arch: str) -> bytes:
    """The cubin of the probes."""
    source = Source(KERNELS, "cuda")
    with TemporaryDirectory(prefix="perfassert-") as folder:
        return from_cuda(source, {KERNELS: KERNELS.read_bytes()}, arch, Path(folder)).cubin


def chase_pages(gpu: Prober) -> Iterator[Row]:
    """Latency of one load at a time by the number of places and the distance between them."""
    for spacing in (LINE, 4 * KIB, 64 * KIB, 2 * MIB, 16 * MIB, 32 * MIB, 64 * MIB, 256 * MIB):
        lines = max(1, min(spacing, 2 * MIB) // LINE)
        top = min(gpu.room // spacing, 32_768)
        for half_octaves in range(4, 31):
            places = round(2 ** (half_octaves / 2))
            if places > top:
                break
            hops = min(max(places, 1024), 8192)
            cycles = []
            for _ in range(REPEATS):
                gpu.launch("chase", 1, 1, gpu.data, gpu.results, places, coprime(places) % places,
                           spacing, lines, min(2 * places, 40_000), hops)  # fmt: skip
                start, stop, _, _ = gpu.read(1)[0]
                cycles.append(float(stop - start) / hops)
            yield {
                "spacing_bytes": spacing, "places": places, "footprint_mib": places * spacing / MIB,
                "cycles": min(cycles),
            }  # fmt: skip


class PlaceVisits:
    """Loads in places that lie `spacing` apart, each in a line of its own that the L2 holds."""

    def __init__(
        self, gpu: Prober, places: int, spacing: int, kernel: str = "visit_places"
    ) -> None:
        self.gpu = gpu
        self.kernel = kernel
        self.places = places
        self.spacing = spacing
        self.lines = min(spacing, 2 * MIB) // LINE
        self.seed = 0
        for _ in range(2):
            self.run(gpu.units, 32, 32, 1, max(1, places // (32 * gpu.units) + 1))

    def run(self, blocks: int, warps: int, distinct: int, factor: int, hops: int = 128) -> Row:
        """Median cycles of a warp per load, and places that all warps together visit per cycle."""
        cycles = []
        taking_part = 0
        for _ in range(REPEATS):
            self.seed += 7919 * 32
            self.gpu.clear()
            self.gpu.launch(
                self.kernel, blocks, 32 * warps, self.gpu.data, self.gpu.results,
                self.gpu.marks, self.places, self.spacing, self.lines, distinct, factor,
                self.seed, hops,
            )  # fmt: skip
            rows = self.gpu.read(blocks * warps)
            rows = rows[rows[:, 3] == 1]
            taking_part = len(rows)
            cycles.append(float(np.mean(rows[:, 1] - rows[:, 0])) / hops)
        median = float(np.median(cycles))
        return {
            "spacing_bytes": self.spacing, "places": self.places, "distinct": distinct,
            "scattered": int(factor != 1), "blocks": blocks, "warps": warps,
            "cycles_per_load": median, "places_per_cycle": taking_part * distinct / median,
        }  # fmt: skip


def visit_pages(gpu: Prober) -> Iterator[Row]:
    """Cycles of loads whose lanes, warps and SMs are in different pages at the same time."""
    shapes = [(1, 1), (1, 4), (1, 16), (1, 32), (8, 1), (gpu.units, 1), (gpu.units, 4),
              (gpu.units, 16), (gpu.units, 32)]  # fmt: skip
    for spacing in (4 * KIB, 2 * MIB):
        for places in (512, 4096, 32_768):
            if places * spacing > gpu.room:
                continue
            visits = PlaceVisits(gpu, places, spacing)
            for distinct in (1, 2, 4, 8, 16, 32):
                for blocks, warps in shapes:
                    yield visits.run(blocks, warps, distinct, GOLDEN)


def visit_by_distance(gpu: Prober) -> Iterator[Row]:
    """The same by the distance of places: which of them share a translation."""
    for places in (128, 1024, 8192, 32_768):
        for spacing in (LINE, *(4 * KIB << k for k in range(0, 17))):
            if places * spacing > gpu.room or (spacing == LINE and places < 1024):
                continue
            visits = PlaceVisits(gpu, places, spacing)
            for distinct in (8, 32):
                for factor in (1, GOLDEN):
                    yield visits.run(gpu.units, 32, distinct, factor)


def visit_by_l1(gpu: Prober) -> Iterator[Row]:
    """The same where the L1 holds the lines: 64 KiB, which each warp visits 32 times."""
    for spacing in (LINE, 4 * KIB, 256 * KIB, 2 * MIB, 16 * MIB, 128 * MIB):
        visits = PlaceVisits(gpu, 512, spacing, "visit_places_by_l1")
        for distinct in (8, 32):
            for factor in (1, GOLDEN):
                yield visits.run(gpu.units, 32, distinct, factor, hops=512)


def visit_by_units(gpu: Prober) -> Iterator[Row]:
    """The same by the SMs that take part: neighbours, those of a GPC, one or two of each GPC."""
    clusters = find_clusters(gpu)
    whole = max(clusters, key=len)
    neighbours = [u for c in clusters for u in c if u + 1 in c and u % 2 == 0]
    sets = {
        "one": whole[:1],
        "neighbours": [neighbours[0], neighbours[0] + 1],
        "two of a GPC": [neighbours[0], neighbours[1]],
        "two GPCs": [c[0] for c in clusters[:2]],
        "one of each GPC": [c[0] for c in clusters],
        "two neighbours of each GPC": [u for c in clusters for u in c if u in c[:2]],
        **{f"{k} of a GPC": whole[:k] for k in (4, 6, 8, 10, 12, 14, len(whole))},
        **{f"{k} of each GPC": [u for c in clusters for u in c[:k]] for k in (4, 8, 12)},
        "all": list(range(gpu.units)),
    }
    for spacing, places in ((4 * KIB, 32_768), (2 * MIB, 512), (2 * MIB, 32_768)):
        visits = PlaceVisits(gpu, places, spacing)
        for name, units in sets.items():
            gpu.mark_units(units)
            row = visits.run(gpu.units, 32, 32, GOLDEN)
            yield {"units": name, "count": len(units), "gpcs": len(clusters), **row}
        gpu.mark_units(range(MAX_UNITS))


def list_gpcs(gpu: Prober) -> Iterator[Row]:
    """The number of each SM, by GPC."""
    for gpc, units in enumerate(find_clusters(gpu)):
        yield from ({"gpc": gpc, "unit": unit} for unit in units)


def find_clusters(gpu: Prober) -> list[list[int]]:
    """SMs by GPC, as far as clusters of several sizes tell; the blocks of one run in one GPC."""
    group = {unit: {unit} for unit in range(gpu.units)}
    for size in CLUSTER_SIZES:
        for blocks in (size, 8 * size, gpu.units // size * size):
            gpu.clear()
            gpu.allow_large_clusters(f"clusters_{size}")
            gpu.launch(f"clusters_{size}", blocks, 1024, gpu.results)
            rows = gpu.read(blocks * 32)[::32]
            for cluster in set(rows[:, 1]):
                units = set(map(int, rows[rows[:, 1] == cluster, 2]))
                merged = set().union(*(group[unit] for unit in units))
                group.update(dict.fromkeys(merged, merged))
    clusters = {id(units): sorted(units) for units in group.values()}
    return sorted(clusters.values())


def use_runs(gpu: Prober) -> Iterator[Row]:
    """Bytes per second from and to DRAM by the length of what is contiguous."""
    blocks, threads = 8 * gpu.units, 256
    for kernel in ("read_runs", "write_runs"):
        for size in (GIB, 4 * GIB, 32 * GIB):
            for run_bytes in (32, 64, 128, 256, 512, 1024, 2048, 4096, 16_384):
                if size // run_bytes > 1 << 31 or size > gpu.room:
                    continue
                times = max(1, min(64, size // (blocks * threads * 8 * 4)))
                values = (gpu.data, run_bytes // 4, size // run_bytes, times)
                gpu.launch(kernel, blocks, threads, *values)
                took = [gpu.launch(kernel, blocks, threads, *values) for _ in range(REPEATS)]
                used = blocks * threads * 8 * 4 * times
                yield {
                    "kernel": kernel, "run_bytes": run_bytes, "table_mib": size // MIB,
                    "used_mib": used / MIB, "us": 1e6 * min(took),
                    "gb_per_s": 1e-9 * used / min(took),
                }  # fmt: skip


def add_in_global(gpu: Prober) -> Iterator[Row]:
    """Additions per cycle by the number of words, their distance and type."""
    clock = gpu.clock_hz()
    for kernel, size in (
        ("add_float", 4), ("add_double", 8), ("add_integer", 4), ("add_long", 8),
        ("add_and_wait", 4),
    ):  # fmt: skip
        for by_warp in (0, 1):
            for words in (2**k for k in range(0, 17)):
                spacings = (size, 32, 64, 128, 256, 512, 1024, 4096, 65_536)
                for spacing in spacings if words > 1 else (size,):
                    if kernel in ("add_double", "add_long") and spacing in (64, 256, 1024):
                        continue
                    if by_warp and spacing not in (32, 4096):
                        continue
                    rate, took = additions_per_second(
                        gpu, kernel, gpu.data, words, spacing, by_warp
                    )
                    yield {
                        "kernel": kernel, "by_warp": by_warp, "words": words,
                        "spacing_bytes": spacing, "us": 1e6 * took,
                        "additions_per_cycle": rate / clock,
                    }  # fmt: skip
    gpu.call("cuMemsetD8", gpu.data, 0, 8 * GIB)


def additions_per_second(
    gpu: Prober, kernel: str, base: int, words: int, spacing: int, by_warp: int = 0
) -> tuple[float, float]:
    """Rate, and seconds of the longer launch: the difference of two of them has no overhead."""
    blocks, threads = 8 * gpu.units, 256

    def seconds(times: int) -> float:
        values = (base, words, spacing, times, by_warp)
        return min(gpu.launch(kernel, blocks, threads, *values) for _ in range(REPEATS))

    gpu.launch(kernel, blocks, threads, base, words, spacing, 1, by_warp)
    once = seconds(1)
    more = max(2, min(256, round(SHORT / once)))
    longer = seconds(1 + more)
    return blocks * threads * more / max(longer - once, 1e-9), longer


def add_to_pairs(gpu: Prober) -> Iterator[Row]:
    """Additions to two words by their distance: as fast as to one word where both share a unit."""
    clock = gpu.clock_hz()
    for kernel in ("add_float", "add_integer"):
        for base in (0, 4096 * 17, 4096 * 250_001):
            for distance in (*(4 * 2**k for k in range(0, 24)), *range(96, 4097, 32)):
                if base and distance > 1024:
                    continue
                rate, took = additions_per_second(gpu, kernel, gpu.data + base, 2, distance)
                yield {
                    "kernel": kernel, "base_bytes": base, "distance_bytes": distance,
                    "us": 1e6 * took, "additions_per_cycle": rate / clock,
                }  # fmt: skip
    gpu.call("cuMemsetD8", gpu.data, 0, 8 * GIB)


SHARED_KINDS = (
    "add integers", "add floats", "add integers and wait", "compare and swap", "exchange",
    "add doubles",
)  # fmt: skip


def use_shared_memory(gpu: Prober) -> Iterator[Row]:
    """Cycles of an SM per atomic instruction in shared memory."""
    for kind, label in enumerate(SHARED_KINDS):
        for warps in (1, 4, 32):
            for words, spacing in (
                (1, 2), (2, 2), (4, 2), (8, 2), (16, 2), (32, 2), (1024, 2), (32, 1), (1024, 1),
                (2, 32), (8, 32), (32, 32),
            ):  # fmt: skip
                if kind == SHARED_KINDS.index("add doubles") and spacing == 1:
                    continue
                times = 128
                values = (gpu.results, words, spacing, times)
                cycles = []
                for _ in range(REPEATS):
                    gpu.launch(f"use_shared_{kind}", 1, 32 * warps, *values)
                    rows = gpu.read(warps)
                    cycles.append(float(rows[:, 1].max() - rows[:, 0].min()) / (times * warps))
                yield {
                    "kind": label, "warps": warps, "words": words, "spacing_words": spacing,
                    "cycles_per_instruction": min(cycles),
                }  # fmt: skip


def swap_until_done(gpu: Prober) -> Iterator[Row]:
    """Additions by compare and swap: cycles until all threads are done."""
    times = 16
    for kernel in ("swap_in_global", "swap_in_shared"):
        for threads in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024):
            for words in (1, 8, 32, 1024):
                if words > threads:
                    continue
                cycles, tries = [], []
                for _ in range(REPEATS):
                    gpu.launch(kernel, 1, threads, gpu.data, gpu.results, words, times)
                    rows = gpu.read(-(-threads // 32))
                    cycles.append(float(rows[:, 1].max() - rows[:, 0].min()))
                    tries.append(int(rows[:, 3].sum()))
                additions = times * threads
                yield {
                    "kernel": kernel, "threads": threads, "words": words,
                    "cycles": float(np.median(cycles)),
                    "cycles_per_addition": float(np.median(cycles)) / additions,
                    "tries_per_addition": np.median(tries) / additions if threads >= 32 else "",
                }  # fmt: skip
    gpu.call("cuMemsetD8", gpu.data, 0, MIB)


def run_chains(gpu: Prober) -> Iterator[Row]:
    """Cycles from the first start until each warp of a block reaches each eighth of its chains."""
    links = 4096
    kernels = ("float_chains_1", "float_chains_2", "float_chains_4", "integer_chains_1",
               "integer_chains_2")  # fmt: skip
    for kernel in kernels:
        for warps in (1, 2, 3, 4, 5, 6, 7, 8):  # of each scheduler
            gpu.launch(kernel, 1, 128 * warps, gpu.results, links)
            gpu.launch(kernel, 1, 128 * warps, gpu.results, links)
            rows = gpu.read(4 * warps, 10)
            first = rows[:, 0].min()
            for warp, row in enumerate(rows):
                yield {
                    "kernel": kernel, "warps_per_scheduler": warps, "warp": warp,
                    **{f"at_{part}": int(row[part] - first) for part in range(9)},
                }  # fmt: skip


def hit_the_l1(gpu: Prober) -> Iterator[Row]:
    """Cycles of an SM per load that hits the L1, by width and distance of the lanes."""
    warps, times = 32, 512
    for words in (1, 2, 4):
        for spacing in (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 20, 36, 48, 68, 80, 132, 144):
            if spacing < 4 * words or spacing % (4 * words):
                continue
            kernel = f"hit_{'near_' if spacing > LINE else ''}{words}"
            cycles = []
            for _ in range(REPEATS):
                gpu.launch(kernel, 1, 32 * warps, gpu.data, gpu.results, spacing, times)
                rows = gpu.read(warps)
                cycles.append(float(rows[:, 1].max() - rows[:, 0].min()) / (times * warps))
            yield {"words": words, "spacing_bytes": spacing, "cycles_per_load": min(cycles)}


EXPERIMENTS: Mapping[str, Callable[[Prober], Iterator[Row]]] = {
    "chains": run_chains,
    "chase": chase_pages,
    "places": visit_pages,
    "distances": visit_by_distance,
    "in_l1": visit_by_l1,
    "gpcs": list_gpcs,
    "units": visit_by_units,
    "runs": use_runs,
    "atomics": add_in_global,
    "pairs": add_to_pairs,
    "shared": use_shared_memory,
    "swaps": swap_until_done,
    "hits": hit_the_l1,
}


def main(folder: Path, only: Sequence[str]) -> None:
    """Write FOLDER/NAME.csv for every experiment, or for those named."""
    gpu = Prober()
    about = gpu.driver.properties()
    print(f"{about.name}, driver {about.driver}, {gpu.clock_hz() / 1e6:.0f} MHz, "
          f"{gpu.room / GIB:g} GiB", flush=True)  # fmt: skip
    for name in only or EXPERIMENTS:
        begin = time.perf_counter()
        rows = [{k: rounded(v) for k, v in row.items()} for row in EXPERIMENTS[name](gpu)]
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        print(f"{name}: {len(rows)} rows, {time.perf_counter() - begin:.1f} s, "
              f"{gpu.clock_hz() / 1e6:.0f} MHz", flush=True)  # fmt: skip
    gpu.driver.close()


def rounded(value: Any) -> Any:
    """Five digits of a fraction."""
    if not isinstance(value, float) or value == 0:
        return value
    return float(f"{value:.{max(0, 4 - math.floor(math.log10(abs(value))))}f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
