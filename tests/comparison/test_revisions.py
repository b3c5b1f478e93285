"""Revisions as folders: the same for the same commit, another one if that is taken, none after."""

import subprocess
import tempfile

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
