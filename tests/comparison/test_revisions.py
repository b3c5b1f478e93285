"""Revisions as folders: the same for the same commit, another one if that is taken, none after."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from perfassert.comparison.history import history
from perfassert.comparison.revisions import checked_out, is_revision
from perfassert.errors import KernelSourceError

posix = pytest.mark.skipif(sys.platform == "win32", reason="the system's locks are POSIX")


@pytest.fixture
def repository(tmp_path, monkeypatch):
    place = tmp_path / "repository"
    (place / "below").mkdir(parents=True)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.chdir(place / "below")
    name = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "init", "-q", "-b", "main", str(place)], check=True)
    for text in ("one", "two"):
        (place / "below" / "a.cu").write_text(text)
        subprocess.run(["git", "add", "-A"], cwd=place, check=True)
        subprocess.run(["git", *name, "commit", "-qm", text], cwd=place, check=True)
    return place


def test_what_is_known_of_a_commit_is_found_again(repository, tmp_path):
    with checked_out("main") as first:
        assert (first.folder / "a.cu").read_text() == "two"
        with checked_out("HEAD") as second, checked_out("main~1") as before:
            assert len({first.root, second.root, before.root}) == 3
            assert (second.folder / "a.cu").read_text() == "two"
            assert (before.folder / "a.cu").read_text() == "one"
    assert not first.root.exists()
    with checked_out("HEAD") as again:
        assert again.root == first.root
    assert list((tmp_path / "temporary").iterdir()) == []
    listed = subprocess.run(["git", "worktree", "list"], capture_output=True, text=True)
    assert len(listed.stdout.splitlines()) == 1
    with pytest.raises(KernelSourceError), checked_out("none"):
        pass


OLD_GIT = """#!/bin/sh
for word; do
  shift
  case "$word" in safe.*) set -- "$@" core.unknown=1;; *) set -- "$@" "$word";; esac
done
exec {git} "$@"
"""


@pytest.fixture(params=["installed", pytest.param("2.34", marks=posix)])
def git_version(request, tmp_path, monkeypatch):
    """Git of before 2.38 knows no setting that forbids bare repositories, and ignores it."""
    if request.param != "installed":
        script = tmp_path / "bin" / "git"
        script.parent.mkdir()
        script.write_text(OLD_GIT.format(git=shutil.which("git")))
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.parametrize("kind", ["smudge", "process"])
def test_a_folder_that_looks_like_a_repository_runs_nothing(
    repository, tmp_path, git_version, kind
):
    """Files of a pull request can be a bare repository's, with settings that name programs."""
    place, made = repository / "below", tmp_path / "made"
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout
    for name, content in {
        "HEAD": "ref: refs/heads/main\n",
        "refs/heads/main": commit,
        "objects/info/alternates": "../../.git/objects\n",
        "info/attributes": "* filter=x\n",
        "config": "[core]\nrepositoryformatversion = 0\nbare = false\nworktree = ..\n"
        f'[filter "x"]\n{kind} = touch {made}\n',
    }.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(content)
    with checked_out("main") as checkout:
        assert (checkout.folder / "a.cu").read_text() == "two"
    assert history(Path(".")).lines == ()
    assert not made.exists()


def test_a_repository_of_another_user_is_not_used(repository, monkeypatch):
    """Git refuses settings of a repository whose folder belongs to somebody else."""
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(KernelSourceError, match="dubious ownership"), checked_out("main"):
        pass


def test_a_folder_without_a_repository(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    for name in ("HEAD", "main"):
        with pytest.raises(KernelSourceError, match="is in no git repository"), checked_out(name):
            pass
    assert not is_revision("HEAD")


def test_a_linked_worktree_and_a_submodule(repository, tmp_path, monkeypatch):
    tree, inner = tmp_path / "linked", repository / "inner"
    subprocess.run(["git", "worktree", "add", "-q", "--detach", str(tree), "HEAD~1"], check=True)
    allowed = ("-c", "protocol.file.allow=always")
    source = str(repository)
    subprocess.run(
        ["git", *allowed, "submodule", "--quiet", "add", source, str(inner)],
        cwd=repository, check=True,
    )  # fmt: skip
    for folder, text in ((tree, "one"), (inner, "two")):
        monkeypatch.chdir(folder / "below")
        with checked_out("HEAD") as checkout:
            assert checkout.of == folder
            assert (checkout.folder / "a.cu").read_text() == text


DIES = """
import os, signal, tempfile
from perfassert.comparison.revisions import checked_out
tempfile.tempdir = {temporary!r}
with checked_out("main") as one, checked_out("main") as other:
    print(one.root, flush=True)
    {end}
"""


def worktrees():
    listed = subprocess.run(["git", "worktree", "list"], capture_output=True, text=True, check=True)
    return [line.split()[0] for line in listed.stdout.splitlines()]


def start(temporary, end):
    code = DIES.format(temporary=str(temporary), end=end)
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    return process, process.stdout.readline().strip()


@posix
def test_what_a_killed_process_left_is_removed(repository, tmp_path):
    temporary = tmp_path / "temporary"
    process, root = start(temporary, "os.kill(os.getpid(), signal.SIGKILL)")
    process.communicate()
    assert process.returncode == -9
    assert len(list(temporary.iterdir())) == 2
    assert len(worktrees()) == 3
    with checked_out("main") as checkout:
        assert str(checkout.root) == root
        assert worktrees() == [str(repository), root]
        assert len(list(temporary.iterdir())) == 1
    assert list(temporary.iterdir()) == []
    assert worktrees() == [str(repository)]


@posix
def test_what_another_process_uses_stays(repository, tmp_path):
    process, root = start(tmp_path / "temporary", "input()")
    before = worktrees()
    with checked_out("main") as checkout:
        assert str(checkout.root) != root
        assert len(worktrees()) == len(before) + 1
    assert worktrees() == before
    assert (Path(root) / "below" / "a.cu").read_text() == "two"
    process.communicate("\n")
    assert process.returncode == 0
    assert worktrees() == [str(repository)]
    assert list((tmp_path / "temporary").iterdir()) == []


@posix
def test_a_killed_process_with_another_folder_for_temporary_files(repository, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    process, root = start(tmp_path / "elsewhere", "input()")
    with checked_out("main~1"):
        assert root in worktrees()
    process.kill()
    process.communicate()
    shutil.rmtree(tmp_path / "elsewhere")  # as when the machine is started again
    with checked_out("main~1") as checkout:
        assert worktrees() == [str(repository), str(checkout.root)]


def test_a_worktree_of_the_user_stays_registered(repository, tmp_path):
    """Its folder may be on a disk that is not there at the moment."""
    place = tmp_path / "disk" / "tree"
    subprocess.run(["git", "worktree", "add", "-q", "--detach", str(place)], check=True)
    shutil.rmtree(tmp_path / "disk")
    with checked_out("main"):
        pass
    assert worktrees() == [str(repository), str(place)]
