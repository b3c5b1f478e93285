"""Revisions of a git repository as folders: checked out, built, and removed again."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from perfassert.errors import KernelSourceError
from perfassert.system.confined import is_source
from perfassert.system.temporary import (
    is_abandoned,
    is_temporary,
    lock_folder,
    remove_abandoned,
    temporary_folder,
    unlock_folder,
)

_OWN = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")  # of a hook that calls us
_SETTINGS = (
    "-c", "core.quotepath=off",
    # Programs that git starts may lie in the repository, and so come from whoever changed it.
    "-c", f"core.hooksPath={os.devnull}", "-c", "core.fsmonitor=false", "-c", "core.pager=cat",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Checkout:
    """Checkout of a revision.

    ``folder`` corresponds to the folder that the command was started in. ``root`` is the checkout's
    top, ``of`` the repository's. ``converted``: sources below ``root`` whose text differs from the
    commit's.
    """

    folder: Path
    root: Path
    of: Path
    converted: tuple[str, ...]

    def inside(self, path: Path) -> Path:
        """Return the same place in this revision; a path outside of the repository stays."""
        whole = path.resolve()
        return self.root / whole.relative_to(self.of) if whole.is_relative_to(self.of) else path


def check_revision(name: str) -> None:
    """Raise :class:`KernelSourceError` for a name that git would take for an option."""
    if name.startswith("-"):
        raise KernelSourceError(f"{name!r} is no revision: it begins with '-'")


def is_revision(name: str) -> bool:
    """Return True if the repository here has a commit of that name."""
    words = ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"]
    repository = _find_repository(Path.cwd())
    return repository is not None and _git(words, repository).returncode == 0


@contextmanager
def checked_out(revision: str) -> Iterator[Checkout]:
    """Yield a worktree in a temporary folder, which is removed at the end in any case.

    Raises :class:`KernelSourceError` if it cannot be made.
    """
    here = Path.cwd()
    repository = _repository(here)
    of = repository.root.resolve()
    if not here.resolve().is_relative_to(of):
        raise KernelSourceError(f"{here} is not among the files of its git repository, {of}")
    below = here.resolve().relative_to(of)
    commit = git_text("rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}").strip()
    _forget_abandoned(repository)
    key = hashlib.sha256(f"{of} {commit}".encode()).hexdigest()[:16]
    # The same folder for the same commit: paths count for what compilers said, which is then found
    # again.
    with temporary_folder(key) as place:
        root = place.resolve() / "tree"
        git_text("worktree", "add", "--detach", "--quiet", str(root), commit)
        lock = lock_folder(_registration(root))
        try:
            converted = tuple(_converted_sources(root))
            yield Checkout(root / below, root, of, converted)
        finally:
            _git(["worktree", "remove", "--force", str(root)], repository)
            unlock_folder(lock)


def _registration(root: Path) -> Path:
    """Return the folder in which the repository keeps its data of a worktree."""
    return _path_in(root / ".git")


def _converted_sources(root: Path) -> Iterator[str]:
    """Yield sources that ``.gitattributes`` or a filter change on checkout, line ends aside."""
    own = _Repository(root, root / ".git")
    for entry in _output(["ls-files", "--stage", "-z"], own).split(b"\0"):
        head, _, name = entry.partition(b"\t")
        path = root / os.fsdecode(name)
        if not (head.startswith(b"100") and is_source(path)) or not path.is_file():
            continue
        stored, content = head.split()[1].decode(), path.read_bytes()
        texts = (content, content.replace(b"\r\n", b"\n"))
        if stored not in (_object_id(text, len(stored)) for text in texts):
            yield os.fsdecode(name)


def _object_id(content: bytes, digits: int) -> str:
    """Return the name of a content in git's storage; ``digits`` selects the hash."""
    digest = hashlib.new("sha1" if digits == 40 else "sha256", usedforsecurity=False)
    digest.update(b"blob %d\0" % len(content) + content)
    return digest.hexdigest()


def _path_in(file: Path) -> Path:
    """Return the path that one of git's files holds."""
    return Path(os.fsdecode(file.read_bytes()).removeprefix("gitdir: ").strip())


def _forget_abandoned(repository: _Repository) -> None:
    """Remove the registrations of worktrees that killed processes left, but none of the user's.

    Their folders are gone then, or invisible: the repository may be shared with another container,
    so that a lock decides.
    """
    remove_abandoned()
    common = Path(git_text("rev-parse", "--git-common-dir").strip())
    for written in common.glob("worktrees/*/gitdir"):
        root = (written.parent / _path_in(written)).parent
        gone = is_temporary(root.parent) and not root.parent.exists()
        if gone and is_abandoned(written.parent):
            _git(["worktree", "remove", "--force", str(root)], repository)


def build(command: str, checkout: Checkout, name: str) -> str:
    """Run the user's build command in a shell; return why it failed, or nothing.

    The output is shown. If the command runs perfassert, that has a separate cache, because the
    command builds code of others.
    """
    print(f"perfassert: building {name}: {command}", file=sys.stderr, flush=True)
    folder = checkout.folder
    if not folder.is_dir():
        return f"{name} has no folder {folder.relative_to(checkout.root)}"
    with temporary_folder() as cache:
        environment = {**_environment(), "PERFASSERT_CACHE_DIR": str(cache)}
        done = subprocess.run(
            command, shell=True, cwd=folder, env=environment, stdout=sys.stderr.fileno(),
            check=False,
        )  # fmt: skip
    return f"the build of {name} failed with code {done.returncode}" if done.returncode else ""


def git_text(*words: str) -> str:
    """Return git's output as text; raises :class:`KernelSourceError` if git fails."""
    return git_bytes(*words).decode("utf-8", "replace")


def git_bytes(*words: str, stdin: bytes = b"") -> bytes:
    """Return git's output as bytes, for files that may hold anything; else as :func:`git_text`."""
    return _output([*words], _repository(Path.cwd()), stdin)


@dataclass(frozen=True, slots=True)
class _Repository:
    """Folder of the files, and what git keeps of them: a folder, or a file that names it."""

    root: Path
    git: Path


def _repository(folder: Path) -> _Repository:
    """Return the repository around a folder; :class:`KernelSourceError` without one."""
    repository = _find_repository(folder)
    if repository is None:
        raise KernelSourceError(f"{folder} is in no git repository; run it in one")
    return repository


@lru_cache(maxsize=8)
def _find_repository(folder: Path) -> _Repository | None:
    """Return the repository around a folder, found by its ``.git``, which no commit can hold.

    Git itself would also accept a folder with the files of a bare repository, which a commit can
    hold, with settings that name programs. Git is therefore told where to look, and checks the
    owner of the folder itself.
    """
    for root in (folder, *folder.parents):
        if not os.path.lexists(root / ".git"):
            continue
        asked = ["-C", str(root), "rev-parse"]
        git = _output([*asked, "--absolute-git-dir"], None)
        top = _output([*asked, "--show-toplevel"], None)
        if git != os.fsencode(root) + b"\n":
            return _Repository(Path(os.fsdecode(top[:-1])), Path(os.fsdecode(git[:-1])))
    return None


def _output(words: list[str], repository: _Repository | None, stdin: bytes = b"") -> bytes:
    process = _git(words, repository, stdin)
    if process.returncode:
        why = process.stderr.decode("utf-8", "replace").strip()
        raise KernelSourceError(f"git {words[0]}: {why or 'failed'}")
    return process.stdout


def _git(
    words: list[str], repository: _Repository | None, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    place = []
    if repository is not None:
        place = [f"--git-dir={repository.git}", f"--work-tree={repository.root}"]
    try:
        return subprocess.run(
            ["git", *_SETTINGS, *place, *words],
            capture_output=True,
            check=False,
            env=_environment(),
            input=stdin,
        )
    except OSError as error:
        raise KernelSourceError(f"git cannot be run: {error.strerror}") from None


def _environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key not in _OWN}


def repository_root(path: Path) -> Path:
    """Return the repository around a file or folder.

    If there is none, return the working directory, or the folder itself if it lies elsewhere.
    """
    whole = path.resolve()
    folder = whole if whole.is_dir() else whole.parent
    for above in (folder, *folder.parents):
        if os.path.exists(above / ".git"):
            return above
    here = Path.cwd().resolve()
    return here if folder.is_relative_to(here) else folder


def relative_to_roots(path: Path, roots: Sequence[Path]) -> str:
    """Return a path relative to the first root that contains it, else the path itself."""
    whole = path.resolve()
    for root in roots:
        if whole.is_relative_to(root.resolve()):
            return whole.relative_to(root.resolve()).as_posix()
    return path.as_posix()
