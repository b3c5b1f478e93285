"""Files of baselines: merged on writing, replaced at once, locked meanwhile."""

import errno
import os
import random
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import perfassert as pa
from perfassert.baseline import files
from perfassert.baseline.entry import BaselineKey
from perfassert.baseline.files import Update, file_of, orphans, read, write

fcntl = pytest.importorskip("fcntl")
ENTRY = {"time": 1e-5, "model_version": "0", "device_digest": "d", "kernel_digest": "k"}


def key(number):
    return BaselineKey(f"test_{number}", "default", "A100")


@pytest.fixture
def file(tmp_path):
    return file_of(tmp_path / "test_module.py")


def lock_of(file):
    return file.with_name(f".{file.name}.lock")


def test_written_merged_dropped(file):
    assert file.parts[-2:] == ("__perf__", "test_module.toml")
    assert read(file) == {}
    write(file, Update({key(1): ENTRY}))
    write(file, Update({key(2): ENTRY}))
    write(file, Update({key(2): {**ENTRY, "time": 2e-5}}, frozenset({key(1)})))
    assert read(file) == {key(2): {**ENTRY, "time": 2e-5}}
    assert os.listdir(file.parent) == [file.name]
    write(file, Update(dropped=frozenset({key(2)})))
    assert not file.parent.exists()


def test_an_unchanged_file_is_not_touched(file):
    write(file, Update({key(1): ENTRY}))
    os.utime(file, (1, 1))
    write(file, Update({key(1): ENTRY}))
    assert file.stat().st_mtime == 1


def test_writers_at_once_lose_nothing(file):
    code = (
        "import sys; from pathlib import Path; from perfassert.baseline.files import *\n"
        "from perfassert.baseline.entry import BaselineKey\n"
        f"entry = {ENTRY!r}\n"
        "for i in range(10):\n"
        "    key = BaselineKey(f'{sys.argv[2]}_{i}', 'default', 'A')\n"
        "    write(Path(sys.argv[1]), Update({key: entry}))"
    )
    count = 50 if os.environ.get("PERFASSERT_EXHAUSTIVE") else 2
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(file), f"w{n}"]) for n in range(count)
    ]
    assert [process.wait() for process in running] == [0] * count
    assert len(read(file)) == 10 * count
    threads = [threading.Thread(target=write, args=(file, Update({key(i): ENTRY})))
               for i in range(8)]  # fmt: skip
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read(file)) == 10 * count + 8


def test_a_lock_that_stays_is_named(file, monkeypatch):
    monkeypatch.setattr(files, "_LOCK_TIMEOUT", 0.05)
    write(file, Update({key(1): ENTRY}))
    lock = lock_of(file)
    held = files._acquire(lock)
    with pytest.raises(pa.BaselineError, match=r"delete .*\.test_module\.toml\.lock"):
        write(file, Update({key(2): ENTRY}))
    assert lock.exists()
    assert read(file).keys() == {key(1)}
    os.close(held)
    lock.unlink(missing_ok=True)


def test_a_file_system_without_locks(file, monkeypatch):
    def none(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    write(file, Update({key(1): ENTRY}))
    write(file, Update({key(2): ENTRY}))
    assert read(file).keys() == {key(1), key(2)}
    assert os.listdir(file.parent) == [file.name]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: write(file, Update({key(n): ENTRY})), range(40)))
    assert len(read(file)) == 40


def test_a_lock_that_is_left_where_there_are_no_others(file, monkeypatch):
    """Nothing tells that its process is dead: a person deletes it."""
    monkeypatch.setattr(files, "_exclusive", lambda _: False)
    monkeypatch.setattr(files, "_LOCK_TIMEOUT", 0.05)
    write(file, Update({key(1): ENTRY}))
    os.close(files._acquire(lock_of(file)))
    with pytest.raises(pa.BaselineError, match=r"delete .*\.test_module\.toml\.lock"):
        write(file, Update({key(2): ENTRY}))
    lock_of(file).unlink()
    write(file, Update({key(2): ENTRY}))
    assert read(file).keys() == {key(1), key(2)}


def test_a_host_whose_locks_are_not_seen(file, monkeypatch):
    """A lock of another host is waited for while that host makes progress, and taken over after."""
    monkeypatch.setattr(files, "_LOCK_TIMEOUT", 0.3)
    write(file, Update({key(1): ENTRY}))
    lock = lock_of(file)
    lock.write_bytes(b"another".ljust(64))
    assert files._acquire(lock) is None
    begin = time.monotonic()
    write(file, Update({key(2): ENTRY}))
    assert time.monotonic() - begin > 0.3
    lock.write_bytes(files._host())  # one of ours
    monkeypatch.setattr(files, "_LOCK_TIMEOUT", 3600)
    write(file, Update({key(3): ENTRY}))
    assert read(file).keys() == {key(1), key(2), key(3)}
    assert os.listdir(file.parent) == [file.name]


@pytest.mark.parametrize("kind", ["link", "dangling", "second name", "pipe", "folder"])
def test_a_lock_that_is_no_lock_is_left_alone(file, tmp_path, monkeypatch, kind):
    """A pull request can commit a link: nothing is written to what it leads to."""
    monkeypatch.setattr(files, "_LOCK_TIMEOUT", 0.05)
    write(file, Update({key(1): ENTRY}))
    other, lock = tmp_path / "other.txt", lock_of(file)
    other.write_text("A" * 200)
    make = {
        "link": lambda: lock.symlink_to(other),
        "dangling": lambda: lock.symlink_to(tmp_path / "none"),
        "second name": lambda: os.link(other, lock),
        "pipe": lambda: os.mkfifo(lock),
        "folder": lock.mkdir,
    }
    make[kind]()
    with pytest.raises(pa.BaselineError, match=r"test_module\.toml\.lock: is a link or no file"):
        write(file, Update({key(2): ENTRY}))
    assert other.read_text() == "A" * 200
    assert not (tmp_path / "none").exists()
    assert os.path.lexists(lock)
    assert read(file).keys() == {key(1)}


def test_rights_are_those_of_the_umask(file):
    before = os.umask(0o027)
    try:
        write(file, Update({key(1): ENTRY}))
        assert file.stat().st_mode & 0o777 == 0o640
        file.chmod(0o600)
        write(file, Update({key(2): ENTRY}))
        assert file.stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(before)


def test_a_writer_that_is_killed_loses_and_blocks_nothing(file):
    """Anywhere between opening and replacing; 500 times where PERFASSERT_EXHAUSTIVE is set."""
    write(file, Update({key(1): ENTRY}))
    code = (
        "import sys; from pathlib import Path; from perfassert.baseline.files import *\n"
        "from perfassert.baseline.entry import BaselineKey\n"
        f"entry = {ENTRY!r}\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    for i in range(50):\n"
        "        key = BaselineKey(f'o_{i}', 'default', 'A')\n"
        "        write(Path(sys.argv[1]), Update({key: entry}))\n"
        "        write(Path(sys.argv[1]), Update({}, frozenset({key})))"
    )
    draw = random.Random(0)
    for _ in range(500 if os.environ.get("PERFASSERT_EXHAUSTIVE") else 5):
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(file)], stdout=subprocess.PIPE, text=True
        )
        process.stdout.readline()
        time.sleep(draw.uniform(0, 0.02))
        process.kill()
        process.communicate()
        assert read(file)[key(1)] == ENTRY
    write(file, Update({key(2): ENTRY}))
    assert {key(1), key(2)} <= set(read(file))


REMARKED = """\
# at the top
{}
# about the first
# in two lines
[test_1.default.A100]
time = 1e-05  # 10 us
  # indented
model_version = "0"
# about what is gone
l2 = 3
device_digest = "d"
kernel_digest = "k"

# about the second
[test_2.default.A100]
time = 1e-05  # 10 us
model_version = "0"
device_digest = "d"
kernel_digest = "k"
# at the end
"""


def test_remarks_of_people_are_kept(file):
    write(file, Update({key(1): ENTRY, key(2): ENTRY}))
    head = file.read_text().partition("\n[")[0]
    file.write_text(REMARKED.format(head))
    write(file, Update({key(1): {**ENTRY, "time": 2e-5}, key(0): ENTRY}))
    text = file.read_text()
    assert text.startswith("# at the top\n# Predicted")
    assert text.endswith('"\n\n# at the end\n')
    assert text.count('kernel_digest = "k"\nchecksum = "') == 3
    assert "\n\n# about the first\n# in two lines\n# about what is gone\n[test_1." in text
    assert '# indented\nmodel_version = "0"' in text
    write(file, Update({key(1): {**ENTRY, "time": 2e-5}}))
    assert file.read_text() == text
    write(file, Update(dropped=frozenset({key(2)})))
    assert "about the second" not in file.read_text()
    assert "about the first" in file.read_text()


def test_a_broken_file_is_left_as_it_is(file):
    write(file, Update({key(1): ENTRY}))
    file.write_text("<<<<<<< HEAD\n")
    with pytest.raises(pa.BaselineError, match="test_module.toml:1: a merge"):
        write(file, Update({key(2): ENTRY}))
    assert file.read_text() == "<<<<<<< HEAD\n"
    assert os.listdir(file.parent) == [file.name]


def test_a_failure_while_writing_leaves_the_old_file(file, monkeypatch):
    write(file, Update({key(1): ENTRY}))
    before = file.read_bytes()

    def fails(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fails)
        with pytest.raises(pa.BaselineError, match="cannot be written: No space left"):
            write(file, Update({key(2): ENTRY}))
    assert file.read_bytes() == before
    assert os.listdir(file.parent) == [file.name]


FULL = """
import os, resource, sys
from pathlib import Path
import perfassert as pa
from perfassert.baseline.entry import BaselineKey
from perfassert.baseline.files import Update, read, write
from perfassert.frontends.toolchain import cache
from perfassert.report.files import replace_file

file, report = map(Path, sys.argv[1:])
entry = next(iter(read(file).values()))
most = {most}
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
for attempt in (
    lambda: write(
        file, Update({{BaselineKey(f"test_{{n}}", "default", "d"): entry for n in range(20)}})
    ),
    lambda: replace_file(report, "x" * 10_000),
):
    try:
        attempt()
    except pa.PerfAssertError as error:
        print(type(error).__name__, "cannot be written: File too large" in str(error))
os.environ["PERFASSERT_CACHE_DIR"] = str(file.parent / "cache")
cache.store("a", list(range(10_000)))
print(cache.load("a", list), os.listdir(file.parent / "cache"))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a limit of the size of files stands in")
@pytest.mark.parametrize("most", [0, 100, 2000])
def test_a_disk_that_takes_no_more(file, most):
    """The system's own error, at the first byte or half way."""
    write(file, Update({key(1): ENTRY}))
    report = file.with_name("report.json")
    report.write_text("before")
    before = file.read_bytes()
    command = [sys.executable, "-c", FULL.format(most=most), str(file), str(report)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["BaselineError True", "ReportError True", "None []"]
    assert file.read_bytes() == before
    assert report.read_text() == "before"
    assert sorted(os.listdir(file.parent)) == ["cache", "report.json", file.name]


def test_a_link_stays_one(file, tmp_path):
    elsewhere = tmp_path / "elsewhere" / "kept.toml"
    write(elsewhere, Update({key(1): ENTRY}))
    file.parent.mkdir()
    file.symlink_to(elsewhere)
    write(file, Update({key(2): ENTRY}))
    assert file.is_symlink()
    assert read(elsewhere).keys() == {key(1), key(2)}
    assert os.listdir(elsewhere.parent) == [elsewhere.name]


@pytest.mark.parametrize("ends", [b"\r\n", b"\n"])
def test_line_ends_of_another_system(file, ends):
    write(file, Update({key(1): ENTRY}))
    file.write_bytes(file.read_bytes().replace(b"\n", ends))
    assert read(file) == {key(1): ENTRY}
    write(file, Update({key(2): ENTRY}))
    assert read(file).keys() == {key(1), key(2)}
    assert b"\r" not in file.read_bytes()


def test_a_file_that_is_too_large(file, monkeypatch):
    write(file, Update({key(1): ENTRY}))
    monkeypatch.setattr(files, "_LARGEST", 100)
    with pytest.raises(pa.BaselineError, match="more than a file of baselines may have"):
        read(file)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root writes anywhere")
def test_a_folder_that_cannot_be_written(file):
    write(file, Update({key(1): ENTRY}))
    file.parent.chmod(0o555)
    try:
        with pytest.raises(pa.BaselineError, match="cannot be written"):
            write(file, Update({key(2): ENTRY}))
        assert read(file).keys() == {key(1)}
    finally:
        file.parent.chmod(0o755)


def test_files_without_their_module(file):
    write(file, Update({key(1): ENTRY}))
    assert orphans(file.parent) == [file]
    (file.parent.parent / "test_module.py").touch()
    assert orphans(file.parent) == []
