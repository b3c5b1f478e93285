"""Launches that a command works on: one described by options, or all of a launches file."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfassert.cli.proposals import propose_launch
from perfassert.cli.sources import (
    add_launch,
    add_source,
    kernel_of,
    launch_of,
    missing_launch_option,
    source_options,
)
from perfassert.errors import LaunchError
from perfassert.kernel.description import Kernel
from perfassert.kernel.launch import Launch

if TYPE_CHECKING:
    from perfassert.hardware.model import Device


@dataclass(frozen=True, slots=True)
class RequestedLaunch:
    """Launch that happens ``count`` times; ``label`` is that of its launches file, else empty."""

    kernel: Kernel
    launch: Launch
    device: Device
    label: str = ""
    count: int = 1


def add_work(parser: argparse.ArgumentParser) -> None:
    """Add the options of a source with a launch, or ``--launches``."""
    add_source(parser, optional=True)
    add_launch(parser)
    parser.add_argument(
        "--launches", metavar="FILE",
        help="that perfassert record wrote: kernels, launches, arguments; --kernel chooses, a "
        "source replaces the recorded code",
    )  # fmt: skip


def work(options: argparse.Namespace, propose: bool = False) -> tuple[RequestedLaunch, ...]:
    """Raises :class:`LaunchError` where something is missing or said twice; what the source or the
    device is comes first. ``propose``: a launch, if nothing is said of it; it is printed as an
    error message is."""
    from perfassert.frontends.files import OWN, frontend_of
    from perfassert.hardware.load import device as load_device

    if options.launches is not None:
        return tuple(_recorded_launches(options))
    if options.source is None:
        raise LaunchError("the source is missing: a .cu file, say; or give --launches FILE")
    kernel = kernel_of(options)
    unsaid = options.grid is options.domain is options.block is None
    if propose and unsaid and frontend_of(options.source).name in OWN:
        options = propose_launch(options)
        print(f"perfassert: proposed, to be replaced: {options.proposed}", file=sys.stderr)
    if options.device is None:
        raise LaunchError("--device is missing; give it, or --launches FILE")
    device = load_device(options.device)
    if missing := missing_launch_option(options):
        raise LaunchError(f"{missing}, or --launches FILE")
    launch = launch_of(options)
    assert launch is not None
    return (RequestedLaunch(kernel, launch, device),)


def _recorded_launches(options: argparse.Namespace) -> Iterator[RequestedLaunch]:
    from perfassert.hardware.load import device as load_device
    from perfassert.perf_toml.launches import choose_launches, launches

    given: dict[str, Any] = {n: getattr(options, n) for n in ("grid", "domain", "block", "arg")}
    if conflicting := [f"--{name}" for name, value in given.items() if value]:
        raise LaunchError(f"{conflicting[0]}: --launches already says it")
    if options.source is None and (extra := source_options(options)):
        raise LaunchError(
            f"--{extra[0]}: is about a source, and {options.launches} says how its kernels are "
            "read; give the source as well"
        )
    devices: dict[str, Device] = {}
    for entry in choose_launches(launches(options.launches), options.kernel):
        name = options.device or entry.device
        if not name:
            raise LaunchError(f"{options.launches} names no device; give --device")
        kernel = entry.kernel
        if options.source is not None:
            kernel = kernel_of(argparse.Namespace(**{**vars(options), "kernel": kernel.name}))
        if name not in devices:  # its file is read once for all launches
            devices[name] = load_device(name)
        yield RequestedLaunch(kernel, entry.launch, devices[name], entry.label, entry.count)
