"""The terminal in README.md shows what pytest prints today."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import perfassert as pa

ROOT = Path(__file__).parents[2]


def test_the_picture_is_what_pytest_prints() -> None:
    """Otherwise run ``python docs/terminal.py`` and look at what has changed."""
    spec = importlib.util.spec_from_file_location("terminal", ROOT / "docs" / "terminal.py")
    assert spec is not None
    assert spec.loader is not None
    terminal = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(terminal)
    try:
        pa.from_cuda(ROOT / "examples/story/kernels/transpose.cu").compiled.program("sm_80")
    except pa.ToolchainMissing as missing:
        pytest.skip(str(missing))
    lines = terminal.terminal()
    assert terminal.svg(lines) == terminal.PICTURE.read_text("utf-8")
    text = " ".join(line for line, _ in lines)
    for part in ("reverting this removes", "at transpose.cu:17", "REGRESSION", "--perf-update"):
        assert part in text
    assert f"]({terminal.PICTURE.relative_to(ROOT).as_posix()})" in (ROOT / "README.md").read_text(
        "utf-8"
    )
    assert max(len(line) for line, _ in lines) <= terminal.COLUMNS
