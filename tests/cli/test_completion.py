"""``perfassert completion``: bash completes what the parser knows."""

import shutil
import subprocess
import sys

import pytest

from perfassert.cli.main import main


@pytest.mark.skipif(not shutil.which("bash"), reason="no bash on this machine")
def test_bash_completes(tmp_path, capsys):
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "completion.bash"
    script.write_text(capsys.readouterr().out)
    (tmp_path / "base.cu").touch()
    asked = (
        ["di"],
        ["diff", "--fa"],
        ["predict", "x.cu", "--device", "H20"],
        ["history", "--html", "ba"],
    )
    lines = [f"source {script}"]
    for words in asked:
        given = " ".join(("perfassert", *words))
        lines.append(f"COMP_WORDS=({given}); COMP_CWORD={len(words)}; COMPREPLY=()")
        lines.append(
            f"_shtab_perfassert perfassert {words[-1]} {words[-2] if words[1:] else 'perfassert'}"
        )
        lines.append('echo "${COMPREPLY[*]}"')
    done = subprocess.run(
        ["bash", "-c", "\n".join(lines)], cwd=tmp_path, capture_output=True, text=True
    )
    command, option, device, file = done.stdout.splitlines()
    assert (command.split(), option.split()) == (["diff"], ["--fail-on"])
    assert set(device.split()) == {"H20", "H200"}
    assert file.split() == ["base.cu"]


def test_without_shtab(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "zsh"]) == 2
    assert 'pip install "perfassert[completion]"' in capsys.readouterr().err
