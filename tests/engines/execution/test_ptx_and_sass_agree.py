"""The same launch as PTX and as machine code, and as the interpreter of the tests has it."""

from collections import Counter

import numpy as np
import pytest
from engines.execution.machine import built, clean, compiled, launched
from engines.execution.test_integer_results import KERNELS, graph
from ptx_interpreter import Memory, trace

from perfassert.engines.execution.memory import pointer
from perfassert.kernel.machine import Kind, Space

I32, U8, U32 = np.int32, np.uint8, np.uint32
_TYPES = {I32: "s32", U8: "u8", U32: "u32"}


def random(seed, low, high, size, dtype=I32):
    return np.random.default_rng(seed).integers(low, high, size).astype(dtype)


def launches():
    """Kernel → grid, block, arguments, dynamic shared memory."""
    rows, columns = graph(150, 6)
    values, x = random(6, -9, 9, len(columns)), random(7, -9, 9, 150)
    level = np.full(150, -1, I32)
    level[:5] = 0
    keys = np.sort(random(3, 0, 5000, 777))
    zeros = [np.zeros(n, I32) for n in (150, 1, 300, 4)]
    return {
        "prefix_sum": (3, 128, [random(1, -99, 99, 300), np.zeros(300, I32), zeros[3], 300], 0),
        "histogram": (2, 128, [random(2, 0, 256, 3000, U8), np.zeros(256, U32), 3000], 0),
        "lower_bound": (2, 64, [keys, 777, random(4, -10, 5010, 100), np.zeros(100, I32), 100], 0),
        "bfs_step": (1, 64, [rows, columns, np.arange(40, dtype=I32), 40, level, 1,
                             zeros[0].copy(), zeros[1]], 0),
        "row_pointers": (1, 128, [random(5, 0, 9, 100), np.zeros(101, I32), 100], 0),
        "spmv_integer": (38, 128, [rows, columns, values, x, zeros[0], 150], 0),
        "bitonic_sort": (2, 64, [random(8, -(2**31), 2**31, 128)], 256),
        "compact": (1, 256, [random(9, 0, 999, 300), zeros[2], np.zeros(1, I32), 300], 0),
        "life": ((2, 2), (16, 8), [random(10, 0, 2, 29 * 13, U8), np.zeros(29 * 13, U8), 29, 13],
                 0),
    }  # fmt: skip


CASES = sorted(launches())
RACE = ("bfs_step", "arg6")  # threads queue what they find as they come


def run(kernel, arch):
    grid, block, arguments, shared = launches()[kernel]
    return clean(launched(compiled(KERNELS, kernel, arch), grid, block, arguments, shared=shared))


def global_lanes(execution):
    """(what kind of access, bytes, lanes' addresses), of each execution by a warp."""
    for touch in execution.touches:
        if touch.memory.space is Space.GLOBAL:
            operation = execution.code.instructions[touch.instruction].operations[touch.part]
            for addresses, lanes in zip(touch.addresses, touch.lanes, strict=True):
                yield operation.kind, touch.memory.bytes, addresses[lanes], touch.instruction


def traffic(execution):
    """Per kind of access: bytes that lanes move, and the sectors that are touched."""
    moved, sectors = Counter(), {}
    for kind, size, addresses, _ in global_lanes(execution):
        moved[kind] += size * len(addresses)
        sectors.setdefault(kind, set()).update((addresses // 32).tolist())
    return moved, sectors


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
@pytest.mark.parametrize("kernel", CASES)
def test_memory_and_traffic_of_machine_code(kernel, arch):
    first, second = run(kernel, "ptx"), run(kernel, arch)
    assert first.contents.keys() == second.contents.keys()
    for name, content in first.contents.items():
        one, other = content, second.contents[name]
        if (kernel, name) == RACE:
            one, other = (np.sort(c.view(I32)) for c in (one, other))
        assert (one == other).all(), name
    (moved, sectors), (moved_there, sectors_there) = traffic(first), traffic(second)
    assert sectors == sectors_there
    if kernel == "bfs_step":  # ptxas adds once for all lanes that count up together
        assert moved.pop(Kind.ATOMIC) > moved_there.pop(Kind.ATOMIC)
    assert moved == moved_there


@pytest.mark.parametrize("kernel", CASES)
def test_accesses_and_memory_of_the_reference_interpreter(kernel):
    """Line by line of the text, every address of every thread, and what is stored."""
    grid, block, arguments, _ = launches()[kernel]
    done = run(kernel, "ptx")
    wide, high = (*np.atleast_1d(grid), 1)[:2]
    memory = Memory(lambda address, size: 0)
    given, place = [], 0
    for a in arguments:
        if isinstance(a, np.ndarray):
            memory.store(pointer(place), _TYPES[a.dtype.type], a.tolist())
            given.append(pointer(place))
            place += 1
        else:
            given.append(a)
    seen = Counter()
    text, entry = ptx_text(kernel)
    for index in np.ndindex(int(high), int(wide)):
        steps = trace(text, entry, given, grid, block, (index[1], index[0]), memory=memory)
        for thread in steps.values():
            seen.update((s.line, s.address) for s in thread if s.space == "global")
    if kernel != "bfs_step":  # threads race for the neighbours
        lines = [i.span and i.span.line for i in done.code.instructions]
        mine = Counter()
        for _, _, addresses, instruction in global_lanes(done):
            mine.update((lines[instruction], a) for a in addresses.tolist())
        assert mine == seen
    arrays = [a for a in arguments if isinstance(a, np.ndarray)]
    names = [f"arg{n}" for n, a in enumerate(arguments) if isinstance(a, np.ndarray)]
    for number, (name, a) in enumerate(zip(names, arrays, strict=True)):
        found = memory.load(pointer(number), _TYPES[a.dtype.type], len(a))
        mine = done.contents[name].view(a.dtype).tolist()
        if (kernel, name) == RACE:
            mine, found = sorted(mine), sorted(found)
        assert mine == found, name


def ptx_text(kernel):
    binary = built(KERNELS, kernel, "sm_80")
    return binary.ptx, binary.mangled


def test_what_calls_itself_is_not_followed():
    values = np.arange(32, dtype=I32)
    done = launched(compiled(KERNELS, "recursive", "ptx"), 1, 32, [values, np.zeros(32, I32)])
    assert done.lost
    assert any("call" in note for note in done.code.notes)
