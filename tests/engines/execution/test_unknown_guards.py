"""Tests that results are unknown if it is unknown whether the instruction is executed."""

import numpy as np
import pytest
from engines.execution.machine import launched

from perfassert.engines.execution.compiled import available
from perfassert.engines.execution.sample import summarize_execution
from perfassert.kernel.executed import WorkingBlocks
from perfassert.kernel.machine import (
    Kind,
    MachineCode,
    MachineInstruction,
    MemoryOperand,
    Micro,
    ParameterSlot,
    Preset,
    PresetSource,
    Relation,
    Space,
)

CLOCK, LOW, HIGH, FOUR, EIGHT = 20, 21, 22, 23, 24
ENGINES = [False, pytest.param(True, marks=pytest.mark.skipif(not available(), reason="pure"))]
WORD = MemoryOperand(Space.GLOBAL, 4)
UNKNOWN_GUARD = 3


def code(*body):
    """``body``: (micro, guard or -1), after a predicate of which nothing is known."""
    compare = Micro(Kind.COMPARE, (UNKNOWN_GUARD,), (CLOCK, FOUR), (Relation.LT, 0))
    steps = [(compare, -1), *body, (Micro(Kind.EXIT), -1)]
    presets = (
        Preset(CLOCK, PresetSource.SPECIAL, name="clock"),
        Preset(LOW, PresetSource.CONSTANT, 0x160),
        Preset(HIGH, PresetSource.CONSTANT, 0x164),
        Preset(FOUR, PresetSource.LITERAL, 4),
        Preset(EIGHT, PresetSource.LITERAL, 8),
    )
    return MachineCode(
        tuple(MachineInstruction(16 * i, (m,), g) for i, (m, g) in enumerate(steps)),
        30, frozenset(), presets, {16 * i: i for i in range(len(steps))}, frozenset(), frozenset(),
        (ParameterSlot(0x160, 8),), {}, 0, 12, 0x28, 0, 0, 0,
    )  # fmt: skip


def load(to, offset=0):
    return Micro(Kind.LOAD, (to,), (LOW, HIGH, offset, 0), (), WORD)


def store(word):
    return Micro(Kind.STORE, (), (LOW, HIGH, 0, 0, word), (), WORD)


def run(machine, compiled):
    return launched(machine, 1, 32, [np.zeros(64, np.int32)], compiled=compiled)


@pytest.mark.parametrize("compiled", ENGINES)
def test_a_register(compiled):
    """``k = 4; if (unknown) k = 8;`` leaves the address of the load open."""
    body = (Micro(Kind.MOVE, (5,), (FOUR,)), -1), (Micro(Kind.MOVE, (5,), (EIGHT,)), UNKNOWN_GUARD)
    found = run(code(*body, (load(6, 5), -1)), compiled)
    assert set(found.guesses) == {3}
    known = run(code(body[0], (body[1][0], -1), (load(6, 5), -1)), compiled)
    assert not known.guesses


@pytest.mark.parametrize("compiled", ENGINES)
def test_a_load_that_may_not_be_executed(compiled):
    assert set(run(code((load(6), UNKNOWN_GUARD)), compiled).guesses) == {1}


@pytest.mark.parametrize("compiled", ENGINES)
def test_memory(compiled):
    """A load is unknown if a store may have written to the buffer, at any place."""
    after = (load(6, FOUR), -1), (load(7, 6), -1)
    found = run(code((store(EIGHT), UNKNOWN_GUARD), *after), compiled)
    assert set(found.guesses) == {1, 3}
    assert found.unknown["arg0"] == 256
    assert not run(code((store(EIGHT), -1), *after), compiled).guesses


@pytest.mark.parametrize("compiled", ENGINES)
def test_an_instruction_without_a_translation_touched_something(compiled):
    """An instruction without a translation touches unknown addresses, but only if executed."""
    body = (Micro(Kind.UNKNOWN, (5,)), -1), (load(6), -1), (Micro(Kind.EXIT), -1), (load(7), -1)
    found = summarize_execution(
        run(code(*body), compiled), {}, WorkingBlocks((1, 1, 1), (1, 1, 1))
    ).accesses
    assert found[16].unknown
    assert not found[32].unknown
    assert found[32].sectors == 1
    assert 64 not in found
