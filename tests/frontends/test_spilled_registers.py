"""Registers that a compiler keeps on the stack: followed as registers are, and counted."""

import pytest
from sass_lines import listing

import perfassert as pa
from perfassert.frontends.analysis.describe import describe
from perfassert.frontends.analysis.symbolic_code import spilled_words
from perfassert.frontends.machine.lowering import executable
from perfassert.frontends.toolchain.fixture import from_fixture
from perfassert.kernel.access import Direction

COUNTER = """\
MOV R1, c[0x0][0x28]
IADD3 R1, R1, -0x10, RZ
STL [R1+0x4], RZ (*"SpillRefill"*)
.L_x_0:
LDL.LU R0, [R1+0x4] (*"SpillRefill"*)
IADD3 R0, R0, 0x1, RZ
STL [R1+0x4], R0 (*"SpillRefill"*)
ISETP.GE.AND P0, PT, R0, 0x5, PT
@!P0 BRA `(.L_x_0)
EXIT
"""


def words(code):
    """Return, by instruction, the stack words that it moves, as distances from the pointer."""
    text = listing("MOV R1, c[0x0][0x28]\n" + code)
    machine = executable(from_fixture(text, None, "sm_75", "x.sass"))
    found = spilled_words(machine)
    first = min((word for moved in found.values() for word in moved), default=0)
    return {n - 1: [4 * (word - first) for word in moved] for n, moved in found.items()}


def test_a_counter_on_the_stack_is_followed():
    program = describe(from_fixture(listing(COUNTER), None, "sm_75", "x.sass"))
    (loop,) = program.loops
    assert loop.trips is not None
    assert loop.trips.constant == 5
    spills = [a for i in program.instructions for a in i.accesses]
    assert [a.direction for a in spills] == [Direction.STORE, Direction.LOAD, Direction.STORE]
    assert {a.space for a in spills} == {"local"}
    assert not any("stack" in name for i in program.instructions for name in i.defines)


def test_its_accesses_are_counted(tmp_path):
    path = tmp_path / "k.sass"
    path.write_text(listing(COUNTER))
    volumes = pa.predict(pa.from_cubin(path), pa.Launch(100, 32), "RTX-2080-Ti").volumes
    assert float(volumes.l2_load.total) == 0  # the stacks of a unit fit into its L1
    assert float(volumes.l2_store.total) == 100 * 6 * 128


def test_wide_words():
    found = words("STL.64 [R1+0x8], R4\nLDL R6, [R1+0xc]\nSTL.128 [R1], R8\n")
    assert found == {0: [8, 12], 1: [12], 2: [0, 4, 8, 12]}


@pytest.mark.parametrize(
    "code",
    [
        "STL [R1+0x4], R0\nLDL R0, [R2+0x4]",  # an array with an index
        "STL [R1+0x4], R0\nLDL R0, [R1+R2+0x4]",
        "STL [R1+0x4], R0\nIADD3 R4, R1, 0x4, RZ",  # its address
        "STL [R1+0x4], R0\nIADD3 R1, R1, -0x10, RZ\nLDL R0, [R1+0x4]",
        "STL.U8 [R1+0x4], R0\nLDL R0, [R1+0x4]",
    ],
)
def test_what_is_no_spill(code):
    assert words(code) == {}
