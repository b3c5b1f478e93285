"""``perfassert launches import``: a launches file from a profile of a real GPU."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfassert.cli.command import add_command
from perfassert.cli.sources import add_compilation, compilation_of
from perfassert.errors import RecordError, UnknownDevice
from perfassert.source import CUDA_SUFFIXES
from perfassert.toml.text import format_value

if TYPE_CHECKING:
    from perfassert.frontends.profiles.launch import LaunchProfile
    from perfassert.frontends.profiles.write import CodeLocation
    from perfassert.hardware.model import Device


def add(commands: Any) -> None:
    """Register the command."""
    parser = add_command(
        commands, "launches", "launches files: import one from a profile",
        "Works on launches files, which perfassert record writes: kernels, launches, arguments.",
        "import profile.csv --code kernels.cubin -o launches.toml",
    )  # fmt: skip
    actions = parser.add_subparsers(title="actions", required=True, metavar="ACTION")
    parser = actions.add_parser(
        "import", help="from Nsight Compute's report or CSV, or Nsight Systems' SQLite",
        description="Writes a launches file of the launches that a profiler saw; their kernels are "
        "looked for in --code.",
    )  # fmt: skip
    what = (
        "a report of ncu (.ncu-rep), of ncu --csv --print-units base --section LaunchStats, or of "
        "nsys export --type sqlite"
    )
    parser.add_argument("profile", type=Path, metavar="PROFILE", help=what)
    parser.add_argument(
        "--code", type=Path, action="append", required=True, metavar="FILE",
        help="where the kernels are: CUDA, PTX, objects, libraries, programs (repeatable)",
    )  # fmt: skip
    parser.add_argument("--device", help="default: the one that the profile names")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("launches.toml"), metavar="FILE",
        help="default: launches.toml",
    )  # fmt: skip
    parser.add_argument("--force", action="store_true", help="replace what is there")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_compilation(parser)
    parser.set_defaults(command=_import)


def _import(options: argparse.Namespace) -> int:
    """Import the launches; kernels without code are reported and left out.

    It is an error if no kernel is left.
    """
    from perfassert.frontends.profiles.read import read_profile
    from perfassert.frontends.profiles.write import launches_text
    from perfassert.report.files import replace_file

    output: Path = options.output
    if output.exists() and not options.force:
        raise RecordError(f"{output} is there already; --force replaces it, -o names another")
    profile = read_profile(options.profile)
    device = _device(options.device, profile)
    codes, left_out = _codes(options, profile, device)
    for reason in left_out:
        print(f"perfassert: left out: {reason}", file=sys.stderr)
    if not codes:
        files = ", ".join(map(str, options.code))
        raise RecordError(f"{options.profile}: no kernel of it is in {files}")
    replace_file(output, launches_text(profile, codes, device.name))
    shapes = [one for one in profile.launches if one.shape.name in codes]
    kernels = len({code.mangled for code in codes.values()})
    count = sum(one.count for one in shapes)
    if options.json:
        numbers = {"launches": count, "kernels": kernels, "distinct": len(shapes)}
        written = {"file": str(output), "device": device.name, **numbers, "left_out": left_out}
        print(json.dumps(written))
        return 0
    print(f"{count} launches of {kernels} kernels, {len(shapes)} distinct: {output}")
    print("next: fill in the arguments, which no profile has")
    return 0


def _device(named: str | None, profile: LaunchProfile) -> Device:
    """Return the device that is named, or the profile's."""
    from perfassert.frontends.profiles.launch import device_file_name
    from perfassert.hardware.load import device

    if named:
        return device(named)
    try:
        return device(device_file_name(profile.device))
    except UnknownDevice:
        remark = f"it is of {profile.device!r}" if profile.device else "it does not name one"
        raise RecordError(f"the profile's device is not known ({remark}); give --device") from None


def _codes(
    options: argparse.Namespace, profile: LaunchProfile, device: Device
) -> tuple[dict[str, CodeLocation], list[str]]:
    """Map kernel names of the profile to their code, and list reasons for names without code."""
    from perfassert.frontends.cuda.inventory import kernels
    from perfassert.frontends.profiles.match import matching

    given = compilation_of(options)
    known: dict[str, Path] = {}
    for path in options.code:
        more = given if path.suffix in CUDA_SUFFIXES else {}
        for info in kernels(path, device.arch, **more):
            known.setdefault(info.mangled, path)
    codes: dict[str, CodeLocation] = {}
    left_out: list[str] = []
    for name in dict.fromkeys(one.shape.name for one in profile.launches):
        fitting = matching(name, tuple(known))
        if len(fitting) == 1:
            codes[name] = _code(known[fitting[0]], fitting[0], device, options)
        else:
            why = "several kernels fit" if fitting else "no kernel is called so"
            left_out.append(f"{name}: {why}")
    return codes, left_out


def _code(path: Path, mangled: str, device: Device, options: argparse.Namespace) -> CodeLocation:
    from perfassert.frontends.files import frontend_of
    from perfassert.frontends.profiles.write import CodeLocation

    reader = frontend_of(str(path))
    given = compilation_of(options) if reader.name == "cuda" else {}
    compiled = reader.make(path, mangled, **given).compiled
    known = compiled.binary(device.arch).parameters  # type: ignore[union-attr]
    parameters = {p.name: "" if p.pointer else p.dtype for p in known}
    if folders := given.get("include_dirs"):  # no path of this machine goes into the file
        given["include_dirs"] = [_relative_path(options.output, Path(f)) for f in folders]
    settings = "\n".join(f"{key} = {format_value(value)}" for key, value in given.items())
    return CodeLocation(
        reader.name, _relative_path(options.output, path), mangled, parameters, settings
    )


def _relative_path(output: Path, path: Path) -> str:
    return Path(os.path.relpath(path, output.parent)).as_posix()
