"""Tests of what optimizers match and how scopes add up, on small pieces of code."""

from dataclasses import replace

import pytest
from advisor_listing import code_of

import perfassert as pa
from perfassert.engines.advisor.advise import advise
from perfassert.engines.advisor.blame import blame
from perfassert.engines.advisor.case import AccessFacts, Case, lines
from perfassert.engines.advisor.code import Code
from perfassert.engines.advisor.latency_hiding import (
    CodeReordering,
    FunctionInlining,
    LoopUnrolling,
    hidden_latency,
)
from perfassert.engines.advisor.parallel import (
    BlockIncrease,
    ThreadIncrease,
    without_contention,
)
from perfassert.engines.advisor.rewrites import Unroll, UseConstantMemory
from perfassert.engines.advisor.stall_elimination import (
    MemoryTransactionReduction,
    WarpBalance,
    division_instructions,
    math_instructions,
)
from perfassert.hardware.occupancy import occupancy
from perfassert.kernel.roles import Role
from perfassert.kernel.samples import Count, Samples
from perfassert.source import SourceSpan

A100 = pa.device("a100")
LOOP = """
    MOV R9 <- R8
    top:
    LDG R0 <- R2 | set=0
    FADD R1 <- R0 R1 | wait=0 stall=4
    @P0 BRA -> top end
    end:
    STG <- R1
"""


def case_of(text, counts, loops=(), blocks=10_000, threads=256, functions=(), **facts):
    """A case of a listing; ``functions``: name by instruction number."""
    code, named = code_of(text, loops), dict(functions)
    inside = {b: loop.index for loop in code.loops for b in loop.blocks}
    code = Code(
        tuple(
            replace(i, function=named.get(i.index, ""), loop=inside.get(i.block, -1))
            for i in code.instructions
        ),
        code.blocks,
        code.loops,
    )
    samples = Samples(counts, {i.index: 1.0 for i in code.instructions})
    held = occupancy(A100, threads, 16, 0)
    return Case(code, samples, blame(code, samples, {}).blames, A100, held, blocks, threads, 16, 0,
                **facts)  # fmt: skip


def with_roles(case, roles):
    """The case with other roles; ``roles``: by instruction number."""
    instructions = tuple(
        replace(i, roles=frozenset(roles[i.index])) if i.index in roles else i
        for i in case.code.instructions
    )
    return replace(case, code=replace(case.code, instructions=instructions))


def active(*numbers, each=10.0):
    return {(n, "selected"): Count(each, 0.0) for n in numbers}


WAITS = {**active(0, 1, 2, 3, 4), (2, "memory_dependency"): Count(30.0, 30.0)}


class TestScopes:
    def test_active_samples_of_the_loop_bound_it(self):
        case = case_of(LOOP, {**active(0, 4, each=50.0), **WAITS},
                       [(-1, "top", ["top"], None)])  # fmt: skip
        assert LoopUnrolling().match(case).hidden == pytest.approx(30)
        many = {**WAITS, (2, "memory_dependency"): Count(300.0, 300.0)}
        case = case_of(LOOP, many, [(-1, "top", ["top"], None)])
        assert LoopUnrolling().match(case).hidden == pytest.approx(30)

    def test_first_iteration_waits_all_the_same(self):
        case = case_of(LOOP, WAITS, [(-1, "top", ["top"], None)], trips={0: 3.0})
        assert LoopUnrolling().match(case).hidden == pytest.approx(20)

    def test_one_trip_is_no_loop(self):
        case = case_of(LOOP, WAITS, [(-1, "top", ["top"], None)], trips={0: 1.0})
        assert LoopUnrolling().match(case) is None

    def test_waits_without_a_definition_are_no_pair(self):
        counts = {**active(1), (3, "execution_dependency"): Count(9.0, 9.0)}
        case = case_of(LOOP, counts, [(-1, "top", ["top"], None)])
        assert LoopUnrolling().match(case) is None
        assert CodeReordering().match(case) is None

    def test_active_samples_of_an_inner_scope_hide_once(self):
        case = case_of(LOOP, active(0, 1, 2, 3, 4))
        inner, outer = frozenset({1, 2}), frozenset({0, 1, 2, 3})
        assert hidden_latency(case, [(inner, 15.0)]) == pytest.approx(15)
        assert hidden_latency(case, [(outer, 50.0), (inner, 15.0)]) == pytest.approx(40)
        assert hidden_latency(case, [(outer, 10.0), (inner, 50.0)]) == pytest.approx(30)
        assert hidden_latency(case, []) == 0

    def test_reordering_stops_at_barriers(self):
        text = "MOV R7 <- R8\nBAR <-\nLDG R0 <- R2 | set=0\nFADD R1 <- R0 | wait=0\nBAR <-\nSTG <-"
        counts = {**active(0, 1, 2, 3, 4, 5), (3, "memory_dependency"): Count(90.0, 90.0)}
        assert CodeReordering().match(case_of(text, counts)).hidden == pytest.approx(20)


class TestBarriersInLoops:
    MEETING = LOOP.replace("@P0 BRA", "BAR\n    @P0 BRA")

    def test_no_iteration_overlaps_the_next(self):
        free = case_of(LOOP, WAITS, [(-1, "top", ["top"], None)])
        meeting = case_of(self.MEETING, WAITS, [(-1, "top", ["top"], None)])
        assert LoopUnrolling().match(free).rewrites == (Unroll(frozenset({0})),)
        assert LoopUnrolling().match(meeting) is None


TWO = """
    LDG R0 <- R2 | set=0
    LDG R1 <- R3 | set=1
    FADD R4 <- R0 | wait=0
    FADD R5 <- R1 R4 | wait=1
"""


class TestTwins:
    def match(self, *uniform):
        counts = {
            **active(0, 1, 2, 3),
            (2, "memory_dependency"): Count(30.0, 30.0),
            (3, "memory_dependency"): Count(20.0, 20.0),
        }
        facts = {n: AccessFacts(1.0 if n in uniform else 4.0, 4.0, 1.0, 1.0) for n in (0, 1)}
        case = case_of(TWO, counts, accesses=facts)
        loads = tuple(
            replace(i, operation="global_load", space="global") if i.index in facts else i
            for i in case.code.instructions
        )
        return MemoryTransactionReduction().match(
            replace(case, code=replace(case.code, instructions=loads))
        )

    def test_a_load_whose_twin_still_waits_is_worth_nothing(self):
        assert self.match(0) is None

    def test_two_of_them_are(self):
        found = self.match(0, 1)
        assert found.count.all == 50.0
        assert UseConstantMemory(frozenset({0, 1})) in found.rewrites


class TestHotspots:
    def test_latency_hiding_mends_latency_samples_only(self):
        counts = {**active(0, 1, 2, 3, 4, each=100.0), (2, "memory_dependency"): Count(100.0, 40.0)}
        case = case_of(LOOP, counts)
        ((advice, _),) = advise(case, [CodeReordering()])
        assert advice.speedup == pytest.approx(600 / 560)
        assert advice.hotspots[0]["speedup"] == pytest.approx(600 / 560)
        assert advice.hotspots[0]["importance"] == pytest.approx(1 / 6)

    def test_lines_go_by_samples(self):
        case = case_of(LOOP, {(1, "pipe_busy"): Count(5.0), (2, "pipe_busy"): Count(9.0)})
        spans = {1: SourceSpan("a.cu", 7), 2: SourceSpan("a.cu", 12)}
        instructions = (replace(i, span=spans.get(i.index)) for i in case.code.instructions)
        code = Code(tuple(instructions), case.code.blocks, ())
        assert lines(replace(case, code=code), case.blames) == "a.cu:12, a.cu:7"
        assert lines(case, case.blames) == ""


class TestSynchronization:
    @pytest.mark.parametrize(("opcode", "found"), [("BAR", True), ("MEMBAR", False)])
    def test_fences_wait_for_no_warp(self, opcode, found):
        counts = {**active(0), (0, "synchronization"): Count(50.0, 50.0)}
        assert (WarpBalance().match(case_of(f"{opcode} <-", counts)) is not None) == found


class TestConstants:
    def test_short_waits_for_constant_loads(self):
        text = "LDC R0 <- R2 | set=0\nFADD R1 <- R0 | wait=0"
        case = case_of(text, {(1, "execution_dependency"): Count(5.0, 5.0)})
        assert [(b.source, b.cls) for b in case.blames] == [(0, "constant_dependency")]

    def test_others_come_first(self):
        text = "LDC R0 <- R2 | set=0\nMUFU R3 <- R4 | set=1\nFADD R1 <- R0 R3 | wait=0,1"
        case = case_of(text, {(2, "execution_dependency"): Count(5.0, 5.0)})
        assert [b.source for b in case.blames] == [1]

    def test_cache_misses_are_the_users_own(self):
        text = "LDC R0 <- R2 | set=0\nFADD R1 <- R0 | wait=0"
        counts = {(1, "constant_dependency"): Count(5.0, 5.0)}
        assert [b.source for b in case_of(text, counts).blames] == [1]
        samples = Samples(counts, {}, {(1, 0): Count(5.0, 5.0)})
        assert [b.source for b in blame(code_of(text), samples, {}).blames] == [0]


class TestInlining:
    @pytest.mark.parametrize(("roles", "found"), [((), True), ((Role.IN_LIBRARY,), False)])
    def test_own_functions_only(self, roles, found):
        text = "MOV R9 <- R8\nBRA -> inside\ninside:\nFADD R1 <- R0\nSTG <- R1"
        counts = {**active(0, 2), (2, "execution_dependency"): Count(9.0, 9.0)}
        case = with_roles(case_of(text, counts, functions=[(2, "step")]), {2: roles})
        assert (FunctionInlining().match(case) is not None) == found


class TestFunctionsOfTheCompiler:
    """A line's instructions together say which function it was."""

    TEXT = "MUFU R0 <- R9\nFADD R1 <- R9\nIMAD R2 <- R9"

    def case(self, *roles):
        case = with_roles(case_of(self.TEXT, {}), dict(enumerate(roles)))
        line = SourceSpan("a.cu", 7)
        instructions = tuple(replace(i, span=line) for i in case.code.instructions)
        return replace(case, code=replace(case.code, instructions=instructions))

    def test_an_approximation_that_is_corrected_is_precise(self):
        assert math_instructions(self.case([Role.APPROXIMATES], [Role.CORRECTS])) == {0, 1}

    @pytest.mark.parametrize(
        "roles",
        [([Role.APPROXIMATES],), ([], [Role.CORRECTS]),
         ([Role.APPROXIMATES], [Role.CORRECTS], [Role.BEGINS_DIVISION])],
    )  # fmt: skip
    def test_else_it_is_an_intrinsic_or_an_integer(self, roles):
        assert not math_instructions(self.case(*roles))

    def test_a_division_is_its_whole_line(self):
        assert division_instructions(self.case([], [], [Role.BEGINS_DIVISION])) == {0, 2}
        assert not division_instructions(self.case([Role.APPROXIMATES]))

    def test_a_library_routine_is_precise_on_any_line(self):
        assert math_instructions(self.case([], [Role.IN_LIBRARY])) == {1}


CONTENDED = {(0, "selected"): Count(50.0, 0.0), (0, "pipe_busy"): Count(50.0, 50.0)}


class TestContention:
    @pytest.mark.parametrize(
        ("share", "warps", "factor"),
        [(1.0, 4.0, 1.0), (2.0, 8.0, 1.0), (0.5, 2.0, 100 / 75), (0.5, 1.0, 2.0)],
    )
    def test_it_falls_with_the_warps_that_compete(self, share, warps, factor):
        case = case_of("MOV R9 <- R8", CONTENDED)
        assert without_contention(case, share, warps) == pytest.approx(factor)


class TestParallelism:
    def block_increase(self, blocks, threads=1024):
        counts = {**active(0), (0, "execution_dependency"): Count(90.0, 90.0)}
        return BlockIncrease().match(case_of("MOV R9 <- R8", counts, (), blocks, threads))

    def test_blocks_must_fit_beside_each_other(self):
        match = self.block_increase(16)
        assert "make 103 blocks of 160 threads" in match.suggestion
        match = self.block_increase(60)  # halves would again be two on some units
        blocks = int(match.suggestion.split("make ")[1].split()[0])
        threads = int(match.suggestion.split("of ")[-2].split()[0])
        assert -(-blocks // 108) * threads < 1024
        assert match.speedup > 1

    @pytest.mark.parametrize(("blocks", "threads"), [(128, 512), (130, 1024), (220, 256)])
    def test_units_that_have_a_block_more_than_others(self, blocks, threads):
        """The busiest unit has fewer warps of smaller blocks."""
        match = self.block_increase(blocks, threads)
        assert f"of {blocks} blocks the busiest compute unit has" in match.suggestion
        more = int(match.suggestion.split("make ")[1].split()[0])
        warps, fewer = threads // 32, match.rewrites[0].threads // 32
        assert more * fewer >= blocks * warps
        assert -(-more // 108) * fewer < -(-blocks // 108) * warps
        assert match.speedup > 1

    @pytest.mark.parametrize(
        ("blocks", "threads"), [(108, 1024), (60, 32), (107, 64), (216, 512), (100_000, 256)]
    )
    def test_nothing_to_gain(self, blocks, threads):
        assert self.block_increase(blocks, threads) is None

    def test_no_more_threads_reside_than_there_are(self):
        counts = {**active(0), (0, "execution_dependency"): Count(90.0, 90.0)}
        many = ThreadIncrease().match(case_of("MOV R9 <- R8", counts, (), 100_000, 32))
        few = ThreadIncrease().match(case_of("MOV R9 <- R8", counts, (), 216, 32))
        assert many.speedup > 1.1
        assert few is None or few.speedup <= 1.001
