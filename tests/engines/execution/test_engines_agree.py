"""The compiled engine against the numpy one: every field of an execution, to the bit.

``PERFASSERT_RANDOM_PROGRAMS=10000`` tries that many programs of each sort instead of a few.
"""

import os
from pathlib import Path

import numpy as np
import pytest
from engines.execution.machine import compiled, launched
from engines.execution.random_control import Generator, machine_code
from engines.execution.random_operations import AWKWARD, BLOCK_BYTES, SAVED, WORDS, Operations

from perfassert.engines.execution.compiled import available
from perfassert.engines.execution.memory import Region
from perfassert.engines.execution.plan import ExecutionLimits
from perfassert.engines.execution.slicing import control_slice

pytestmark = pytest.mark.skipif(not available(), reason="the compiled engine was not built")
HERE = Path(__file__).parent
PARTS = 10
COUNT = int(os.environ.get("PERFASSERT_RANDOM_PROGRAMS", "200"))
START = (("threadIdx.x", 13), ("laneid", 5), ("blockIdx.x", 11))
LIMITS = ExecutionLimits(400_000, 20_000)


def both(code, grid, block, arguments, shared=0, **more):
    runs = [
        launched(code, grid, block, arguments, shared, compiled=c, **more) for c in (False, True)
    ]
    same(*runs)
    return runs[1]


def same(a, b):
    for name in ("executed", "lanes", "cut"):
        assert np.array_equal(getattr(a, name), getattr(b, name)), name
    for name in ("blocks", "warps_per_block", "guesses", "lost", "forced", "outside", "unknown"):
        assert getattr(a, name) == getattr(b, name), name
    for name in ("taken", "contents"):
        ours, theirs = getattr(a, name), getattr(b, name)
        assert ours.keys() == theirs.keys(), name
        for key in ours:
            assert np.array_equal(ours[key], theirs[key]), (name, key)
    assert len(a.touches) == len(b.touches)
    for ours, theirs in zip(a.touches, b.touches, strict=True):
        for name in ("instruction", "part", "memory", "guessed"):
            assert getattr(ours, name) == getattr(theirs, name), name
        for name in ("warps", "lanes", "addresses"):
            assert np.array_equal(getattr(ours, name), getattr(theirs, name)), name


def seeds(part):
    return range(part * COUNT // PARTS, (part + 1) * COUNT // PARTS)


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("part", range(PARTS))
def test_on_random_flow_of_control(part):
    for seed in seeds(part):
        generator = Generator(seed)
        code, _ = machine_code(generator.program(), generator.loops, START)
        run = both(code, 2, 80, [], limits=LIMITS if seed % 8 else ExecutionLimits(9000, 300))
        assert run.lane_instructions, seed


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("part", range(PARTS))
def test_on_random_operations(part):
    for seed in seeds(part):
        code = Operations(seed, 10 + seed % 40).code
        generator = np.random.default_rng(seed)
        words = generator.integers(0, 2**32, 128 * WORDS, dtype=np.uint64).astype(np.uint32)
        some = generator.random(len(words)) < 0.4
        words[some] = generator.choice(np.array(AWKWARD, np.uint32), int(some.sum()))
        results = np.zeros(BLOCK_BYTES + 2 * BLOCK_BYTES * SAVED, np.uint32)
        empty = Region("described by its size", None, 4096) if seed % 2 else Region("anything")
        needed = control_slice(code, addresses=seed % 2 == 0) if seed % 3 == 0 else None
        how = {"limits": LIMITS, "needed": needed, "touches": seed % 6 != 3}
        run = both(code, 2, 96, [words, results, empty, None], **how)
        assert run.lane_instructions, seed


@pytest.mark.parametrize("arch", ["sm_75", "sm_120"])
@pytest.mark.parametrize("skew", [0, 1])
def test_on_races_and_atomics(arch, skew):
    generator = np.random.default_rng(skew)
    values = (generator.integers(0, 256, 3000) * (generator.random(3000) > skew * 0.9)).astype(
        np.uint8
    )
    code = compiled(HERE / "integers.cu", "histogram", arch)
    both(code, 5, 256, [values, np.zeros(256, np.uint32), 3000])
    code = compiled(HERE / "integers.cu", "compact", arch)
    items = generator.integers(0, 1000, 1500).astype(np.int32)
    both(code, 1, 256, [items, np.zeros(1500, np.int32), np.zeros(1, np.int32), 1500])
