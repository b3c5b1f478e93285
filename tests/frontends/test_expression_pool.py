"""Simplifications of symbolic integers against plain arithmetic; flow against brute force."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfassert.frontends.analysis.recurrences import closed_form, entered_ring
from perfassert.frontends.analysis.symbolic_words import Words
from perfassert.frontends.machine.control_flow import EXIT, Jump, analyse
from perfassert.kernel.expression_pool import ExpressionPool, divided_by
from perfassert.kernel.names import LoopCounter

NAMES = ("threadIdx.x", "laneid", "n", "m")
LIMITS = {"threadIdx.x": 1023, "laneid": 31, "n": 1000, "m": 7}
RELATIONS = {
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b, "==": lambda a, b: a == b, "!=": lambda a, b: a != b,
}  # fmt: skip
LEAVES = st.one_of(
    st.sampled_from(NAMES), st.integers(0, 9), st.sampled_from((16, 31, 32, 48, 127, 1024))
)


def grown(inner):
    pair = st.tuples(inner, inner)
    return st.one_of(
        st.tuples(st.sampled_from(("+", "*", "min", "max", "&", "|", "^")), pair),
        st.tuples(st.sampled_from(("//", "%")), st.tuples(inner, st.integers(1, 40))),
        st.tuples(st.sampled_from(("<<", ">>")), st.tuples(inner, st.integers(0, 6))),
        st.tuples(st.just("select"), st.tuples(st.sampled_from(sorted(RELATIONS)), inner, inner,
                                               inner, inner)),
        st.tuples(st.sampled_from(("and", "or", "not")), st.tuples(
            st.sampled_from(sorted(RELATIONS)), st.sampled_from(sorted(RELATIONS)), inner, inner)),
    )  # fmt: skip


TREES = st.recursive(LEAVES, grown, max_leaves=12)


def symbolic(s, tree):
    if isinstance(tree, int):
        return s.number(tree)
    if isinstance(tree, str):
        return s.variable(tree)
    function, parts = tree
    values = [p if isinstance(p, str) and p in RELATIONS else symbolic(s, p) for p in parts]
    if function == "select":
        return s.select(s.compare(*values[:3]), *values[3:])
    if function in ("and", "or", "not"):
        first, second = s.compare(values[0], *values[2:]), s.compare(values[1], *values[2:])
        if function == "not":
            return s.logical_not(s.logical_and(first, s.logical_not(second)))
        return s.logical_and(first, second) if function == "and" else s.logical_or(first, second)
    return {
        "+": s.add, "*": s.mul, "min": s.minimum, "max": s.maximum, "&": s.bit_and,
        "|": s.bit_or, "^": s.bit_xor, "//": s.div, "%": s.mod, "<<": s.shift_left,
        ">>": s.shift_right,
    }[function](*values)  # fmt: skip


def direct(tree, at):
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return at[tree]
    function, parts = tree
    v = [p if isinstance(p, str) and p in RELATIONS else direct(p, at) for p in parts]
    if function == "select":
        return v[3] if RELATIONS[v[0]](v[1], v[2]) else v[4]
    if function in ("and", "or", "not"):
        one, two = RELATIONS[v[0]](*v[2:]), RELATIONS[v[1]](*v[2:])
        return int(one and two if function == "and" else one or two if function == "or"
                   else not one or two)  # fmt: skip
    a, b = v
    return {
        "+": lambda: a + b, "*": lambda: a * b, "min": lambda: min(a, b),
        "max": lambda: max(a, b), "&": lambda: a & b, "|": lambda: a | b, "^": lambda: a ^ b,
        "//": lambda: a // b, "%": lambda: a % b, "<<": lambda: a << b, ">>": lambda: a >> b,
    }[function]()  # fmt: skip


def points(count, seed=0):
    generator = random.Random(seed)
    corner = [dict.fromkeys(NAMES, 0), dict(LIMITS)]
    return corner + [{n: generator.randint(0, LIMITS[n]) for n in NAMES} for _ in range(count)]


@settings(max_examples=400)
@given(TREES)
def test_simplified_values_are_the_plain_ones(tree):
    s = ExpressionPool()
    value = symbolic(s, tree)
    at = points(6)
    expected = [direct(tree, p) for p in at]
    if max(map(abs, expected)) >= 2**40 or any(True for _ in s.unknowns(value)):
        return
    found = s.evaluate(value, {n: np.array([p[n] for p in at]) for n in NAMES})
    assert np.broadcast_to(found, len(at)).tolist() == expected
    below = s.power_of_two_bound(value)
    assert not below or max(expected) < below


@settings(max_examples=100)
@given(TREES, TREES)
def test_registers_that_are_exchanged_by_exclusive_or(left, right):
    """Two registers are exchanged by exclusive ors, as ptxas does if no third one is free."""
    s = ExpressionPool()
    a, b = before = symbolic(s, left), symbolic(s, right)
    a = s.bit_xor(a, b)
    b = s.bit_xor(b, a)
    a = s.bit_xor(a, b)
    assert (b, a) == before


@settings(max_examples=100)
@given(TREES, TREES, st.sampled_from(NAMES))
def test_substitution_is_evaluation_at_another_point(tree, other, name):
    s = ExpressionPool()
    value, put = symbolic(s, tree), symbolic(s, other)
    result = s.substitute(value, {s.variable(name).terms[0][0][0]: put}, {})
    for at in points(3):
        inner = direct(other, at)
        expected = direct(tree, {**at, name: inner})
        if not 0 <= inner <= LIMITS[name] or abs(expected) >= 2**40:
            continue  # what the simplifications may rely on
        if not any(True for _ in s.unknowns(result)):
            assert int(s.evaluate(result, {n: np.asarray(v) for n, v in at.items()})) == expected


@settings(max_examples=100)
@given(TREES, st.sampled_from(NAMES))
def test_linear_in(tree, name):
    s = ExpressionPool()
    value = symbolic(s, tree)
    atom = s.variable(name).terms[0][0][0]
    found = s.linear_in(value, atom)
    if found is not None:
        assert s.add(s.mul(found[0], s.variable(name)), found[1]) is value
        assert all(atom not in s.free_atoms(part) for part in found)


@pytest.mark.parametrize("choose", ["minimum", "maximum"])
def test_the_pointer_of_both_is_no_matter_of_choice(choose):
    s = ExpressionPool()
    pointer, left, right = map(s.variable, ("p", "a", "b"))
    chosen = getattr(s, choose)
    expected = s.add(pointer, chosen(left, right))
    assert chosen(s.add(pointer, left), s.add(pointer, right)) is expected


@pytest.mark.parametrize("amount", [1, 10, 22, 30])
@pytest.mark.parametrize("step", [1, 5, 1 << 21])
def test_masks_of_a_sign_bit_shifted_right(amount, step):
    """A bit that is spread over a word (SGXT) leaves as many ones as the shift does."""
    s = ExpressionPool()
    bit = s.mod(s.div(s.variable("n"), s.number(step)), s.number(2))
    found = Words(s).logical_right(s.scale(bit, -1), s.number(amount))
    for n in (0, 1, 4, 5, 7, step - 1, step, 3 * step):
        word = (-((n // step) % 2)) & 0xFFFFFFFF
        assert int(s.evaluate(found, {"n": np.asarray(n)})) == word >> amount


@given(st.integers(1, 5000), st.integers(32, 64))
def test_reciprocals(d, bits):
    factor = -(-(1 << bits) // d)
    found = divided_by(factor, 1 << bits)
    generator = random.Random(d)
    if found:
        tops = (0, 1, d - 1, d, 2**31 - 1, 2**31 - 1 - (2**31 - 1) % d, (2**31 - 1) // d * d - 1)
        for x in (*tops, *(generator.randrange(2**31) for _ in range(50))):
            assert x < 0 or (factor * x) >> bits == x // found


@pytest.mark.parametrize("d", [3, 5, 7, 10, 25, 100, 641])
def test_reciprocals_of_compilers_are_found(d):
    for bits in range(32, 65):
        factor = -(-(1 << bits) // d)
        if 0 < (factor * d - (1 << bits)) << 31 <= 1 << bits:
            assert divided_by(factor, 1 << bits) == d
            s = ExpressionPool()
            x = s.variable("x")
            quotient = s.div(s.scale(x, factor), s.number(1 << bits))
            assert quotient is s.div(x, s.number(d))


class TestLimits:
    """Tests that expressions that grow without end become unknown."""

    def test_powers(self):
        s = ExpressionPool()
        x = s.variable("x")
        for _ in range(64):
            x = s.mul(x, x)
        assert any(True for _ in s.unknowns(x))

    def test_numbers(self):
        s = ExpressionPool()
        x = s.variable("x")
        for _ in range(200):
            x = s.add(s.scale(x, 1664525), s.number(1013904223))
        assert max(c.bit_length() for _, c in x.terms) <= 256
        assert s.wide(s.scale(s.variable("y"), 1664525**2))
        assert not s.wide(s.scale(s.variable("y"), 2**33))

    @pytest.mark.parametrize("shared", [False, True])
    def test_depth_and_size(self, shared):
        s = ExpressionPool()
        x = s.variable("x")
        for i in range(3000):
            more = s.div(x, s.number(2)) if shared else s.zero
            x = s.add(s.minimum(x, s.variable(f"v{i % 7}")), more, s.one)
        s.free_atoms(x)
        s.wide(x)
        s.substitute(x, {0: s.one}, {})
        assert any(True for _ in s.unknowns(x))


# Control flow

GRAPHS = st.lists(
    st.tuples(st.lists(st.integers(-1, 9), min_size=0, max_size=2), st.booleans()),
    min_size=1, max_size=10,
)  # fmt: skip


def followers(count, jumps):
    graph = {}
    for i in range(count):
        after = i + 1 if i + 1 < count else EXIT
        if i not in jumps:
            graph[i] = {after}
            continue
        graph[i] = {t if 0 <= t < count else EXIT for t in jumps[i].targets}
        if jumps[i].conditional:
            graph[i].add(after)
    return graph


def reachable(graph, start, without=None):
    found, stack = set(), [start] if start != without else []
    while stack:
        here = stack.pop()
        if here not in found:
            found.add(here)
            stack += [t for t in graph.get(here, ()) if t != without]
    return found


@settings(max_examples=200)
@given(GRAPHS)
def test_flow_against_brute_force(nodes):
    count = len(nodes)
    jumps = {i: Jump(tuple(t), c) for i, (t, c) in enumerate(nodes) if t}
    flow = analyse(count, jumps)
    graph = followers(count, jumps)
    alive = reachable(graph, 0) - {EXIT}
    covered = [i for b in flow.blocks.values() for i in range(b.start, b.stop)]
    assert sorted(covered) == sorted(alive)
    assert sorted(flow.order) == sorted(flow.blocks)
    first = {b.index: b.start for b in flow.blocks.values()}
    for a in flow.blocks:
        cut = reachable(graph, 0, first[a])
        for b in flow.blocks:
            assert flow.dominates(a, b) == (first[b] not in cut or a == b)
    for loop in flow.loops:
        assert all(flow.dominates(loop.header, b) for b in loop.blocks)
        inside = {first[b] for b in loop.blocks}
        for latch in loop.latches:
            assert any(e.target == loop.header for e in flow.blocks[latch].edges)
            assert first[latch] in inside
        if loop.parent >= 0:
            assert loop.blocks <= flow.loops[loop.parent].blocks
    for block in flow.blocks.values():
        around = [x for x in flow.loops if block.index in x.blocks]
        innermost = min(around, key=lambda x: len(x.blocks)).index if around else -1
        assert block.loop == innermost


@pytest.mark.parametrize("start", [-1, -5, 2, 7])
@pytest.mark.parametrize("size", [2, 3, 5])
def test_a_ring_that_is_entered_from_outside(start, size):
    """Stages of a pipeline: ``r + 1``, but 0 behind the last one."""
    s = ExpressionPool()
    register, counter = s.variable("r"), s.variable(LoopCounter(0))
    more = s.add(register, s.one)
    value = s.select(s.compare("<", more, s.number(size)), more, s.zero)
    atom = register.terms[0][0][0]
    found = entered_ring(s, atom, value, s.number(start), counter)
    seen = [start]
    for _ in range(3 * size):
        seen.append(seen[-1] + 1 if seen[-1] + 1 < size else 0)
    if found is None:
        assert start < -1  # several steps lead into the ring
        return
    now, after = found
    at = {LoopCounter(0): np.arange(3 * size)}
    assert s.evaluate(now, at).tolist() == seen[:-1]
    assert s.evaluate(after, at).tolist() == seen[1:]


@pytest.mark.parametrize("size", [2, 3, 5, 7, 8])
@pytest.mark.parametrize("steps", [1, 2, 3, 4])
@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("apart", [1, 8])
def test_a_ring_in_an_unrolled_loop(size, steps, start, apart):
    """``r + 1``, but 0 behind the last one, several times in an iteration."""
    s = ExpressionPool()
    register, counter = s.variable("r"), s.variable(LoopCounter(0))
    value = register
    for _ in range(steps):
        more = s.add(value, s.number(apart))
        value = s.select(s.compare("<", more, s.number(apart * size)), more, s.zero)
    atom = register.terms[0][0][0]
    form = closed_form(s, atom, value, s.number(apart * start), counter, len(s.atoms))
    seen = [apart * ((start + steps * i) % size) for i in range(3 * size)]
    if form is None:
        assert steps % size == 0  # it stays where it is
        return
    found = s.evaluate(form, {LoopCounter(0): np.arange(3 * size)})
    assert np.broadcast_to(found, 3 * size).tolist() == seen


def test_a_variable_without_a_value_is_what_an_evaluation_answers():
    s = ExpressionPool()
    value = s.select(s.compare("<", s.variable("n"), s.number(5)), s.variable("m"), s.one)
    unknown = s.add(value, s.unknown("load 3.0"))
    at = {"n": np.arange(3), "m": np.asarray(7)}
    assert s.evaluate(value, at).tolist() == [7, 7, 7]
    assert s.evaluate(unknown, at).name == "load 3.0"
    assert s.evaluate(value, {"n": np.asarray(1)}).name == "m"
