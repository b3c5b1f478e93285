"""Kernels that are too much: a prediction that says what it rests on, or one clear error, soon."""

import math
import time

import pytest
from described import KERNELS, missing, program_of

import perfassert as pa
from perfassert.errors import LaunchError
from perfassert.frontends.binding.binder import Arguments, Binder
from perfassert.frontends.graph import launch_graph

pytestmark = pytest.mark.exhaustive(one_in=4)

A100 = "A100-SXM4-40GB"
PATIENCE = 120
"""Seconds of processor time, far above what is needed."""


@pytest.fixture(autouse=True)
def toolchain():
    if missing():
        pytest.skip(f"{missing()} is not installed")


def predicted(file, kernel, launch, asked=pa):
    start = time.process_time()
    found = asked.predict(pa.from_cuda(KERNELS / file, kernel), launch, pa.device(A100))
    assert time.process_time() - start < PATIENCE
    return found


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_120"])
def test_nested_guesses_amount_to_little(arch):
    program = program_of("nests.cu", "nest", arch)
    launch = pa.Launch(128, 256)
    binder = Binder(program, launch, Arguments(program, launch, "nest"), {}, {}, 32)
    guessed = [r for r in binder.loops.values() if r.assumed]
    assert len(guessed) == 8
    assert math.prod(r.most for r in guessed) <= 4096
    assert all(r.rests_on[0].stands_for == "trip count" for r in guessed)


def test_eight_nested_loops_of_unknown_length_are_predicted():
    prediction = predicted("nests.cu", "nest", pa.Launch(1 << 20, 256))
    assert 0 < float(prediction.time) < 3600
    said = [a for a in prediction.assumptions if a.stands_for == "trip count"]
    assert len(said) == 8


@pytest.mark.parametrize(("most", "said"), [(60_000, 0), (50, 1)])
def test_a_graph_that_grows_no_more_says_so(monkeypatch, most, said):
    monkeypatch.setattr(launch_graph, "_MAX_ITEMS", most)
    args = {"width": 64, "height": 64, "planes": 4, "years": 7}
    launch = pa.Launch((4, 4), (16, 16), args)
    session = pa.Session()  # nothing in a question says how many instructions
    prediction = predicted("explosion.cu", "pairs_of_years", launch, session)
    notes = [a.text for a in prediction.assumptions if "no more loops are taken apart" in a.text]
    assert len(notes) == said
    assert all(f"more than {most} instructions" in note for note in notes)


def test_more_iterations_than_anybody_waits_for_are_an_error():
    with pytest.raises(LaunchError, match=r"nests\.cu:\d+ would run 8000000000000 times"):
        predicted("nests.cu", "known", pa.Launch(64, 256, {"n": 20_000}))


def test_a_block_longer_than_can_be_simulated_is_an_error():
    """Fewer iterations, of which a block's times still do not fit into 64 bits."""
    start = time.process_time()
    with pytest.raises(LaunchError, match=r"a block would run \d+ instructions"):
        predicted("nests.cu", "known", pa.Launch(1 << 20, 1024, {"n": 10_000}))
    assert time.process_time() - start < PATIENCE


@pytest.mark.parametrize("kernel", ["long_code", "straight", "tangled", "pointer_chase"])
def test_long_and_tangled_code_is_predicted(kernel):
    prediction = predicted("explosion.cu", kernel, pa.Launch(512, 256, {"n": 20}))
    assert float(prediction.time) > 0
    if kernel in ("long_code", "pointer_chase"):  # the others' addresses are known or executed
        assert {a.stands_for for a in prediction.assumptions} >= {"address"}


def sectors_of_a_plane(width, height, block):
    """Sum the 32 B sectors that each block touches of a plane of floats."""
    total = 0
    for y0 in range(0, height, block):
        for x0 in range(0, width, block):
            rows = [j * width for j in range(y0, min(y0 + block, height))]
            last = min(x0 + block, width) - 1
            total += len({s for r in rows for s in range((r + x0) // 8, (r + last) // 8 + 1)})
    return total


@pytest.mark.parametrize("years", [4, 16])
def test_pairs_of_years_move_what_is_counted_by_hand(years):
    """A footprint of a hundred thousand pieces, in bounded time."""
    width, height, planes = 300, 200, 23
    arguments = {"width": width, "height": height, "planes": planes, "years": years}
    prediction = predicted(
        "explosion.cu", "pairs_of_years", pa.Launch((19, 13), (16, 16), arguments)
    )
    own = 2 * years * planes * sectors_of_a_plane(width, height, 16) * 32  # of a and q
    assert float(prediction.volumes.l2_load.parts["compulsory"]) == own
