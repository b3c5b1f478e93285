"""Random kernels are predicted as they are counted, and the count itself is right.

``python -m tests.random_kernels.run`` measures thousands of them, and prints one with ``--show``.
"""

import shutil
import subprocess

import numpy as np
import pytest

from perfassert.frontends.toolchain import tools
from random_kernels import oracle, wrapping
from random_kernels.expressions import (
    INT,
    TYPES,
    UNSIGNED,
    Cast,
    Choice,
    Extremum,
    Literal,
    Rejected,
    State,
    Variable,
)
from random_kernels.generator import KINDS, Draw, generate
from random_kernels.measure import DEVICES, measure_all
from random_kernels.program import ITEMS, Declare, Field, For, If, Kernel, Load, Store, Target

SEED, TOGETHER = 1, 10
KNOWN = {
    "wider grid": [50, 110, 141, 186, 207, 328],
    "corrected by execution": [154],
}
"""What is wrong with predictions, and of which kernels: to be taken out when it is fixed."""


@pytest.fixture
def toolchain():
    for tool in ("nvrtc", "nvdisasm"):
        if tools.find(tool) is None:
            pytest.skip(f"{tool} is not installed")


@pytest.mark.exhaustive(one_in=27)
@pytest.mark.parametrize("group", range(36))
def test_volumes_are_those_counted(group, toolchain):
    architectures = list(DEVICES)
    first = group // len(architectures) * TOGETHER * len(architectures)
    chosen = group % len(architectures)
    numbers = range(first + chosen, first + TOGETHER * len(architectures), len(architectures))
    outcomes = measure_all(SEED, list(numbers), architectures[chosen])
    failures = {o.number: o.failure for o in outcomes if o.failure}
    expected = {n: failure for failure, known in KNOWN.items() for n in known if n in numbers}
    assert failures == expected


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize("first", range(2000, 2100, 20))
def test_executed_blocks_decide_where_integers_wrap_around(first, toolchain):
    outcomes = measure_all(SEED, range(first, first + 20), "sm_80", wrapping.KINDS)
    assert {o.failure for o in outcomes} == {"", "corrected by execution"}


# The count


def a_kernel(grid, block, *body, fields):
    return Kernel("k1", "by hand", grid, block, list(fields), body=list(body))


PLACE = Variable("blockIdx.x", UNSIGNED) * 64 + Variable("threadIdx.x", UNSIGNED)
SOURCE, RESULT = Field("a", ITEMS["float"]), Field("out", ITEMS["double"], written=True)


def counted(index, *, guard=None, result=PLACE):
    inner = [Load(Target(SOURCE, index)), Store(Target(RESULT, result))]
    body = inner if guard is None else [If(guard, inner)]
    kernel = a_kernel((10, 1, 1), (64, 1, 1), *body, fields=(SOURCE, RESULT))
    return oracle.count(kernel, kernel.run(), 64)


def test_streams_are_counted_once():
    volumes = counted(PLACE)
    assert volumes["l2_load", "a"] == volumes["dram_load", "a"] == 640 * 4
    assert volumes["l2_store", "out"] == volumes["dram_store", "out"] == 640 * 8


def test_what_blocks_share_is_loaded_by_each():
    volumes = counted(PLACE % 64)
    assert volumes["l2_load", "a"] == 10 * 64 * 4
    assert volumes["dram_load", "a"] == 64 * 4


def test_strided_loads_take_a_sector_each():
    volumes = counted(PLACE * 8)
    assert volumes["l2_load", "a"] == 640 * 32


def test_neighbours_are_in_the_same_sectors_but_for_the_last():
    volumes = counted(PLACE + 1)
    assert volumes["l2_load", "a"] == 10 * (8 + 1) * 32
    assert volumes["dram_load", "a"] == 41 * 64


def test_threads_outside_the_guard_do_nothing():
    volumes = counted(PLACE, guard=PLACE < 100)
    assert volumes["l2_load", "a"] == 13 * 32  # 8 sectors of the first block, 36 floats in 5
    assert volumes["l2_store", "out"] == 25 * 32


def test_every_iteration_stores():
    loop = For("i", INT, Literal(0), lambda i: i < 3, None,
               lambda i: [Load(Target(SOURCE, i * 640 + PLACE)),
                          Store(Target(RESULT, PLACE * 3 + i))])  # fmt: skip
    kernel = a_kernel((10, 1, 1), (64, 1, 1), loop, fields=(SOURCE, RESULT))
    volumes = oracle.count(kernel, kernel.run(), 32)
    assert volumes["l2_load", "a"] == 3 * 640 * 4
    assert volumes["l2_store", "out"] == 3 * 640 // 32 * 24 * 32  # 24 sectors for each warp
    assert volumes["dram_store", "out"] == 3 * 640 * 8


@pytest.mark.parametrize(
    ("index", "result", "why"),
    [(PLACE - 1000, PLACE, "at bytes"), (PLACE, PLACE % 640 * 0 + 1, None)],
)
def test_invalid_kernels_are_rejected(index, result, why):
    if why is None:  # every thread writes one element, once: allowed
        counted(index, result=result)
        return
    with pytest.raises(Rejected, match=why):
        counted(Cast(INT, index), result=result)


@pytest.mark.parametrize(
    "index",
    [Literal(1) << 33, PLACE // 0, Cast(INT, PLACE) * 100_000_000, Literal(1) % (PLACE * 0)],
)
def test_undefined_behaviour_is_rejected(index):
    with pytest.raises(Rejected):
        counted(index)


def test_a_thread_that_comes_back_to_what_it_stored_is_rejected():
    kernel = a_kernel((1, 1, 1), (32, 1, 1), Load(Target(SOURCE, PLACE)),
                      Store(Target(RESULT, PLACE)), Store(Target(RESULT, PLACE)),
                      fields=(SOURCE, RESULT))  # fmt: skip
    with pytest.raises(Rejected, match="comes back"):
        oracle.check(kernel, kernel.run())


# The generator


def test_a_kernel_of_a_number_is_always_the_same():
    assert generate(3, 7)[0].source() == generate(3, 7)[0].source() != generate(3, 8)[0].source()


@pytest.mark.parametrize("kinds", [KINDS, wrapping.KINDS])
def test_every_kind_is_drawn(kinds):
    assert {generate(1, n, kinds)[0].kind for n in range(150)} == {k.__name__ for k in kinds}


# The expressions


def random_expression(draw, depth):
    if depth == 0:
        return draw.pick([Variable(f"v{i}", t) for i, t in enumerate(TYPES)] + [Literal(5)])
    left, right = (random_expression(draw, depth - 1) for _ in range(2))
    how = draw.between(0, 11)
    if how == 10:
        return Extremum(draw.pick(["min", "max"]), left, right)
    if how == 11:
        return Choice(left < right, left, right)
    by = [
        "__add__",
        "__sub__",
        "__mul__",
        "__floordiv__",
        "__mod__",
        "__and__",
        "__or__",
        "__xor__",
    ]
    if how < len(by):
        return getattr(left, by[how])(right)
    if how == 8:
        return Cast(draw.pick(TYPES), left)
    return draw.pick([left << draw.between(0, 3), left >> draw.between(0, 3)])


def test_expressions_mean_what_c_means(tmp_path):
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("g++ is not installed")
    draw = Draw(1, 0, 0, "expressions")
    values = [np.array([draw.between(0, 60) * draw.pick([1, 1, -1 if t.signed else 1])
                        for _ in range(20)], t.dtype) for t in TYPES]  # fmt: skip
    state = State({f"v{i}": v for i, v in enumerate(values)}, {}, np.ones(20, bool))
    expected, lines = [], []
    while len(lines) < 300:
        made = random_expression(draw, draw.between(1, 4))
        try:
            result = np.broadcast_to(made.evaluate(state), 20)
        except Rejected:
            continue
        expected.append(result.astype(np.int64).tolist())
        lines.append(f"    for (int i = 0; i < 20; i++) show({made});")
    text = "\n".join([
        "#include <cstdio>", "#include <cstdint>",
        "template <class T> T min(T a, T b) { return a < b ? a : b; }",
        "template <class T> T max(T a, T b) { return a > b ? a : b; }",
        "static void show(int64_t v) { printf(\"%lld \", (long long)v); }",
        *(f"#define v{i} w{i}[i]\nconst {t.name} w{i}[] = {{{', '.join(map(str, v.tolist()))}}};"
          for i, (t, v) in enumerate(zip(TYPES, values, strict=True))),
        "int main() {", *lines, "}",
    ])  # fmt: skip
    (tmp_path / "all.cpp").write_text(text)
    subprocess.run(
        [compiler, "-w", "-O0", "-o", tmp_path / "all", tmp_path / "all.cpp"], check=True
    )
    printed = subprocess.run([tmp_path / "all"], check=True, capture_output=True, text=True).stdout
    assert np.array_equal(np.array(printed.split(), np.int64).reshape(-1, 20), expected)


def test_declarations_convert():
    run = a_kernel((1, 1, 1), (4, 1, 1), fields=()).run()
    Declare("x", UNSIGNED, Literal(-1)).run(run)
    assert run.state.values["x"].tolist() == [2**32 - 1] * 4
