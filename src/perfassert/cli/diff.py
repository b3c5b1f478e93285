"""``perfassert diff BASE HEAD``: effects of a change on kernels and their launches."""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfassert.cli.command import add_command
from perfassert.cli.executors import positive
from perfassert.cli.forms import add_forms, link_of
from perfassert.cli.sources import add_compilation, compilation_of
from perfassert.cli.terminal import progress, raw, say
from perfassert.errors import KernelSourceError, LaunchError
from perfassert.source import without_folder

if TYPE_CHECKING:
    from perfassert.comparison.affected import Affected, CommandPattern
    from perfassert.comparison.kernel_changes import CodeByFile, CodeDiff, CodeSide
    from perfassert.comparison.launch_pairs import LaunchesFile
    from perfassert.comparison.launched import LaunchComparison
    from perfassert.comparison.limits import ChangeLimits
    from perfassert.comparison.sides import Reading
    from perfassert.hardware.model import Device

_LIMITS = "worse, spill_bytes +0"
_TIME = "time +2 %"


def add(commands: Any) -> None:
    """Register the command."""
    parser = add_command(
        commands, "diff", "compare the kernels of two files, folders, libraries or git revisions",
        "What a change does to every kernel: instructions, registers, spills, shared memory and, "
        "with --launches, predicted time. Exit code 1 where a kernel is gone, broken or worse than "
        "--fail-on allows, 2 where nothing can be compared.",
        "before.cubin after.cubin", "main HEAD --arch sm_80 --launches launches.toml --device a100",
        "stencil.cu --toolchain 12.4..13.0 --device a100",
        "--with triton==3.6.0..3.7.1 tests/test_kernels.py",
    )  # fmt: skip
    what = "a file or folder (CUDA, PTX, cubins, objects, libraries, programs), or a git revision"
    parser.add_argument("base", metavar="BASE", help=what)
    parser.add_argument(
        "head", metavar="HEAD", nargs="?",
        help="the newer one; left out with two releases in --toolchain",
    )  # fmt: skip
    parser.add_argument("more", nargs="*", help=argparse.SUPPRESS)
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
        "--block", type=positive, action="append", metavar="THREADS",
        help="occupancy of such blocks (repeatable; default: 64 to 1024)",
    )  # fmt: skip
    add_compilation(
        parser,
        toolchain="the compiler's release, as 12.4; 12.4..13.0 compares BASE compiled by both",
    )
    parser.add_argument(
        "--with", dest="versions", metavar="NAME==BASE..HEAD",
        help="compare what two versions of a package (triton, nvidia-cutlass-dsl, numba-cuda, "
        "warp-lang, pystencils) make of the tests or modules that are given instead of BASE and "
        "HEAD; each in an environment of its own; cuda==12.4..13.0 is --toolchain",
    )  # fmt: skip
    parser.add_argument(
        "--launches", metavar="FILE",
        help="of perfassert record: compare what they take, too; a folder or revision may have "
        "such a file of its own",
    )  # fmt: skip
    parser.add_argument(
        "--launches-from", choices=("base", "head"),
        help="whose file describes the launches that both have (default: base)",
    )  # fmt: skip
    parser.add_argument(
        "--affected", nargs="?", const="", metavar="MAPPING",
        help="list tests and launches that the change can move, and commands that a TOML file maps "
        "to files or kernels; no command is run",
    )  # fmt: skip
    parser.add_argument(
        "--sarif", metavar="FILE",
        help="write what is worse as SARIF, for code scanning and editors",
    )  # fmt: skip
    parser.add_argument(
        "--fail-on", metavar="LIMITS",
        help="how far numbers may move: 'spill_bytes +0, registers +8, occupancy -10 %%, worse' "
        f"(default: '{_LIMITS}', with launches '{_LIMITS}, {_TIME.replace('%', '%%')}')",
    )  # fmt: skip
    parser.add_argument(
        "--allow-gone", action="store_true", help="kernels that are gone or broken are no failure"
    )
    add_forms(parser)
    parser.set_defaults(command=_diff)


def _diff(options: argparse.Namespace) -> int:
    from perfassert.comparison.sides import Reading
    from perfassert.hardware.load import device as load_device

    if options.launches_from is not None and options.launches is None:
        raise LaunchError("--launches-from says whose launches are predicted; give --launches FILE")
    limits = _limits(options)
    if options.versions is not None and not _is_toolchain(options):
        from perfassert.cli.diff_versions import diff_versions

        return diff_versions(options, limits)
    if options.more:
        raise KernelSourceError(f"{options.more[0]}: two sides are compared; only --with has more")
    commands = _commands(options)
    device = load_device(options.device) if options.device else None
    if options.block and device is None:
        raise KernelSourceError("--block needs --device: occupancy is of a device")
    arch = options.arch or (device.arch if device else None)
    reading = Reading(tuple(options.objects), arch, compilation_of(options))
    pair = _toolchain_pair(options)
    with ExitStack() as stack:
        if options.build is not None:
            from perfassert.frontends.toolchain.cache import seal_entries

            stack.enter_context(seal_entries())  # a build that writes there decides no prediction
        sides = (
            _compiled_sides(options, pair, reading, stack)
            if pair
            else _sides(options, reading, stack)
        )
        return _compare_sides(options, limits, sides, device, commands)


def _commands(options: argparse.Namespace) -> tuple[CommandPattern, ...]:
    """Return the patterns of the ``--affected`` file, read before anything is compiled."""
    if not options.affected:
        return ()
    from perfassert.perf_toml.affected_commands import read_commands

    return read_commands(Path(options.affected))


def _is_toolchain(options: argparse.Namespace) -> bool:
    """Return True for ``--with cuda==12.4..13.0``, which is turned into ``--toolchain``."""
    name, _, releases = options.versions.partition("==")
    if name != "cuda":
        return False
    if options.toolchain is not None:
        raise KernelSourceError(f"--with {options.versions} and --toolchain: give one of them")
    options.toolchain = releases
    return True


def _toolchain_pair(options: argparse.Namespace) -> tuple[str, str] | None:
    """Return the two releases of ``--toolchain 12.4..13.0``, which takes the place of HEAD."""
    base, dots, head = (options.toolchain or "").partition("..")
    if not dots:
        if options.head is None:
            raise KernelSourceError(
                "HEAD is missing; give it, or --toolchain BASE..HEAD to compare one source under "
                "two compilers"
            )
        return None
    if options.head is not None:
        raise KernelSourceError(
            f"--toolchain {options.toolchain} compares one source under two compilers: leave out "
            f"{options.head}"
        )
    from perfassert.frontends.toolchain.toolchains import check_installed

    check_installed(base, head)
    return base, head


def _compiled_sides(
    options: argparse.Namespace, pair: tuple[str, str], reading: Reading, stack: ExitStack
) -> tuple[Opened, Opened]:
    """Return both sides of one source, compiled by two releases."""
    if options.build is not None:
        raise KernelSourceError(
            f"--build and --toolchain {options.toolchain}: only sources can be compiled by both"
        )

    def compiled_by(release: str, known: CodeByFile | None) -> Opened:
        own = replace(
            reading,
            compilation={**reading.compilation, "toolchain": release},
            sources_first=True,
            undescribed=known,
        )
        opened = _open_side(options.base, None, own, stack)
        name = f"{options.base} (CUDA {release})"
        return replace(opened, side=replace(opened.side, name=name))

    base = compiled_by(pair[0], None)
    _check_kernels(base.side)
    return _describe_base(base, compiled_by(pair[1], base.side.code))


def _check_kernels(base: CodeSide) -> None:
    """Raise an error for a base that cannot be read: there is nothing to compare with."""
    if not base.kernels:
        raise KernelSourceError(base.why_empty)


def _compare_sides(
    options: argparse.Namespace,
    limits: ChangeLimits,
    opened: tuple[Opened, Opened],
    device: Device | None,
    commands: tuple[CommandPattern, ...],
) -> int:
    from perfassert.comparison.kernel_changes import diff
    from perfassert.comparison.sides import without_host_code
    from perfassert.comparison.status import Status
    from perfassert.comparison.weighing import BLOCKS

    base, head = without_host_code(opened[0].side, opened[1].side)
    now = {placed.file for placed in head.kernels}
    for file in sorted(now & base.broken.keys()):
        raise KernelSourceError(f"{file} of {base.name}: {base.broken[file]}")
    code_diff = diff(base, head, limits, options.block or BLOCKS, device)
    times = None
    if options.launches is not None:
        from perfassert.comparison.launched import compare_launches, judge_by_times

        files = _launches_files(options, opened)
        readings = (opened[0].reading, opened[1].reading)
        lead = int(options.launches_from == "head")
        with progress("launches"):
            times = compare_launches((base, head), files, code_diff, limits, readings, lead)
        code_diff = judge_by_times(code_diff, times)
    elif code_diff.of(Status.WORSE, Status.MIXED, Status.BETTER):
        from perfassert.comparison.proposed import judge_by_proposed

        old, new = ({id(p.info): p for p in side.kernels} for side in (base, head))
        readings = (opened[0].reading, opened[1].reading)
        with progress("times") as bar:
            code_diff = judge_by_proposed(code_diff, (old, new), readings, device, bar)
    slower = times is not None and times.fails(options.allow_gone)
    failed = slower or code_diff.fails(limits, options.allow_gone)
    affected = None
    roots = [opened[1].root, opened[0].root]
    if options.sarif is not None:
        from perfassert.comparison.sarif import results_of_diff
        from perfassert.report.files import replace_file
        from perfassert.report.sarif import sarif_text

        results = results_of_diff(code_diff, times, head.folder, roots)
        replace_file(Path(options.sarif), sarif_text(results))
    if options.affected is not None:
        from perfassert.comparison.affected import find_affected

        affected = find_affected(code_diff, times, roots, commands)
    _print(options, code_diff, times, affected, failed)
    return int(failed)


def _limits(options: argparse.Namespace) -> ChangeLimits:
    from perfassert.comparison.limits import parse

    with_launches = options.launches is not None
    usual = f"{_LIMITS}, {_TIME}" if with_launches else _LIMITS
    limits = parse(usual if options.fail_on is None else options.fail_on)
    return limits if with_launches else limits.without_launches()


def _launches_files(
    options: argparse.Namespace, opened: tuple[Opened, Opened]
) -> tuple[LaunchesFile, LaunchesFile]:
    """Read the launches file of each side: the side's own if it has one, else the given one."""
    name = options.launches
    paths = [Path(name), Path(name)]
    if not os.path.isabs(name):
        inside = [one.side.folder / name for one in opened]
        paths = [own if own.is_file() else Path(name) for own in inside]
    shared = os.path.realpath(paths[0]) == os.path.realpath(paths[1])
    base, head = (
        _read_launches(options, path, one.side, is_own=path != Path(name) and not shared)
        for path, one in zip(paths, opened, strict=True)
    )
    return base, head


def _read_launches(
    options: argparse.Namespace, path: Path, side: CodeSide, is_own: bool
) -> LaunchesFile:
    from perfassert.comparison.launch_pairs import Asked, LaunchesFile, source_of
    from perfassert.perf_toml.launches import launches

    entries = launches(path)
    if not options.device and (bare := [e for e in entries if not e.device]):
        raise LaunchError(f"{options.launches}: {bare[0].label} names no device; give --device")
    asked = []
    for entry in entries:
        recorded = source_of(entry.kernel)
        file = None if recorded is None else recorded.path
        place = without_folder(entry.place, side.folder)  # it may be a worktree of ours
        source = "" if file is None else Path(os.path.relpath(file, path.parent)).as_posix()
        if is_own and file is not None and not _is_within(file, side.folder):
            raise LaunchError(
                f"{place}: the launch {entry.label!r} in {side.name} is of {source}, which lies "
                f"outside of {side.name} and is not compared; name a source of {side.name}"
            )
        device = options.device or entry.device
        asked.append(
            Asked(entry.label, entry.name, entry.kernel, entry.launch, device, place, source)
        )
    return LaunchesFile(tuple(asked), is_own)


def _is_within(file: Path, folder: Path) -> bool:
    """Return True if a file lies in a folder, after links are resolved."""
    return file.resolve().is_relative_to(folder.resolve())


def _print(
    options: argparse.Namespace,
    code_diff: CodeDiff,
    times: LaunchComparison | None,
    affected: Affected | None,
    failed: bool,
) -> None:
    from perfassert.comparison import kernel_text
    from perfassert.comparison.github import report_to_github

    show: Any = kernel_text
    compared: tuple[Any, ...] = (code_diff,)
    if times is not None:
        from perfassert.comparison import launched_text

        show, compared = launched_text, (code_diff, times)
    wanted = options.markdown or options.github
    comment = show.markdown(*compared, failed, link=link_of(options)) if wanted else ""
    if affected is not None and comment:
        comment = f"{comment}\n\n{affected.markdown()}"
    if options.json:
        more = {} if affected is None else {"affected": affected.to_dict()}
        print(json.dumps(show.to_dict(*compared) | more))
    elif options.markdown:
        print(comment)
    else:
        say(show.text(*compared))
        if affected is not None:
            say(f"\n{affected.text()}")
    if options.github:
        stream = sys.stderr if options.json or options.markdown else sys.stdout
        report_to_github(show.warnings(*compared), comment, raw(stream))


@dataclass(frozen=True, slots=True)
class Opened:
    """A side of a comparison, the way its files are compiled, the root of its repository, and what
    was read."""

    side: CodeSide
    reading: Reading
    root: Path
    path: Path


def _sides(
    options: argparse.Namespace, reading: Reading, stack: ExitStack
) -> tuple[Opened, Opened]:
    from perfassert.comparison.sides import from_sources

    base = _open_side(options.base, options.build, replace(reading, undescribed=None), stack)
    _check_kernels(base.side)
    reading = replace(reading, sources_first=from_sources(base.side), undescribed=base.side.code)
    head = _open_side(options.head, options.build, reading, stack, known=base.side)
    return _describe_base(base, head)


def _describe_base(base: Opened, head: Opened) -> tuple[Opened, Opened]:
    """Return both sides, the base with what only it has described, as the head is."""
    from perfassert.comparison.sides import describe

    with progress(f"changes of {base.side.name}") as bar:
        read = describe(base.side, base.path, base.reading, head.side, bar)
        return replace(base, side=read), head


def _is_known(name: str) -> bool:
    """Return True if git is available and knows a revision of this name."""
    from perfassert.comparison.revisions import is_revision

    with suppress(KernelSourceError):
        return is_revision(name)
    return False


def _open_side(
    name: str, build: str | None, reading: Reading, stack: ExitStack, known: CodeSide | None = None
) -> Opened:
    """Open a side; if a head cannot be built, all files of ``known``, the base, are broken."""
    from perfassert.comparison.kernel_changes import CodeSide
    from perfassert.comparison.revisions import build as built
    from perfassert.comparison.revisions import checked_out, is_revision, repository_root
    from perfassert.comparison.sides import side

    if not name:
        raise KernelSourceError("a side without a name: give a file, a folder or a revision")
    is_path = os.path.exists(name)
    if is_path and build is None and _is_known(name):
        raise KernelSourceError(f"{name} is a path and a revision; write ./{name} or {name}^0")
    if (is_path and build is None) or not is_revision(name):
        with progress(f"files of {name}") as bar:
            read = side(Path(name), reading, progress=bar)
            return Opened(read, reading, repository_root(Path(name)), Path(name))
    with progress(f"checkout of {name}"):
        checkout = stack.enter_context(checked_out(name))
    own = replace(reading.inside(checkout), sources_first=build is None)
    why = ""
    if build is not None:
        with progress(f"build of {name}", alone=False):
            why = built(build, checkout, name)
    if not why:
        with progress(f"files of {name}") as bar:
            read = side(checkout.folder, own, name, bar)
            converted = replace(read, converted=checkout.converted)
            return Opened(converted, own, checkout.root, checkout.folder)
    if known is None:
        raise KernelSourceError(why)
    lost = dict.fromkeys((p.file for p in known.kernels), why)
    return Opened(CodeSide(name, checkout.folder, (), lost), own, checkout.root, checkout.folder)
