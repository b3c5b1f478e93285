"""Closed forms against executed warps: the same, kernel by kernel.

Every kernel of the own suite and of the examples on one architecture in turn; on all of them with
``PERFASSERT_EXHAUSTIVE=1``.
"""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import own_launches
import pytest

import perfassert as pa
from perfassert.engines.execution.execute import execute
from perfassert.engines.execution.memory import Region
from perfassert.engines.execution.sample import summarize_execution
from perfassert.engines.execution.slicing import control_slice
from perfassert.frontends.binding.binder import Arguments, Binder
from perfassert.frontends.toolchain import tools
from perfassert.hardware.load import device
from perfassert.kernel.affine import Affine, add
from perfassert.kernel.executed import WorkingBlocks
from perfassert.predictor.sample.agreement import Agreement
from perfassert.predictor.sample.executed import execution_arguments, loop_members

pytestmark = pytest.mark.exhaustive(one_in=8)

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


GPUS = ("RTX-2080-Ti", "A100-SXM4-40GB", "H100-SXM5-80GB")
SUITE = own_launches.suite()
ALL = [*own_launches.OWN, *own_launches.FOUND]


def file_of(one):
    return one.path if isinstance(one, own_launches.Example) else SUITE.kernels[one].cuda.path.name


FILES = sorted({file_of(one) for one in ALL})
EXHAUSTIVE = os.environ.get("PERFASSERT_EXHAUSTIVE") == "1"


def in_turn(one):
    """Return the GPUs on which the kernel is compared."""
    gpus = getattr(one, "gpus", ()) or GPUS
    return gpus if EXHAUSTIVE else [gpus[FILES.index(file_of(one)) % len(gpus)]]


CHOSEN = [
    pytest.param(one, gpu, id=f"{file_of(one)}-{getattr(one, 'kernel', one)}-{gpu}")
    for one in ALL
    if one not in own_launches.ON_REAL_NUMBERS
    for gpu in in_turn(one)
]


@pytest.fixture(autouse=True)
def toolchain():
    for tool in ("nvrtc", "nvdisasm"):
        if tools.find(tool) is None:
            pytest.skip(f"{tool} is not installed")


def test_every_kernel_with_a_closed_form_is_compared():
    assert set(own_launches.OWN) == set(SUITE.kernels)
    found = {(one.path, one.kernel) for one in own_launches.FOUND}
    rest = own_launches.written() - found
    assert {name for _, name in rest} == own_launches.ON_DATA | own_launches.NOT_EXECUTED


def compared(one, gpu):
    """Both sides of a whole small grid."""
    target = device(gpu)
    if isinstance(one, own_launches.Example):
        kernel, launch = own_launches.example(one)
    else:
        kernel, launch = own_launches.own(one, SUITE, target)
    code = kernel.compiled
    described, work = code.bind(launch, target.arch, 32)
    machine = code.executable(target.arch)
    given = execution_arguments(described.program.parameters, launch)
    run = execute(machine, launch, given, range(launch.blocks), needed=control_slice(machine))
    assert not len(run.cut)
    assert described.standing in [tuple(np.unravel_index(b, launch.grid[::-1])[::-1]) for b in
                                  run.blocks]  # fmt: skip
    return described, launch, work, run


@pytest.mark.parametrize(("one", "gpu"), CHOSEN)
@pytest.mark.exhaustive(one_in=12)
def test_executed_blocks_do_what_closed_forms_say(one, gpu):
    """Threads access the same addresses in the same order, and warps make as many requests.

    The representative block executes each instruction as often.
    """
    described, launch, work, run = compared(one, gpu)
    agreement = Agreement(described, launch, work, run)
    assert not [f"{d.text} ({d.span})" for d in agreement.differences()]
    assert agreement.compared == sum(not a.rests_on for a in described.bound)
    assert agreement.counted


@pytest.mark.parametrize("one", own_launches.ON_REAL_NUMBERS)
def test_a_branch_on_a_real_number_is_executed(one):
    """Both sides run in the closed form, which says so; the sample knows better, and so does the
    prediction."""
    described, launch, work, run = compared(one, "H100-SXM5-80GB")
    assert {a.stands_for for a in described.assumptions} == {"branch"}
    assert list(Agreement(described, launch, work, run).differences())
    kernel, launch = own_launches.own(one, SUITE, device("H100-SXM5-80GB"))
    assert not pa.predict(kernel, launch, "H100-SXM5-80GB").assumptions


AXPY = next(one for one in own_launches.FOUND if one.kernel == "axpy")


def moved(access):
    return replace(access, address=add(access.address, Affine(4)))


def fewer(access):
    first, last = access.ranges.get("x", (0, 599))
    return replace(access, ranges={**access.ranges, "x": (first, last - 1)})


@pytest.mark.parametrize(
    ("change", "said"),
    [(moved, "go elsewhere 600 times of 600"), (fewer, "memory 600 times, and 599")],
)
def test_a_wrong_closed_form_is_found(change, said):
    described, launch, work, run = compared(AXPY, "A100-SXM4-40GB")
    first, *others = described.bound
    wrong = replace(described, bound=(change(first), *others))
    (found,) = Agreement(wrong, launch, work, run).differences()
    assert said in found.text
    assert found.span == first.span


def test_a_wrong_trip_count_is_found():
    described, launch, work, run = compared("sum_rolled", "A100-SXM4-40GB")
    (loop,) = described.graph.loops
    graph = replace(described.graph, loops=(replace(loop, trips=loop.trips + 1),))
    found = list(Agreement(replace(described, graph=graph), launch, work, run).differences())
    assert found
    assert all("by the graph" in d.text for d in found)


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize("gpu", ["RTX-2080-Ti", "A100-SXM4-40GB", "H100-SXM5-80GB"])
@pytest.mark.parametrize("case", CASES, ids=[c[1] for c in CASES])
def test_trip_counts_are_those_that_warps_take(case, gpu):
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
        machine, launch, execution_arguments(binary.parameters, launch), range(launch.blocks),
        needed=control_slice(machine),
    )  # fmt: skip
    assert not len(run.cut)
    found = summarize_execution(run, loop_members(program), WorkingBlocks(launch.grid, launch.grid))
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
