"""Tests that former mispredictions without a warning are right, or guesses that name line and
share."""

from pathlib import Path

import pytest

import perfassert as pa
from perfassert.predictor.judge.confidence import GUESSED_FROM
from perfassert.predictor.judge.errors import TABLE, WITH_ERROR_BAND, kind_of
from perfassert.shipped import read_fit

KERNELS = Path(__file__).parents[1] / "frontends" / "kernels"
A100 = "A100-SXM4-40GB"

RIGHT = [  # kernel, grid, block, arguments: the launch decides all of it
    ("loops", "lanes", 8, 256, {"columns": 100}),
    ("loops", "left_by_break", 8, 64, {"m": 20, "n": 13}),
    ("loops", "left_by_break_unrolled", 8, 64, {"m": 23, "n": 13}),
    ("loops", "nested_break", 8, 64, {"m": 9, "n": 11, "outer": 3}),
    ("loops", "halving_block", 4, 256, {}),
    ("loops", "halving_argument", 4, 64, {"n": 1000}),
    ("loops", "doubling", 4, 64, {"n": 256}),
    ("loops", "with_remainder", 4, 64, {"n": 67}),
    ("loops", "grid_stride", 4, 64, {"n": 5000}),
    ("loops", "hot_inside", 4, 256, {"n": 600, "m": 5}),
    ("guards", "rows_of_36", 8, 64, {"n": 3}),
    ("guards", "rows_of_36_signed", 8, 64, {"n": 3}),
    ("guards", "copy_or_zero", 8, 64, {"n": 100}),
    ("guards", "upper_half", 8, 64, {"n": 5}),
    ("guards", "predicated_chain", 8, 64, {"n": 100}),
]
GUESSED = [  # what it stands for, and the line that it is about
    ("addresses", "scattered", 512, 256, {}, "address", "out[i] = in[index[i]]"),
    ("addresses", "length_in_memory", 64, 256, {}, "trip count", "for (int j = 0; j < length"),
    ("addresses", "pointers_in_constants", 64, 256, {}, "branch", "if (t < fields.n)"),
    ("nests", "nest", 512, 256, {}, "trip count", "for ("),
]


def predicted(file, kernel, grid, block, arguments, **said):
    code = pa.from_cuda(KERNELS / f"{file}.cu", kernel, **said)
    try:
        return pa.predict(code, pa.Launch(grid, block, args=arguments), A100)
    except pa.ToolchainMissing as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize("case", RIGHT, ids=[f"{c[1]}, {c[4]}" for c in RIGHT])
def test_what_the_launch_decides_is_no_guess(case):
    p = predicted(*case)
    assert p.confidence in ("measured", "extrapolated"), p.confidence_reasons


@pytest.mark.parametrize("case", GUESSED, ids=[c[1] for c in GUESSED])
def test_what_memory_decides_is_a_guess_that_names_its_line(case):
    *launch, stands_for, line = case
    p = predicted(*launch)
    assert p.confidence == "guessed"
    found = [a for a in p.confidence_reasons if a.stands_for == stands_for]
    assert found
    assert found[0].share > GUESSED_FROM
    source = (KERNELS / f"{case[0]}.cu").read_text().splitlines()
    assert any(line in source[a.span.line - 1] for a in found)
    shares = [a.share for a in p.confidence_reasons]
    assert shares == sorted(shares, reverse=True)
    assert all(0 <= share <= 1 for share in shares)


def test_a_stand_in_carries_what_its_loop_executes():
    """The share of a guess is what the loop's assumed trips add to the instructions."""
    short, long = (
        predicted("addresses", "length_in_memory", 64, 256, {}, trip_counts={"addresses.cu:19": n})
        for n in (8, 16)
    )
    guess = predicted("addresses", "length_in_memory", 64, 256, {})
    trips, count = 16, float(guess.resources.instructions)
    assert count == float(long.resources.instructions)
    body = (count - float(short.resources.instructions)) / (trips - 8)
    assert guess.confidence_reasons[0].share >= trips * body / count * (1 - 1e-9)


def test_what_the_author_says_is_no_guess():
    assume = {"index": "blockIdx.x * 256 + threadIdx.x"}
    given = predicted("addresses", "scattered", 512, 256, {}, assume=assume)
    assert given.confidence != "guessed"
    (said,) = [a for a in given.assumptions if "index" in a.text]
    assert said.text == "what is loaded from index is taken to be blockIdx.x * 256 + threadIdx.x"
    assert said.span is not None
    assert said.span.short.startswith("addresses.cu:")
    assert said not in given.confidence_reasons


def test_of_kernels_by_hand_nothing_is_guessed():
    g = pa.InstructionGraph.builder()
    g.op("fp32", g.op("int32"))
    p = pa.predict(pa.Kernel.from_graph("g", g.build()), pa.Launch(64, 64), A100)
    assert (p.confidence, p.confidence_reasons) == ("extrapolated", ())
    assert p.errors["instructions"] == 0
    assert "instructions" in p.exact


@pytest.mark.parametrize("blocks", [8, 40_000])
def test_nothing_was_measured_on_graphs(blocks):
    """Their latencies are their author's: errors of streams by address expressions are not theirs,
    whatever limits them."""
    g = pa.InstructionGraph.builder()
    g.op("fp32", g.op("mem"))
    slow = {"mem": pa.Latency(issue=23, completion=521, pipeline="global")}
    p = pa.predict(pa.Kernel.from_graph("g", g.build(), slow), pa.Launch(blocks, 256), A100)
    assert p.limiter == ("dram" if blocks > 8 else "parallelism")
    assert p.confidence == "extrapolated"
    assert not p.error_band("time").measured
    assert kind_of(p, pa.device(A100)).way == "graph"


def test_the_band_is_that_of_the_kind():
    n = 1 << 26
    copy = pa.Kernel.from_accesses(
        "copy", [pa.Field("a", "float64", n), pa.Field("b", "float64", n)], ["a[x]"], ["b[x]"]
    )
    launch = pa.Launch.cover(n, 256)
    here, there = (pa.predict(copy, launch, name) for name in (A100, "H100-SXM5-80GB"))
    assert (here.limiter, here.confidence) == ("dram", "measured")
    assert here.error_bands["time"].suite == "stream_occupancy_a100, stream_occupancy_five"
    assert 0 < here.errors["time"] < 0.2
    assert there.confidence in ("measured", "extrapolated")
    assert there.error_band("time").measured == (there.confidence == "measured")
    assert there.errors["time"] > 0
    assert here.errors["registers"] == 0
    again = pa.Prediction.from_dict(here.to_dict())
    assert (again.confidence, again.errors) == (here.confidence, here.errors)
    here.expect(confidence="measured | extrapolated")
    with pytest.raises(pa.ExpectationFailed):
        here.expect(confidence="guessed")


def test_every_known_error_names_the_suite_that_it_was_measured_on():
    suites = {path.stem for path in (KERNELS.parents[2] / "validation").glob("*.toml")}
    rows = read_fit(TABLE)["band"]
    assert {suite for row in rows for suite in row["suite"].split(", ")} <= suites
    assert {row["metric"] for row in rows} <= set(WITH_ERROR_BAND)
    most = {"guessed": 20}  # times the measured value: a few guesses are far off
    assert all(0 <= row["error"] < most.get(row["way"], 3) and row["rows"] >= 8 for row in rows)
    assert all(row["error"] > 0 for row in rows if row["metric"] == "time")
    kinds = [(r["metric"], r["arch"], r["way"], r["limiter"], r["suite"]) for r in rows]
    assert len(kinds) == len(set(kinds))


def test_a_texture_is_a_texel_per_thread_and_a_guess():
    p = predicted("textures", "fetched", (64, 64), 256, {})
    texels = 64 * 64 * 256
    assert float(p.volumes.dram_load.fields["texture"].total) == pytest.approx(4 * texels, rel=0.01)
    assert float(p.volumes.dram_store.total) == pytest.approx(4 * texels, rel=0.01)
    assert p.confidence == "guessed"
    assert "layout of a texture" in p.confidence_reasons[0].text


ATOMICS = """
#define I (blockIdx.x * blockDim.x + threadIdx.x)
extern "C" __global__ void counted(int* r, const int* v) { atomicAdd(r, v[I]); }
extern "C" __global__ void floats(float* r, const float* v) { atomicAdd(r, v[I]); }
extern "C" __global__ void largest(long long* r, const int* v) { atomicMax(r, (long long) v[I]); }
extern "C" __global__ void drawn(int* r, int* v) { v[I] = atomicAdd(r, 1 + (v[I] > 0)); }
extern "C" __global__ void neighbours(int* r, const int* v) { atomicAdd(r + I % 4, v[I]); }
extern "C" __global__ void apart(double* r) { atomicAdd(r + 4 * I, 1.0); }
extern "C" __global__ void now_and_then(float* r, const float* v) {
    float sum = 0;
    for (int i = 0; i < 64; i++) sum += v[i * gridDim.x * blockDim.x + I];
    if (threadIdx.x == 0) atomicAdd(r, sum);
}
"""


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("kernel", "known"),
    [("counted", True), ("floats", True), ("largest", False), ("drawn", False),
     ("neighbours", False), ("apart", False), ("now_and_then", True)],
)  # fmt: skip
def test_atomics_that_decide_are_a_guess_unless_their_rate_was_measured(kernel, known, tmp_path):
    source = tmp_path / "atomics.cu"
    source.write_text(ATOMICS)
    p = pa.predict(pa.from_cuda(source, kernel), pa.Launch(4096, 256), "RTX-2080-Ti")
    assert (p.confidence != "guessed") is known
    found = [a for a in p.confidence_reasons if a.stands_for == "rate"]
    assert bool(found) is not known
    assert all(a.share == 1 and a.span.file.endswith("atomics.cu") for a in found)
