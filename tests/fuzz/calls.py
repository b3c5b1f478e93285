"""Calls of every public name with arguments that are wrong, odd or enormous.

``python tests/fuzz/calls.py COUNT [SEED]`` makes so many calls and prints those that end in an
error which is neither one of perfassert's nor a ``TypeError``, or take more than 5 s. Each call is
made from its number alone: ``--one NUMBER`` makes it again, with the whole traceback.
"""

from __future__ import annotations

import contextlib
import random
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import perfassert as pa

with contextlib.suppress(ImportError):
    import pystencils  # noqa: F401  (takes seconds, which no call shall be blamed for)

PATIENCE = 5.0  # seconds of one call
ALLOWED = (pa.PerfAssertError, pa.ExpectationFailed, TypeError)
DEEP: list[Any] = []
for _ in range(200):
    DEEP = [DEEP]
NUMBERS: tuple[Any, ...] = (
    0, 1, 2, 3, 7, 32, 64, 255, 1024, 65_536, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63,
    2**64, 10**30, 10**400, 10**5000, -1, -(2**31), -(2**63), -(10**400),
    0.0, -0.0, 0.5, 1.0, 1.5, -0.5, 1e-320, 1e-9, 1e9, 1e308, -1e308, float("nan"), float("inf"),
    -float("inf"), np.int8(5), np.int32(64), np.int64(2**40), np.uint8(255), np.uint64(2**64 - 1),
    np.float16(0.5), np.float32(1e-3), np.float64("nan"), np.float32("inf"), np.bool_(True),
    np.array(7), np.array(1.5), Decimal("1.5"), Decimal("NaN"), Decimal("1e400"), Fraction(1, 3),
)  # fmt: skip
OTHERS: tuple[Any, ...] = (
    None, True, False, "", "x", "1", "-1", "n", "1.5 us", "< 5 us", "nan", "inf", "9" * 500, "\0",
    "\ud800", "é" * 300, "a[x", "a[x]", "%s", "../x", "a\nb", "::error::", b"", b"\xff", (), [], {},
    set(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), [0], [-1, 5], [None], [1.5], ["x"], (2**40, 2),
    {"a": 1}, {"n": 5}, {1: 2}, {"": None}, {"a": {"b": {}}}, DEEP, range(3), range(10**12),
    frozenset({1}), 1j, object, object(), len, Ellipsis, NotImplemented, slice(3), print,
    np.array([1, 2]), np.array([1.5]), np.array(["x"]), np.zeros((2, 2)), np.datetime64("2020"),
    np.array([], dtype=np.int64), np.str_("x"), memoryview(b"abc"), Exception("x"), iter([1, 2]),
)  # fmt: skip


@dataclass
class Chooser:
    """Good arguments, of which some are replaced by others; remembers what was called."""

    chance: random.Random
    called: list[str] = field(default_factory=list)

    def odd(self, depth: int = 2) -> Any:
        """Any value: a number, something else, or some of them together."""
        way = self.chance.random()
        if way < 0.45:
            return self.chance.choice(NUMBERS)
        if way < 0.85 or not depth:
            return self.chance.choice(OTHERS)
        many = [self.odd(depth - 1) for _ in range(self.chance.randrange(4))]
        if way < 0.95:
            return tuple(many) if way < 0.9 else many
        return {str(i) if self.chance.random() < 0.5 else "n": v for i, v in enumerate(many)}

    def mostly(self, good: Any, share: float = 0.3) -> Any:
        """``good``, or now and then anything."""
        return self.odd() if self.chance.random() < share else good

    def call(self, function: Callable[..., Any], *good: Any, **named: Any) -> Any:
        """With one to three of the arguments replaced, and now and then one too many or too few."""
        places: list[Any] = [*range(len(good)), *named]
        wrong = set(self.chance.sample(places, min(len(places), self.chance.randint(0, 3))))
        given = [self.odd() if i in wrong else g for i, g in enumerate(good)]
        more = {k: self.odd() if k in wrong else g for k, g in named.items()}
        if self.chance.random() < 0.02:
            more[self.chance.choice(["x", "kernel", "name", "n"])] = self.odd()
        name = getattr(function, "__qualname__", str(function))
        self.called.append(f"{name}({len(given)} arguments, {', '.join(map(str, wrong))} odd)")
        return function(*given, **more)


# What calls begin from


@lru_cache(maxsize=1)
def kernel() -> Any:
    fields = [pa.Field("a", "float32", (64, 64), halo=1), pa.Field("b", "float32", (64, 64))]
    return pa.Kernel.from_accesses("k", fields, ["a[y, x + 1]", "a[y, x]"], ["b[y, x]"], flops=3)


@lru_cache(maxsize=1)
def drawn() -> Any:
    g = pa.InstructionGraph.builder()
    with g.loop(3) as body:
        g.op("fp32", g.op("global_load"), body.carried("s"), name="s")
    g.barrier()
    return g.build()


@lru_cache(maxsize=1)
def prediction() -> Any:
    return pa.predict(kernel(), pa.Launch.cover((64, 64), (16, 4)), "a100")


@lru_cache(maxsize=1)
def ranking() -> Any:
    return pa.rank([(16, 4), (32, 2)], "a100", kernel=kernel(), domain=(64, 64))


LATENCIES = {name: pa.Latency(1, 5) for name in ("fp32", "global_load", "barrier", "x")}


# One call each


def quantity(c: Chooser) -> None:
    made = c.call(pa.Quantity, c.chance.choice([1.5, "3 us", 2]), c.chance.choice(["", "s", "B"]))
    other = c.odd()
    c.called.append("comparison")
    for compare in ("__lt__", "__eq__", "__ge__", "__ne__"):
        getattr(made, compare)(other)
    str(made), hash(made), f"{made:.3g}"


def array_field(c: Chooser) -> None:
    made = c.call(pa.Field, "f", "float64", (8, 8), halo=1, pitch=None, alignment=256, offset=0)
    assert made.strides


def buffer(c: Chooser) -> None:
    fill = c.chance.choice([None, "arange % 7", "random(0, 9)", "permutation"])
    c.call(pa.Buffer, (64,), "int32", 256, offset=0, fill=fill, seed=0)
    c.call(pa.Buffer, data=np.arange(5))


def tensor_map(c: Chooser) -> None:
    c.call(pa.TensorMap, (64, 64), (8, 8), "float16", strides=(128,), element_strides=(1, 1),
           swizzle=0)  # fmt: skip


def latency(c: Chooser) -> None:
    c.call(pa.Latency, 4, 20, pipeline="x", scope="unit")


def launch(c: Chooser) -> None:
    made = c.call(pa.Launch, (4, 4), (16, 4), {"n": 5}, shared_bytes=0, domain=None, cluster=1)
    list(made.scalar_args()), hash(made), made.describe(), made.threads


def cover(c: Chooser) -> None:
    assert c.call(pa.Launch.cover, (64, 64), (16, 4), {"n": 5}, shared_bytes=0, cluster=1).blocks


def accesses(c: Chooser) -> None:
    fields = [pa.Field("a", "float32", (64, 64))]
    made = c.call(
        pa.Kernel.from_accesses, name="k", fields=fields, loads=["a[y, x]"], stores=[], flops=1,
        dtype="float32", registers=32, shared_bytes=0, updates_per_thread=1, ilp=1, assume=None,
    )  # fmt: skip
    pa.predict(made, pa.Launch.cover((64, 64), (16, 4)), "a100")


def from_graph(c: Chooser) -> None:
    made = c.call(pa.Kernel.from_graph, "g", drawn(), latencies=LATENCIES, registers=32,
                  shared_bytes=0, flops=0, updates_per_thread=1)  # fmt: skip
    pa.predict(made, pa.Launch(8, 64), "a100")


def building(c: Chooser) -> None:
    g = pa.InstructionGraph.builder()
    node = c.call(g.op, "x", name="n", produces=True, access=None, space=None)
    with c.call(g.loop, 4) as body:
        c.call(g.op, "x", node, c.call(body.carried, "s", init=None, distance=1), name="s")
    with c.call(g.only, [0]):
        c.call(g.op, "x")
    channel = c.call(g.channel, 2, "c")
    c.call(g.arrive, channel, node, expects=0)
    c.call(g.wait, channel, lead=0)
    c.call(g.barrier)
    pa.simulate(
        g.build(), 2, 2, 1, LATENCIES | {"arrive": pa.Latency(1, 1), "wait": pa.Latency(1, 1)}
    )


def simulate(c: Chooser) -> None:
    order = c.chance.choice(["dataflow", "in-order"])
    c.call(
        pa.simulate, drawn(), 2, 4, 2, LATENCIES, issue_order=order, scheduler="loose-round-robin",
        schedulers=1, issue_width=None, fast_forward=True, trace=None,
    )  # fmt: skip


def device(c: Chooser) -> None:
    c.call(pa.device, c.chance.choice(["a100", "L40", "no.toml"]))


def variant(c: Chooser) -> None:
    gpu = pa.device("a100")
    keys = ["l2_bytes", "clock_hz", "compute_units", "warp_size", "operations", "curves", "name",
            "dram_bandwidth", "pipelines", "matrix", "digest", "aliases"]  # fmt: skip
    changes = {key: getattr(gpu, key) for key in c.chance.sample(keys, c.chance.randint(1, 3))}
    made = c.call(gpu.replace, **changes)
    pa.predict(kernel(), pa.Launch.cover((64, 64), (16, 4)), made)


def device_itself(c: Chooser) -> None:
    c.call(pa.device("a100").operation, "fp32")
    pa.devices()


def predict(c: Chooser) -> None:
    domain = c.mostly((64, 64), 0.1)
    where = pa.Launch.cover(domain, c.chance.choice([(16, 4), 1, 32, (1, 1, 64), 1024, (8, 8, 8)]))
    volumes = None if c.chance.random() < 0.5 else {"dram_load": c.mostly("8 B/update")}
    c.call(pa.predict, kernel(), where, c.chance.choice(["a100", "h100"]), volumes=volumes)


def expect(c: Chooser) -> None:
    metrics = {"time": "< 5 s", "cycles": "> 1", "limiter": "!dram", "dram_load": "< 1 GB",
               "occupancy": "> 0 %", "registers": 32, "advice": "in top 3: Loop Unrolling",
               "spill_bytes": 0, "nothing": "< 1", "l1_wavefronts": ">= 0"}  # fmt: skip
    conditions = {m: c.mostly(metrics[m], 0.7) for m in c.chance.sample(sorted(metrics), 2)}
    c.called.append(f"expect({', '.join(conditions)})")
    prediction().expect(**conditions)


def read_back(c: Chooser) -> None:
    data: Any = prediction().to_dict()
    for _ in range(c.chance.randint(1, 3)):
        here = data
        while isinstance(here, (dict, list)) and here:
            place = c.chance.choice(list(here) if isinstance(here, dict) else range(len(here)))
            if c.chance.random() < 0.4 or not isinstance(here[place], (dict, list)):
                here[place] = c.odd()
                break
            here = here[place]
    c.called.append("Prediction.from_dict")
    read = pa.Prediction.from_dict(c.mostly(data, 0.05))
    read.to_dict(), str(read), read.volumes.dram_load.per_thread, read.errors


def rank(c: Chooser) -> None:
    candidates = c.chance.choice([[(16, 4), (32, 2)], {"one": (kernel(), pa.Launch(4, 64))}])
    given = {"kernel": kernel(), "domain": (64, 64)} if isinstance(candidates, list) else {}
    c.call(pa.rank, candidates, "a100", **given)


def expect_ranking(c: Chooser) -> None:
    claims = {"best": (16, 4), "best_in": [(16, 4)], "order": [(16, 4), (32, 2)], "within": "5 %",
              "of": (16, 4)}  # fmt: skip
    chosen = c.chance.sample(sorted(claims), c.chance.randint(1, 3))
    c.call(ranking().expect, **{k: claims[k] for k in chosen})
    c.call(ranking().position, (16, 4))
    c.call(ranking().prediction, (16, 4))
    ranking().table()


def whatif(c: Chooser) -> None:
    keys = {"dram_bandwidth": 2.0, "clock_hz": 0.5, "block": (32, 2), "grid": (4, 4), "args": {},
            "registers": 64, "latency": {"dram": 2.0}, "l2_bytes": 2, "nothing": 1}  # fmt: skip
    chosen = c.chance.sample(sorted(keys), c.chance.randint(1, 2))
    made = c.call(pa.whatif, prediction(), **{k: keys[k] for k in chosen})
    str(made)


def advise(c: Chooser) -> None:
    c.call(pa.advise, kernel(), [], pa.Launch(4, 64), "a100")


def files(c: Chooser) -> None:
    function = c.chance.choice([pa.read_samples, pa.kernels, pa.launches])
    c.call(function, c.chance.choice(["/nowhere/x.csv", "no.cubin", "", Path("."), "x.toml"]))


def sources(c: Chooser) -> None:
    function = c.chance.choice([pa.from_cuda, pa.from_ptx, pa.from_cubin])
    own = (
        {"parameters": ()} if function is not pa.from_cuda else {"defines": {}, "include_dirs": ()}
    )
    c.call(function, "/nowhere/x.cu", "k", updates_per_thread=1, trip_counts={"x.cu:1": 5},
           assume=None, constants=None, toolchain=None, **own)  # fmt: skip


def code(c: Chooser) -> None:
    """Call front ends for compiled code with a file that exists and other arguments that are
    wrong."""
    here = str(Path(__file__))
    function = c.chance.choice([pa.from_ptx, pa.from_cubin])
    c.call(function, here, "k", updates_per_thread=1, trip_counts={"x.cu:1": 5}, assume={},
           constants={}, toolchain=None, parameters=())  # fmt: skip


def generators(c: Chooser) -> None:
    function, good = c.chance.choice([
        (pa.from_triton, (None,)), (pa.from_numba, (None, "void(float32)")),
        (pa.from_cute, (None,)), (pa.from_warp, (None,)), (pa.from_cupy, (None,)),
        (pa.from_pystencils, (None,)),
        (pa.from_source_object, (None,)), (pa.from_inductor, ("/nowhere",)),
        (pa.from_helion, ("/nowhere", {})),
        (pa.rank_autotune, (None, {}, (1,), {}, "a100")),
        (pa.tuning.triton_prune, (0.2, "a100")), (pa.tuning.helion_autotuner, (0.2, "a100")),
        (pa.tuning.kernel_tuner_objective, (0.2, "a100")),
    ])  # fmt: skip
    c.call(function, *good)


def plain_data(c: Chooser) -> None:
    """Classes that only hold what they are given."""
    c.call(pa.Advice, "Fast Math", "stall elimination", 1.1, 0.2, "do so")
    c.call(pa.Device, name="x")
    c.call(pa.InstructionGraph, (), (), ())


def session(c: Chooser) -> None:
    with c.call(pa.Session, 1 << 20) as made:
        c.call(made.predict, kernel(), pa.Launch.cover((64, 64), (16, 4)), "a100", volumes=None)


TARGETS = (
    quantity, array_field, buffer, tensor_map, latency, launch, cover, accesses, from_graph,
    building, simulate, device, variant, device_itself, predict, expect, read_back, rank,
    expect_ranking, whatif, advise, files, sources, code, generators, plain_data,
    session,
)  # fmt: skip


class TooSlow(Exception):
    """Raised in a call that takes longer than it may."""


class Failure(Exception):
    """Call that ends in an error which nobody should see; the error is the cause."""


@contextlib.contextmanager
def bounded(seconds: float) -> Iterator[None]:
    """Raises :class:`TooSlow` inside after so long; where the system has no alarm, afterwards."""

    def stop(*_: object) -> None:
        raise TooSlow

    begin = time.monotonic()
    alarm = hasattr(signal, "setitimer")
    before = signal.signal(signal.SIGALRM, stop) if alarm else None
    if alarm:
        signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        if alarm:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
    if time.monotonic() - begin > seconds:
        raise TooSlow


def make_call(seed: int, number: int) -> Chooser:
    """Make the call of a number; raises :class:`Failure` where it ends as no call should."""
    chooser = Chooser(random.Random(seed * 1_000_003 + number))
    target = TARGETS[number % len(TARGETS)]
    chooser.called.append(target.__name__)
    prediction(), ranking()  # what is loaded but once counts for no call
    try:
        with bounded(PATIENCE):
            target(chooser)
    except ALLOWED as error:
        str(error)
    except Exception as error:
        called = "; ".join(chooser.called)
        raise Failure(f"call {number} of seed {seed}: {called}: {error!r}") from error
    return chooser


def failures(count: int, seed: int) -> Iterator[tuple[Failure, BaseException]]:
    """Failed calls, each with its cause."""
    for number in range(count):
        try:
            make_call(seed, number)
        except Failure as failure:
            assert failure.__cause__ is not None
            yield failure, failure.__cause__


def main(count: int, seed: int) -> int:
    """Prints each place once; returns the number of failures."""
    begin = time.monotonic()
    places: Counter[str] = Counter()
    for failure, error in failures(count, seed):
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}"
        places[place] += 1
        if places[place] == 1:
            print(f"{place}: {failure!s:.450}", flush=True)
    for place, times in places.most_common():
        print(f"{times:6} × {place}")
    total = sum(places.values())
    print(f"{count} calls, seed {seed}, {total} failures, {time.monotonic() - begin:.0f} s")
    return total


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        make_call(int(sys.argv[3]) if len(sys.argv) > 3 else 0, int(sys.argv[2]))
    else:
        sys.exit(main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0) > 0)
