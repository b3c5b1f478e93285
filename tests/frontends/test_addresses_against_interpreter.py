"""Every recovered address against a reference interpreter that executes the PTX.

Twice: the values that PTX gives, access by access, with loop counters and guards; and the bytes
that the whole description (from SASS) says a thread touches, against those that it did touch.
"""

import re
from pathlib import Path

import numpy as np
import pytest
from described import iterations
from ptx_interpreter import Memory, shared_layout, trace

from perfassert.frontends.cuda.describe import describe
from perfassert.frontends.cuda.evaluate import evaluate
from perfassert.frontends.cuda.ptx import PtxCode, memory_of, parse_ptx
from perfassert.frontends.toolchain import tools
from perfassert.frontends.toolchain.build import Source, build
from perfassert.kernel.symbols import Symbols

KERNELS = Path(__file__).parents[2] / "examples" / "kernels"
A, B, C = 1 << 20, 1 << 24, 1 << 28  # where pointer arguments point to
TILES = {"block_size_x": 16, "block_size_y": 4, "tile_size_x": 2, "tile_size_y": 2,
         "use_padding": 1, "read_only": 0}  # fmt: skip
ODD = {"block_size_x": 48, "block_size_y": 2, "tile_size_x": 1, "tile_size_y": 3,
       "use_padding": 0, "read_only": 1}  # fmt: skip

CASES = [
    # file, kernel, defines, arguments, grid, block
    ("saxpy", "saxpy", {}, [1000, 2.0, A, B], (8, 1, 1), (128, 1, 1)),
    ("saxpy", "saxpy_grid_stride", {}, [1000, 2.0, A, B], (3, 1, 1), (64, 1, 1)),
    ("star3d25pt", "star3d25pt", {}, [B, C, 40, 20, 12], (3, 10, 2), (16, 2, 8)),
    ("transpose", "transpose_naive", {}, [A, B, 64, 96], (3, 2, 1), (32, 8, 1)),
    ("transpose", "transpose_tiled", {}, [A, B, 60, 90], (3, 2, 1), (32, 8, 1)),
    ("transpose", "transpose_padded", {}, [A, B, 64, 96], (3, 2, 1), (32, 8, 1)),
    ("matmul", "matmul", {"TILE": 16}, [A, B, C, 112], (7, 7, 1), (16, 16, 1)),
    ("reduction", "block_sums", {"BLOCK": 256}, [A, B, 2000], (3, 1, 1), (256, 1, 1)),
    ("histogram", "histogram", {}, [A, B, 1500], (2, 1, 1), (256, 1, 1)),
    ("convolution", "convolution", TILES, [A, C], (128, 512, 1), (16, 4, 1)),
    ("convolution", "convolution", ODD, [A, C], (86, 683, 1), (48, 2, 1)),
    ("gather", "gather", {}, [A, B, C, 1000], (8, 1, 1), (128, 1, 1)),
]
DATA_DEPENDENT = {"histogram": 1, "gather": 1}  # accesses whose address is data, by design
ARCHITECTURES = ("sm_75", "sm_80", "sm_90")


def one(case):
    """On one worker: the tests of a case share what was executed."""
    name = f"{case[1]}-{case[5][0]}"
    return pytest.param(case, id=name, marks=pytest.mark.xdist_group(f"addresses-{name}"))


@pytest.fixture(params=map(one, CASES))
def case(request):
    for tool in ("nvrtc", "nvdisasm"):
        if tools.find(tool) is None:
            pytest.skip(f"{tool} is not installed")
    return request.param


def built(case, arch):
    file, kernel, defines, *_ = case
    return build(Source(KERNELS / f"{file}.cu", "cuda", kernel, defines), arch)


def chosen(grid, block, seed):
    """Corners and random places: (block index, thread indices)."""
    generator = np.random.default_rng(seed)
    places = [(0, 0, 0), tuple(g - 1 for g in grid)]
    places.append(tuple(int(generator.integers(g)) for g in grid))
    for place in places:
        threads = {(0, 0, 0), tuple(b - 1 for b in block)}
        threads |= {tuple(int(generator.integers(b)) for b in block) for _ in range(3)}
        yield place, sorted(threads)


def variables(case, place, thread):
    _, _, _, arguments, grid, block = case
    names = {}
    for i, axis in enumerate("xyz"):
        names |= {f"threadIdx.{axis}": thread[i], f"blockIdx.{axis}": place[i],
                  f"blockDim.{axis}": block[i], f"gridDim.{axis}": grid[i]}  # fmt: skip
    names |= {f"arg:{i}": a for i, a in enumerate(arguments) if isinstance(a, int)}
    return names


@pytest.fixture(scope="module")
def executed():
    """``executed(case, text)``: places, and what each of their threads did.

    The text is the same for all architectures, but for its target, and takes seconds to interpret.
    """
    done = {}

    def of(case, text):
        _, kernel, _, arguments, grid, block = case
        key = (kernel, block, re.sub(r"^(\.target|//).*$", "", text, flags=re.M))
        if key not in done:
            done[key] = [
                (place, trace(text, kernel, arguments, grid, block, place, threads, Memory()))
                for place, threads in chosen(grid, block, seed=1)
            ]
        return done[key]

    return of


@pytest.mark.exhaustive(one_in=3)
def test_each_address_of_ptx_is_the_one_executed(case, executed):
    binary = built(case, "sm_80")
    kernel = parse_ptx(binary.ptx, binary.mangled, "test")
    symbols = Symbols()
    code = PtxCode(kernel, symbols)
    result = evaluate(code, symbols, "k")
    flow = kernel.flow
    at_line = {i.line: i.index for i in kernel.instructions}
    block_of = {i: b for b in flow.blocks.values() for i in range(b.start, b.stop)}
    layout = {f"array:{n}": o for n, o in shared_layout(binary.ptx, binary.mangled).items()}
    unresolved = {i for i, v in result.addresses.items() if list(symbols.unknowns(v[0]))}
    assert len(unresolved) == DATA_DEPENDENT.get(case[1], 0)
    compared = 0
    for place, did in executed(case, binary.ptx):
        for thread, steps in did.items():
            names = {**variables(case, place, thread), **layout}
            compared += walk(steps, names, kernel, flow, result, at_line, block_of, unresolved)
    assert compared > 20


def walk(steps, names, kernel, flow, result, at_line, block_of, unresolved):
    """Follow one thread, count iterations, compare addresses, guards and trip counts."""
    symbols = result.symbols
    previous = None
    entered = {}
    compared = 0
    for step in steps:
        index = at_line[step.line]
        block = block_of[index]
        if index == block.start or previous is None or block_of[previous] is not block:
            for loop in flow.loops:
                if block.index == loop.header:
                    inside = previous is not None and block_of[previous].index in loop.blocks
                    if not inside and loop.index in entered:
                        check_trips(entered, loop.index, result, names)
                    entered[loop.index] = entered[loop.index] + 1 if inside else 0
                    names[f"k{loop.index}"] = entered[loop.index]
        previous = index
        if step.space not in ("global", "shared") or index in unresolved:
            continue
        values = result.addresses[index]
        memory = memory_of(kernel.instructions[index])
        value = values[0] if step.space == memory.space or len(values) == 1 else values[1]
        found = symbols.evaluate(value, {n: np.asarray(v) for n, v in names.items()})
        assert int(found) == step.address, kernel.instructions[index]
        guard = result.guard(index, block, flow)
        if not list(symbols.unknowns(guard)):
            holds = symbols.evaluate(guard, {n: np.asarray(v) for n, v in names.items()})
            assert holds, kernel.instructions[index]
        compared += 1
    for loop in list(entered):
        check_trips(entered, loop, result, names)
    return compared


def check_trips(entered, loop, result, names):
    trips = result.loops[loop].trips
    if trips is not None and not list(result.symbols.unknowns(trips)):
        values = {n: np.asarray(v) for n, v in names.items()}
        assert int(result.symbols.evaluate(trips, values)) == entered[loop] + 1


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.exhaustive(one_in=2)
def test_a_thread_touches_the_bytes_that_the_description_says(case, arch, executed):
    binary = built(case, arch)
    program = describe(binary)
    open_ends = [a for i in program.instructions for a in i.accesses if a.unresolved]
    assert len({a.field for a in open_ends}) <= DATA_DEPENDENT.get(case[1], 0)
    skipped = {(a.space, a.direction) for a in open_ends}
    for place, traced in executed(case, binary.ptx):
        for thread, steps in traced.items():
            did = {s.address + b for s in steps if s.space == "global" for b in range(s.bytes)}
            says = touched(program, case, variables(case, place, thread))
            if not any(space == "global" for space, _ in skipped):
                assert says == did
            else:
                assert says <= did


def touched(program, case, names):
    """Bytes of global memory that the description says one thread touches."""
    symbols = program.symbols
    result = set()

    def value(expression, extra):
        known = {n: np.asarray(v) for n, v in {**names, **extra}.items()}
        return int(symbols.evaluate(expression, known))

    bases = {p.name: case[3][i] for i, p in enumerate(program.parameters)}
    for block in program.blocks.values():
        for index in range(block.start, block.stop):
            instruction = program.instructions[index]
            for access in instruction.accesses:
                if access.space != "global" or access.unresolved:
                    continue
                for counters in iterations(program, program.chain(block.loop), value):
                    guards = [block.condition, instruction.guard]
                    if all(g is None or value(g, counters) for g in guards):
                        start = bases[access.field] + value(access.address, counters)
                        result.update(range(start, start + access.bytes))
    return result
