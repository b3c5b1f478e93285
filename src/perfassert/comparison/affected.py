"""Launches, tests and commands that a change can affect; a file maps commands to sources.

A kernel affects nothing if both sides have the same machine code and the same predictions of its
launches. Tests of the other kernels are found by the kernels' names in the repository's baselines.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfassert.baseline import files
from perfassert.comparison.kernel_changes import CodeDiff, KernelDiff
from perfassert.comparison.revisions import relative_to_roots
from perfassert.comparison.status import Status
from perfassert.frontends.toolchain.names import fits
from perfassert.report.markdown_parts import code, words

if TYPE_CHECKING:  # a comparison without launches predicts nothing
    from perfassert.comparison.launched import LaunchComparison

_LISTED = 40  # of one kind, in text


@dataclass(frozen=True, slots=True)
class CommandPattern:
    """Command to run if a kernel's name or file, as ``of`` says, matches ``pattern``."""

    of: str
    pattern: str
    command: str


@dataclass(frozen=True, slots=True)
class Affected:
    """Affected items, sorted by name; the commands are only listed and not run.

    The items are kernels with their files, labels of launches, tests, and files of baselines.
    """

    kernels: tuple[tuple[str, str], ...]
    launches: tuple[str, ...]
    tests: tuple[str, ...]
    baselines: tuple[str, ...]
    commands: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that JSON can hold."""
        return {
            "kernels": [{"name": name, "file": file} for name, file in self.kernels],
            **{kind: list(getattr(self, kind)) for kind in _KINDS},
        }

    def text(self) -> str:
        """Return the text that the command prints below the comparison."""
        if not self.kernels and not self.launches:
            return "affected: nothing; code and volumes are the same"
        kinds: Mapping[str, Sequence[str]] = {
            "kernels": [f"{name} in {file}" for name, file in self.kernels],
            **{kind: getattr(self, kind) for kind in _KINDS},
        }
        counts = ", ".join(
            f"{len(names)} {kind if len(names) > 1 else _ONE[kind]}"
            for kind, names in kinds.items()
            if names
        )
        lines = [f"affected: {counts}"]
        for kind, names in kinds.items():
            lines += [f"  {kind}:"] if names else []
            lines += [f"    {name}" for name in names[:_LISTED]]
            if len(names) > _LISTED:
                lines.append(f"    … and {len(names) - _LISTED} more; --json has all")
        return "\n".join(lines)

    def markdown(self) -> str:
        """Return the affected tests and commands as part of a comment on a pull request."""
        rows = [f"- {code(name)}" for name in (*self.tests, *self.commands)[:_LISTED]]
        return "\n".join((words(self.text().partition("\n")[0]), "", *rows)).rstrip()


_KINDS = ("launches", "tests", "baselines", "commands")
_ONE = {
    "kernels": "kernel", "launches": "launch", "tests": "test", "baselines": "file of baselines",
    "commands": "command",
}  # fmt: skip


def find_affected(
    code_diff: CodeDiff,
    times: LaunchComparison | None,
    roots: Sequence[Path],
    commands: Sequence[CommandPattern],
) -> Affected:
    """Return what a change affects.

    ``roots`` are the repository in the head, then in the base. Files are relative to them, and
    baselines are read from the first.
    """
    moved = _moved_launches(times)
    kernels = [k for k in code_diff.kernels if not k.has_same_code or _is_launched(k, moved, times)]
    places = [(k, relative_to_roots(k.path, roots)) for k in kernels]
    names = [i.mangled for k in kernels for i in (k.pair.base, k.pair.head) if i is not None]
    tests: set[str] = set()
    baselines: set[str] = set()
    for file, test in _tests_of(names, roots[0]) if names else ():
        tests.add(test)
        baselines.add(file)
    wanted = [
        c.command for c in commands if any(_matches_pattern(c, k, file) for k, file in places)
    ]
    return Affected(
        tuple(sorted((k.name, file) for k, file in places)),
        tuple(sorted(moved)),
        tuple(sorted(tests)),
        tuple(sorted(baselines)),
        tuple(dict.fromkeys(wanted)),
    )


def _moved_launches(times: LaunchComparison | None) -> set[str]:
    """Return launches whose predictions differ in anything that is compared."""
    items = times.comparison.items if times is not None else ()
    return {i.key.test for i in items if i.status is not Status.SAME or i.components or i.metrics}


def _is_launched(kernel: KernelDiff, moved: set[str], times: LaunchComparison | None) -> bool:
    launched = [i for label in moved for i in (times.kernels.get(label, ()) if times else ())]
    return any(i is side for i in launched for side in (kernel.pair.base, kernel.pair.head))


def _tests_of(names: Sequence[str], root: Path) -> Iterator[tuple[str, str]]:
    """Yield files of baselines, with the tests that predict one of the kernels."""
    for path in _baseline_files(root):
        module = files.module_of(path)
        suffix = ".toml" if module.suffix == ".perf" else ".py"
        shown = relative_to_roots(module.with_name(module.name + suffix), [root])
        for key, entry in files.read(path).items():
            if fits(str(entry.get("kernel", "")), names):
                yield relative_to_roots(path, [root]), f"{shown}::{key.test}"


def _baseline_files(root: Path) -> Iterator[Path]:
    for folder, folders, _ in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        if files.FOLDER in Path(folder).relative_to(root).parts:
            yield from Path(folder).glob("*.toml")


def _matches_pattern(command: CommandPattern, kernel: KernelDiff, file: str) -> bool:
    if command.of == "files":
        return fnmatchcase(file, command.pattern)
    infos = (kernel.pair.base, kernel.pair.head)
    return any(
        fnmatchcase(name, command.pattern) for i in infos if i for name in (i.name, i.mangled)
    )
