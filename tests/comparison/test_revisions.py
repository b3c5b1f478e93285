"""Revisions as folders: the same for the same commit, another one if that is taken, none after."""

import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from perfassert.comparison.revisions import checked_out
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


@pytest.mark.parametrize("kind", ["smudge", "process"])
def test_a_folder_that_looks_like_a_repository_runs_nothing(repository, tmp_path, kind):
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
    with suppress(KernelSourceError), checked_out("main"):
        pass
    assert not made.exists()


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
