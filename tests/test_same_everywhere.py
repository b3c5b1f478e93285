"""A run with all else than usual; `make matrix` says which of it makes a difference."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from same_everywhere import Place, session

from perfassert.frontends.toolchain import tools

ELSEWHERE = Place(
    "elsewhere",
    environment={
        "PYTHONHASHSEED": "4242", "TZ": "Pacific/Kiritimati", "LC_ALL": "POSIX",
        "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "REVERSED": "1",
    },
    folder="a b/ğ/checkout",
)  # fmt: skip


COMPILED = tools.find("nvrtc") is not None and tools.find("nvdisasm") is not None


@pytest.mark.skipif(COMPILED, reason="the sessions with compiled code have these tests, too")
def test_addresses_by_hand(tmp_path):
    here = session(Place("here"), tmp_path / "1", compiled=False)
    assert session(ELSEWHERE, tmp_path / "2", compiled=False) == here
    assert len(set(here.values())) == len(here) == 5


@pytest.mark.skipif(not COMPILED, reason="NVIDIA's compiler is not installed")
def test_compiled_code(tmp_path):
    """Advice named files by where the checkout lies; NVIDIA's tools spell ğ in octal."""
    here = session(Place("here"), tmp_path / "1")
    assert session(ELSEWHERE, tmp_path / "2") == here
    assert len(set(here.values())) == len(here) == 5
    comments = Place("comments", comment="// not code: ü\n", report=False)
    assert session(comments, tmp_path / "3") == {"baselines": here["baselines"]}
