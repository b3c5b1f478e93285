"""Tests that registers and accesses of instructions follow from their micro-operations."""

import pytest
from sass_lines import listing

from perfassert.frontends.machine.lowering import executable
from perfassert.frontends.toolchain.fixture import from_fixture
from perfassert.kernel.machine import Kind, Space


def lowered(text):
    code = executable(from_fixture(listing(f"{text}\nEXIT\n.L:\nEXIT"), None, "sm_75", "x.sass"))
    return code, code.instructions[0]


@pytest.mark.parametrize(
    ("text", "written", "read"),
    [
        ("FCHK P1, R9, c[0x0][0x190]", "P1", "R9"),
        ("F2I.S64.F64.TRUNC R2, R4", "R2 R3", "R4 R5"),
        ("I2F.U64.RP R3, UR4", "R3", "UR4 UR5"),
        ("IADD.64 R6, R8, UR4", "R6 R7", "R8 R9 UR4 UR5"),
        ("@!P3 IMAD.WIDE R2, R0, R7, R4", "R2 R3", "P3 R0 R7 R4 R5"),
        ("R2P PR, R0, 0x5", "P0 P2", "R0"),
        ("P2R R8, PR, RZ, 0x8", "R8", "P3"),
        ("LDG.E.128.CONSTANT R4, desc[UR6][R4.64]", "R4 R5 R6 R7", "R4 R5 UR6 UR7"),
        ("STG.E [R2.64], R7", "", "R2 R3 R7"),
        ("BRX R10 -0x1e0", "", "R10"),
        ("BSSY B0, `(.L)", "", ""),
        ("R2UR P1, UR6, R9", "UR6 P1", "R9"),
        ("HMMA.16816.F32 R4, R8, R12, R16", "R4 R5 R6 R7",
         "R8 R9 R10 R11 R12 R13 R16 R17 R18 R19"),
    ],
)  # fmt: skip
def test_written_and_read(text, written, read):
    code, instruction = lowered(text)

    def named(registers):
        return {code.names[r] for r in registers if r in code.names}

    assert named(instruction.written_registers()) == set(written.split())
    assert named(instruction.read_registers()) == set(read.split())


def test_a_result_that_the_translation_leaves_out_is_unknown():
    code, instruction = lowered("R2UR P1, UR6, R9")
    (last,) = [o for o in instruction.operations if o.kind is Kind.UNKNOWN]
    assert [code.names[t] for t in last.targets] == ["P1"]


@pytest.mark.parametrize(
    ("text", "kind", "space", "size"),
    [
        ("RED.E.ADD.F64.RN.STRONG.GPU [R2.64], R4", Kind.ATOMIC, Space.GLOBAL, 8),
        ("RED.E.ADD.S32.STRONG.GPU [R2.64], R4", Kind.ATOMIC, Space.GLOBAL, 4),
        ("STSM.16.M88.4 [R2], R4", Kind.STORE, Space.SHARED, 16),
        ("LDSM.16.M88.2 R4, [R2]", Kind.MATRIX_LOAD, Space.SHARED, 16),
        ("CCTL.E.PF2 [R2]", Kind.LOAD, Space.GLOBAL, 1),
        ("LD.E.64 R4, [R2.64]", Kind.LOAD, Space.GENERIC, 8),
    ],
)
def test_accesses(text, kind, space, size):
    _, instruction = lowered(text)
    (asked,) = instruction.inputs
    assert (asked.kind, asked.memory.space, asked.memory.bytes) == (kind, space, size)


def test_what_discards_lines_accesses_nothing():
    assert lowered("CCTL.E.PML2 [R2]")[1].inputs == ()


def test_an_access_at_an_address_that_cannot_be_read_is_one_all_the_same():
    _, instruction = lowered("LDG.E.64 R4, [R2-R3]")
    (asked,) = instruction.inputs
    assert (asked.kind, asked.memory.space, asked.memory.bytes) == (Kind.LOAD, Space.GLOBAL, 8)
