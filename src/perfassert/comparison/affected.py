"""Launches, tests and commands that a change of kernels can affect.

A kernel is unaffected if its machine code and the predictions of its launches are the same on both
sides. Tests of affected kernels are found by the names of kernels in the repository's baselines. A
file of the user says which commands to run for which kernels or source files.
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

_LISTED = 40  # items of one kind that the text lists


@dataclass(frozen=True, slots=True)
class CommandPattern:
    """Command to run if an affected kernel matches ``pattern``.

    ``of`` is ``"files"`` if the pattern is for the kernel's file, else it is for the kernel's name.
    """

    of: str
    pattern: str
    command: str


@dataclass(frozen=True, slots=True)
class Affected:
    """Affected items, sorted by name; the commands are listed and not run.

    ``kernels`` are pairs of name and file, ``launches`` are labels, ``tests`` are node IDs, and
    ``baselines`` are files.
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
    """Return the kernels, launches, tests and commands that a change affects.

    ``roots`` are two checkouts of the repository: the head, then the base. Files are reported
    relative to them. Baselines are read from the head.
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
    """Return the labels of launches whose predictions differ in any compared value."""
    items = times.comparison.items if times is not None else ()
    return {i.key.test for i in items if i.status is not Status.SAME or i.components or i.metrics}


def _is_launched(kernel: KernelDiff, moved: set[str], times: LaunchComparison | None) -> bool:
    launched = [i for label in moved for i in (times.kernels.get(label, ()) if times else ())]
    return any(i is side for i in launched for side in (kernel.pair.base, kernel.pair.head))


def _tests_of(names: Sequence[str], root: Path) -> Iterator[tuple[str, str]]:
    """Yield pairs of a baseline file and a test in it that predicts one of the kernels."""
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
