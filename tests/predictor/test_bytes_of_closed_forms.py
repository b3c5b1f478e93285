"""Closed forms of addresses against executed blocks: the same bytes, buffer by buffer."""

import os
from pathlib import Path

import numpy as np
import pytest

import perfassert as pa
from perfassert.engines.execution.execute import execute
from perfassert.engines.execution.memory import SPAN_BITS, pointer
from perfassert.engines.execution.slicing import control_slice
from perfassert.engines.volume.binding import bind_groups
from perfassert.engines.volume.footprint import field_runs
from perfassert.engines.volume.groups import of
from perfassert.engines.volume.runs import merged
from perfassert.frontends.toolchain import tools
from perfassert.hardware.load import device
from perfassert.kernel.access import Direction
from perfassert.kernel.machine import Kind
from perfassert.predictor.executed import arguments

ROOT = Path(__file__).parents[2]
E, V = ROOT / "examples" / "kernels", ROOT / "validation" / "kernels"
CASES = [  # file, kernel, defines, grid, block, arguments
    (E / "saxpy.cu", "saxpy", {}, 9, 128, {"n": 1111}),
    (E / "matmul.cu", "matmul", {"TILE": 16}, (3, 3), (16, 16), {"n": 48}),
    (E / "reduction.cu", "block_sums", {"BLOCK": 256}, 3, 256, {"n": 2000}),
    (V / "streams.cu", "copy", {}, 5, 128, {"n": 600}),
    (V / "streams.cu", "copy_strided", {}, 5, 128, {"n": 2000}),
    (V / "streams.cu", "copy_contiguous", {}, 5, 128, {"n": 2000}),
    (V / "streams.cu", "copy_vector", {}, 5, 128, {"n": 600}),
    (V / "streams.cu", "triad", {}, 5, 128, {"n": 600}),
    (V / "streams.cu", "drift_structures", {}, 5, 128, {"n": 600}),
    (V / "streams.cu", "drift_arrays", {}, 5, 128, {"n": 600}),
    (V / "transposes.cu", "transpose_naive", {}, (3, 3), (32, 8), {"n": 96}),
    (V / "stencils.cu", "jacobi2d", {}, (3, 9), (32, 8), {"nx": 90, "ny": 70}),
    (V / "stencils.cu", "box3d", {}, (2, 4, 4), (32, 4, 4), {"nx": 60, "ny": 15, "nz": 14}),
    (V / "scans.cu", "scan_shared", {}, 3, 256, {}),
    (V / "scans.cu", "scan_shuffle", {}, 3, 256, {}),
    (V / "nbody.cu", "nbody_global", {}, 2, 256, {"n": 512}),
]
OPEN = {("box3d", "A100-SXM4-40GB")}
"""Where the algebra does not decide a branch of the rows at the edge."""
IN_CI = slice(None) if os.environ.get("PERFASSERT_EXHAUSTIVE") == "1" else slice(None, None, 3)
GPUS = ["RTX-2080-Ti", "A100-SXM4-40GB", "H100-SXM5-80GB"][IN_CI]


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("case", CASES[IN_CI], ids=[f"{c[0].stem}-{c[1]}" for c in CASES[IN_CI]])
def test_every_byte_of_a_closed_form_is_touched_and_no_other(case, gpu, request):
    for tool in ("nvrtc", "nvdisasm"):
        if tools.find(tool) is None:
            pytest.skip(f"{tool} is not installed")
    path, kernel, defines, grid, block, args = case
    if (kernel, gpu) in OPEN:
        request.applymarker(pytest.mark.xfail(strict=True, reason="a branch of it stays open"))
    arch = device(gpu).arch
    code = pa.from_cuda(path, kernel=kernel, defines=defines).compiled
    launch = pa.Launch(grid, block, args=args)
    described, work = code.bind(launch, arch, 32)
    assert not [a for a in described.assumptions if a.stands_for]
    fields = {}
    for group in bind_groups(described, work):
        fields.setdefault(group.field, []).append(group)
    touched = executed_bytes(code, launch, arch)
    everywhere = [tuple((0, n) for n in work.grid)]
    compared = 0
    for field, groups in fields.items():
        for direction in Direction:
            closed = field_runs(of(direction, groups), everywhere, work, 1)
            executed = touched.get((field, direction))
            if executed is None:
                assert not len(closed), (field, direction)
                continue
            assert np.array_equal(closed.starts, executed.starts), (field, direction)
            assert np.array_equal(closed.ends, executed.ends), (field, direction)
            compared += 1
    assert compared == len(touched)


def executed_bytes(code, launch, arch):
    """By name of the argument and direction, what all blocks touch, from the pointer on."""
    machine = code.executable(arch)
    given = arguments(code.binary(arch).parameters, launch)
    run = execute(
        machine, launch, given, range(launch.blocks), needed=control_slice(machine)
    )  # fmt: skip
    assert not len(run.cut)
    parts = {}
    for touch in run.touches:
        lanes = touch.lanes & ((touch.addresses >> np.uint64(SPAN_BITS)) > 0)
        addresses = touch.addresses[lanes].astype(np.int64)
        operation = machine.instructions[touch.instruction].operations[touch.part]
        stores = operation.kind is Kind.STORE
        for index in np.unique(addresses >> SPAN_BITS) - 1:
            own = addresses[addresses >> SPAN_BITS == index + 1] - pointer(int(index))
            key = run.regions[index].name, Direction.STORE if stores else Direction.LOAD
            parts.setdefault(key, []).append((own, touch.memory.bytes))
    return {
        key: merged(
            np.concatenate([a for a, _ in each]), np.concatenate([a + b for a, b in each]), 1
        )
        for key, each in parts.items()
    }
