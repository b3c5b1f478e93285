"""``perfassert diff BASE HEAD``: what a change does to the code of kernels."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfassert.cli.sources import add_compilation, compilation_of
from perfassert.errors import KernelSourceError

if TYPE_CHECKING:
    from perfassert.comparison.kernel_changes import Side
    from perfassert.comparison.sides import Reading

_LIMITS = "spill_bytes +0"
_BLOCKS = (64, 128, 256, 512, 1024)


def add(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "diff",
        help="compare the kernels of two files, folders, libraries or git revisions",
        description=f"{__doc__} Exit code 1 where a kernel is gone, broken or worse than "
        "--fail-on allows, 2 where nothing can be said.",
    )
    what = "a file or folder (CUDA, PTX, cubins, objects, libraries, programs), or a git revision"
    parser.add_argument("base", metavar="BASE", help=what)
    parser.add_argument("head", metavar="HEAD", help="the newer one")
    parser.add_argument(
        "--build",
        metavar="COMMAND",
        help="what makes the objects of a revision, in its own worktree",
    )
    parser.add_argument(
        "--objects", action="append", default=[], metavar="GLOB",
        help="which files of a folder, as 'build/**/*.o' (repeatable)",
    )  # fmt: skip
    parser.add_argument("--arch", help="one architecture, as sm_90a; sources are compiled for it")
    parser.add_argument("--device", help="whose occupancy; its architecture unless --arch is given")
    parser.add_argument(
        "--block", type=int, action="append", metavar="THREADS",
        help="occupancy of such blocks (repeatable; default: 64 to 1024)",
    )  # fmt: skip
    add_compilation(parser)
    parser.add_argument(
        "--fail-on", default=_LIMITS, metavar="LIMITS",
        help="how far numbers may move: 'spill_bytes +0, registers +8, occupancy -10 %%, new' "
        f"(default: '{_LIMITS}')",
    )  # fmt: skip
    parser.add_argument(
        "--allow-gone", action="store_true", help="kernels that are gone or broken are no failure"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--markdown", action="store_true", help="print a pull-request comment")
    parser.add_argument(
        "--github",
        action="store_true",
        help="print annotations too, and add to the job's summary (GITHUB_STEP_SUMMARY)",
    )
    parser.set_defaults(command=_diff)


def _diff(options: argparse.Namespace) -> int:
    from perfassert.comparison import kernel_text
    from perfassert.comparison.github import tell
    from perfassert.comparison.kernel_changes import diff
    from perfassert.comparison.limits import parse
    from perfassert.comparison.sides import Reading, without_host_code
    from perfassert.hardware.load import device as load_device

    limits = parse(options.fail_on)
    device = load_device(options.device) if options.device else None
    if options.block and device is None:
        raise KernelSourceError("--block needs --device: occupancy is of a device")
    arch = options.arch or (device.arch if device else None)
    reading = Reading(tuple(options.objects), arch, compilation_of(options))
    base, head = without_host_code(*_sides(options, reading))
    found = diff(base, head, limits, options.block or _BLOCKS, device)
    if options.json:
        print(json.dumps(kernel_text.to_dict(found)))
    else:
        print(kernel_text.markdown(found) if options.markdown else kernel_text.text(found))
    if options.github:
        stream = sys.stderr if options.json or options.markdown else sys.stdout
        tell(kernel_text.warnings(found), kernel_text.markdown(found), stream)
    return int(found.fails(limits, options.allow_gone))


def _sides(options: argparse.Namespace, reading: Reading) -> tuple[Side, Side]:
    """A base that cannot be read is an error: there is nothing to compare with."""
    base = _side(options.base, options.build, reading)
    if not base.kernels:
        why = next(iter(base.broken.values()), f"{options.base}: there is no kernel in it")
        raise KernelSourceError(why)
    return base, _side(options.head, options.build, reading, known=base)


def _side(name: str, build: str | None, reading: Reading, known: Side | None = None) -> Side:
    """``known``: the base, all of whose files are broken in a head that cannot be built."""
    from perfassert.comparison.kernel_changes import Side
    from perfassert.comparison.revisions import build as built
    from perfassert.comparison.revisions import checked_out, is_revision
    from perfassert.comparison.sides import side

    is_path = Path(name).exists()
    if (is_path and build is None) or not is_revision(name):
        return side(Path(name), reading)
    with checked_out(name) as checkout:
        why = built(build, checkout, name) if build is not None else ""
        if why and known is None:
            raise KernelSourceError(why)
        if why and known is not None:
            return Side(name, (), dict.fromkeys((p.file for p in known.kernels), why))
        return side(checkout.folder, reading.inside(checkout), name)
