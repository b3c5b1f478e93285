"""The examples of GPA §IV: Figures 3, 4 and 5, and equation (1)."""

import pytest
from advisor_listing import code_of

from perfassert.engines.advisor.blame import apportion, blame, stall_class
from perfassert.engines.advisor.paths import Paths
from perfassert.engines.advisor.pruning import Pruner
from perfassert.engines.advisor.slicing import Dependence, Slicer
from perfassert.kernel.samples import Count, Samples

FIGURE_4 = """
    @!P0 LDC R0 <- R4
    NOP
    @P0 LDG R0 <- R2 R3
    IMAD R1 <- R5 R6
    IADD R7 <- R0 R1
"""
LDC, _, LDG, IMAD, IADD = range(5)


def figure_4(issued=None):
    samples = Samples(
        {(IADD, "memory_dependency"): Count(12.0, 8.0)},
        {LDC: 2.0, LDG: 1.0, IMAD: 4.0} if issued is None else issued,
    )
    return blame(code_of(FIGURE_4), samples, {})


class TestFigure4:
    code = code_of(FIGURE_4)

    def test_the_graph_before_pruning(self):
        assert Slicer(self.code).dependences(IADD) == (
            Dependence(LDC, IADD, ("R0",)),
            Dependence(LDG, IADD, ("R0",)),
            Dependence(IMAD, IADD, ("R1",)),
        )

    def test_opcode_pruning_removes_imad(self):
        slicer = Slicer(self.code)
        pruner = Pruner(self.code, slicer, Paths(self.code), {})
        found = slicer.dependences(IADD)
        kept = pruner.by_opcode("memory_dependency", found)
        assert [d.source for d in kept] == [LDC, LDG]
        assert [d.source for d in pruner.by_opcode("execution_dependency", found)] == [IMAD]

    def test_twice_the_issue_over_twice_the_path_is_half_each(self):
        first, second = figure_4().blames
        assert (first.source, first.cls, first.distance) == (LDC, "constant_dependency", 4)
        assert (second.source, second.cls, second.distance) == (LDG, "memory_dependency", 2)
        assert first.count == second.count == Count(6.0, 4.0)

    def test_issue_alone_tells_sources_apart_otherwise(self):
        first, second = figure_4(issued={LDC: 6.0, LDG: 1.0}).blames
        assert first.count.all / second.count.all == pytest.approx(3)

    def test_coverage(self):
        result = figure_4()  # R0 of IADD has two sources, before and after; four nodes
        assert (result.coverage_before, result.coverage_after) == (0.75, 0.75)


def test_equation_1_by_hand():
    assert apportion([(1, 2), (2, 4)]) == pytest.approx([0.5, 0.5])
    assert apportion([(3, 1), (1, 2)]) == pytest.approx([6 / 7, 1 / 7])
    assert apportion([(0, 1), (0, 3)]) == pytest.approx([0.75, 0.25])
    assert apportion([(0, 5)]) == [1]


def test_figure_3_a_barrier_without_a_common_register():
    code = code_of("LDG R0 <- R2 R3 | set=0\nBRA | wait=0")
    assert Slicer(code).dependences(1) == (Dependence(0, 1, ("B0",)),)
    (only,) = blame(code, Samples({(1, "memory_dependency"): Count(5, 5)}, {0: 1}), {}).blames
    assert (only.source, only.use, only.cls, only.distance) == (0, 1, "memory_dependency", 1)


FIGURE_5 = [
    ("LDL R0 <- R1 | set=0", "memory_dependency", "local_memory_dependency"),
    ("LDC R0 <- R1 | set=0", "memory_dependency", "constant_dependency"),
    ("LDG R0 <- R1 | set=0", "memory_dependency", "memory_dependency"),
    ("LDS R0 <- R1 | set=0", "execution_dependency", "shared_dependency"),
    ("MUFU R0 <- R1 | set=0", "execution_dependency", "execution_dependency"),
    ("IMAD R0 <- R1 R1", "execution_dependency", "execution_dependency"),
]


@pytest.mark.parametrize(("source", "reason", "cls"), FIGURE_5)
def test_figure_5(source, reason, cls):
    code = code_of(f"{source}\nIADD R2 <- R0 | wait=0")
    (only,) = blame(code, Samples({(1, reason): Count(3, 1)}, {}), {}).blames
    assert (only.source, only.cls, only.count) == (0, cls, Count(3, 1))


@pytest.mark.parametrize("opcode", ["STG", "STS", "LDG R9"])
def test_figure_5_write_after_read(opcode):
    code = code_of(f"{opcode} <- R2 R0 | free=1\nMOV R0 <- R5 | wait=1")
    (found,) = Slicer(code).dependences(1)
    assert found == Dependence(0, 1, ("B1",), after_read=True)
    (only,) = blame(code, Samples({(1, "execution_dependency"): Count(3, 1)}, {}), {}).blames
    assert (only.source, only.cls) == (0, "write_after_read")


def test_reading_a_result_is_no_write_after_read():
    code = code_of("LDG R0 <- R2 | set=0 free=1\nIADD R2 <- R0 | wait=0,1")
    assert Slicer(code).dependences(1) == (Dependence(0, 1, ("R0", "B0", "B1")),)


def test_classes_are_those_of_the_samples():
    source = code_of("LDG R0 <- R1").instructions[0]
    assert stall_class("synchronization", source, False) == "synchronization"


class TestReasons:
    def test_what_no_one_else_causes_stays_where_it_was_seen(self):
        code = code_of("LDG R0 <- R2\nIADD R1 <- R0")
        reasons = ["selected", "not_selected", "memory_throttle", "pipe_busy", "other",
                   "instruction_fetch", "sleeping", "constant_dependency"]  # fmt: skip
        result = blame(code, Samples({(1, r): Count(2, 1) for r in reasons}, {}), {})
        assert {(b.source, b.use, b.reason, b.cls, b.count, b.distance) for b in result.blames} == {
            (1, 1, r, r, Count(2, 1), 0) for r in reasons
        }
        assert result.coverage_before == result.coverage_after == 1

    def test_a_stall_without_a_source_stays_where_it_was_seen(self):
        code = code_of("IADD R1 <- R0\nIADD R2 <- R1")
        result = blame(code, Samples({(1, "memory_dependency"): Count(4, 2)}, {}), {})
        assert [(b.source, b.use, b.cls) for b in result.blames] == [(1, 1, "memory_dependency")]

    @pytest.mark.parametrize("opcode", ["BAR", "MEMBAR"])
    def test_synchronization_is_due_to_the_last_one(self, opcode):
        code = code_of(f"BAR\n{opcode}\nLDS R0 <- R1\nIADD R2 <- R0")
        samples = Samples({(i, "synchronization"): Count(4, 2) for i in (1, 3)}, {})
        assert [(b.source, b.use) for b in blame(code, samples, {}).blames] == [(1, 1), (1, 3)]

    def test_edges_that_are_known_are_used(self):
        code = code_of(FIGURE_4)
        samples = Samples(
            {(IADD, "memory_dependency"): Count(9, 4), (IADD, "execution_dependency"): Count(2, 0)},
            {LDC: 2.0, LDG: 1.0},
            {(IADD, LDG): Count(6, 4), (IADD, LDC): Count(3, 0), (IADD, IMAD): Count(2, 0)},
        )
        got = {b.source: (b.cls, b.count) for b in blame(code, samples, {}).blames}
        assert got == {
            LDC: ("constant_dependency", Count(3, 0)),
            LDG: ("memory_dependency", Count(6, 4)),
            IMAD: ("execution_dependency", Count(2, 0)),
        }

    def test_known_edges_of_another_kind_leave_the_slices(self):
        samples = Samples({(IADD, "memory_dependency"): Count(8, 8)}, {LDC: 2, LDG: 1},
                          {(IADD, IMAD): Count(5, 5)})  # fmt: skip
        assert [b.source for b in blame(code_of(FIGURE_4), samples, {}).blames] == [LDC, LDG]
