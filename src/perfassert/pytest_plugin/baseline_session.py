"""The end of a run with baselines: unused ones are found, files are written."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from perfassert.baseline.entry import BaselineKey, Entry
from perfassert.baseline.files import (
    FOLDER,
    Update,
    file_of,
    folder_of,
    module_of,
    orphans,
    read,
    write,
)
from perfassert.errors import BaselineError
from perfassert.hardware.load import device as load_device
from perfassert.pytest_plugin.baseline_options import Mode, canonical_module_path

WRITTEN = ("new", "changed")
"""What a record is called that an update writes."""


@dataclass(frozen=True, slots=True)
class RunState:
    """Messages of a run's tests.

    ``records``: comparisons, as plain data; ``outcomes``: how each test ended, by node ID;
    ``whole``: modules of which every test was run and none failed, by node ID; ``collected``: all
    modules with tests, None if that does not count; ``never_run``: tests that were collected, not
    deselected and not run: node ID → module.
    """

    config: pytest.Config
    mode: Mode
    records: tuple[Mapping[str, Any], ...]
    outcomes: Mapping[str, str]
    whole: Mapping[str, Path]
    collected: frozenset[str] | None = None
    never_run: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Record:
    """A comparison of a test with a baseline.

    Attributes:
        moved: differences, as text.
        guessed: True if the prediction is a guess.
        model: version of the model that made the baseline, if it is another one.
        launched: change in the way the source launches the kernel, if there is one.
        older: key under which an older version of perfassert kept the baseline.
    """

    file: Path
    key: BaselineKey
    status: str
    moved: str
    old: Entry | None = None
    new: Entry | None = None
    label: str = ""
    guessed: bool = False
    model: str = ""
    launched: str = ""
    older: BaselineKey | None = None

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Record:
        """Read a record from the plain data of a test; ``beside`` is for the reports alone."""
        own = {name: value for name, value in data.items() if name != "beside"}
        older = data.get("older")
        own |= {"file": Path(data["file"]), "key": BaselineKey(*data["key"])}
        return cls(**{**own, "older": BaselineKey(*older) if older else None})


@dataclass(frozen=True, slots=True)
class Unused:
    """A baseline that no test asked for; ``why``: what became of its module or test, where that is
    known; ``waits``: for a test that may come back, so that it is not dropped."""

    file: Path
    key: BaselineKey
    why: str = ""
    waits: bool = False


@dataclass
class Result:
    """Outcome of a run with baselines, for the terminal."""

    mode: Mode
    records: tuple[Record, ...]
    unused: tuple[Unused, ...]
    command: str
    folder: Path
    written: list[Path] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def fails(self) -> bool:
        """True if the run fails although its tests passed."""
        pruned = self.mode.prune and self.mode.writes
        kept = [u for u in self.unused if u.waits or not pruned]
        return bool(self.problems or (self.mode.strict and kept))


def finish(run_state: RunState) -> Result:
    """Find what is unused; write if that was asked for."""
    latest = {(r.file, r.key): r for r in map(Record.read, run_state.records)}
    records = tuple(latest[at] for at in sorted(latest))
    problems: list[str] = []
    unused = tuple(_find_unused(run_state, records, problems))
    config = run_state.config
    given = config.args if config.args_source is config.ArgsSource.ARGS else []
    devices = [
        word for d in config.getoption("--perf-device") or () for word in ("--perf-device", d)
    ]
    command = shlex.join([*run_state.mode.words, *devices, *given])
    result = Result(
        run_state.mode, records, unused, command, config.invocation_params.dir, problems=problems
    )
    if run_state.mode.writes:
        _write(result)
    return result


def _find_unused(
    run_state: RunState, records: tuple[Record, ...], problems: list[str]
) -> Iterator[Unused]:
    """Baselines of modules that passed whole which no test asked for.

    Those of tests that were skipped, or of devices that the command line left out, may be needed.
    """
    asked = {(r.file, key) for r in records for key in (r.key, r.older) if key}
    chosen = run_state.config.getoption("--perf-device")
    ran = {r.key.device for r in records} | {load_device(d).name for d in chosen or ()}
    for module, path in run_state.whole.items():
        skipped = _skipped_functions(run_state.outcomes, module)
        file = file_of(path, run_state.mode.name)
        for key in _keys(file, problems):
            left_out = chosen and key.device not in ran
            waits = _function(key.test) in skipped
            if not left_out and (file, key) not in asked and (run_state.mode.strict or not waits):
                yield Unused(file, key, "its test was skipped" if waits else "", waits)
    for path, tests in _by_module(run_state.never_run).items():
        file = file_of(path, run_state.mode.name)
        for key in _keys(file, problems):
            left_out = chosen and key.device not in ran
            if _function(key.test) in tests and not left_out and (file, key) not in asked:
                yield Unused(file, key, "its test was collected and not run", True)
    below = [folder for folders in _baseline_folders(run_state).values() for folder in folders]
    beside = {folder_of(path, run_state.mode.name) for path in run_state.whole.values()}
    gone = [file for folder in sorted(beside.union(below)) for file in orphans(folder)]
    for file in gone:
        yield from (Unused(file, key, "its module is gone") for key in _keys(file, problems))
    for file in sorted(_silent(run_state).difference(gone)):
        why = "its module had no test in this run"
        yield from (Unused(file, key, why, True) for key in _keys(file, problems))


def _baseline_folders(run_state: RunState) -> dict[Path, list[Path]]:
    """Return the folders of baselines below each argument of a strict run.

    They include folders whose modules are all gone.
    """
    if not run_state.mode.strict or run_state.config.getoption("lf", False):
        return {}
    name, places = run_state.mode.name, _argument_paths(run_state)
    return {
        place: [f / name for f in place.rglob(FOLDER) if (f / name).is_dir()]
        for place in places
        if place.is_dir()
    }


def _argument_paths(run_state: RunState) -> list[Path]:
    return [run_state.config.invocation_params.dir / arg for arg in run_state.config.args]


def _silent(run_state: RunState) -> set[Path]:
    """Files of baselines whose module was not collected, or had no test: it skips itself, is empty,
    or the ini file, a conftest or an option leaves it out. Folders that pytest never enters aside.
    """
    if run_state.collected is None:
        return set()
    never, name = run_state.config.getini("norecursedirs"), run_state.mode.name
    files = {file_of(place, name) for place in _argument_paths(run_state) if place.is_file()}
    for place, folders in _baseline_folders(run_state).items():
        for folder in folders:
            parts = folder.relative_to(place).parts
            if not any(fnmatch(part, pattern) for part in parts for pattern in never):
                files.update(folder.glob("*.toml"))
    return {f for f in files if canonical_module_path(module_of(f)) not in run_state.collected}


def _keys(file: Path, problems: list[str]) -> list[BaselineKey]:
    try:
        return sorted(read(file))
    except BaselineError as error:
        problems.append(str(error))
        return []


def _skipped_functions(outcomes: Mapping[str, str], module: str) -> set[str]:
    return {
        _function(nodeid.partition("::")[2])
        for nodeid, outcome in outcomes.items()
        if outcome == "skipped" and nodeid.startswith(f"{module}::")
    }


def _by_module(tests: Mapping[str, Path]) -> dict[Path, set[str]]:
    """Functions of each module."""
    result: dict[Path, set[str]] = {}
    for nodeid, path in tests.items():
        result.setdefault(path, set()).add(_function(nodeid.partition("::")[2]))
    return result


def _function(test: str) -> str:
    """Return the test's name without parameters and without the group that xdist appends."""
    return test.partition("[")[0].partition("@")[0]


def _write(result: Result) -> None:
    mode = result.mode
    wanted: dict[Path, dict[BaselineKey, Entry]] = {}
    dropped: dict[Path, set[BaselineKey]] = {}
    for record in result.records:
        if record.status in WRITTEN and record.new is not None:
            wanted.setdefault(record.file, {})[record.key] = record.new
            if record.older is not None:
                dropped.setdefault(record.file, set()).add(record.older)
    if mode.prune:
        for unused in (u for u in result.unused if not u.waits):
            dropped.setdefault(unused.file, set()).add(unused.key)
    for file in sorted({*wanted, *dropped}):
        try:
            write(file, Update(wanted.get(file, {}), frozenset(dropped.get(file, ()))))
        except BaselineError as error:
            result.problems.append(str(error))
        else:
            result.written.append(file)
