"""Tests that kernels store the right integers, to the bit, on every architecture."""

from fractions import Fraction
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from engines.execution.machine import ARCHITECTURES, array, clean, compiled, launched

pytestmark = [pytest.mark.exhaustive(one_in=4), pytest.mark.usefixtures("engine")]
KERNELS = Path(__file__).with_name("integers.cu")
I32, I64, U8 = np.int32, np.int64, np.uint8


@pytest.fixture(params=ARCHITECTURES)
def kernel(request):
    return lambda name: compiled(KERNELS, name, request.param)


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(("n", "block"), [(1000, 256), (5000, 1024), (31, 32)])
def test_prefix_sum(kernel, n, block):
    values = np.random.default_rng(n).integers(-100, 100, n).astype(I32)
    blocks = -(-n // block)
    run = clean(
        launched(
            kernel("prefix_sum"),
            blocks,
            block,
            [values, np.zeros(n, I32), np.zeros(blocks, I32), n],
        )
    )
    padded = np.pad(values, (0, blocks * block - n)).reshape(blocks, block).cumsum(axis=1)
    assert (array(run, 1, I32) == padded.reshape(-1)[:n]).all()
    assert (array(run, 2, I32) == padded[:, -1]).all()


@pytest.mark.parametrize("skew", [0, 1])
def test_histogram(kernel, skew):
    generator = np.random.default_rng(skew)
    values = (generator.integers(0, 256, 20_000) * (generator.random(20_000) > skew * 0.9)).astype(
        U8
    )
    run = clean(launched(kernel("histogram"), 5, 256, [values, np.zeros(256, np.uint32), 20_000]))
    assert (array(run, 1, np.uint32) == np.bincount(values, minlength=256)).all()


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_exchanges_of_64_bits_in_shared_memory(arch):
    """``ATOMS.CAST.SPIN.64``, which the process once died of."""
    values = np.random.default_rng(5).integers(0, 1 << 20, 700).astype(I32)
    code = compiled(KERNELS, "sums_of_doubles", arch)
    run = clean(launched(code, 1, 128, [values, np.zeros(8, I64), len(values)]))
    expected = [values[values % 8 == k].sum(dtype=I64) for k in range(8)]
    assert array(run, 1, I64).tolist() == expected


def test_binary_search(kernel):
    generator = np.random.default_rng(3)
    keys = np.sort(generator.integers(0, 5000, 777)).astype(I32)
    wanted = generator.integers(-10, 5010, 500).astype(I32)
    run = clean(
        launched(kernel("lower_bound"), 4, 128, [keys, 777, wanted, np.zeros(500, I32), 500])
    )
    assert (array(run, 3, I32) == np.searchsorted(keys, wanted)).all()


def lanes(words, kind):
    """Packed numbers as ``(words, numbers in a word)``, wide enough for sums."""
    return words.view(kind).reshape(len(words), -1).astype(I64)


def pack(numbers, kind):
    return numbers.astype(kind).reshape(-1).view(np.uint32)


def test_packed_numbers_of_8_and_16_bits(kernel):
    generator = np.random.default_rng(8)
    n = 300
    a, b, c = generator.integers(0, 1 << 32, (3, n), dtype=np.uint32)
    a[:40] = b[:40]
    run = clean(
        launched(kernel("packed_numbers"), 3, 128, [a, b, c, np.zeros(16 * n, np.uint32), n])
    )
    (s, t, u), (x, y, z), (p, q, _) = (
        [lanes(words, kind) for words in (a, b, c)] for kind in (np.int16, np.uint16, U8)
    )
    i8, u16, i16 = np.int8, np.uint16, np.int16
    sums, differences = (s + t).astype(i16), abs(p - q)
    larger = s >= t
    expected = [
        pack(np.minimum(s, t), i16), pack(np.maximum(x, y), u16),
        pack(np.maximum(lanes(a, i8), lanes(b, i8)), i8), pack(np.minimum(p, q), U8),
        pack(np.maximum(sums, u), i16), pack(np.minimum((x + y).astype(u16), z), u16),
        pack(np.maximum(np.maximum(s, t), u), i16), pack(np.minimum(np.minimum(x, y), z), u16),
        pack(np.maximum(np.maximum(s, t), 0), i16), pack(np.maximum(np.maximum(sums, u), 0), i16),
        pack(np.maximum(np.maximum(np.maximum(s, t), u), 0), i16), pack(differences, U8),
        differences.sum(axis=1).astype(np.uint32),
        np.maximum(np.array((a, b, c)).view(I32).min(axis=0), 0).view(np.uint32),
        pack(np.maximum(s, t), i16), (larger[:, 1] * 2 + larger[:, 0]).astype(np.uint32),
    ]  # fmt: skip
    stored = array(run, 3, np.uint32).reshape(16, n)
    for row, (values, right) in enumerate(zip(stored, expected, strict=True)):
        assert (values == right).all(), row


def test_doubles_rounded_as_the_program_asks(kernel):
    generator = np.random.default_rng(9)
    n = 200
    a, b, c = generator.uniform(-9, 9, (3, n))
    run = clean(launched(kernel("rounded_doubles"), 2, 128, [a, b, c, np.zeros(7 * n), n]))
    fused, product, total, *whole = array(run, 3, np.float64).reshape(7, n)
    for i in range(n):
        x, y, z = (Fraction(v[i]) for v in (a, b, c))
        assert Fraction(fused[i]) <= x * y + z < Fraction(np.nextafter(fused[i], np.inf))
        assert Fraction(np.nextafter(product[i], -np.inf)) < x * y <= Fraction(product[i])
        assert abs(Fraction(total[i])) <= abs(x + y)
        assert abs(x + y) < abs(Fraction(np.nextafter(total[i], np.copysign(np.inf, total[i]))))
    for values, function in zip(whole, (np.floor, np.ceil, np.trunc, np.rint), strict=True):
        assert (values == function(a)).all()


def test_larger_and_smaller_doubles(kernel):
    """Whoever is no number loses; of two that are none there is none."""
    values = [-np.inf, -3.5, 0.0, 2.0, 1e-310, 7e300, np.inf, np.nan]
    a, b = (np.array(each) for each in zip(*product(values, values), strict=True))
    n = len(a)
    run = clean(launched(kernel("extreme_doubles"), 1, n, [a, b, np.zeros(4 * n), n]))
    found = array(run, 2, np.float64).reshape(4, n)
    expected = np.fmax(a, b), np.fmin(a, b), np.fmax(a, 2.0), np.fmin(np.abs(a), -b)
    np.testing.assert_array_equal(found, np.array(expected))


def graph(nodes, seed):
    generator = np.random.default_rng(seed)
    lengths = np.minimum(generator.zipf(1.6, nodes), 60)
    rows = np.concatenate(([0], np.cumsum(lengths))).astype(I32)
    return rows, generator.integers(0, nodes, rows[-1]).astype(I32)


def test_breadth_first_search_level_by_level(kernel):
    rows, columns = graph(600, 4)
    code = kernel("bfs_step")
    level = np.full(600, -1, I32)
    level[0] = 0
    frontier, depth = np.array([0], I32), 0
    expected = reference_levels(rows, columns)
    while len(frontier):
        depth += 1
        arguments = [
            rows, columns, frontier, len(frontier), level, depth, np.zeros(600, I32),
            np.zeros(1, I32),
        ]  # fmt: skip
        run = clean(launched(code, -(-len(frontier) // 64), 64, arguments))
        level = array(run, 4, I32).copy()
        frontier = np.sort(array(run, 6, I32)[: array(run, 7, I32)[0]])
        assert (frontier == np.flatnonzero(level == depth)).all()
    assert (level == expected).all()


def reference_levels(rows, columns):
    level = {0: 0}
    queue = [0]
    for node in queue:
        for neighbour in columns[rows[node] : rows[node + 1]]:
            if int(neighbour) not in level:
                level[int(neighbour)] = level[node] + 1
                queue.append(int(neighbour))
    return np.array([level.get(n, -1) for n in range(len(rows) - 1)])


def test_row_pointers(kernel):
    lengths = np.random.default_rng(5).integers(0, 9, 300).astype(I32)
    run = clean(launched(kernel("row_pointers"), 3, 128, [lengths, np.zeros(301, I32), 300]))
    assert (array(run, 1, I32) == np.concatenate(([0], np.cumsum(lengths)))).all()


def test_sparse_matrix_times_vector(kernel):
    rows, columns = graph(200, 6)
    generator = np.random.default_rng(6)
    values = generator.integers(-9, 9, len(columns)).astype(I32)
    x = generator.integers(-9, 9, 200).astype(I32)
    arguments = [rows, columns, values, x, np.zeros(200, I32), 200]
    run = clean(launched(kernel("spmv_integer"), 50, 128, arguments))
    expected = [(values[a:b] * x[columns[a:b]]).sum() for a, b in pairwise(rows)]
    assert (array(run, 4, I32) == expected).all()


@pytest.mark.parametrize("block", [64, 512])
def test_bitonic_sort(kernel, block):
    keys = np.random.default_rng(7).integers(-(2**31), 2**31, 4 * block).astype(I32)
    run = clean(launched(kernel("bitonic_sort"), 4, block, [keys], shared=4 * block))
    assert (array(run, 0, I32).reshape(4, block) == np.sort(keys.reshape(4, block))).all()


def test_stream_compaction(kernel):
    values = np.random.default_rng(8).integers(0, 1000, 1500).astype(I32)
    arguments = [values, np.zeros(1500, I32), np.zeros(1, I32), 1500]
    run = clean(launched(kernel("compact"), 1, 256, arguments))
    kept = values[values % 3 == 0]
    assert array(run, 2, I32)[0] == len(kept)
    assert (array(run, 1, I32)[: len(kept)] == kept).all()


def test_game_of_life(kernel):
    cells = np.random.default_rng(9).integers(0, 2, (50, 77)).astype(U8)
    run = clean(launched(kernel("life"), (5, 7), (16, 8), [cells, np.zeros((50, 77), U8), 77, 50]))
    near = sum(np.roll(cells, (y, x), (0, 1)) for y in (-1, 0, 1) for x in (-1, 0, 1) if x or y)
    expected = (near == 3) | ((near == 2) & (cells == 1))
    assert (array(run, 1, U8).reshape(50, 77) == expected).all()


def test_differences_of_64_bits_that_borrow_nothing(kernel):
    run = clean(launched(kernel("place_in_rows"), 700, 1, [np.zeros(700, I64)]))
    row = np.arange(700) // 10
    assert (array(run, 0, I64) == row // 32 + row % 32 * 20).all()


def test_limits_at_zero_and_products_of_halves_with_bytes(kernel):
    a, b = np.random.default_rng(14).integers(-(2**31), 2**31, (2, 64)).astype(I32)
    run = clean(launched(kernel("clamped_and_dotted"), 1, 64, [a, b, np.zeros(512, I32)]))
    for x, y, row in zip(a, b, array(run, 2, I32).reshape(64, 8).tolist(), strict=True):
        halves, bytes = np.frombuffer(x.tobytes(), np.int16), np.frombuffer(y.tobytes(), np.int8)
        dots = [
            wrapped(5 + int((first.astype(I64) * second[at : at + 2].astype(I64)).sum()), 32)
            for first, second in ((halves, bytes), (halves.view(np.uint16), bytes.view(U8)))
            for at in (0, 2)
        ]
        x, y = int(x), int(y)
        total = (x >> 1) + (y >> 1)
        both = wrapped(max(x, y, 0) + max(min(x, y), 0), 32)
        limits = [max(min(total, x), 0), max(total, y, 0), both, max(min(x, y, x ^ y), 0)]
        assert row == dots + limits


def wrapped(value, bits=64):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def quotient(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def scalar(case, x, y):
    """The kernel's ``case`` on Python's integers."""
    u, v = x & 2**64 - 1, y & 2**64 - 1
    a, b = wrapped(x, 32), wrapped(y, 32)
    ua, ub = u & 2**32 - 1, v & 2**32 - 1
    if case == 8:
        lowest = (v & -v).bit_length()
        return bin(u).count("1") + 100 * (64 - u.bit_length()) + 10000 * lowest
    if case == 12:
        return int(f"{u:064b}"[::-1], 2)
    if case == 13:
        return (a * b >> 32) + (u * v >> 64)
    if case == 14:
        source = ua.to_bytes(4, "little") + ub.to_bytes(4, "little")
        selector = u >> 32 & 0x7777
        permuted = int.from_bytes(bytes(source[selector >> 4 * k & 7] for k in range(4)), "little")
        return (permuted + ((ub << 32 | ua) << (ub & 31) >> 32 & 2**32 - 1)) & 2**32 - 1
    return (
        x + y, x - y, x * y, quotient(x, y) if y else 7,
        x - y * quotient(x, y) if y else 8, u // (v | 1), x << (y & 63), x >> (y & 63), 0,
        quotient(a, wrapped(ub | 1, 32)), ua % (ub | 1), min(x, y), 0, 0, 0,
        abs(x) + abs(b) + (x > y) + (u > v),
    )[case]  # fmt: skip


def test_integer_arithmetic(kernel):
    generator = np.random.default_rng(10)
    n = 4096
    spread = generator.integers(0, 63, (2, n))
    a, b = generator.integers(-(2**63), 2**63, (2, n), dtype=I64) >> spread
    run = clean(launched(kernel("arithmetic"), 16, 256, [a, b, np.zeros(n, I64), n]))
    expected = [wrapped(scalar(i % 16, int(a[i]), int(b[i]))) for i in range(n)]
    wrong = np.flatnonzero(array(run, 2, I64) != np.array(expected))
    assert not len(wrong), (wrong[:5] % 16, a[wrong[:5]], b[wrong[:5]])


def test_quotients_and_roots_are_correctly_rounded(kernel):
    """The compiler's steps mend what the approximate reciprocal leaves; slow paths included."""
    generator = np.random.default_rng(13)
    n = 2048
    exponents = generator.integers(-60, 60, (2, n))
    a, b = np.ldexp(generator.uniform(1, 2, (2, n)), exponents).astype(np.float32)
    a[:4], b[:4] = [1e-40, 3e38, 1.0, 5e-45], [3.0, 1e-3, 3e-39, 7.0]
    zeros = [np.zeros(n, t) for t in (np.float32, np.float32, np.float64, I32)]
    run = clean(launched(kernel("quotients"), 16, 128, [a, b, *zeros, n]))
    with np.errstate(over="ignore"):
        quotients = a / b
    assert (array(run, 2, np.float32) == quotients).all()
    assert (array(run, 3, np.float32) == np.sqrt(a)).all()
    assert (array(run, 4, np.float64) == a.astype(np.float64) / b).all()
    exact = np.ceil(quotients.astype(np.float64))
    whole = np.clip(exact, -(2.0**31), 2.0**31 - 1) + np.trunc(
        np.clip((a * np.float32(0.5)).astype(np.float64), -(2.0**31), 2.0**31 - 1)
    )
    small = np.abs(whole) < 2.0**31
    assert (array(run, 5, I32)[small] == whole[small]).all()


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_recursion_and_indexed_local_memory(arch):
    values = np.random.default_rng(11).integers(0, 64, 96).astype(I32)
    run = clean(launched(compiled(KERNELS, "recursive", arch), 1, 96, [values, np.zeros(96, I32)]))
    numbers = [0, 1, 1, 2, 3, 5, 8, 13]
    for value, found in zip(values.tolist(), array(run, 1, I32).tolist(), strict=True):
        table = {(value + 3 * k) & 7: k for k in range(8)}
        assert found == numbers[value & 7] * 10 + table[value >> 3 & 7]


def test_votes_shuffles_barriers_that_reduce_and_generic_addresses(kernel):
    values = np.random.default_rng(12).integers(0, 100, 128).astype(I32)
    out = np.zeros(4097, I32)
    out[4096] = 5
    run = clean(launched(kernel("collective"), 1, 128, [values, out]))
    v = values.reshape(4, 32).astype(int)
    lane = np.arange(32)
    r = (v % 2 == 0).sum() + 1000 * (v >= 0).all() + 2000 * (v > 90).any()
    truth = (v > 5).all(axis=1) + 2 * (v > 95).any(axis=1)
    r = r + 10000 * np.repeat(truth[:, None], 32, axis=1)
    r = r ^ (v[:, lane ^ 5] + np.take_along_axis(v, (lane & 24) + (v & 7), axis=1) * 256)
    most, least = max(v[v % 2 == 1].max(), 0), min(-v[v % 2 == 0].max(), 0)
    expected = r + most * 3 + least + np.where(v > 50, most, 5)
    assert (array(run, 1, I32)[:128] == expected.reshape(-1)).all()
