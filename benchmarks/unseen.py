"""Kernels that stopped or misled version 0.1.0, predicted again: what it said, what is said now.

Every line is a reduction of a public kernel (``unseen.cu``) with a right value that follows from
its source text; figures of 0.1.0 are those that were noted when it was tried on the originals,
with launches of their own. Prints the table of ``docs/results/former-mispredictions.md``; needs
the extra ``cuda``: ``python benchmarks/unseen.py``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import refused
from tabulate import tabulate

import perfassert as pa
from perfassert.quantity import Quantity

SOURCE = Path(__file__).with_name("unseen.cu")
A100, H100 = "A100-SXM4-40GB", "H100-SXM5-80GB"
FLOAT = 4
WIDE = 65536
"""Threads of most launches: 256 blocks of 256."""
Say = Callable[[pa.Prediction], str]


@dataclass(frozen=True)
class Case:
    """``right``: the value that ``say`` should give, in words or as a quantity of its kind."""

    what: str
    before: str
    kernel: str
    say: Say
    right: str
    args: dict[str, Any] = field(default_factory=dict)
    grid: Any = 256
    block: Any = 256
    device: str = A100
    more: dict[str, Any] = field(default_factory=dict)

    def row(self) -> list[str]:
        """Return a row of the table: case, result before, result now, right result, confidence."""
        try:
            launch = pa.Launch(self.grid, self.block, self.args)
            kernel = pa.from_cuda(SOURCE, self.kernel, **self.more)
            prediction = pa.predict(kernel, launch, self.device)
        except pa.PerfAssertError as error:
            message = f"{type(error).__name__}: {str(error).splitlines()[0]}"
            return [self.what, self.before, message[:90], self.right, ""]
        return [self.what, self.before, self.say(prediction), self.right, prediction.confidence]


def in_bytes(value: float) -> str:
    """Return a number of bytes as the package prints it."""
    return str(Quantity(float(value), "B"))


def loads(p: pa.Prediction) -> str:
    """Return the bytes loaded from the L2, for kernels that use none twice, as text."""
    return f"{p.volumes.l2_load.total} loaded"


def stores(p: pa.Prediction) -> str:
    """Return the bytes stored to the L2, as text."""
    return f"{p.volumes.l2_store.total} stored"


def dram(p: pa.Prediction) -> str:
    """Bytes from DRAM."""
    return f"{p.volumes.dram_load.total} from DRAM"


def time_text(p: pa.Prediction) -> str:
    """The time."""
    return str(p.time)


def above_bounds(p: pa.Prediction) -> str:
    """The time against the largest bound."""
    bound = max(p.bounds.values(), key=float)
    return f"{p.time}; largest bound {bound}"


def trips(kernel: str, args: dict[str, int], blocks: int, count: Callable[[int], int]) -> float:
    """Bytes of ``count(b)`` loads of each of the 256 threads of block b."""
    return sum(count(b) for b in range(blocks)) * 256 * FLOAT


def silently_wrong() -> Iterator[Case]:
    """The first table of what misled in silence."""
    yield Case(
        "division and remainder by `warpSize`", "“depends on data”, 16 trips; 3.54 ms for 97 µs",
        "warp_size", loads, f"{in_bytes(4096 * 8 * 1024 * FLOAT)} loaded",
        {"columns": 1024}, 4096,
    )  # fmt: skip
    broken = {"m": 236, "n": 4096}
    for device, before in ((A100, "989 MB for 268 MB"), (H100, "opcode unknown, 16 trips")):
        count = trips("", {}, 4096, lambda b: min(236, 4096 - b))
        yield Case(
            f"loop with `break`, unrolled, {device}", before, "left_by_break", loads,
            f"{in_bytes(count)} loaded", broken, 4096, device=device,
        )  # fmt: skip
    nested = 3 * trips("", {}, 64, lambda b: min(9, max(40 - b, 0)))
    yield Case("the same, nested", "wrong exit taken", "nested_break", loads,
               f"{in_bytes(nested)} loaded", {"m": 9, "n": 40, "outer": 3}, 64)  # fmt: skip
    yield Case("time below a bound", "91 µs, roofline 100 µs", "left_by_break", above_bounds,
               "time ≥ every bound", broken, 4096)  # fmt: skip
    flops = 2 * 4096 * 768 * 3072 / 19.5e12
    yield Case(
        "tiled matrix product, 128 × 128 for a block", "31 ms", "matrix_product", time_text,
        f"2 to 3 ms measured; ≥ {Quantity(flops, 's')} of arithmetic",
        {"inner": 768, "columns": 3072}, (32, 24), (16, 16),
    )  # fmt: skip
    n = 2**23
    yield Case(
        "predicated address chain", "“pointer in memory”, 8 elements apart; 42.7 µs for 24.5 µs",
        "predicated_address", dram, f"{in_bytes(n * FLOAT)} from DRAM", {"n": n}, n // 256,
    )  # fmt: skip
    constant = in_bytes(100 * WIDE * FLOAT)
    yield Case("`__constant__` without a value", "read as 0: “0 iterations”; 1 µs for 4.7 ms",
               "constant_length", loads, "unknown, and said so")  # fmt: skip
    yield Case("the same, given by symbol", "no effect", "constant_length", loads,
               f"{constant} loaded", more={"constants": {"length": 100}})  # fmt: skip
    rows = np.random.default_rng(1).permutation(4096).astype(np.int32)
    yield Case(
        "row chosen by a block", "affine rest lost: 81 µs for 10.7 µs", "block_rows", dram,
        f"{in_bytes(4096 * 1025 * FLOAT)} from DRAM", {"row": rows}, 4096, 1024,
    )  # fmt: skip
    yield Case(
        "nested loops left early", "87 µs, below its own bound of 381 µs", "left_early",
        above_bounds, "time ≥ every bound", {"n": 1000, "m": 400}, 2048,
    )  # fmt: skip


def recurrences() -> Iterator[Case]:
    """Loops whose counter is shifted, and loops in several copies."""
    yield Case("halving, `d >>= 1` from 1000", "unresolved", "halving", loads,
               f"{in_bytes(10 * WIDE * FLOAT)} loaded", {"n": 1000})  # fmt: skip
    yield Case("doubling, `i *= 2` to 256", "64 trips for 8", "doubling", loads,
               f"{in_bytes(8 * WIDE * FLOAT)} loaded", {"n": 256})  # fmt: skip
    yield Case("`(i + 1) / 2` from 1000", "unresolved", "rounding_up", loads,
               f"{in_bytes(10 * WIDE * FLOAT)} loaded", {"n": 1000})  # fmt: skip
    yield Case("unrolled loop and its remainder", "one label for both", "with_remainder", loads,
               f"{in_bytes(67 * WIDE * FLOAT)} loaded", {"n": 67})  # fmt: skip
    yield Case(
        "grid-stride loop unrolled by the compiler", "“data” and 16 trips", "stride", loads,
        f"{in_bytes(10**7 * FLOAT)} loaded", {"n": 10**7},
    )  # fmt: skip
    yield Case("guard above a grid-stride loop", "lost: 786 kB for 6 kB", "guarded_stride", stores,
               f"{in_bytes(3 * 512 * FLOAT)} stored", {"n": 512, "m": 3 * WIDE})  # fmt: skip
    yield Case("bound from float arithmetic", "“data”; 316 times too long", "float_bound", loads,
               f"{in_bytes(100 * WIDE * FLOAT)} loaded", {"width": 10.0, "step": 0.1})  # fmt: skip


def guards() -> Iterator[Case]:
    """Guards that cut the grid unevenly, and guards by arithmetic."""
    threads = 18_000 * 1024
    cut = 500_000 * 36 * FLOAT
    for kernel, before in (("quotient", "1.3 MB loaded, 0 B stored for 144 MB"),
                           ("quotient_signed", "guard lost")):  # fmt: skip
        for say, word in ((loads, "loaded"), (stores, "stored")):
            yield Case(
                f"`id / 36 < n`, {'signed' if 'signed' in kernel else 'unsigned'}, {word}",
                before, kernel, say, f"{in_bytes(cut)} {word}", {"n": 500_000}, threads // 1024,
                1024,
            )  # fmt: skip
    yield Case("`if (id < n) … else c[id] = 0`, loaded", "0 B for 2 to 17 MB", "copy_or_zero",
               loads, f"{in_bytes(10**6 * FLOAT)} loaded", {"n": 10**6}, 2**13)  # fmt: skip
    yield Case("the same, stored", "0 B for 2 to 17 MB", "copy_or_zero", stores,
               f"{in_bytes(2**21 * FLOAT)} stored", {"n": 10**6}, 2**13)  # fmt: skip
    rim = 2 * 125 * 32 + 2 * 3998 * 32  # rows in sectors, and a sector for each end of the others
    yield Case(
        "borders of an image, 1000 × 4000", "0 B", "border", loads,
        f"{in_bytes(rim)} loaded", {"width": 1000, "height": 4000}, (63, 250), (16, 16),
    )  # fmt: skip
    half = in_bytes(WIDE // 2 * FLOAT)
    yield Case("float comparison as a guard", "“data”: all threads", "float_guard", stores,
               f"{half} stored", {"step": 0.5, "end": WIDE / 4})  # fmt: skip


def others() -> Iterator[Case]:
    """Arguments, library functions, stand-ins; what was refused."""
    sixteen = in_bytes(WIDE * FLOAT)
    for ry in (1, 1.0):
        yield Case(f"`Ry={ry!r}` for a float parameter", "a denormal: slow path", "reciprocal",
                   lambda p: str(p.cycles), "the same for 1 and 1.0", {"ry": ry})  # fmt: skip
    yield Case("a key that names nothing", "ignored", "stride", loads, "an error",
               {"n": 5, "bogus": 3})  # fmt: skip
    yield Case("eight nested loops of unknown length", "16⁸ trips: 10 minutes, 4 GB", "nest",
               time_text, "bounded, “guessed”")  # fmt: skip
    yield Case("double `sin`: library loops", "slow path as a loop of 16 trips", "double_sine",
               loads, f"{in_bytes(WIDE * 8)} loaded")  # fmt: skip
    inside = pa.Buffer(4096, "float32")
    yield Case(
        "gather from a buffer of 16 kB", "up to 8 times the DRAM bytes", "scattered", dram,
        f"≤ {in_bytes(WIDE * FLOAT + 4096 * FLOAT)} from DRAM",
        {"in": inside, "at": pa.Buffer(WIDE, "int32", fill="random(0, 4096)")},
    )  # fmt: skip
    yield Case("`assert` in a file", "every kernel lost", "asserting", loads,
               f"{sixteen} loaded", {"n": WIDE})  # fmt: skip
    yield Case("`p != nullptr` as a guard", "“needs its argument 'bias'”", "optional_bias", loads,
               in_bytes(WIDE * FLOAT + 256 * 256 * FLOAT) + " loaded")  # fmt: skip
    yield Case("the same, null", "refused", "optional_bias", loads, f"{sixteen} loaded",
               {"bias": None})  # fmt: skip
    yield Case("kernel that a macro defines, by name", "parameters `arg3`", "made_by_macro", loads,
               f"{sixteen} loaded", {"count": WIDE})  # fmt: skip


def measured_cases() -> Iterator[Case]:
    """Yield cases that HeCBench's counters showed; the right result follows from arithmetic if
    possible."""
    blocks, n = 108 * 8 * 4, 20_000
    peak = blocks * 256 * n * 64 / 19.5e12
    yield Case("long blocks, four waves", "1.94 times", "long_blocks", time_text,
               f"{Quantity(peak, 's')}, at the peak", {"n": n}, blocks)  # fmt: skip
    for count, cycles in ((108, 4), (108 * 16, 8)):  # four warps a scheduler, two cycles each
        yield Case(
            f"long chains, {count} blocks of a warp", "1.94 times", "long_chain", time_text,
            f"{Quantity(n * 32 * cycles / 1.41e9, 's')}, {cycles} cycles each", {"n": n}, count, 32,
        )  # fmt: skip
    word = "0.25 to 2·10⁻⁶ of the time, once without a word"
    for kernel, what in (("own_addresses", "an address for each thread"),
                         ("one_address", "one address for all")):  # fmt: skip
        yield Case(f"global float atomics, {what}", word, kernel, time_with_atomics,
                   "longer for one address, or said", grid=2**16)  # fmt: skip
    yield Case("shared float atomics, one address", "a retry loop that ran once", "shared_float",
               time_with_atomics, "at least 32 tries of a warp, or said", grid=2**12)  # fmt: skip
    side = 8192
    once = in_bytes(side * side * FLOAT + 2 * side * FLOAT)
    args = {"m": {"sizes": [side, side], "strides": [side, 1]}}
    yield Case("`tensorAccessor`: a row for each thread", "1.94 times the DRAM bytes", "accessor",
               dram, f"≥ {once} from DRAM", args, side // 256)  # fmt: skip
    many = 82 * 6 * 256
    yield Case(
        "eight rows for each thread, 31 MB of sectors an iteration, L2 of 6 MB",
        "0.24 and 0.28 of the DRAM bytes", "eight_rows", dram,
        f"{in_bytes(many * 8 * 1024 * 32)} from DRAM, a sector for each load",
        {"columns": 1024}, 82 * 6, device="RTX-3090",
    )  # fmt: skip
    yield Case(
        "gather, only the buffer's shape given", "8 elements apart, beyond the buffer",
        "scattered", dram, f"≤ {in_bytes(WIDE * FLOAT + 4096 * FLOAT)} from DRAM",
        {"in": pa.Buffer(4096, "float32")},
    )  # fmt: skip


def time_with_atomics(p: pa.Prediction) -> str:
    """The time, and what is said of atomics."""
    notes = [a.text for a in p.assumptions if "atomic" in a.text]
    met = p.diagnostics.get("atomics_on_one_address")
    if met and met > 1:
        notes.append(f"{met:.0f} on one address; limiter {p.limiter}")
    return f"{p.time}; " + ("; ".join(notes) or "nothing said")


def main() -> None:
    """Print the table."""
    rows = []
    start = time.process_time()
    for part in (silently_wrong, recurrences, guards, others, measured_cases):
        rows += [case.row() for case in part()]
    titles = ["what", "0.1.0 on the original", "here", "right", "confidence"]
    print(tabulate(rows, titles, tablefmt="github", disable_numparse=True))
    print()
    ways = refused.rows()
    print(tabulate(ways, [*titles[:3], "seen by"], tablefmt="github", disable_numparse=True))
    spent = f"{time.process_time() - start:.0f} s of "
    print(f"\n{len(rows)} predictions, {len(ways)} entry points, {spent}", end="")
    print("processor time, excluding that of the tools")


if __name__ == "__main__":
    main()
