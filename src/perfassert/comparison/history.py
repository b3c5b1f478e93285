"""History of baselines, commit by commit, read from git: only files in ``__perf__/`` store it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perfassert.baseline.cause import explain
from perfassert.baseline.compare import foreign, other_model
from perfassert.baseline.components import components, same
from perfassert.baseline.entry import DEFAULT_NAME, RANKING, BaselineKey, Entry
from perfassert.baseline.files import FOLDER, alternative
from perfassert.baseline.text import parse_file
from perfassert.baseline.why import explain_rise
from perfassert.comparison.revisions import check_revision, git_bytes, git_text
from perfassert.errors import BaselineError
from perfassert.system.process_pool import Progress

_FORMAT = "--format=%x00%H%x00%aI%x00%an%x00%s%x00"  # no name or subject can have a NUL
_COMMIT = re.compile(r"\0([^\0]+)\0([^\0]*)\0([^\0]*)\0([^\0]*)\0([^\0]*)")
_CAUSES = 3  # components that are named


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit, with the files of baselines that it wrote or removed."""

    digest: str
    date: str
    author: str
    subject: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TimeStep:
    """Commit that changed a baseline's time.

    ``relative_change`` is None if ``reason`` says why the two are incomparable.
    ``cause`` is the largest difference in words.
    """

    commit: Commit
    before: float
    after: float
    relative_change: float | None
    cause: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class BaselineHistory:
    """States of one baseline, oldest first, each with its commit, and the steps of its time."""

    file: str
    key: BaselineKey
    states: tuple[tuple[Commit, Entry], ...]
    steps: tuple[TimeStep, ...]

    @property
    def times(self) -> tuple[tuple[Commit, float], ...]:
        """Commits at which the time changes, with the new time in seconds."""
        changes: list[tuple[Commit, float]] = []
        for commit, entry in self.states:
            time = float(entry.get("time", 0.0))
            if not changes or not same(changes[-1][1], time):
                changes.append((commit, time))
        return tuple(changes)

    @property
    def alternative(self) -> str:
        """Name of the alternative baselines that it belongs to, if any."""
        return alternative(Path(self.file))

    @property
    def name(self) -> str:
        """Test with the names that distinguish its baselines, without the device."""
        names = [self.key.name] if self.key.name != DEFAULT_NAME else []
        return ", ".join([self.key.test, *names, *filter(None, [self.alternative])])

    @property
    def loss(self) -> float:
        """Relative change of the time over all comparable steps: the product of steps, less 1."""
        # Steps of +10 % and -10 %: 1.1 · 0.9 - 1 = -1 %
        whole = 1.0
        for step in self.steps:
            whole *= 1 + (step.relative_change or 0.0)
        return whole - 1


@dataclass(frozen=True, slots=True)
class History:
    """History of all baselines, the greatest loss first.

    ``unreadable``: revisions of files that are no baselines. ``commits``: those that wrote
    baselines, oldest first.
    """

    commits: tuple[Commit, ...]
    lines: tuple[BaselineHistory, ...]
    unreadable: tuple[str, ...]


def history(path: Path, revisions: str = "HEAD", progress: Progress | None = None) -> History:
    """Return the history of the baselines below ``path``.

    ``revisions`` is a commit or a range as git names it. The first state of a range is that of the
    commit before it. ``progress`` is told the number of commits read, and of all commits.
    """
    commits, wanted = _commits(path, revisions)
    texts = _texts([(c.digest, f) for c in commits for f in c.files])
    reading = _Reading()
    for number, commit in enumerate(commits):
        if progress:
            progress(number, len(commits))
        for file in commit.files:
            reading.add(commit, file, texts[commit.digest, file], commit.digest in wanted)
    lines = [
        BaselineHistory(f, k, tuple(s), tuple(reading.steps[f, k]))
        for (f, k), s in reading.states.items()
    ]
    lines.sort(key=lambda line: (-line.loss, line.file, line.key))
    used = {commit.digest for line in lines for commit, _ in line.states}
    shown = tuple(c for c in commits if c.digest in wanted or c.digest in used)
    return History(shown, tuple(lines), tuple(reading.unreadable))


_Place = tuple[str, BaselineKey]


@dataclass(slots=True)
class _Reading:
    """Newest entry of each baseline, with the commit that wrote it, while commits are read.

    ``states`` has the baselines that a commit of the range wrote; the state before the range is
    first.
    """

    known: dict[str, dict[BaselineKey, Entry]] = field(default_factory=dict)
    newest: dict[_Place, tuple[Commit, Entry]] = field(default_factory=dict)
    states: dict[_Place, list[tuple[Commit, Entry]]] = field(default_factory=dict)
    steps: dict[_Place, list[TimeStep]] = field(default_factory=lambda: defaultdict(list))
    unreadable: list[str] = field(default_factory=list)

    def add(self, commit: Commit, file: str, text: bytes, in_range: bool) -> None:
        """Add the next state of a file; only states in the range are stored."""
        try:
            entries = parse_file(text, f"{commit.digest[:12]}:{file}")
        except BaselineError as error:
            self.unreadable += [str(error)] if in_range else []
            return
        before = self.known.get(file, {})
        for key, entry in entries.items():
            if RANKING not in entry and before.get(key) != entry:
                self._record_baseline(commit, (file, key), before.get(key), entry, in_range)
        self.known[file] = dict(entries)

    def _record_baseline(
        self, commit: Commit, place: _Place, old: Entry | None, entry: Entry, in_range: bool
    ) -> None:
        if in_range:
            first = [self.newest[place]] if old is not None else []
            self.states.setdefault(place, first).append((commit, entry))
            if old is not None and (step := _step(commit, place[1], old, entry)):
                self.steps[place].append(step)
        self.newest[place] = (commit, entry)


def _step(commit: Commit, key: BaselineKey, old: Entry, new: Entry) -> TimeStep | None:
    before, after = float(old.get("time", 0.0)), float(new.get("time", 0.0))
    if same(before, after) or not before:
        return None
    if reason := other_model(key, old, new) or foreign(key, old, new):
        return TimeStep(commit, before, after, None, "", reason)
    return TimeStep(commit, before, after, after / before - 1, cause_of(old, new))


def cause_of(old: Entry, new: Entry) -> str:
    """Return why a state is slower than the one before, or what a faster state no longer has.

    If neither is known, return the largest difference.
    """
    if reason := explain_rise(old, new):
        return reason
    if (gone := explain(new, old)) and gone.causes:
        return f"before: {' and '.join(cause.text for cause in gone.causes)}"
    differing = sorted(components(old, new), key=lambda c: -abs(c.relative_change or 0.0))
    return "; ".join(map(str, differing[:_CAUSES]))


def _commits(path: Path, revisions: str) -> tuple[list[Commit], Container[str]]:
    """Return commits that touch baselines, oldest first, and the digests of those in the range.

    Merges have no changes of their own. Commits before the range stand first: they show what the
    range changed.
    """
    below = "" if str(path) == "." else f"{path.as_posix()}/"
    wanted = path.as_posix() if path.suffix == ".toml" else f":(glob){below}**/{FOLDER}/**/*.toml"
    check_revision(revisions)
    ends = [end for end in git_text("rev-parse", "--revs-only", revisions).split() if end[0] != "^"]
    log = git_text("log", "--reverse", "--topo-order", "--no-renames", "--name-only", "--relative",
               _FORMAT, *(ends or [revisions]), "--", wanted)  # fmt: skip
    commits = [_commit(*parts) for parts in _COMMIT.findall(log)]
    meant = set(git_text("rev-list", revisions, "--").split())
    return sorted(commits, key=lambda commit: commit.digest in meant), meant


def _commit(digest: str, date: str, author: str, subject: str, files: str) -> Commit:
    return Commit(digest, date, author, subject, tuple(f for f in files.split("\n") if f))


def _texts(wanted: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], bytes]:
    """Return contents by commit and file, from one git process; empty for a removed file."""
    if not wanted:
        return {}
    asked = "".join(f"{digest}:./{file}\n" for digest, file in wanted).encode()
    return dict(zip(wanted, _answers(git_bytes("cat-file", "--batch", stdin=asked)), strict=True))


def _answers(output: bytes) -> Iterator[bytes]:
    """Yield contents from git's answers: ``<object> blob <bytes>``, content, newline.

    An answer ``… missing`` is an empty content.
    """
    at = 0
    while at < len(output):
        end = output.index(b"\n", at)
        head, at = output[at:end], end + 1
        if head.endswith(b" missing"):
            yield b""
            continue
        size = int(head.rpartition(b" ")[2])
        yield output[at : at + size]
        at += size + 1


def steps_of_test(history: History, test: str) -> list[tuple[BaselineHistory, TimeStep]]:
    """Return the steps of a test's baselines, the greatest loss first.

    Raises :class:`BaselineError` if no baseline has that name.
    """
    lines = [line for line in history.lines if test in (line.key.test, str(line.key))]
    if not lines:
        known = ", ".join(sorted({line.key.test for line in history.lines})) or "none"
        raise BaselineError(f"no baseline of {test!r} in these commits; there are: {known}")
    pairs = ((line, step) for line in lines for step in line.steps)
    steps = [(line, step) for line, step in pairs if step.relative_change is not None]
    return sorted(steps, key=lambda pair: -(pair[1].relative_change or 0.0))
