"""Revisions as folders: the same for the same commit, another one if that is taken, none after."""

import subprocess
import tempfile
from contextlib import suppress

import pytest

from perfassert.comparison.revisions import checked_out
from perfassert.errors import KernelSourceError


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
