"""The advisor's view of real listings."""

from pathlib import Path

import pytest

from perfassert.engines.advisor.blame import blame
from perfassert.engines.advisor.code import Code
from perfassert.engines.advisor.slicing import Slicer
from perfassert.frontends.analysis.describe import describe
from perfassert.frontends.toolchain.fixture import from_fixture
from perfassert.kernel.samples import Count, Samples

FIXTURES = Path(__file__).parents[2] / "frontends" / "fixtures"
ARCHITECTURES = {"saxpy": "sm_80", "reduction": "sm_80", "transpose": "sm_90"}


@pytest.fixture(params=ARCHITECTURES)
def program(request):
    text = (FIXTURES / f"{request.param}.sass").read_text()
    return describe(from_fixture(text, None, ARCHITECTURES[request.param], "x.sass"))


def test_predicates_are_those_of_the_text(program):
    for i in program.instructions:
        guard = i.text.split()[0][1:] if i.text.startswith("@") else ""
        assert i.predicate == ("" if guard in ("PT", "UPT") else guard)


def test_successors_are_blocks_and_every_block_is_entered(program):
    entered = {program.order[0]}.union(*(b.successors for b in program.blocks.values()))
    assert entered == set(program.blocks)
    for loop in program.loops:
        assert any(loop.header in program.blocks[b].successors for b in loop.blocks)


def test_the_view_agrees_with_the_program(program):
    code = Code.of(program)
    assert [i.label for i in code.instructions] == [i.opcode for i in program.instructions]
    assert list(code.blocks) == [b for b in program.order if b in program.blocks]
    for i in code.instructions:
        assert (i.block >= 0) == any(b.start <= i.index < b.stop for b in program.blocks.values())
    for loop, given in zip(code.loops, program.loops, strict=True):
        assert (loop.parent, loop.blocks) == (given.parent, given.blocks)
    spaces = {i.index: i.space for i in code.instructions}
    for i in program.instructions:
        assert {a.space for a in i.accesses} <= {spaces[i.index], "shared"}


def test_every_barrier_that_is_waited_for_has_a_source(program):
    code = Code.of(program)
    slicer = Slicer(code)
    waits = [(i.index, f"B{w}") for i in code.instructions if i.block >= 0 for w in i.waits]
    assert waits
    for use, barrier in waits:
        for source in slicer.sources(use, barrier):
            i = code.instructions[source]
            assert barrier in (f"B{i.sets}", f"B{i.frees}")
        assert slicer.sources(use, barrier)


def test_memory_stalls_are_due_to_memory_instructions(program):
    code = Code.of(program)
    counts = {(i.index, "memory_dependency"): Count(1, 1) for i in code.instructions if i.waits}
    result = blame(code, Samples(counts, {}), {})
    assert sum(b.count.all for b in result.blames) == pytest.approx(len(counts))
    others = [b for b in result.blames if b.source != b.use]
    assert others
    assert {code.instructions[b.source].space for b in others} <= {"global", "constant", "local"}
    assert 0 < result.coverage_before <= result.coverage_after <= 1
