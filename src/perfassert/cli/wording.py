"""Messages of the Python interface in the words of the command line."""

from __future__ import annotations

import re

from perfassert.errors import Interface, PerfAssertError

OPTIONS = {
    "defines": "define", "include_dirs": "include-dir", "options": "option",
    "trip_counts": "trip-count", "arch": "arch", "toolchain": "toolchain", "assume": "assume",
    "constants": "constant",
}  # fmt: skip
"""Name of a front end's setting → name of the option that sets it."""
_BY_KEY = ("trip_counts", "assume", "constants")
_SETTING = re.compile(
    rf"""\b(?P<name>{"|".join(_BY_KEY)})
    (?: =\{{(?P<q>['"])(?P<entry>[^'"]*)(?P=q):\ …\}} | \[(?P<r>['"])(?P<key>[^'"]*)(?P=r)\] )""",
    re.VERBOSE,
)
_SHARED = re.compile(r"\bshared_bytes=(\d+)")


def command_line_text(error: PerfAssertError) -> str:
    """Return an error's message with the options of the command line.

    >>> command_line_text(PerfAssertError("give shared_bytes=512, or fewer threads"))
    'give --shared-bytes 512, or fewer threads'
    """
    text = option_words(error.text_for(Interface.COMMAND_LINE))
    return _SHARED.sub(r"--shared-bytes \1", text)


def option_words(text: str) -> str:
    """Return a text with settings of front ends spelled as the options that set them.

    >>> option_words("say trip_counts={'k.cu:7': …}"), option_words("trip_counts['k.cu:7'] names")
    ('say --trip-count k.cu:7=…', '--trip-count k.cu:7 names')
    """

    def option(match: re.Match[str]) -> str:
        name = f"--{OPTIONS[match['name']]}"
        return f"{name} {match['key']}" if match["entry"] is None else f"{name} {match['entry']}=…"

    return _SETTING.sub(option, text)
