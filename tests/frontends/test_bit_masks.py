"""Masks that are no run of ones, bitwise choices, and calls that are jumps."""

import itertools
from pathlib import Path

import numpy as np
import pytest

import perfassert as pa
from perfassert.frontends.analysis.symbolic_logic import _THREE, _TWO
from perfassert.kernel.expression_pool import ExpressionPool

KERNELS = Path(__file__).parents[2] / "validation" / "kernels"


@pytest.mark.parametrize("mask", [-1, -2, -8, -9, -24, -25, 5, 6, 7, 24, 0x7FFFFFF8])
def test_and_with_any_mask(mask):
    s = ExpressionPool()
    masked = s.bit_and(s.variable("threadIdx.x"), s.number(mask))
    lane = s.bit_and(s.mod(s.variable("threadIdx.x"), s.number(8)), s.number(mask))
    at = np.array([0, 1, 7, 8, 9, 31, 63, 1000])
    assert np.all(s.evaluate(masked, {"threadIdx.x": at}) == at & mask)
    assert np.all(s.evaluate(lane, {"threadIdx.x": at}) == at % 8 & mask)


def test_bits_that_a_mask_does_not_clear_leave_the_value_as_it_is():
    s = ExpressionPool()
    lane = s.mod(s.variable("laneid"), s.number(8))
    assert s.bit_and(lane, s.number(-9)) is lane


@pytest.mark.parametrize("table", sorted(_THREE))
def test_functions_of_three_operands(table):
    s = ExpressionPool()
    for bits in itertools.product((0, 1), repeat=3):
        result = _THREE[table](s, *map(s.number, bits)).constant
        assert result & 1 == table >> (4 * bits[0] + 2 * bits[1] + bits[2]) & 1


def test_functions_of_two_operands():
    s = ExpressionPool()
    for table, function in _TWO.items():
        for a, b in itertools.product((0, 1), repeat=2):
            assert function(s, s.number(a), s.number(b)).constant & 1 == table >> (2 * a + b) & 1


def test_a_loop_that_is_left_by_a_call():
    """``@P0 CALL.REL.NOINC`` to a label that never returns: a jump, on sm_80."""
    kernel = pa.from_cuda(KERNELS / "matmuls.cu", "matmul_registers")
    launch = pa.Launch((8, 8), (16, 16), {"n": 512})
    try:
        found = pa.predict(kernel, launch, "a100")
    except pa.ToolchainMissing as missing:
        pytest.skip(str(missing))
    assert not any("leaves the function" in str(a) for a in found.assumptions)
    assert found.volumes.dram_store.parts["compulsory"] == 512 * 512 * 4


def test_addresses_of_matrix_fragments_in_shared_memory():
    """Their lanes are put together bit by bit; no address is left without a closed form."""
    kernel = pa.from_cuda(KERNELS / "tensor.cu", "matmul_wmma_shared")
    launch = pa.Launch((8, 8), (32, 4), {"n": 512})
    try:
        found = pa.predict(kernel, launch, "2080ti")
    except pa.ToolchainMissing as missing:
        pytest.skip(str(missing))
    assert not any("no closed form" in str(a) for a in found.assumptions)
