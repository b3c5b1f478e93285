"""Backward slices: predicates, loops, and all of them against enumerated paths."""

import random
import time

import pytest
from advisor_listing import code_of
from random_code import random_code, structured_code

from perfassert.engines.advisor.slicing import Slicer


def sources(text, use, name="R0"):
    return sorted(Slicer(code_of(text)).sources(use, name))


@pytest.mark.parametrize(
    ("first", "second", "use", "found"),
    [
        ("@P0", "@!P0", "", [1, 2]),  # together they cover, so 0 is out
        ("@P0", "@P0", "", [0, 1, 2]),
        ("@P0", "@!P1", "", [0, 1, 2]),
        ("", "@P0", "", [1, 2]),
        ("@P0", "", "", [2]),
        ("@!P0", "@P0", "@P0", [2]),
        ("@P0", "@!P0", "@P0", [1, 2]),
        ("@P1", "@!P1", "@P0", [1, 2]),
        ("@!P0", "@P1", "@P0", [0, 1, 2]),
    ],
)
def test_predicates_cover(first, second, use, found):
    text = f"MOV R0\n{first} MOV R0\n{second} MOV R0\n{use} IADD R1 <- R0"
    assert sources(text, 3) == found


def test_a_predicate_that_is_redefined_is_another_one():
    assert sources("MOV R0\n@P0 MOV R0\nISETP P0 <- R5\n@!P0 MOV R0\nIADD R1 <- R0", 4) == [0, 1, 3]
    assert sources("MOV R0\n@P0 MOV R0\nISETP P0 <- R5\n@P0 IADD R1 <- R0", 3) == [0, 1]


def test_what_never_executes_writes_nothing():
    assert sources("MOV R0\n@!PT MOV R0\nIADD R1 <- R0", 2) == [0]


LOOP = """
    MOV R0
    again:
    IADD R1 <- R0
    IADD R0 <- R1
    @P0 BRA -> again end
    end:
    IADD R2 <- R0
"""


def test_loop_carried():
    assert sources(LOOP, 1) == [0, 2]
    assert sources(LOOP, 4) == [2]
    assert sources("again:\n@P0 MOV R0\n@P0 BRA -> again", 0) == [0]
    assert sources("again:\n@P0 MOV R0 <- R0\n@P1 BRA -> again", 0) == [0]


def test_guards_are_uses():
    (only,) = Slicer(code_of("ISETP P0 <- R1\n@!P0 MOV R0")).dependences(1)
    assert (only.source, only.operands) == (0, ("P0",))


def test_the_last_synchronization_on_each_path():
    text = "BAR\n@P0 BRA -> a b\na:\nBAR\nBRA -> b\nb:\nNOP"
    assert [d.source for d in Slicer(code_of(text)).synchronizations(4)] == [0, 2]


def enumerated(code, use, name, visits=3):
    """Definitions of ``name`` that reach ``use``, from every path back to it one by one."""
    found = set()
    first = code.instructions[use]
    if first.block < 0:
        return found
    start = code.blocks[first.block].start
    stack = [(first.block, tuple(range(start, use)), {first.block: 1})]
    while stack:
        block, path, seen = stack.pop()
        found |= reaching(code, (*path, use), name)
        for before in code.predecessors[block]:
            if seen.get(before, 0) < visits:
                b = code.blocks[before]
                counted = {**seen, before: seen.get(before, 0) + 1}
                stack.append((before, (*range(b.start, b.stop), *path), counted))
    return found


def reaching(code, path, name):
    """Along one path: predicates are told apart by how often they have been written."""
    written = {}
    guards = []
    for place in path:
        i = code.instructions[place]
        register = i.predicate.lstrip("!")
        guards.append((register, written.get(register, 0), i.predicate[:1] == "!"))
        for p in i.written:
            written[p] = written.get(p, 0) + 1
    wanted, later, found = guards[-1], set(), set()
    for place, guard in reversed(list(zip(path[:-1], guards[:-1], strict=True))):
        i = code.instructions[place]
        if name in i.written:
            pairs = any((r, v, not n) in later for r, v, n in later)
            if wanted in later or pairs or ("", 0, False) in later:
                break
            found.add(place)
            later.add(guard)
    return found


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.exhaustive(one_in=4)
def test_against_all_paths(seed):
    generator = random.Random(seed)
    compared = 0
    for _ in range(12):
        code = random_code(generator, blocks=4, per_block=3, registers=("R0", "R1"))
        slicer = Slicer(code)
        for i in code.instructions:
            for name in dict.fromkeys(i.read):
                assert slicer.sources(i.index, name) == enumerated(code, i.index, name)
                compared += 1
    assert compared > 100


@pytest.mark.parametrize(("size", "limit"), [(1_000, 0.5), (20_000, 10.0)])
def test_time_is_bounded(size, limit):
    """Measured: 0.02 s and 0.9 s."""
    code = structured_code(random.Random(1), size)
    begun = time.process_time()
    slicer = Slicer(code)
    edges = sum(len(slicer.dependences(i.index)) for i in code.instructions)
    assert edges > size
    assert time.process_time() - begun < limit
