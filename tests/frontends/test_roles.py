"""Tests of the roles of opcodes, and of counted waits."""

import pytest

from perfassert.frontends.machine.inlining import PlacedInstruction
from perfassert.frontends.machine.opcodes import opcode_roles, opcode_table
from perfassert.frontends.machine.roles import counted_waits, roles_of
from perfassert.frontends.machine.sass import Control, Instruction, parse_operand
from perfassert.kernel.roles import CountedWait, Role

FAMILIES = {"volta": "sm_70", "ampere": "sm_86", "hopper": "sm_90", "blackwell": "sm_120"}
ROLES = {
    "BAR.SYNC": {Role.SYNCHRONIZES, Role.JUMPS},
    "BAR.ARV": {Role.SYNCHRONIZES, Role.JUMPS},
    "MEMBAR.SC.GPU": {Role.ORDERS_MEMORY, Role.HOLDS_WARP},
    "MEMBAR.ALL.SYS": {Role.ORDERS_MEMORY, Role.HOLDS_WARP},
    "MEMBAR.SC.CTA": {Role.ORDERS_MEMORY},
    "NANOSLEEP": {Role.HOLDS_WARP, Role.SLEEPS},
    "LDG.E.64.STRONG.SYS": {Role.READS_L2},
    "LDG.E.STRONG.GPU": {Role.READS_L2},
    "LDG.E.STRONG.SM": set(),
    "LDG.E.CONSTANT": set(),
    "CCTL.E.PF2": {Role.READS_L2},
    "CCTL.E.PF1": set(),
    "CALL.REL.NOINC": {Role.CALLS, Role.JUMPS},
    "LDGSTS.E.BYPASS.128": {
        Role.COPIES_ASYNCHRONOUSLY,
        Role.BYPASSES_L1,
        Role.WRITES_SHARED,
    },
    "LDGDEPBAR": {Role.COMMITS_COPIES},
    "DEPBAR.LE": {Role.WAITS_FOR_COUNTS},
    "MUFU.RCP": {Role.APPROXIMATES},
    "MUFU.RCP64H": {Role.BEGINS_DOUBLE_DIVISION},
    "MUFU.RSQ64H": set(),
    "I2F.U32.RP": {Role.BEGINS_DIVISION, Role.CORRECTS},
    "I2F.S64": set(),
    "FFMA.RM": {Role.CORRECTS},
    "FFMA.FTZ.SAT": {Role.CORRECTS},
    "FCHK": {Role.CORRECTS},
    "F2F.F64.F32": {Role.WIDENS},
    "F2F.F32.F64": {Role.WIDENS},
    "F2F.F16.F32": set(),
    "FFMA": set(),
    "NOSUCH": set(),
}


@pytest.mark.parametrize("arch", FAMILIES.values())
@pytest.mark.parametrize(("opcode", "roles"), ROLES.items())
@pytest.mark.exhaustive(one_in=3)
def test_roles(opcode, roles, arch):
    assert opcode_roles(opcode, arch) == roles


@pytest.mark.parametrize("family", FAMILIES)
def test_every_opcode_with_a_role_has_a_class(family):
    table = opcode_table(family)
    bases = {opcode.partition(".")[0] for opcode in table.classes}
    assert set(table.roles) - {"*"} <= bases


def instruction(text):
    opcode, _, rest = text.partition(" ")
    operands = tuple(parse_operand(o) for o in rest.split(", ") if o)
    return Instruction(0, 0, opcode, operands, None, Control.from_word(0), text, None, ())


@pytest.mark.parametrize(
    ("name", "found"),
    [("", False), ("step", False), ("__internal_trig_reduction_slowpathd", True),
     ("$kernel$__cuda_sm20_div_s64", True), ("__nv_sinf", True)],
)  # fmt: skip
def test_routines_of_the_compiler(name, found):
    placed = PlacedInstruction(instruction("FFMA R0, R1, R2, R3"), (), name)
    assert (Role.IN_LIBRARY in roles_of(placed, "sm_80")) == found


@pytest.mark.parametrize(
    ("text", "waits"),
    [("DEPBAR.LE SB0, 0x1", [(0, 1)]), ("DEPBAR.LE SB3, 0x0", [(3, 0)]),
     ("DEPBAR.LE SB5", [(5, 0)]), ("DEPBAR {3}", [(3, 0)]), ("DEPBAR", []),
     ("DEPBAR.LE SB0, 0x2, {4}", [(0, 2), (4, 0)])],
)  # fmt: skip
def test_counted_waits(text, waits):
    assert counted_waits(instruction(text)) == tuple(CountedWait(*w) for w in waits)
