"""What a command is about: one launch that options describe, or those of a launches file."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from perfassert.cli.sources import add_launch, add_source, kernel_of, launch_of
from perfassert.errors import LaunchError
from perfassert.kernel.description import Kernel
from perfassert.kernel.launch import Launch


@dataclass(frozen=True, slots=True)
class RequestedLaunch:
    """A launch that happens ``count`` times; ``label``: in its launches file, else empty."""

    kernel: Kernel
    launch: Launch
    device: str
    label: str = ""
    count: int = 1


def add_work(parser: argparse.ArgumentParser) -> None:
    """A source with a launch, or ``--launches``."""
    add_source(parser, optional=True)
    add_launch(parser, required=False)
    parser.add_argument(
        "--launches", metavar="FILE",
        help="that perfassert record wrote: kernels, launches, arguments; --kernel chooses, a "
        "source replaces the recorded code",
    )  # fmt: skip


def work(options: argparse.Namespace) -> tuple[RequestedLaunch, ...]:
    """Raises :class:`LaunchError` where something is missing or said twice."""
    if options.launches is not None:
        return tuple(_recorded_launches(options))
    if options.source is None:
        raise LaunchError("the source is missing: a .cu file, say; or give --launches FILE")
    kernel = kernel_of(options)
    for name in ("device", "grid", "block"):
        if getattr(options, name) is None:
            raise LaunchError(f"--{name} is missing; give it, or --launches FILE")
    launch = launch_of(options)
    assert launch is not None
    return (RequestedLaunch(kernel, launch, options.device),)


def _recorded_launches(options: argparse.Namespace) -> Iterator[RequestedLaunch]:
    from perfassert.perf_toml.launches import choose_launches, launches

    given: dict[str, Any] = {n: getattr(options, n) for n in ("grid", "block", "arg")}
    if conflicting := [f"--{name}" for name, value in given.items() if value]:
        raise LaunchError(f"{conflicting[0]}: --launches already says it")
    for entry in choose_launches(launches(options.launches), options.kernel):
        device = options.device or entry.device
        if not device:
            raise LaunchError(f"{options.launches} names no device; give --device")
        kernel = entry.kernel
        if options.source is not None:
            kernel = kernel_of(argparse.Namespace(**{**vars(options), "kernel": kernel.name}))
        yield RequestedLaunch(kernel, entry.launch, device, entry.label, entry.count)
