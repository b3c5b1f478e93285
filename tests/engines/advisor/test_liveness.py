"""Registers alive at once: closed forms, and a search along every path."""

import random

import pytest
from advisor_listing import code_of
from random_code import random_code

from perfassert.engines.advisor.liveness import max_live_registers


@pytest.mark.parametrize("count", [1, 5, 40])
def test_values_that_are_loaded_first_and_read_later_are_all_alive(count):
    loads = "\n".join(f"LDG R{n} <- R100" for n in range(count))
    sums = "\n".join(f"FADD R200 <- R200 R{n}" for n in range(count))
    assert max_live_registers(code_of(f"{loads}\n{sums}\nSTG <- R200")) == count + 1


@pytest.mark.parametrize("count", [2, 5, 40])
def test_values_that_are_read_at_once_are_not(count):
    pairs = "\n".join(f"LDG R{n} <- R100\nFADD R200 <- R200 R{n}" for n in range(count))
    assert max_live_registers(code_of(f"{pairs}\nSTG <- R200")) == 3


def test_what_the_next_iteration_reads_is_alive_in_the_whole_loop():
    code = code_of(
        "MOV R9 <-\nMOV R1 <-\na:\nLDG R2 <- R1\nFADD R3 <- R2 R9\nBRA <- P0 -> a b\nb:\nNOP <-"
    )
    assert max_live_registers(code) == 3  # R1 and R9 for the next one, R2 or R3


def test_a_predicate_keeps_the_old_value():
    kept = code_of("MOV R1 <-\nMOV R2 <-\n@P0 MOV R1 <- R2\nSTG <- R1 R2")
    assert max_live_registers(kept) == 2
    assert max_live_registers(code_of("MOV R1 <-\nMOV R1 <-\nSTG <- R1")) == 1


def test_predicates_and_uniform_registers_are_none():
    assert max_live_registers(code_of("MOV UR1 <-\nISETP P0 <- UR1\n@P0 STG <- UR1")) == 0


def read_later(code, start, name):
    """Return True if a path from an instruction reads the register before it is written."""
    seen, stack = set(), [start]
    while stack:
        at = stack.pop()
        if at in seen:
            continue
        seen.add(at)
        i = code.instructions[at]
        if name in i.uses:
            return True
        if name in i.defines and not i.predicate:
            continue
        block = code.blocks[i.block]
        after = (
            [at + 1] if at + 1 < block.stop else [code.blocks[b].start for b in block.successors]
        )
        stack += after
    return False


@pytest.mark.parametrize("seed", range(20))
def test_random_code_along_every_path(seed):
    code = random_code(random.Random(seed), blocks=5, per_block=4)
    reached = [i for i in code.instructions if i.block >= 0]
    names = {n for i in reached for n in (*i.defines, *i.uses) if n.startswith("R")}
    before = [sum(read_later(code, i.index, n) for n in names) for i in reached]
    written = []
    for i in reached:
        block = code.blocks[i.block]
        last = i.index + 1 == block.stop
        after = [code.blocks[b].start for b in block.successors] if last else [i.index + 1]
        alive = {n for n in names if any(read_later(code, a, n) for a in after)}
        written.append(len(alive | {n for n in i.defines if n.startswith("R")}))
    assert max_live_registers(code) == max(before + written)
