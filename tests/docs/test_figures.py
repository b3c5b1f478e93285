"""The committed figures are what docs/figures.py draws from today's predictions."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

pytestmark = pytest.mark.exhaustive(one_in=2)

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def figures() -> ModuleType:
    spec = importlib.util.spec_from_file_location("figures", ROOT / "docs" / "figures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


NAMES = sorted(path.stem for path in ROOT.glob("docs/explanation/*.svg"))


@pytest.mark.parametrize("name", NAMES)
def test_figure(name: str, figures: ModuleType) -> None:
    """Otherwise run ``python docs/figures.py`` and look at what has changed."""
    committed = figures.path_of(name).read_text("utf-8")
    assert figures.FIGURES[name]().svg() == committed


@pytest.mark.parametrize("name", NAMES)
def test_text_has_the_colour_of_the_page(name: str) -> None:
    """Legible on light and dark pages, and not smaller than 9 of 400 units."""
    root = ElementTree.parse(ROOT / f"docs/explanation/{name}.svg").getroot()
    assert root.get("fill") == "currentColor"
    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        assert text.get("fill") is None
        assert float(text.get("font-size", root.get("font-size", "0"))) >= 9


def test_every_figure_is_on_a_page(figures: ModuleType) -> None:
    pages = "\n".join(p.read_text("utf-8") for p in ROOT.glob("docs/explanation/*.md"))
    assert sorted(re.findall(r"\]\(([\w-]+)\.svg\)", pages)) == sorted(figures.FIGURES) == NAMES
