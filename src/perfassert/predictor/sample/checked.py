"""A few executed blocks check the closed forms of a kernel; where they differ, they decide."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import islice, product
from typing import Any

from perfassert.engines.execution.execute import execute
from perfassert.engines.execution.plan import ExecutionLimits
from perfassert.engines.execution.reads import Reads
from perfassert.engines.execution.touched import is_followed
from perfassert.frontends.cuda.kernels import BuiltCode
from perfassert.kernel.buffer import Buffer
from perfassert.kernel.description import BoundKernel
from perfassert.kernel.launch import Launch
from perfassert.predictor.sample.agreement import Agreement, Disagreement
from perfassert.predictor.sample.arguments import execution_arguments
from perfassert.predictor.sample.shared_memory import require_shared_memory

_LANE_INSTRUCTIONS = 25_000  # of each block
_INSTRUCTIONS = 300  # of each warp
_ITERATIONS = 8  # of the loops around an access
_BY_CHANCE = 2  # blocks
_REPORTED = 3  # differences: the first ones say enough


def find_differences(
    code: BuiltCode,
    described: BoundKernel,
    launch: Launch,
    effective_launch: Launch,
    reads: Reads | None = None,
) -> tuple[Disagreement, ...]:
    """Return what executed blocks of a launch contradict, as far as a few instructions lead.

    Raises :class:`~perfassert.errors.LaunchError` if they access more shared memory than they have.
    """
    if code.hints.trip_counts or launch.clustered:
        return ()  # what the author says is not checked; clusters are not executed
    plain = _without_contents(launch)
    arguments = execution_arguments(described.program.parameters, plain)
    blocks = checked_blocks(described.standing, launch.grid)
    limits = ExecutionLimits(_LANE_INSTRUCTIONS * len(blocks), _INSTRUCTIONS)
    run = execute(code.executable(), plain, arguments, blocks, limits, reads=reads)
    require_shared_memory(run, code, launch)
    if not is_followed(
        run
    ):  # unknown content decided: its closed form is a guess, and is said to be
        return ()
    differences = Agreement(described, launch, effective_launch, run, _ITERATIONS).differences()
    return tuple(islice(differences, _REPORTED))


def checked_blocks(representative: tuple[int, ...], grid: tuple[int, int, int]) -> tuple[int, ...]:
    """Return the numbers of the blocks that are executed, the same ones each time.

    They are corners of the grid, the representative block, and two random ones.

    >>> checked_blocks((1, 0, 0), (3, 1, 1))
    (0, 1, 2)
    """
    nx, ny, nz = grid
    chance = random.Random(str(grid))
    places = set(product(*((0, n - 1) for n in grid)))
    places.add((representative[0], representative[1], representative[2]))
    places.update(
        (chance.randrange(nx), chance.randrange(ny), chance.randrange(nz))
        for _ in range(_BY_CHANCE)
    )
    return tuple(sorted(x + nx * (y + ny * z) for x, y, z in places))


def _without_contents(launch: Launch) -> Launch:
    """Return the launch without contents of buffers: closed forms need none."""
    args = launch.args
    if isinstance(args, Mapping):
        args = {name: _without_content(value) for name, value in args.items()}
    else:
        args = tuple(map(_without_content, args))
    return Launch(
        launch.grid, launch.block, args, launch.shared_bytes, cluster=launch.cluster
    )  # fmt: skip


def _without_content(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_content(part) for name, part in value.items()}
    if not isinstance(value, Buffer) or not value.described:
        return value
    return Buffer(value.shape, value.dtype, value.alignment, offset=value.offset)
