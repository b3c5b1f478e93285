"""The transition of the paper's figure 23, as assertions; `layer_condition.py` draws it."""

import pytest
from layer_condition import DEPTHS, draw, loaded


def test_shallow_wins_on_small_planes_and_deep_on_large_ones():
    """The stores of a wave take room as well, so the shallow curve leaves its floor at 384."""
    assert loaded(368, 1) < loaded(368, 32)
    assert loaded(1024, 32) < loaded(1024, 8) < loaded(1024, 1)


def test_the_shallow_curve_rises_just_above_400():
    assert loaded(352, 1) < 10
    assert loaded(480, 1) > 20


@pytest.mark.parametrize("depth", DEPTHS)
def test_plateau(depth):
    assert loaded(1280, depth) == pytest.approx(8 * (depth + 8) / depth, rel=0.05)


def test_the_picture_is_drawn(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("layer_condition.PLANES", range(128, 257, 64))
    draw(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000
