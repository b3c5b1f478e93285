"""The dominator and the latency rule, path lengths, and that no sample is lost."""

import random

import pytest
from advisor_listing import code_of
from random_code import random_code

from perfassert.engines.advisor.blame import blame
from perfassert.engines.advisor.paths import Paths
from perfassert.engines.advisor.pruning import Pruner
from perfassert.engines.advisor.slicing import Slicer
from perfassert.kernel.samples import REASONS, Count, Samples

MEMORY = "memory_dependency"
EXECUTION = "execution_dependency"


def after_dominators(text, use):
    code = code_of(text)
    slicer = Slicer(code)
    pruner = Pruner(code, slicer, Paths(code), {})
    return [d.source for d in pruner.by_dominator(slicer.dependences(use))]


class TestDominators:
    def test_a_user_in_between_would_have_stalled(self):
        assert after_dominators("LDG R0 <- R2\nIADD R1 <- R0\nIADD R3 <- R0", 2) == []

    def test_not_under_a_predicate(self):
        assert after_dominators("LDG R0 <- R2\n@P0 IADD R1 <- R0\nIADD R3 <- R0", 2) == [0]

    def test_not_of_another_operand(self):
        assert after_dominators("LDG R0 <- R2\nIADD R1 <- R5\nIADD R3 <- R0", 2) == [0]

    BRANCH = """
        LDG R0 <- R2
        @P0 BRA <- -> left right
        left:
        IADD R1 <- R0
        BRA -> join
        right:
        {right}
        join:
        IADD R3 <- R0
    """

    def test_not_on_one_side_of_a_branch_only(self):
        assert after_dominators(self.BRANCH.format(right="NOP"), 5) == [0]

    def test_on_each_side_of_a_branch(self):
        assert after_dominators(self.BRANCH.format(right="IADD R4 <- R0"), 5) == []

    def test_a_wait_for_the_barrier_of_the_result_is_a_use(self):
        text = "LDG R0 <- R2 | set=0\nBRA | wait=0\nIADD R3 <- R0"
        assert after_dominators(text, 2) == []

    def test_a_wait_under_a_predicate_is_one_too(self):
        text = "LDG R0 <- R2 | set=0\n@P0 IADD R1 <- R5 | wait=0\nIADD R3 <- R0 | wait=0"
        assert after_dominators(text, 2) == []

    def test_a_wait_for_the_reading_of_operands_is_none(self):
        text = "LDG R0 <- R2 | set=0 free=1\nMOV R2 <- R9 | wait=1\nIADD R3 <- R0 | wait=0"
        assert after_dominators(text, 2) == [0]
        assert after_dominators(text, 1) == [0]

    def test_around_a_loop(self):
        text = """
            LDG R0 <- R2
            again:
            IADD R5 <- R0
            LDG R0 <- R2
            @P0 BRA -> again end
            end:
            NOP
        """
        assert after_dominators(text, 1) == [0, 2]
        used = text.replace("@P0 BRA", "MOV R7 <- R0\n@P0 BRA")
        assert after_dominators(used, 1) == [0]


class TestLatency:
    TEXT = "MUFU R0 <- R9\nIMAD R1 <- R9\n{}\nIADD R3 <- R0 R1"

    @pytest.mark.parametrize(("between", "kept"), [(19, {0, 1}), (20, {0}), (29, {0})])
    def test_what_is_long_complete_is_pruned(self, between, kept):
        code = code_of(self.TEXT.format("\n".join(["NOP"] * between)))
        samples = Samples({(between + 2, EXECUTION): Count(6, 2)}, {})
        result = blame(code, samples, {"sfu": 50.0, "imad": 20.0})
        assert {b.source for b in result.blames} == kept

    def test_stall_counts_are_time(self):
        code = code_of(self.TEXT.format("NOP | stall=15\nNOP | stall=5"))
        samples = Samples({(4, EXECUTION): Count(6, 2)}, {})
        result = blame(code, samples, {"sfu": 50.0, "imad": 20.0})
        assert {b.source for b in result.blames} == {0}

    def test_the_shortest_path_decides(self):
        code = code_of("IMAD R0 <- R9\n@P0 BRA -> long short\nlong:\n" + "NOP\n" * 30
                       + "short:\nIADD R3 <- R0")  # fmt: skip
        assert Paths(code).soonest({(0, 32)}) == {(0, 32): 2}
        assert Paths(code).longest({(0, 32)}) == {(0, 32): 32}

    def test_an_observed_stall_keeps_its_last_source(self):
        code = code_of(self.TEXT.format("\n".join(["NOP"] * 60)))
        samples = Samples({(62, EXECUTION): Count(6, 2)}, {})
        result = blame(code, samples, {"sfu": 50.0, "imad": 20.0})
        assert {b.source for b in result.blames} == {0, 1}


class TestPaths:
    NEST = """
        outer:
        NOP
        inner:
        @P0 BRA -> body after
        body:
        LDG R0 <- R2
        BRA -> inner
        after:
        @P1 BRA <- R0 -> outer end
        end:
        IADD R1 <- R0
    """

    def test_out_of_a_loop_through_its_header(self):
        paths = Paths(code_of(self.NEST))
        assert paths.longest({(2, 5)}) == {(2, 5): 4}
        assert paths.soonest({(2, 5)}) == {(2, 5): 4}

    def test_around_two_loops(self):
        assert Paths(code_of(self.NEST)).longest({(4, 2), (2, 2)}) == {(4, 2): 3, (2, 2): 3}

    def test_against_all_simple_paths(self):
        generator = random.Random(5)
        for _ in range(60):
            code = random_code(generator, blocks=5, per_block=2)
            pairs = {(i.index, j.index) for i in code.instructions for j in code.instructions}
            longest, soonest = Paths(code).longest(pairs), Paths(code).soonest(pairs)
            for pair in pairs:
                lengths = simple_paths(code, *pair)
                assert (pair in longest) == (pair in soonest) == bool(lengths)
                if lengths:
                    fewest = min(back for _, back in lengths)
                    assert soonest[pair] == min(n for n, _ in lengths)
                    assert longest[pair] == max(n for n, back in lengths if back == fewest)


def simple_paths(code, source, use):
    """(Length, back edges) of every path that enters no block twice."""
    start, goal = code.instructions[source].block, code.instructions[use].block
    if start < 0 or goal < 0:
        return []
    if start == goal and source < use:
        return [(use - source, 0)]
    order = {b: n for n, b in enumerate(code.blocks)}
    result = []
    stack = [(start, code.blocks[start].stop - source, 0, frozenset())]
    while stack:
        block, length, back, seen = stack.pop()
        for target in code.blocks[block].successors:
            turns = back + (order[target] <= order[block])
            b = code.blocks[target]
            if target == goal:
                result.append((length + use - b.start, turns))
            elif target not in seen and target != start:
                stack.append((target, length + b.stop - b.start, turns, seen | {target}))
    return result


def test_every_sample_is_attributed_once():
    generator = random.Random(2)
    for _ in range(60):
        code = random_code(generator, blocks=6, per_block=4)
        counts = {
            (i.index, r): Count(c := generator.randint(1, 9), generator.randint(0, c))
            for i in code.instructions
            for r in generator.sample(REASONS, 3)
        }
        issued = {i.index: generator.randint(0, 5) for i in code.instructions}
        bounds = {i.operation: generator.randint(1, 8) for i in code.instructions}
        result = blame(code, Samples(counts, issued), bounds)
        sums = {}
        for b in result.blames:
            sums[b.use, b.reason] = sums.get((b.use, b.reason), Count()).plus(b.count)
        assert sums.keys() == counts.keys()
        for key, count in counts.items():
            assert sums[key].all == pytest.approx(count.all)
            assert sums[key].latency == pytest.approx(count.latency)
        assert 0 <= result.coverage_before <= result.coverage_after <= 1
