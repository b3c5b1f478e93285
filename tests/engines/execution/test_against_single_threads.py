"""Masks and counts of executed warps against threads that are run one by one."""

import numpy as np
import pytest
from engines.execution.machine import clean, launched
from engines.execution.random_control import Generator, machine_code, thread

pytestmark = pytest.mark.usefixtures("engine")
START = (("threadIdx.x", 13), ("laneid", 5), ("blockIdx.x", 11))
CASES, PER_TEST = 1000, 100


def expected(program, count, blocks, block):
    """Count the executions of each statement by all threads of each warp."""
    warps = -(-block // 32)
    totals = np.zeros((blocks * warps, count), np.int64)
    for b in range(blocks):
        for t in range(block):
            start = [t * 13 + 7, t % 32 * 5 + 7, b * 11 + 7]
            thread(program, start, totals[b * warps + t // 32])
    return totals


@pytest.mark.parametrize("start", range(0, CASES, PER_TEST))
@pytest.mark.exhaustive(one_in=12)
def test_active_lanes_are_those_that_a_thread_by_thread_run_counts(start):
    for seed in range(start, start + PER_TEST):
        generator = Generator(seed)
        program = generator.program()
        code, places = machine_code(program, generator.loops, START)
        blocks, block = (2, 80) if seed % 4 == 0 else (1, 40)
        run = clean(launched(code, blocks, block, []))
        totals = expected(program, generator.count, blocks, block)
        for number, place in places.items():
            assert (run.lanes[:, place] == totals[:, number]).all(), (seed, number)


def test_lanes_meet_again_behind_every_statement():
    """A statement of the outermost level is issued once per warp, however its lanes have parted."""
    for seed in range(2000, 2100):
        generator = Generator(seed)
        program = generator.program()
        code, places = machine_code(program, generator.loops, START)
        run = clean(launched(code, 1, 64, []))
        for statement in program:
            assert run.executed[:, places[statement.number]].max() <= 1, (seed, statement)
