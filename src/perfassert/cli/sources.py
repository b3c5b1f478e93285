"""Options that commands on kernel sources share: kernel, device, launch, arguments."""

from __future__ import annotations

import argparse
from pathlib import Path

from perfassert.errors import LaunchError
from perfassert.kernel.description import Kernel
from perfassert.kernel.launch import Launch


def add_source(parser: argparse.ArgumentParser) -> None:
    """The source, its kernel, how it is compiled, the device."""
    parser.add_argument("source", help=".cu, .ptx, .cubin, or .sass (nvdisasm -c -hex -gi -gp)")
    parser.add_argument("--kernel", help="its name; may be left out where the file has only one")
    parser.add_argument("--device", required=True, help="a name, an alias or a device file")
    parser.add_argument("-D", "--define", action="append", default=[], metavar="NAME[=VALUE]")
    parser.add_argument("-I", "--include-dir", action="append", default=[], metavar="FOLDER")
    parser.add_argument("--option", action="append", default=[], help="passed to the compiler")
    parser.add_argument("--trip-count", action="append", default=[], metavar="FILE:LINE=N")


def add_launch(parser: argparse.ArgumentParser, required: bool) -> None:
    """Grid, block, arguments, dynamic shared memory."""
    parser.add_argument("--grid", required=required, metavar="X[,Y[,Z]]")
    parser.add_argument("--block", required=required, metavar="X[,Y[,Z]]")
    parser.add_argument("--arg", action="append", default=[], metavar="NAME=INTEGER")
    parser.add_argument("--shared-bytes", type=int, default=0)


def kernel_of(options: argparse.Namespace) -> Kernel:
    """The kernel that the options name."""
    from perfassert.frontends.cuda import kernels

    trips = {k: _whole(v, "--trip-count") for k, v in map(_pair, options.trip_count)}
    suffix = Path(options.source).suffix
    if suffix in (".cubin", ".sass"):
        return kernels.from_cubin(options.source, options.kernel, trip_counts=trips)
    if suffix == ".ptx":
        return kernels.from_ptx(
            options.source, options.kernel, options=options.option, trip_counts=trips
        )
    defines = {k: v or "1" for k, v in map(_pair, options.define)}
    return kernels.from_cuda(
        options.source, options.kernel, defines=defines, include_dirs=options.include_dir,
        options=options.option, trip_counts=trips,
    )  # fmt: skip


def launch_of(options: argparse.Namespace) -> Launch | None:
    """The launch, where grid and block are given."""
    if options.grid is None and options.block is None:
        return None
    if options.grid is None or options.block is None:
        raise LaunchError("--grid and --block belong together")
    args = {k: _whole(v, "--arg") for k, v in map(_pair, options.arg)}
    return Launch(_extent(options.grid), _extent(options.block), args, options.shared_bytes)


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


def _whole(text: str, option: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise LaunchError(f"{option}: {text!r} is no whole number") from None


def _extent(text: str) -> tuple[int, ...]:
    return tuple(_whole(part, "--grid/--block") for part in text.replace("x", ",").split(","))
