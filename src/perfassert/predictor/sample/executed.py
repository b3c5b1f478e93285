"""Execution of a sample of blocks, which decides where closed forms end or are contradicted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from perfassert.engines.execution.execute import execute
from perfassert.engines.execution.memory import Region
from perfassert.engines.execution.plan import ExecutionLimits, is_sure_to_be_cut
from perfassert.engines.execution.presets import ArgumentValue
from perfassert.engines.execution.reads import Reads
from perfassert.engines.execution.result import Execution
from perfassert.engines.execution.sample import consecutive_blocks, summarize_execution
from perfassert.engines.execution.slicing import control_slice
from perfassert.engines.execution.touched import NUMBERED, is_decided
from perfassert.frontends.binding.arguments import check_strides
from perfassert.frontends.cuda.kernels import BuiltCode, Rare
from perfassert.hardware.occupancy import Occupancy, occupancy
from perfassert.kernel.description import BoundKernel, CompiledKernel, Description
from perfassert.kernel.executed import Executed, WorkingBlocks, spread_blocks
from perfassert.kernel.launch import Launch
from perfassert.kernel.program import Program
from perfassert.predictor.question import Question
from perfassert.predictor.sample.agreement import Disagreement
from perfassert.predictor.sample.arguments import execution_arguments
from perfassert.predictor.sample.checked import find_differences
from perfassert.predictor.sample.rare_paths import rare_sides
from perfassert.predictor.sample.shared_memory import require_shared_memory
from perfassert.source import CORRECTED, Assumption

_GUESSED = ("address", "layout", "sample", "trip count", "branch")
_THREADS = 2048  # of the blocks that say how many more can be afforded
_LIMITS = ExecutionLimits(lane_instructions=20_000_000, instructions=400_000)  # about a second
_LIMITS_OF_ONE = ExecutionLimits(lane_instructions=400_000_000)  # a second or two
_LIMITS_OF_FOLLOWED = ExecutionLimits(lane_instructions=_LIMITS.lane_instructions // 4)
_INSTRUCTIONS = 400_000  # of warps, beyond those: half spread, half in a row
_MAX_MEAN_ERROR = 0.1  # of the mean work, with 95 % confidence: twice the standard error
_EXTENDED_FACTOR = 4  # times as many instructions, where blocks differ so that the mean is unsure
_EXTENDED_LIMITS = ExecutionLimits(
    lane_instructions=_EXTENDED_FACTOR * 20_000_000, instructions=400_000
)


def bind_question(question: Question, reads: Reads | None = None) -> tuple[Description, Launch]:
    """Bind a kernel to its launch; what it would have to guess is counted in executed blocks.

    Args:
        question: what is asked.
        reads: gathers what executed blocks read of buffers.

    Returns:
        The description, and the launch that its volumes are those of.
    """
    device, launch, code = question.device, question.arguments, question.code
    if code is None:
        return question.kernel.bind(launch, device.arch, device.warp_size)
    unit_occupancy = _occupancy(question, code)  # nothing is described that does not fit
    described, effective_launch = _bind(question, code)
    assert isinstance(question.kernel, CompiledKernel)
    check_strides(question.kernel, question.launch, described.program)
    rare: Rare = frozenset()
    blocks = WorkingBlocks(launch.working_grid(effective_launch), launch.grid)
    if _guesses(described):
        arguments = execution_arguments(described.program.parameters, launch)
        machine = code.executable()
        rare = rare_sides(machine, described.program, launch, arguments, blocks, reads)
    if rare:
        described, effective_launch = _bind(question, code, rare=rare)
    differences: tuple[Disagreement, ...] = ()
    if not _guesses(described):
        differences = find_differences(code, described, launch, effective_launch, reads)
        if not differences:
            return described, effective_launch
    if differences:  # guards may be what is wrong
        blocks = WorkingBlocks(launch.grid, launch.grid)
    wave = min(unit_occupancy.resident_blocks * device.compute_units, len(blocks))
    x, y, z = described.standing
    middle = x + launch.grid[0] * (y + launch.grid[1] * z)
    executed_work = sample_blocks(code, described.program, launch, blocks, wave, middle, reads)
    corrections = tuple(Assumption(f"{CORRECTED}: {d.text}", d.span) for d in differences)
    executed_work = replace(executed_work, corrections=corrections)
    return _bind(question, code, executed_work, rare)


def _occupancy(question: Question, code: BuiltCode) -> Occupancy:
    """Return the occupancy; raise :class:`LaunchError` for a block that code or device refuses."""
    device, launch, kernel = question.device, question.arguments, question.kernel
    assert isinstance(kernel, CompiledKernel)
    code.check_limits(launch)
    needed = {"registers": code.registers, "shared_bytes": code.built.shared_bytes}
    needed |= {name: kernel.overrides[name] for name in needed if name in kernel.overrides}
    shared = needed["shared_bytes"] + launch.shared_bytes
    return occupancy(device, launch.threads_per_block, needed["registers"], shared)


def _bind(
    question: Question,
    code: BuiltCode,
    executed: Executed | None = None,
    rare: Rare = frozenset(),
    least: bool = False,
) -> tuple[BoundKernel, Launch]:
    """Bind the code of a question, with what its kernel says to be otherwise."""
    device, kernel = question.device, question.kernel
    assert isinstance(kernel, CompiledKernel)
    bound, effective_launch = code.bind(
        question.arguments, device.arch, device.warp_size, executed, rare, least=least
    )
    return kernel.override(bound), effective_launch


def bind_least(question: Question, bound: BoundKernel) -> tuple[Description, Launch]:
    """Bind as ``bound``, but with the least of each assumption.

    A kernel that binds itself keeps its assumptions.
    """
    device, launch, code = question.device, question.arguments, question.code
    if code is None:
        return question.kernel.bind(launch, device.arch, device.warp_size)
    return _bind(question, code, bound.executed, bound.rare, least=True)


def _guesses(described: BoundKernel) -> bool:
    return any(a.stands_for in _GUESSED for a in described.assumptions)


def sample_blocks(
    code: BuiltCode,
    program: Program,
    launch: Launch,
    blocks: WorkingBlocks,
    wave: int = 1,
    standing: int = 0,
    reads: Reads | None = None,
) -> Executed:
    """Execute some of ``blocks``, spread over them, and as much of a wave as can be afforded: more
    until the standard error of their work and of their traffic is below a twentieth, as far as the
    budget goes.

    Where not even those can be, fewer blocks are executed to their ends, or a single one, in part
    if need be: ``standing``, the one that is simulated. It represents all where two others execute
    just the same and no buffer has a content that may distinguish blocks.
    """
    machine = code.executable()
    needed, deciding = control_slice(machine), control_slice(machine, addresses=False)
    arguments = execution_arguments(program.parameters, launch)
    members = loop_members(program)

    def execute_blocks(numbers: Sequence[int], limits: ExecutionLimits = _LIMITS) -> Execution:
        in_grid = tuple(map(blocks.in_grid, numbers))
        run = execute(machine, launch, arguments, in_grid, limits, needed, reads=reads)
        require_shared_memory(run, code, launch)
        return run

    def execute_one(number: int) -> Execution:
        return execute(machine, launch, arguments, (number,), _LIMITS_OF_ONE, needed, reads=reads)

    def follow(numbers: Iterable[int], limits: ExecutionLimits = _LIMITS_OF_ONE) -> Execution:
        """Execute what decides the flow of control, in most codes a small part."""
        own = tuple(map(blocks.in_grid, numbers))
        return execute(
            machine, launch, arguments, own, limits, deciding, reads=reads, touches=False
        )

    def summarize(spread: Execution, run: Execution | None = None, alone: bool = False) -> Executed:
        return summarize_execution(spread, members, blocks, run, alone=alone)

    total = len(blocks)
    pilot = spread_blocks(total, max(1, _THREADS // launch.threads_per_block))
    heavy = members and is_sure_to_be_cut(follow(pilot, _LIMITS_OF_FOLLOWED), needed, _LIMITS)
    spread = None if heavy else execute_blocks(pilot)
    if spread is None or len(spread.cut):
        del spread  # its addresses may fill a gigabyte
        known = _have_contents(arguments)
        return _sample_heavy(
            execute_blocks, execute_one, follow, summarize, blocks, wave, standing, known
        )
    each = max(int(spread.executed.sum()) / len(pilot), 1.0)
    affordable = min(int(_INSTRUCTIONS / each), NUMBERED)
    if len(pilot) == total or not is_decided(spread):
        return summarize(spread)

    def sample(count: int, limits: ExecutionLimits) -> Executed:
        """Half of so many blocks spread over all, half in a row; all where they are no more."""
        if count >= total:
            return summarize(execute_blocks(range(total), limits))
        spread = execute_blocks(spread_blocks(total, count // 2), limits)
        return summarize(
            spread, execute_blocks(consecutive_blocks(total, wave, count // 2), limits)
        )

    if affordable < 2 * len(pilot):
        return _sample_more(sample, summarize(spread), len(pilot), each)
    return _sample_more(sample, sample(affordable, _LIMITS), affordable, each)


def _sample_heavy(
    execute_blocks: Callable[[Sequence[int]], Execution],
    execute_one: Callable[[int], Execution],
    follow: Callable[[Iterable[int]], Execution],
    summarize: Callable[..., Executed],
    blocks: WorkingBlocks,
    wave: int,
    standing: int,
    distinguished: bool,
) -> Executed:
    """Execute fewer blocks, each to its end, or a single one, where blocks take long.

    ``distinguished``: contents may make blocks differ.
    """
    total, middle = len(blocks), execute_one(standing)
    if not distinguished and is_decided(middle):
        others = (follow((total * i // 4,)) for i in (1, 3))
        if all(is_decided(o) and np.array_equal(middle.executed, o.executed) for o in others):
            return summarize(middle, alone=True)
    count = _LIMITS.lane_instructions // max(1, int(middle.lanes.sum()))  # some do not count
    if len(middle.cut) or count < 2:
        return summarize(middle)
    del middle
    while count > 1:
        spread = execute_blocks(spread_blocks(total, count))
        run = execute_blocks(consecutive_blocks(total, wave, count))
        if not len(spread.cut) and not len(run.cut):
            return summarize(spread, run)
        count //= 2
    return summarize(execute_one(standing))


def _sample_more(
    sample: Callable[[int, ExecutionLimits], Executed], result: Executed, count: int, each: float
) -> Executed:
    """Return ``result``, or that of more blocks where it is unsure and they are affordable.

    The number of blocks is doubled from ``count`` each time. ``each``: instructions of a block.
    """
    most = min(_EXTENDED_FACTOR * _INSTRUCTIONS / each, NUMBERED)
    while max(result.work_error, result.traffic_error) > _MAX_MEAN_ERROR and 2 * count <= most:
        count *= 2
        further = sample(count, _EXTENDED_LIMITS)
        if further.cut:
            break
        result = further
    return result


def _have_contents(arguments: Sequence[ArgumentValue]) -> bool:
    """Return True if some buffer has a content, which may distinguish blocks."""
    return any(isinstance(a, Region) and a.content is not None for a in arguments)


def loop_members(program: Program) -> dict[int, tuple[frozenset[int], int]]:
    """Return loops by the address of their first instruction.

    Each comes with the addresses of all of its instructions and the address of the first
    instruction of the loop around it, or of the kernel.
    """
    members: dict[int, tuple[frozenset[int], int]] = {}
    for loop in program.loops:
        own = frozenset(
            program.instructions[i].address
            for b in loop.blocks
            for i in range(program.blocks[b].start, program.blocks[b].stop)
        )
        start = _first(program, loop.header)
        around = loop.parent
        outer = _first(program, program.loops[around].header if around >= 0 else program.order[0])
        before = members.get(start, (frozenset(), outer))[0]
        members[start] = (before | own, outer)
    return members


def _first(program: Program, block: int) -> int:
    return program.instructions[program.blocks[block].start].address
