"""Temporary folders: removed at the end, or by the next process if theirs was killed."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from perfassert.system import temporary
from perfassert.system.temporary import remove_abandoned, temporary_folder

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the system's locks are POSIX")
HOLDS = """
import os, signal
from perfassert.system.temporary import temporary_folder
with temporary_folder() as one, temporary_folder("same") as other:
    (one / "file").write_text("x")
    print(one, other, flush=True)
    {end}
"""


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def start(place, end):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS.format(end=end)],
        env={**os.environ, "TMPDIR": str(place)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    return process, [Path(word) for word in process.stdout.readline().split()]


def test_a_folder_is_gone_afterwards(place):
    with temporary_folder() as folder, temporary_folder("name") as named:
        assert folder.stat().st_mode & 0o777 == named.stat().st_mode & 0o777 == 0o700
        with temporary_folder("name") as other:
            assert other != named
    with temporary_folder("name") as again:
        assert again == named
    assert list(place.iterdir()) == []


def test_folders_of_a_killed_process(place):
    process, folders = start(place, "os.kill(os.getpid(), signal.SIGKILL)")
    process.communicate()
    assert sorted(place.iterdir()) == sorted(folders)
    with temporary_folder("same") as folder:
        assert list(place.iterdir()) == [folder] == folders[1:]


def test_folders_of_a_living_process(place):
    process, folders = start(place, "input()")
    with temporary_folder("same"):
        assert all(folder.is_dir() for folder in folders)
        assert (folders[0] / "file").read_text() == "x"
    process.communicate("\n")
    assert list(place.iterdir()) == []


def test_the_first_folder_of_a_process_removes_abandoned_ones(place):
    process, _ = start(place, "os.kill(os.getpid(), signal.SIGKILL)")
    process.communicate()
    process, folders = start(place, "input()")
    assert sorted(place.iterdir()) == sorted(folders)
    process.communicate("\n")


def test_what_is_not_its_own_is_not_removed(place, monkeypatch):
    kept = place / "kept"
    kept.mkdir()
    (kept / "file").write_text("x")
    (place / "perfassert-tmp-link").symlink_to(kept)
    (place / "perfassert-tmp-file").write_text("x")
    (place / "perfassert-data").mkdir()
    remove_abandoned()
    assert len(list(place.iterdir())) == 4
    assert (kept / "file").exists()
    (place / "perfassert-tmp-abandoned").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)  # of another user
    remove_abandoned()
    assert len(list(place.iterdir())) == 5
    monkeypatch.undo()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    remove_abandoned()
    assert len(list(place.iterdir())) == 4


def test_a_system_without_locks(place, monkeypatch):
    class NoLocks:
        LOCK_EX = LOCK_NB = 0

        def flock(self, handle, how):
            raise OSError(38, "not implemented")

    for fcntl in (None, NoLocks()):
        monkeypatch.setattr(temporary, "fcntl", fcntl)
        (place / "perfassert-tmp-other").mkdir(exist_ok=True)
        with temporary_folder("name") as folder:
            assert folder.is_dir()
        assert [path.name for path in place.iterdir()] == ["perfassert-tmp-other"]
