"""``perfassert survey``: findings in a library of kernels, worst first, without a launch."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfassert.cli.command import add_command
from perfassert.cli.forms import add_forms
from perfassert.cli.sources import add_compilation, compilation_of
from perfassert.cli.terminal import progress, raw, say
from perfassert.errors import ExpectationError, close_matches

if TYPE_CHECKING:
    from perfassert.survey.pins import PinChange
    from perfassert.survey.survey import Survey

_ARCH = "sm_80"
"""Architecture of sources, unless an option names one."""


def add(commands: Any) -> None:
    """Register the command."""
    parser = add_command(
        commands, "survey", "find what is wrong in the kernels of a library, worst first",
        "Spills, local arrays, uncoalesced and narrow accesses, bank conflicts, double arithmetic "
        "among floats, divergent loops, occupancy cliffs and calls of every kernel, read from "
        "machine code; no launch is needed. Exit code 1 where --fail-on or --check says so.",
        "libkernels.so", "dist/package-1.0-cp312-linux_x86_64.whl --arch sm_90",
        "build --pin kernels.toml", "build --check kernels.toml --github",
    )  # fmt: skip
    parser.add_argument(
        "path", nargs="+", help="CUDA, PTX, cubins, objects, archives, libraries, wheels, "
        "folders (of a build, or a cache of Triton or Inductor), or compile_commands.json",
    )  # fmt: skip
    parser.add_argument(
        "--arch", help="one architecture, as sm_90a; by default the newest of each compiled file, "
        f"and {_ARCH} for sources",
    )  # fmt: skip
    parser.add_argument("--device", help="whose occupancy; its architecture unless --arch is given")
    parser.add_argument(
        "--objects", action="append", default=[], metavar="GLOB",
        help="which files of a folder, as 'build/**/*.o' (repeatable)",
    )  # fmt: skip
    add_compilation(parser)
    pins = parser.add_mutually_exclusive_group()
    pins.add_argument("--pin", metavar="FILE", help="write what is known of every kernel as TOML")
    pins.add_argument(
        "--check", metavar="FILE",
        help="fail where a kernel is worse than in such a file, and where one is better until it "
        "is pinned again",
    )  # fmt: skip
    parser.add_argument(
        "--fail-on", metavar="KINDS",
        help="fail where a kernel has such findings: 'spills, local-array', or 'any'",
    )  # fmt: skip
    parser.add_argument("--sarif", metavar="FILE", help="write the findings as SARIF")
    parser.add_argument("--html", metavar="FILE", help="write a page with all kernels")
    add_forms(parser)
    parser.set_defaults(command=_survey)


def _survey(options: argparse.Namespace) -> int:
    from perfassert.comparison.sides import Reading
    from perfassert.hardware.load import device as load_device
    from perfassert.survey.survey import survey

    kinds = _kinds(options.fail_on)
    device = load_device(options.device) if options.device else None
    arch = options.arch or (device.arch if device else None)
    reading = Reading(
        tuple(options.objects),
        arch,
        compilation_of(options),
        newest=True,
        findings=True,
        source_arch=_ARCH,
    )
    with progress("files") as bar:
        result = survey([Path(p) for p in options.path], reading, device, bar)
    changes = _pins(options, result)
    _write(options, result)
    _print(options, result, changes)
    return int(bool(changes) or any(f.kind in kinds for row in result.rows for f in row.findings))


def _kinds(text: str | None) -> tuple[str, ...]:
    """Read the kinds of ``--fail-on``, before anything is compiled."""
    from perfassert.frontends.cuda.code_findings import KINDS

    if text is None:
        return ()
    named = tuple(part.strip() for part in text.split(","))
    for name in named:
        if name not in (*KINDS, "any"):
            hint = close_matches(name, KINDS) or f"; known: {', '.join(KINDS)}, or any"
            raise ExpectationError(f"--fail-on: no finding is called {name!r}{hint}")
    return KINDS if "any" in named else named


def _pins(options: argparse.Namespace, result: Survey) -> tuple[PinChange, ...] | None:
    """Write the pins, or list what has changed since; None without ``--check``."""
    from perfassert.survey.pins import compare_pins, write_pins

    if options.pin is not None:
        write_pins(result, Path(options.pin))
    return None if options.check is None else compare_pins(result, Path(options.check))


def _write(options: argparse.Namespace, result: Survey) -> None:
    from perfassert.comparison.revisions import repository_root
    from perfassert.report.files import replace_file
    from perfassert.report.sarif import sarif_text
    from perfassert.survey import text as show

    if options.sarif is not None:
        roots = [repository_root(Path(p)) for p in options.path]
        replace_file(Path(options.sarif), sarif_text(show.results(result, roots)))
    if options.html is not None:
        from perfassert.report.page import page

        data = {"headline": show.headline(result), **show.to_dict(result)}
        replace_file(Path(options.html), page("survey", "Survey of GPU kernels", data))


def _print(
    options: argparse.Namespace, result: Survey, changes: tuple[PinChange, ...] | None
) -> None:
    import sys

    from perfassert.comparison.github import report_to_github
    from perfassert.survey import text as show

    if options.json:
        print(json.dumps(show.to_dict(result, changes)))
    elif options.markdown:
        print(show.markdown(result, changes))
    else:
        say(show.text(result, changes))
    if changes:
        print(
            f"perfassert: {len(changes)} kernels are not as pinned; if this is intended, write "
            f"--pin {options.check} instead of --check",
            file=sys.stderr,
        )
    if options.github:
        stream = sys.stderr if options.json or options.markdown else sys.stdout
        report_to_github(show.warnings(changes or ()), show.markdown(result, changes), raw(stream))
