"""Tests of recovered addresses against execution: the description of a thread gives the bytes that
its machine code touches."""

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from described import iterations
from engines.execution.machine import launched

from perfassert.engines.execution.memory import Region, pointer
from perfassert.frontends.analysis.describe import describe
from perfassert.frontends.machine.lowering import executable
from perfassert.frontends.toolchain import tools
from perfassert.frontends.toolchain.build import Source, build
from perfassert.kernel.machine import Space
from perfassert.kernel.names import Argument

KERNELS = Path(__file__).parents[2] / "examples" / "kernels"
NUMBERS = np.random.default_rng(5).integers(0, 1000, 2048).astype(np.int32)
A, B, C = "first", "second", "third"
BUFFERS = {A: Region(A, None, 1 << 27), B: Region(B, None, 1 << 27), C: Region(C, None, 1 << 27),
           "numbers": NUMBERS}  # fmt: skip
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
    ("histogram", "histogram", {}, ["numbers", B, 1500], (2, 1, 1), (256, 1, 1)),
    ("convolution", "convolution", TILES, [A, C], (128, 512, 1), (16, 4, 1)),
    ("convolution", "convolution", ODD, [A, C], (86, 683, 1), (48, 2, 1)),
    ("gather", "gather", {}, [A, "numbers", C, 1000], (8, 1, 1), (128, 1, 1)),
]
DATA_DEPENDENT = {"histogram": 1, "gather": 1}  # accesses whose address is data, by design
ARCHITECTURES = ("sm_75", "sm_80", "sm_90")


@pytest.fixture(params=CASES, ids=[f"{case[1]}-{case[5][0]}" for case in CASES])
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
    names |= {Argument(i): a for i, a in enumerate(arguments) if isinstance(a, int)}
    return names


def executed(case, binary, places):
    """Return (address, bytes) of the global accesses of each thread, by (block, thread), as the
    machine code does them in the blocks at ``places``."""
    _, _, _, arguments, grid, block = case
    code = executable(binary)
    given = [BUFFERS.get(a, a) for a in arguments]
    blocks = [x + grid[0] * (y + grid[1] * z) for x, y, z in places]
    run = launched(code, grid, block, given, blocks=blocks)
    assert not len(run.cut)
    assert not run.lost
    bytes_of = defaultdict(set)
    for touch in run.touches:
        if touch.memory.space is not Space.GLOBAL:
            continue
        for warp, addresses, lanes in zip(touch.warps, touch.addresses, touch.lanes, strict=True):
            place, within = divmod(int(warp), run.warps_per_block)
            for lane in np.flatnonzero(lanes).tolist():
                start = int(addresses[lane])
                bytes_of[place, 32 * within + lane].update(range(start, start + touch.memory.bytes))
    return bytes_of


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.exhaustive(one_in=8)
def test_a_thread_touches_the_bytes_that_the_description_says(case, arch):
    binary = built(case, arch)
    program = describe(binary)
    open_ends = [a for i in program.instructions for a in i.accesses if a.unresolved]
    assert len({a.field for a in open_ends}) <= DATA_DEPENDENT.get(case[1], 0)
    skipped = {(a.space, a.direction) for a in open_ends}
    places = list(chosen(case[4], case[5], seed=1))
    bytes_of = executed(case, binary, [place for place, _ in places])
    compared = 0
    for number, (place, threads) in enumerate(places):
        for x, y, z in threads:
            did = bytes_of[number, x + case[5][0] * (y + case[5][1] * z)]
            says = touched(program, case, variables(case, place, (x, y, z)))
            if not any(space == "global" for space, _ in skipped):
                assert says == did
            else:
                assert says <= did
            compared += len(did)
    assert compared > 20


def touched(program, case, names):
    """Bytes of global memory that the description says one thread touches."""
    symbols = program.symbols
    result = set()

    def value(expression, extra):
        known = {n: np.asarray(v) for n, v in {**names, **extra}.items()}
        return int(symbols.evaluate(expression, known))

    buffers = [p.name for p, a in zip(program.parameters, case[3], strict=True) if a in BUFFERS]
    bases = {name: pointer(place) for place, name in enumerate(buffers)}
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
