"""MkDocs hook: SVG images become part of the page, so that they take its light or dark colours."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

IMAGE = re.compile(r'<img alt="([^"]*)" src="([^":]+\.svg)"\s*/?>')
STYLE = re.compile(r"<style>.*?</style>\n?", re.S)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Replace each local SVG image in the page's colours by the file's element, labelled with
    the alternative text."""
    folder = Path(page.file.abs_src_path).parent

    def inline(match: re.Match[str]) -> str:
        label, name = match.groups()
        figure = STYLE.sub("", (folder / name).read_text("utf-8"))
        if "currentColor" not in figure:
            return match[0]  # a plot, which has its own colours
        figure = re.sub(r'aria-label="[^"]*"', lambda _: f'aria-label="{label}"', figure, count=1)
        return figure.replace("<svg ", '<svg class="figure" ', 1)

    return IMAGE.sub(inline, html)
