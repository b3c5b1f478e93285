"""Tests of ``make interpreters`` and ``make lint`` for the promised versions of Python."""

import interpreters
import pytest
import standard_library
import yaml

GUARDED = """
import sys

if sys.version_info >= (3, 11):
    from enum import StrEnum
else:
    from strings import StrEnum


class Kind(StrEnum):
    A = "a"
"""


def make_interpreter(path, text, status=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{text}'\nexit {status}\n")
    path.chmod(0o755)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Folder of PATH, and of pyenv."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setattr("sys.executable", str(tmp_path / "none"))
    return tmp_path / "bin", tmp_path / "pyenv" / "versions"


def test_the_oldest_promised_python_is_the_required_one():
    settings = interpreters.loads((interpreters.ROOT / "pyproject.toml").read_text("utf-8"))
    versions = interpreters.promised()
    assert settings["project"]["requires-python"] == f">={versions[0]}"
    assert settings["tool"]["ruff"]["target-version"] == f"py{versions[0].replace('.', '')}"
    assert len(versions) >= 5


def test_ci_has_all_of_them():
    """The whole check runs on the oldest and the newest one, a few sessions on each."""
    versions = interpreters.promised()
    text = (interpreters.ROOT / ".github/workflows/ci.yml").read_text("utf-8")
    job = yaml.safe_load(text)["jobs"]["check"]
    assert job["strategy"]["matrix"]["python"] == [versions[0], versions[-1]]
    assert job["env"]["PERFASSERT_REQUIRE_INTERPRETERS"].split() == versions
    (setup,) = (s["with"]["python-version"] for s in job["steps"] if "python" in s.get("uses", ""))
    assert setup.split("\n")[:-2] == versions


def test_an_interpreter_is_found(machine):
    """A shim that runs nothing, another version, a free-threaded build: the newest other one."""
    path, pyenv = machine
    make_interpreter(path / "python3.10", "", status=127)
    for version in ("3.10.9", "3.10.13"):
        make_interpreter(pyenv / version / "bin" / "python3.10", f"{version} 0")
    make_interpreter(pyenv / "3.10.14t" / "bin" / "python3.10", "3.10.14 1")
    make_interpreter(pyenv / "3.10.15" / "bin" / "python3.10", "3.11.2 0")
    assert interpreters.find("3.10") == (pyenv / "3.10.13" / "bin" / "python3.10", "3.10.13")
    assert interpreters.find("3.1") is None


def test_a_version_that_is_required_has_to_be_found(machine, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(interpreters, "promised", lambda: ["3.10", "3.14"])
    assert interpreters.check_all(tmp_path, []) == 0
    assert interpreters.check_all(tmp_path, ["3.14"]) == 1
    assert "Python 3.10: left out" in capsys.readouterr().out
    with pytest.raises(SystemExit, match=r"3.9: pyproject.toml promises 3.10, 3.14"):
        interpreters.check_all(tmp_path, ["3.9"])


def test_a_failure_is_counted_and_shown(machine, monkeypatch, capsys, tmp_path):
    path, _ = machine
    monkeypatch.setattr(interpreters, "promised", lambda: ["3.10"])
    monkeypatch.setattr(interpreters, "UV", ("sh", "-c", "echo no index; exit 2"))
    make_interpreter(path / "python3.10", "3.10.2 0")
    monkeypatch.setenv("PATH", f"{path}:/bin:/usr/bin")
    assert interpreters.check_all(tmp_path, []) == 1
    assert "no index" in capsys.readouterr().out


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("code", "finding"),
    [
        ("from enum import StrEnum", 'Python 3.10: *Module "enum" has no attribute "StrEnum"'),
        ("def test(path='.'):\n    import os\n    os.EX_OK.add_note()", None),
        ("def test():\n    Exception().add_note('')", 'Python 3.10: *no attribute "add_note"'),
        ("from pathlib import Path\nPath().exists(follow_symlinks=True)", "Python 3.10: *Unexp"),
        ("from pkgutil import find_loader", 'Python 3.14: *no attribute "find_loader"'),
        (GUARDED, None),
    ],
)
def test_names_that_a_version_lacks(code, finding, tmp_path, capfd):
    pytest.importorskip("mypy")
    (tmp_path / "module.py").write_text(code)
    assert standard_library.main([str(tmp_path)]) == (finding is not None)
    printed = capfd.readouterr().out
    pytest.LineMatcher(printed.splitlines()).fnmatch_lines(
        [f"*{finding}*" if finding else "*the same names*"]
    )
