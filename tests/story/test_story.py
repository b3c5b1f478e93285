"""The story in ``examples/story``: each slower commit is caught at its line, with its reason."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "story"))
import story

import perfassert as pa

pytestmark = pytest.mark.xdist_group("story")  # six runs of pytest, shared by the tests


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    try:
        pa.from_cuda(story.HERE / "kernels" / "smooth.cu", "smooth").compiled.program("sm_80")
    except pa.ToolchainMissing as missing:
        pytest.skip(str(missing))
    return story.play(tmp_path_factory.mktemp("repository"))


@pytest.mark.parametrize("number", range(len(story.COMMITS)))
def test_commit(played, number):
    commit, code, output = played[number]
    assert code == (1 if commit.says else 0), output
    for text in commit.says:
        assert text in output
    others = {"test_transpose", "test_polynomial", "test_smooth"} - set(commit.says)
    if commit.says:
        failed = [line for line in output.splitlines() if line.startswith("FAILED")]
        assert len(failed) == 1, failed
        assert not any(name in failed[0] for name in others)


def test_it_can_be_told(capsys, monkeypatch, played):
    monkeypatch.setattr(story, "play", lambda folder, word: played)
    story.main()
    told = capsys.readouterr().out
    assert told.count("stopped") == 3
    assert told.count("passes") == 2
    assert told.count("reverting this removes") == 3
