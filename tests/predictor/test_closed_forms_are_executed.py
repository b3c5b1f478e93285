"""Closed forms of trip counts against executed warps: the same, kernel by kernel."""

from pathlib import Path

import numpy as np
import pytest

import perfassert as pa
from perfassert.engines.execution.execute import execute
from perfassert.engines.execution.memory import Region
from perfassert.engines.execution.sample import summary
from perfassert.engines.execution.slicing import control_slice
from perfassert.frontends.cuda.binding import Arguments, Binder
from perfassert.frontends.toolchain import tools
from perfassert.hardware.load import device
from perfassert.predictor.executed import arguments, loop_members

ROOT = Path(__file__).parents[2]
EXAMPLES, VALIDATION = ROOT / "examples" / "kernels", ROOT / "validation" / "kernels"
CASES = [
    # file, kernel, defines, grid, block, arguments, loops that must be compared
    (EXAMPLES / "saxpy.cu", "saxpy_grid_stride", {}, 3, 64, {"n": 1000}, 1),
    (EXAMPLES / "matmul.cu", "matmul", {"TILE": 16}, (7, 7), (16, 16), {"n": 112}, 1),
    (EXAMPLES / "reduction.cu", "block_sums", {"BLOCK": 256}, 3, 256, {"n": 2000}, 1),
    (EXAMPLES / "histogram.cu", "histogram", {}, 2, 256, {"n": 1500}, 1),
    (VALIDATION / "nbody.cu", "nbody_global", {}, 2, 256, {"n": 512}, 1),
    (VALIDATION / "nbody.cu", "nbody_shared", {}, 2, 256, {"n": 512}, 2),
]


@pytest.mark.parametrize("gpu", ["RTX-2080-Ti", "A100-SXM4-40GB", "H100-SXM5-80GB"])
@pytest.mark.parametrize("case", CASES, ids=[c[1] for c in CASES])
def test_trip_counts_are_those_that_warps_take(case, gpu):
    for tool in ("nvrtc", "nvdisasm"):
        if tools.find(tool) is None:
            pytest.skip(f"{tool} is not installed")
    path, kernel, defines, grid, block, args, least = case
    compared = 0
    target = device(gpu)
    code = pa.from_cuda(path, kernel=kernel, defines=defines).compiled
    program, binary = code.program(target.arch), code.binary(target.arch)
    launch = pa.Launch(grid, block, args=args)
    given = Arguments(program, launch, kernel)
    binder = Binder(program, launch, given, {}, {}, 32)
    machine = code.executable(target.arch)
    run = execute(
        machine, launch, arguments(binary.parameters, launch), range(launch.blocks),
        needed=control_slice(machine),
    )  # fmt: skip
    assert not len(run.cut)
    found = summary(run, loop_members(program), launch.blocks)
    for loop in program.loops:
        start = program.instructions[program.blocks[loop.header].start].address
        executed = found.loops.get(start)
        closed = binder.loops[loop.index]
        if executed is None or closed.assumed or not executed.most:
            continue
        assert closed.most == executed.most, loop.span
        assert closed.fewest <= executed.fewest, loop.span
        compared += 1
    assert compared >= least


def test_every_thread_touches_what_the_guards_say():
    """Lanes that load, counted over the whole grid, against the guard's own bound."""
    for tool in ("nvrtc", "nvdisasm"):
        if tools.find(tool) is None:
            pytest.skip(f"{tool} is not installed")
    code = pa.from_cuda(EXAMPLES / "saxpy.cu", kernel="saxpy").compiled
    machine = code.executable("sm_80")
    launch = pa.Launch(10, 128, args={"n": 1111})
    given = [(1111).to_bytes(4, "little"), None, Region("x"), Region("y")]
    run = execute(machine, launch, given, range(10), needed=control_slice(machine))
    touched = {}
    for touch in run.touches:
        touched.setdefault(touch.instruction, []).append(touch.addresses[touch.lanes])
    assert len(touched) == 3
    for parts in touched.values():
        addresses = np.concatenate(parts)
        assert len(addresses) == len(np.unique(addresses)) == 1111
        assert int(addresses.max() - addresses.min()) == 4 * 1110
