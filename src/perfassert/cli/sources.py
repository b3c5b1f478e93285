"""Options that commands on kernel sources share: kernel, device, launch, arguments."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from perfassert.cli.values import pair, value, values
from perfassert.cli.wording import OPTIONS
from perfassert.errors import KernelSourceError, LaunchError
from perfassert.kernel.description import Kernel
from perfassert.kernel.launch import Launch


def add_source(parser: argparse.ArgumentParser, optional: bool = False) -> None:
    """Add the options of a source, its kernel, its compilation, and the device."""
    parser.add_argument(
        "source",
        nargs="?" if optional else None,
        help=".cu, .ptx, a cubin, an object file, library or program, .sass (nvdisasm -c -hex "
        "-gi), or of a plug-in",
    )
    parser.add_argument("--kernel", help="its name; may be left out where the file has only one")
    parser.add_argument("--device", required=not optional, help="a name, an alias or a device file")
    add_compilation(parser)
    parser.add_argument("--arch", help="which architecture of a compiled file, as sm_90a")
    parser.add_argument(
        "--trip-count",
        action="append",
        default=[],
        metavar="FILE:LINE=N",
        help="iterations of the loop there (repeatable)",
    )
    parser.add_argument(
        "--assume", action="append", default=[], metavar="NAME=EXPRESSION",
        help="what values loaded from a parameter are taken to be (repeatable)",
    )  # fmt: skip
    parser.add_argument(
        "--constant", action="append", default=[], metavar="SYMBOL=VALUE",
        help="what the program writes into __constant__ memory",
    )  # fmt: skip


def add_compilation(
    parser: argparse.ArgumentParser, toolchain: str = "the compiler's release, as 12.4"
) -> None:
    """Add options of how source is compiled; ``toolchain`` is the help text of that option."""
    parser.add_argument(
        "-D", "--define", action="append", default=[], metavar="NAME[=VALUE]",
        help="a macro for the compiler (repeatable)",
    )  # fmt: skip
    parser.add_argument(
        "-I", "--include-dir", action="append", default=[], metavar="FOLDER",
        help="where the compiler looks for headers (repeatable)",
    )  # fmt: skip
    parser.add_argument("--option", action="append", default=[], help="passed to the compiler")
    parser.add_argument("--toolchain", metavar="RELEASE", help=toolchain)


def add_launch(parser: argparse.ArgumentParser) -> None:
    """Add the options of a launch: grid or domain, block, arguments, dynamic shared memory."""
    parser.add_argument("--grid", metavar="X[,Y[,Z]]", help="blocks")
    parser.add_argument(
        "--domain", metavar="X[,Y[,Z]]", help="threads that the grid covers, instead of --grid"
    )
    parser.add_argument("--block", metavar="X[,Y[,Z]]", help="threads of a block")
    add_arguments(parser)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of kernel arguments and of dynamic shared memory."""
    parser.add_argument(
        "--arg", action="append", default=[], metavar="NAME=VALUE",
        help="a number, arithmetic (4096*256), null; NAME.MEMBER=VALUE in a structure",
    )  # fmt: skip
    parser.add_argument(
        "--shared-bytes", type=int, default=0, metavar="N", help="dynamic shared memory of a block"
    )


def kernel_of(options: argparse.Namespace) -> Kernel:
    """Return the kernel that the options name."""
    from perfassert.frontends.files import frontend_of

    path = Path(options.source)
    reader, given = frontend_of(options.source), _kernel_settings(options)
    for key in given:
        if key not in reader.takes:
            reason = f"the front end of {path.suffix} files takes none"
            reason += "; --option=-arch=… says it to a compiler" if key == "arch" else ""
            raise KernelSourceError(f"--{OPTIONS[key]}: {reason}")
    return reader.make(path, options.kernel, **given)


def source_options(options: argparse.Namespace) -> list[str]:
    """Return the names of the given options that affect how a source is read."""
    return [OPTIONS[key] for key in _kernel_settings(options)]


def compilation_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return the compiler settings given by the options of :func:`add_compilation`."""
    settings = {
        "defines": dict(map(_macro, options.define)),
        "include_dirs": [_folder(text) for text in options.include_dir],
        "options": options.option,
        "toolchain": options.toolchain,
    }
    return {key: value for key, value in settings.items() if value}


def _folder(text: str) -> str:
    """Return an existing folder's absolute path; the compiler looks for others from the source."""
    return str(Path(text).resolve()) if os.path.isdir(text) else text


def _kernel_settings(options: argparse.Namespace) -> dict[str, object]:
    settings = {
        **compilation_of(options),
        "arch": options.arch,
        "trip_counts": {
            k: _read_integer(v, "--trip-count") for k, v in map(_pair, options.trip_count)
        },
        "assume": dict(pair(text, "--assume") for text in options.assume),
        "constants": values(options.constant, "--constant"),
    }
    return {key: value for key, value in settings.items() if value}


def launch_of(options: argparse.Namespace) -> Launch | None:
    """Return the launch, if a block with a grid or a domain is given; else None."""
    if options.grid is None and options.domain is None and options.block is None:
        return None
    if options.grid is not None and options.domain is not None:
        raise LaunchError("--grid and --domain both say how many blocks there are; give one")
    if missing := missing_launch_option(options):
        raise LaunchError(missing)
    block, args = extent_of(options.block, "--block"), arguments_of(options)
    if options.domain is not None:
        domain = extent_of(options.domain, "--domain")
        return Launch.cover(domain, block, args, options.shared_bytes)
    return Launch(extent_of(options.grid, "--grid"), block, args, options.shared_bytes)


def missing_launch_option(options: argparse.Namespace) -> str:
    """Return which launch option is missing and how to give it; empty if none is missing."""
    if options.grid is None and options.domain is None:
        return "--grid is missing; give it, or --domain"
    return "--block is missing; give it" if options.block is None else ""


def arguments_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return the kernel arguments by name."""
    return values(options.arg, "--arg")


def extent_of(text: str, option: str) -> tuple[int, ...]:
    """Return the numbers of an extent such as ``"16,2,8"`` or ``"16x2x8"``."""
    separator = "x" if "x" in text and "," not in text else ","
    return tuple(_read_integer(part, option) for part in text.split(separator))


def _macro(text: str) -> tuple[str, str]:
    """Return name and value of ``"N=5"``; ``"N"`` has the value 1, ``"N="`` an empty one."""
    name, equals, value = text.partition("=")
    return name, value if equals else "1"


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


def _read_integer(text: str, option: str) -> int:
    wrong = LaunchError(f"{option}: {text!r} is not an integer")
    try:
        number = value(text, option)
    except LaunchError:
        raise wrong from None
    if not isinstance(number, int):
        raise wrong
    return number
