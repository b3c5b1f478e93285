"""``perfassert diff --with NAME==BASE..HEAD``: the same kernels by two versions of a package."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfassert.cli.compare import exit_status
from perfassert.cli.forms import link_of
from perfassert.cli.terminal import progress, raw, say
from perfassert.errors import KernelSourceError

if TYPE_CHECKING:
    from perfassert.comparison.compare import ReportComparison
    from perfassert.comparison.environments import VersionPair
    from perfassert.comparison.generated_sides import Generated
    from perfassert.comparison.kernel_changes import CodeDiff
    from perfassert.comparison.limits import ChangeLimits
    from perfassert.hardware.model import Device

_NOT_TAKEN = {
    "build": "--build", "objects": "--objects", "launches": "--launches", "affected": "--affected",
    "sarif": "--sarif", "define": "--define", "include_dir": "--include-dir", "option": "--option",
    "toolchain": "--toolchain",
}  # fmt: skip


def diff_versions(options: argparse.Namespace, limits: ChangeLimits) -> int:
    """Compare, print, and return the exit code.

    Raises:
        KernelSourceError: malformed versions, a path that is not there, or nothing to compare.
    """
    from perfassert.comparison.environments import version_pair
    from perfassert.hardware.load import device as load_device
    from perfassert.system.temporary import temporary_folder

    pair = version_pair(options.versions)
    for key, name in _NOT_TAKEN.items():
        if getattr(options, key):
            raise KernelSourceError(f"{name} is for files and revisions; leave it out with --with")
    paths = [path for path in (options.base, options.head, *options.more) if path is not None]
    for path in paths:
        if not os.path.exists(path.partition("::")[0]):
            raise KernelSourceError(f"{path}: there is no such test or module")
    device = load_device(options.device) if options.device else None
    with temporary_folder() as folder:
        generated = [
            _generate(pair.name, version, paths, folder / f"side{number}", options, device)
            for number, version in enumerate((pair.base, pair.head))
        ]
        code_diff = _compare_code(pair, generated, options, limits, device)
        comparison = _compare_reports(generated)
    failed = code_diff is not None and code_diff.fails(limits, options.allow_gone)
    status, reason = exit_status(comparison, options.allow_gone) if comparison else (0, "")
    status = int(failed) or status
    _print(options, pair, code_diff, comparison, failed=status != 0)
    if reason:
        print(f"perfassert: {reason}", file=sys.stderr)
    return status


def _generate(
    name: str,
    version: str,
    paths: list[str],
    folder: Path,
    options: argparse.Namespace,
    device: Device | None,
) -> Generated:
    from perfassert.comparison.environments import make_environment
    from perfassert.comparison.generated_sides import generate

    folder.mkdir()
    with progress(f"environment of {name} {version}"):
        python = make_environment(name, version)
    arch = options.arch or (device.arch if device else None)
    with progress(f"kernels with {name} {version}"):
        return generate(python, paths, folder, arch, options.device)


def _compare_code(
    pair: VersionPair,
    generated: list[Generated],
    options: argparse.Namespace,
    limits: ChangeLimits,
    device: Device | None,
) -> CodeDiff | None:
    from perfassert.comparison.kernel_changes import diff
    from perfassert.comparison.sides import Reading, sides
    from perfassert.comparison.weighing import BLOCKS

    reading = Reading(arch=options.arch)
    base, head = (one.code for one in generated)
    if base is None or head is None:
        return None
    names = (f"{pair.name} {pair.base}", f"{pair.name} {pair.head}")
    old, new = sides((base, head), reading, names)
    return diff(old, new, limits, options.block or BLOCKS, device)


def _compare_reports(generated: list[Generated]) -> ReportComparison | None:
    from perfassert.comparison.compare import compare
    from perfassert.comparison.read import read

    base, head = (one.report for one in generated)
    if base is None or head is None:
        return None
    reports = read(base), read(head)
    comparison = compare(*reports)
    if not comparison.items:
        failed = [f"{test}: {why}" for one in reports for test, why in one.broken.items()]
        raise KernelSourceError(
            next(iter(failed), "no test predicts anything: use the fixture perf")
        )
    return comparison


def _print(
    options: argparse.Namespace,
    pair: VersionPair,
    code_diff: CodeDiff | None,
    comparison: ReportComparison | None,
    failed: bool,
) -> None:
    from perfassert.comparison import kernel_text, text
    from perfassert.comparison.github import report_to_github

    shown: list[tuple[Any, Any]] = []
    shown += [(kernel_text, code_diff)] if code_diff else []
    shown += [(text, comparison)] if comparison else []
    link = link_of(options)
    comment = "\n\n".join(show.markdown(value, failed, link=link) for show, value in shown)
    if options.json:
        versions = {"name": pair.name, "base": pair.base, "head": pair.head}
        print(json.dumps({"versions": versions, **dict(_to_dicts(shown))}))
    elif options.markdown:
        print(comment)
    else:
        say(f"{pair.name} {pair.base} → {pair.head}")
        for show, value in shown:
            say("")
            say(show.text(value))
    if options.github:
        stream = sys.stderr if options.json or options.markdown else sys.stdout
        warnings = [line for show, value in shown for line in show.warnings(value)]
        report_to_github(warnings, comment, raw(stream))


def _to_dicts(shown: list[tuple[Any, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield the changes as plain data: ``code`` of modules, ``predictions`` of tests."""
    from perfassert.comparison import text

    for show, value in shown:
        yield "predictions" if show is text else "code", show.to_dict(value)
