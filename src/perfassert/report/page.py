"""Pages as single HTML files without other files: frame, styles, data, and scripts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from perfassert.report.document import plain

_DIRECTIONS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Marks of text direction, with which a text can look like another; they are made visible."""
_SLOT = re.compile(r"\{(TITLE|CONNECT|STYLE|MAIN|DATA|SCRIPT)\}")


def page(name: str, title: str, data: Mapping[str, Any], *more: str, served: bool = False) -> str:
    """Return ``assets/<name>.html`` in the common frame, with ``data`` as JSON and scripts.

    The scripts are the common one, those in ``more``, and ``assets/<name>.js``. A ``served`` page
    may send requests to its own server, any other page to none. No text in ``data`` can end the
    script that holds it, nor turn the direction of another text.
    """
    text = json.dumps(plain(data), ensure_ascii=False, separators=(",", ":"))
    text = text.encode("utf-8", "replace").decode()  # names of files may have half characters
    shown = _DIRECTIONS.sub(lambda mark: f"⟨U+{ord(mark[0]):04X}⟩", text)
    parts = {
        "TITLE": title,
        "CONNECT": "; connect-src 'self'" if served else "",
        "MAIN": _asset(f"{name}.html"),
        "STYLE": _asset("report.css"),
        "DATA": shown.replace("<", "\\u003c"),
        "SCRIPT": "\n".join(_asset(f"{one}.js") for one in ("page", *more, name)),
    }
    return _SLOT.sub(lambda slot: parts[slot[1]], _asset("frame.html"))


def _asset(name: str) -> str:
    return files("perfassert.report").joinpath(f"assets/{name}").read_text("utf-8")
