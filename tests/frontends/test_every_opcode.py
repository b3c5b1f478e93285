"""Tests that all opcodes of the tables cost something on every device, or are an assumption."""

import pytest

import perfassert as pa
from perfassert.frontends.machine.opcodes import is_unsourced, opcode_roles, opcode_table
from perfassert.kernel.roles import Role

FAMILIES = {"volta": "sm_70", "ampere": "sm_80", "hopper": "sm_90", "blackwell": "sm_100"}
WAITING = (
    "MEMBAR.GPU", "MEMBAR.SYS", "ERRBAR", "CGAERRBAR", "NANOSLEEP", "BAR", "WARPSYNC", "DEPBAR",
    "SYNCS", "ARRIVES", "UCGABAR_ARV", "UCGABAR_WAIT", "CALL", "FENCE",
)  # fmt: skip
"""What waits for warps, for memory or for a clock, by NVIDIA's list of opcodes:
https://docs.nvidia.com/cuda/cuda-binary-utilities/#instruction-set-reference.
``ACQBULK`` waits for the grid before it, which a launch predicted by itself does not have."""
WAITS = {
    Role.SYNCHRONIZES, Role.ORDERS_MEMORY, Role.HOLDS_WARP, Role.SLEEPS, Role.WAITS_FOR_COUNTS,
    Role.CALLS,
}  # fmt: skip


def number_of(device):
    return int("".join(c for c in device.arch if c.isdigit()))


def family_of(device):
    return tuple(FAMILIES)[sum(number_of(device) >= n for n in (80, 90, 100))]


DEVICES = [d for d in map(pa.device, pa.devices()) if number_of(d) >= 70]
"""No code is compiled for older ones."""


def costs(device, operation):
    """Cycles of its pipeline; matrix classes cost what their variants do."""
    if operation in device.operations:
        return device.operations[operation].issue
    return 1.0 if device.matrix else 0.0


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.name)
def test_every_class_of_opcodes_takes_cycles(device):
    table = opcode_table(family_of(device))
    matrix = {"tensor", "tensor_fp64", "tcgen05", "tcgen05_commit"}
    free = {
        opcode: operation
        for opcode, operation in table.classes.items()
        if operation not in matrix and not costs(device, operation) > 0
    }
    assert not free


@pytest.mark.parametrize("family", FAMILIES)
def test_what_waits_is_simulated_or_announced(family):
    arch = FAMILIES[family]
    silent = [
        opcode
        for opcode in WAITING
        if not is_unsourced(opcode, arch) and WAITS.isdisjoint(opcode_roles(opcode, arch))
    ]
    assert not silent
