"""Loops as found in published CUDA code; what a thread moves is counted by hand.

Oracles are closed forms of the source text: how often a thread goes through each loop.
"""

import pytest
from described import KERNELS, missing, moved, program_of, variables

import perfassert as pa
from perfassert.frontends.analysis.loop_places import loop_names
from perfassert.frontends.binding.binder import Arguments, Binder
from perfassert.kernel.launch import Launch
from perfassert.source import SourceSpan

pytestmark = pytest.mark.exhaustive(one_in=3)

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_120")


def ceil(a, b):
    return -(-a // b)


def steps(start, going, following):
    """Count the iterations of a loop by running it."""
    count = 0
    while going(start):
        start, count = following(start), count + 1
    return count


def halvings(n):
    """Return how many times n can be halved until it is 0."""
    return n.bit_length()


CASES = [
    # kernel, grid, block, arguments, 4-byte loads of thread t of block b
    ("lanes", 8, 256, {"columns": 100}, lambda b, t: ceil(100 - t % 32, 32)),
    ("lanes", 8, 256, {"columns": 7}, lambda b, t: int(t % 32 < 7)),
    ("left_by_break", 8, 64, {"m": 20, "n": 13}, lambda b, t: min(20, 13 - b)),
    ("left_by_break", 8, 64, {"m": 5, "n": 100}, lambda b, t: 5),
    ("left_by_break_unrolled", 8, 64, {"m": 23, "n": 13}, lambda b, t: min(23, 13 - b)),
    ("left_by_break_unrolled", 8, 64, {"m": 9, "n": 6}, lambda b, t: max(0, min(9, 6 - b))),
    ("nested_break", 8, 64, {"m": 9, "n": 11, "outer": 3}, lambda b, t: 3 * min(9, 11 - b)),
    ("nested_break", 8, 64, {"m": 4, "n": 99, "outer": 2}, lambda b, t: 8),
    ("halving_block", 4, 256, {}, lambda b, t: 1),
    ("halving_argument", 4, 64, {"n": 1000}, lambda b, t: halvings(1000)),
    ("halving_argument", 4, 64, {"n": 0}, lambda b, t: 0),
    ("halving_unsigned", 4, 64, {"n": 256}, lambda b, t: halvings(128)),
    ("halving_unsigned", 4, 64, {"n": 1}, lambda b, t: 0),
    ("doubling", 4, 64, {"n": 256}, lambda b, t: 8),
    ("doubling", 4, 64, {"n": 257}, lambda b, t: 9),
    ("doubling", 4, 64, {"n": 2**31 - 1}, lambda b, t: 31),
    ("doubling_plain", 4, 64, {"n": 1}, lambda b, t: 0),
    ("doubling_barriers", 4, 256, {}, lambda b, t: 1),
    ("with_remainder", 4, 64, {"n": 67}, lambda b, t: 67),
    ("with_remainder", 4, 64, {"n": 2}, lambda b, t: 2),
    ("grid_stride", 4, 64, {"n": 5000}, lambda b, t: ceil(5000 - 64 * b - t, 256)),
    ("grid_stride", 4, 64, {"n": 100}, lambda b, t: int(64 * b + t < 100)),
    ("block_stride", 4, 64, {"n": 1000}, lambda b, t: ceil(1000 - t, 64)),
    ("hot_inside", 4, 256, {"n": 600, "m": 5}, lambda b, t: 3),
    *[
        (name, 4, 64, {"n": n}, lambda b, t, n=n, steps_of=steps_of: steps_of(n))
        for name, steps_of in (
            ("rounding_up", lambda n: steps(n, lambda i: i > 1, lambda i: (i + 1) // 2)),
            ("rounding_down", lambda n: steps(n, lambda i: i > 0, lambda i: (i - 1) // 2)),
            ("rounding_down_shifted", lambda n: steps(n, lambda i: i >= 1, lambda i: (i - 1) >> 1)),
            ("twice_and_one", lambda n: steps(0, lambda i: i < n, lambda i: 2 * i + 1)),
            ("four_times_and_three", lambda n: steps(1, lambda i: i < n, lambda i: 4 * i + 3)),
        )
        for n in (1, 2, 7, 1000)
    ],
    ("several_exits", 4, 64, {"n": 40, "m": 60, "first": 0}, lambda b, t: 21 + 20),
    ("several_exits", 4, 64, {"n": 8, "m": 999, "first": 3}, lambda b, t: 5 + 5),
]
PLACES = [(0, 0), (0, 31), (1, 63), (3, 40)]


@pytest.fixture(autouse=True)
def toolchain():
    if missing():
        pytest.skip(f"{missing()} is not installed")


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize(
    ("kernel", "grid", "block", "arguments", "loads"), CASES,
    ids=[f"{c[0]}-{'-'.join(map(str, c[3].values()))}" for c in CASES],
)  # fmt: skip
@pytest.mark.exhaustive(one_in=6)
def test_a_thread_loads_as_often_as_its_source_says(kernel, grid, block, arguments, loads, arch):
    program = program_of("loops.cu", kernel, arch)
    for b, t in PLACES:
        names = variables(program, arguments, (grid, 1, 1), (block, 1, 1), (b, 0, 0), (t, 0, 0))
        assert moved(program, names)[0] == 4 * loads(b, t), (b, t)


COUNTED = {
    "thirds": steps(1000, lambda i: i > 0, lambda i: i // 3),
    "threefold": steps(1, lambda i: i < 1000, lambda i: 3 * i),
    "lowest_bits": steps(1000, lambda i: i > 0, lambda i: i - (i & -i)),
    "fenwick": steps(1, lambda i: i < 1000, lambda i: i + (i & -i)),
    "squares": steps(1, lambda i: i * i <= 1000, lambda i: i + 1),
}


@pytest.mark.parametrize("kernel", COUNTED)
def test_what_has_no_closed_form_is_counted(kernel):
    """Trip counts come from executed blocks, without assumed values."""
    code = pa.from_cuda(KERNELS / "loops.cu", kernel)
    p = pa.predict(code, pa.Launch(64, 256, {"n": 1000}), "a100")
    assert [a.text for a in p.assumptions if a.stands_for == "trip count"] == []
    (said,) = (a.text for a in p.assumptions if a.text.startswith("a loop runs"))
    assert said.startswith(f"a loop runs {COUNTED[kernel]} times")


HEADS = ("for (", "while (")
TEXT = (KERNELS / "loops.cu").read_text().splitlines()


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("kernel", sorted({c[0] for c in CASES} | {"hot_before_test"}))
@pytest.mark.exhaustive(one_in=3)
def test_a_loop_is_named_by_the_line_of_its_head(kernel, arch):
    """And each has a name of its own."""
    program = program_of("loops.cu", kernel, arch)
    for loop in program.loops:
        assert TEXT[loop.span.line - 1].strip().startswith(HEADS)
        assert loop.name.startswith(f"loops.cu:{loop.span.line}")
    assert len({loop.name for loop in program.loops}) == len(program.loops)


class TestCopies:
    """The loop of ``with_remainder`` is unrolled by four, and what is left has a loop beside it."""

    def bound(self, trips):
        program = program_of("loops.cu", "with_remainder", "sm_80")
        launch = Launch(4, 64, {"n": 67})
        arguments = Arguments(program, launch, "with_remainder")
        binder = Binder(program, launch, arguments, trips, {}, 32)
        counts = {x.name: binder.loops[x.index].most for x in program.loops}
        return counts, [a.text for a in binder.assumptions]

    def names(self):
        return sorted(self.bound({})[0])

    def test_each_takes_a_count(self):
        first, second = self.names()
        assert (first.endswith("#1"), second.endswith("#2")) == (True, True)
        counts, said = self.bound({first: 5})
        assert counts[first] == 5
        assert counts[second] == self.bound({})[0][second]
        assert said == []

    def test_a_count_for_the_line_is_said_to_be_for_all(self):
        first, second = self.names()
        counts, said = self.bound({first.partition("#")[0]: 5})
        assert set(counts.values()) == {5}
        assert [first in text and second in text for text in said] == [True]


def test_names():
    one, two = SourceSpan("/a/k.cu", 3), SourceSpan("/a/k.cu", 7)
    assert loop_names([one, two, None, two]) == ("k.cu:3", "k.cu:7#1", "", "k.cu:7#2")
