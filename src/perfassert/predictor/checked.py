"""A few executed warps check the closed forms of a kernel: where they differ, we are wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from perfassert.engines.execution.execute import execute
from perfassert.engines.execution.plan import Limits
from perfassert.engines.execution.touched import followed
from perfassert.frontends.cuda.kernels import Code
from perfassert.hardware.model import Device
from perfassert.kernel.buffer import Buffer
from perfassert.kernel.description import BoundKernel
from perfassert.kernel.launch import Launch
from perfassert.predictor.agreement import Agreement
from perfassert.predictor.arguments import arguments
from perfassert.source import DISAGREEMENT, Assumption

_LIMITS = Limits(lane_instructions=50_000, instructions=300)
_ITERATIONS = 8  # of the loops around an access
_TOLD = 3  # differences: the first ones say enough


def checked(
    code: Code, described: BoundKernel, launch: Launch, work: Launch, device: Device
) -> BoundKernel:
    """The kernel, with what its execution contradicts; a program is checked once, as it is first
    launched: what is a mistake there is one elsewhere."""
    program = described.program
    if code.hints.trip_counts or launch.clustered:
        return described  # what the author says is not ours to check; clusters are not executed

    def differences() -> tuple[Assumption, ...]:
        return _differences(code, described, launch, work, device)

    found = program.found.once("differences", differences)
    if not found:
        return described
    return replace(described, assumptions=(*described.assumptions, *found))


def _differences(
    code: Code, described: BoundKernel, launch: Launch, work: Launch, device: Device
) -> tuple[Assumption, ...]:
    """Of the first block and the one that stands for all, as far as a few instructions lead."""
    x, y, z = described.standing
    nx, ny, _ = launch.grid
    plain = _without_contents(launch)
    given = arguments(described.program.parameters, plain)
    blocks = sorted({0, x + nx * (y + ny * z)})
    run = execute(code.executable(device.arch), plain, given, blocks, _LIMITS)
    if not followed(run):  # unknown content decided: its closed form is a guess, and is said to be
        return ()
    found = Agreement(described, launch, work, run, _ITERATIONS).differences()
    return tuple(
        Assumption(f"{d.text}: a mistake of perfassert, please report it", d.span, DISAGREEMENT)
        for d in islice(found, _TOLD)
    )


def _without_contents(launch: Launch) -> Launch:
    """What has a closed form needs none, and contents may be large."""
    args = launch.args
    if isinstance(args, Mapping):
        args = {name: _plain(value) for name, value in args.items()}
    else:
        args = tuple(map(_plain, args))
    return Launch(
        launch.grid, launch.block, args, launch.shared_bytes, cluster=launch.cluster
    )  # fmt: skip


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if not isinstance(value, Buffer) or not value.described:
        return value
    return Buffer(value.shape, value.dtype, value.alignment, offset=value.offset)
