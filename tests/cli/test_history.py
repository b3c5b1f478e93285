"""``perfassert history`` and ``bisect``: the commit of a step is found among many."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import perfassert as pa
from perfassert.baseline.entry import DEFAULT_NAME, BaselineKey, entry_of
from perfassert.baseline.text import format_file
from perfassert.cli.main import main

pytestmark = pytest.mark.exhaustive(one_in=4)

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
COMMITS, SLOWER, FASTER = 200, 137, 180
FILE = "tests/__perf__/test_ä.toml"


def entry(registers):
    fields = [pa.Field(name, shape=(1 << 20,)) for name in "ab"]
    kernel = pa.Kernel.from_accesses("copy", fields, ["a[x]"], ["b[x]"], registers=registers)
    return entry_of(pa.predict(kernel, pa.Launch.cover(1 << 20, 256), "a100"))


def commit(number, text):
    """Return a commit as input for ``git fast-import``."""
    message, content = f"change {number}".encode(), text.encode()
    return b"".join(
        [
            b"commit refs/heads/main\ncommitter A <a@b.c> %d +0000\n" % (1_700_000_000 + number),
            b"data %d\n%s\n" % (len(message), message),
            b'M 644 inline "%s"\ndata %d\n%s\n' % (FILE.encode(), len(content), content),
        ]
    )


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """Two tests: one steps twice, one never does; comments change with each commit."""
    place = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=place, check=True)
    steady = entry(32)
    stream = []
    for number in range(COMMITS):
        scale = 1.5 if SLOWER <= number < FASTER else 1.2 if number >= FASTER else 1.0
        moved = {**steady, "time": steady["time"] * scale, "registers": 32 + int(10 * scale)}
        entries = {
            BaselineKey("test_copy", DEFAULT_NAME, "A100-SXM4-40GB"): moved,
            BaselineKey("test_other", DEFAULT_NAME, "A100-SXM4-40GB"): steady,
        }
        stream.append(commit(number, format_file(entries) + f"# {number}\n"))
    subprocess.run(["git", "fast-import", "--quiet"], cwd=place, input=b"".join(stream), check=True)
    subprocess.run(["git", "checkout", "-q", "main"], cwd=place, check=True)
    return place


@pytest.fixture
def here(repository, monkeypatch):
    monkeypatch.chdir(repository)
    return repository


def printed(capsys, *arguments):
    code = main([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("mark", ["\x1e", f"\x1e{7:040}\x1f2020-01-01\x1fB\x1fother", "\x1b[2J"])
def test_a_subject_hides_no_step(tmp_path, monkeypatch, capsys, mark):
    """Marks in it were taken for those between commits: the step was another's, or nobody's."""
    name = ["-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    monkeypatch.chdir(tmp_path)
    subprocess.run(["git", "init", "-q", "-b", "main"], check=True)
    key = BaselineKey("test_copy", DEFAULT_NAME, "A100-SXM4-40GB")
    steady, place = entry(32), Path("__perf__")
    place.mkdir()
    for scale in (1.0, 1.5):
        content = format_file({key: {**steady, "time": steady["time"] * scale}})
        place.joinpath("test_it.toml").write_text(content)
        subprocess.run(["git", "add", "."], check=True)
        subprocess.run(["git", *name, "commit", "-qm", f"slower{mark}"], check=True)
    (step,) = printed(capsys, "bisect", "test_copy")[1]
    assert step["time"]["difference"] == pytest.approx(0.5)
    assert step["author"] == "A"
    assert main(["bisect", "test_copy"]) == 0
    assert not set(capsys.readouterr().out) & set("\x1b\x1e\x1f")


def test_every_step_with_its_commit(here, capsys):
    code, found = printed(capsys, "history")
    assert code == 0
    copy, other = found["baselines"]
    assert (copy["test"], other["test"]) == ("test_copy", "test_other")
    assert copy["file"] == FILE
    assert [s["subject"] for s in copy["steps"]] == [f"change {SLOWER}", f"change {FASTER}"]
    assert copy["steps"][0]["time"]["difference"] == pytest.approx(0.5)
    assert copy["steps"][1]["time"]["difference"] == pytest.approx(1.2 / 1.5 - 1)
    assert "registers 42 → 47" in copy["steps"][0]["cause"]
    assert copy["loss"] == pytest.approx(0.2)
    assert (len(copy["times"]), len(other["times"]), other["steps"]) == (3, 1, [])
    assert found["unreadable"] == []


def test_as_a_table(here, capsys, monkeypatch):
    assert main(["history", "tests"]) == 0
    text = capsys.readouterr().out
    assert f"change {SLOWER}" in text
    assert text.endswith("\n\n2 baselines\n")
    monkeypatch.chdir(here / "tests")
    assert printed(capsys, "history")[1]["baselines"][0]["file"] == FILE.partition("/")[2]
    assert printed(capsys, "history", "__perf__/test_ä.toml")[1]["baselines"]


def page_of(here, *arguments):
    """The page, and what it is drawn from."""
    assert main(["history", *arguments, "--html", "out/page.html"]) == 0
    page = (here / "out" / "page.html").read_text("utf-8")
    return page, json.loads(re.search(r'type="application/json">(.*?)</script>', page, re.S)[1])


def test_as_a_page(here, capsys):
    page, found = page_of(here)
    assert capsys.readouterr().out == ""
    assert len(page.encode()) < 100_000
    assert len(found["commits"]) == COMMITS
    copy, other = found["lines"]
    assert [at for at, _ in copy["points"]["time"]] == [0, SLOWER, FASTER]
    assert copy["points"]["registers"] == [[0, 42], [SLOWER, 47], [FASTER, 44]]
    assert len(copy["points"]["dram_load"]) == len(other["points"]["time"]) == 1
    assert "registers 42 → 47" in copy["causes"][str(SLOWER)]
    assert (copy["breaks"], other["causes"]) == ([], {})
    _, date, author, subject = found["commits"][SLOWER]
    assert (author, subject, date[:10]) == ("A", f"change {SLOWER}", "2023-11-14")


@pytest.mark.skipif(not CHROMIUM, reason="no Chromium on this machine")
@pytest.mark.parametrize("width", [1280, 500])
def test_the_page_in_a_browser(here, tmp_path, width):
    page_of(here)
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
               f"--user-data-dir={tmp_path}", f"--window-size={width},900"]  # fmt: skip
    address = (here / "out" / "page.html").as_uri()
    done = subprocess.run(
        [CHROMIUM, *options, "--dump-dom", f"{address}#selftest"],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert 'data-selftest="passed"' in re.search(r"<html[^>]*>", done.stdout)[0]
    assert "CONSOLE" not in done.stderr
    assert "+50.0 %" in done.stdout


def test_the_commit_is_found(here, capsys):
    assert main(["bisect", "test_copy"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith(f"A: change {SLOWER}")
    assert second.startswith("test_copy on A100-SXM4-40GB: time +50.0 %: ")
    code, found = printed(capsys, "bisect", "test_copy", f"HEAD~{COMMITS - 1 - SLOWER}", "HEAD")
    assert (code, found) == (1, [])
    assert printed(capsys, "bisect", "test_copy", f"HEAD~{COMMITS - SLOWER}")[0] == 0
    assert main(["bisect", "test_other"]) == 1
    assert main(["bisect", "test_nothing"]) == 2
    assert "there are: test_copy, test_other" in capsys.readouterr().err


def test_a_range_begins_with_what_was_before_it(here, capsys):
    """Its first commit is told from the state that it found, and no other is told."""
    back = COMMITS - 1 - SLOWER
    (copy,) = printed(capsys, "history", "--range", f"HEAD~{back + 1}..HEAD~{back}")[1]["baselines"]
    (step,) = copy["steps"]
    assert step["subject"] == f"change {SLOWER}"
    assert step["time"]["difference"] == pytest.approx(0.5)
    assert copy["loss"] == pytest.approx(0.5)
    assert [t["time"] for t in copy["times"]] == [step["time"]["base"], step["time"]["head"]]
    assert (
        printed(capsys, "history", "--range", f"HEAD~{back}..HEAD~{back - 5}")[1]["baselines"] == []
    )
    page = page_of(here, "--range", f"HEAD~{back + 1}..HEAD~{back}")[1]
    assert [at for at, _ in page["lines"][0]["points"]["time"]] == [0, 1]


@pytest.mark.parametrize("ending", [b"\r\n", b"\n# \xff\n"], ids=["CRLF", "no UTF-8"])
def test_files_are_read_to_the_byte(here, capsys, ending):
    """The text of a file ends at the right byte, whatever its line endings are."""
    name = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false",
            "-c", "core.autocrlf=false"]  # fmt: skip
    before = Path(FILE).read_bytes()
    try:
        slower = re.sub(rb"^time = .*$", b"time = 2.0", before, flags=re.M)
        for content in (before.replace(b"\n", ending), slower):
            Path(FILE).write_bytes(content)
            subprocess.run(["git", *name, "commit", "-qam", "x"], check=True)
        code, found = printed(capsys, "history")
        assert code == 0
        assert len(found["unreadable"]) == (ending != b"\r\n")
        assert found["baselines"][0]["times"][-1]["time"] > 1
    finally:
        subprocess.run(["git", "reset", "-q", "--hard", "HEAD~2"], check=True)


def test_another_model_is_no_loss_and_damage_is_listed(here, capsys):
    text = Path(FILE).read_text()
    name = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    other = text.replace('model_version = "', 'model_version = "other ')
    other = re.sub(r"^time = .*$", "time = 1.0", other, flags=re.M)
    try:
        for content in (other, "<<<<<<< HEAD\n"):
            Path(FILE).write_text(content)
            subprocess.run(["git", *name, "commit", "-qam", "x"], check=True)
        _, found = printed(capsys, "history")
        assert "version" in found["baselines"][0]["steps"][-1]["reason"]
        assert found["baselines"][0]["loss"] == pytest.approx(0.2)
        assert "a merge left a conflict" in found["unreadable"][0]
    finally:
        subprocess.run(["git", "reset", "-q", "--hard", "HEAD~2"], check=True)


def test_without_a_repository(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert main(["history"]) == 2
    assert "is in no git repository" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["history", "bisect"])
def test_a_revision_is_no_option_of_git(repository, monkeypatch, tmp_path, command):
    monkeypatch.chdir(repository)
    option = f"--output={tmp_path / 'made'}"
    given = [f"--range={option}"] if command == "history" else ["--", "test_copy", option]
    main([command, *given])
    assert list(tmp_path.iterdir()) == []
