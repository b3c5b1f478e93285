"""Conversions from and to 64-bit types: a class of their own where the guide gives them a rate."""

import pytest

import perfassert as pa
from perfassert.frontends.machine.opcodes import operation_class


@pytest.mark.parametrize(
    ("opcode", "found"),
    [
        ("F2F.F32.F64", "convert_wide"),
        ("I2F.F64", "convert_wide"),
        ("F2I.S64.TRUNC", "convert_wide"),
        ("I2F.U64.RP", "convert_wide"),
        ("F2I.TRUNC.NTZ", "convert"),
        ("I2F.S16", "convert"),
    ],
)
def test_modifiers_tell_them(opcode, found):
    assert operation_class(opcode, "sm_86") == found


@pytest.mark.parametrize(
    ("device", "per_cycle"),
    [("RTX-3090", 2), ("A40", 2), ("RTX-4090", 2), ("RTX-2080-Ti", 2), ("A100-SXM4-40GB", 16)],
)
def test_results_per_cycle_and_unit_are_those_of_the_guide(device, per_cycle):
    found = pa.device(device)
    issue = found.operation("convert_wide").issue
    assert found.warp_size * found.schedulers_per_unit / issue == per_cycle
