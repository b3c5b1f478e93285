"""The page of instructions without a translation is what docs/opcodes.py writes today."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_page():
    """Otherwise run ``python docs/opcodes.py``."""
    spec = importlib.util.spec_from_file_location("opcodes_page", ROOT / "docs" / "opcodes.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.PAGE.read_text("utf-8") == script.page()
