"""What baselines were, commit by commit: nothing is stored but the files in ``__perf__/``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perfassert.baseline.compare import foreign
from perfassert.baseline.components import components, same
from perfassert.baseline.entry import DEFAULT_NAME, Entry, Key
from perfassert.baseline.files import FOLDER, alternative
from perfassert.baseline.text import parse_file
from perfassert.comparison.revisions import said
from perfassert.errors import BaselineError
from perfassert.process_pool import Progress

_MARK = "\x1e"  # before each commit of the log
_FORMAT = f"--format={_MARK}%H%x1f%aI%x1f%an%x1f%s"
_CAUSES = 3  # components that are named


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit, with the files of baselines that it wrote or removed."""

    digest: str
    date: str
    author: str
    subject: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """A commit that moved a baseline's time; ``share``: of the time before, None where ``reason``
    says that the two cannot be compared. ``cause``: what differs most, in words."""

    commit: Commit
    before: float
    after: float
    share: float | None
    cause: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One baseline over the commits: its states, oldest first, each with the commit that wrote it,
    and the steps of its time between them."""

    file: str
    key: Key
    states: tuple[tuple[Commit, Entry], ...]
    steps: tuple[Step, ...]

    @property
    def times(self) -> tuple[tuple[Commit, float], ...]:
        """Where it changes."""
        told: list[tuple[Commit, float]] = []
        for commit, entry in self.states:
            time = float(entry.get("time", 0.0))
            if not told or not same(told[-1][1], time):
                told.append((commit, time))
        return tuple(told)

    @property
    def alternative(self) -> str:
        """The name of the alternative baselines that it is one of, if any."""
        return alternative(Path(self.file))

    @property
    def name(self) -> str:
        """The test with what tells its baselines apart, but for the device."""
        names = [self.key.name] if self.key.name != DEFAULT_NAME else []
        return ", ".join([self.key.test, *names, *filter(None, [self.alternative])])

    @property
    def loss(self) -> float:
        """The product of all steps that can be compared, less 1."""
        whole = 1.0
        for step in self.steps:
            whole *= 1 + (step.share or 0.0)
        return whole - 1


@dataclass(frozen=True, slots=True)
class History:
    """Every baseline, the greatest loss first; ``unreadable``: revisions of files that are none.
    ``commits``: those that wrote baselines, oldest first."""

    commits: tuple[Commit, ...]
    lines: tuple[Line, ...]
    unreadable: tuple[str, ...]


def history(path: Path, revisions: str = "HEAD", progress: Progress | None = None) -> History:
    """Of the baselines below ``path``; ``revisions``: as git names a commit or a range.

    ``progress`` is told how many commits are read, of how many. The first state of a range is that
    of the commit before it.
    """
    commits = _commits(path, revisions)
    texts = _texts([(c.digest, f) for c in commits for f in c.files])
    known: dict[str, dict[Key, Entry]] = {}
    states: dict[tuple[str, Key], list[tuple[Commit, Entry]]] = defaultdict(list)
    steps: dict[tuple[str, Key], list[Step]] = defaultdict(list)
    unreadable = []
    for number, commit in enumerate(commits):
        if progress:
            progress(number, len(commits))
        for file in commit.files:
            place = f"{commit.digest[:12]}:{file}"
            try:
                entries = parse_file(texts[commit.digest, file].encode(), place)
            except BaselineError as error:
                unreadable.append(str(error))
                continue
            for key, entry in entries.items():
                old = known.get(file, {}).get(key)
                if old is not None and (step := _step(commit, key, old, entry)):
                    steps[file, key].append(step)
                if old != entry:
                    states[file, key].append((commit, entry))
            known[file] = dict(entries)
    lines = [Line(f, k, tuple(s), tuple(steps[f, k])) for (f, k), s in states.items()]
    lines.sort(key=lambda line: (-line.loss, line.file, line.key))
    return History(tuple(commits), tuple(lines), tuple(unreadable))


def _step(commit: Commit, key: Key, old: Entry, new: Entry) -> Step | None:
    before, after = float(old.get("time", 0.0)), float(new.get("time", 0.0))
    if same(before, after) or not before:
        return None
    if reason := foreign(key, old, new):
        return Step(commit, before, after, None, "", reason)
    return Step(commit, before, after, after / before - 1, cause_of(old, new))


def cause_of(old: Entry, new: Entry) -> str:
    """What differs most between two states, in words."""
    told = sorted(components(old, new), key=lambda c: -abs(c.share or 0.0))
    return "; ".join(map(str, told[:_CAUSES]))


def _commits(path: Path, revisions: str) -> list[Commit]:
    """Oldest first, those that touch baselines; merges say nothing of their own."""
    below = "" if str(path) == "." else f"{path.as_posix()}/"
    wanted = path.as_posix() if path.suffix == ".toml" else f":(glob){below}**/{FOLDER}/**/*.toml"
    log = said("log", "--reverse", "--topo-order", "--no-renames", "--name-only", "--relative",
               _FORMAT, revisions, "--", wanted)  # fmt: skip
    return [_commit(part) for part in log.split(_MARK)[1:]]


def _commit(text: str) -> Commit:
    head, *files = text.strip("\n").split("\n")
    digest, date, author, subject = head.split("\x1f", 3)
    return Commit(digest, date, author, subject, tuple(f for f in files if f))


def _texts(wanted: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], str]:
    """By commit and file; empty for a file that the commit removed. One process for all."""
    if not wanted:
        return {}
    asked = "".join(f"{digest}:./{file}\n" for digest, file in wanted)
    return dict(zip(wanted, _answers(said("cat-file", "--batch", stdin=asked)), strict=True))


def _answers(text: str) -> Iterator[str]:
    """``<object> blob <bytes>``, the content, a newline; or ``… missing``."""
    rest = text.encode()
    while rest:
        head, _, rest = rest.partition(b"\n")
        if head.endswith(b" missing"):
            yield ""
            continue
        size = int(head.rpartition(b" ")[2])
        yield rest[:size].decode()
        rest = rest[size + 1 :]


def moved(found: History, test: str) -> list[tuple[Line, Step]]:
    """The steps of the baselines of a test, the greatest loss first.

    :class:`BaselineError` where no baseline is called so.
    """
    lines = [line for line in found.lines if test in (line.key.test, str(line.key))]
    if not lines:
        known = ", ".join(sorted({line.key.test for line in found.lines})) or "none"
        raise BaselineError(f"no baseline of {test!r} in these commits; there are: {known}")
    steps = [(line, step) for line in lines for step in line.steps if step.share is not None]
    return sorted(steps, key=lambda pair: -(pair[1].share or 0.0))
