"""Keys and their lines, against the parser and by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfassert.perf_toml.lines import key_lines
from perfassert.toml.tables import loads

TEXT = '''# a comment = 1
devices = [ # one
  "A100",   # ]
  "L40" ]

[constants]
n = 16777216
day = 1979-05-27 07:32:00
text = """
[not.a.header]
x = 1"""
raw = \'\'\'
it's'\'\'\'

[[test]]
name = "a # b = ]"
launch = { grid = [1, 2], args = { "n.m" = 1, 'q' = "}" } }
expect.time = "< 1 us"
expect . limiter = "dram"

  [[test.more]]
  [test.more.deep]
  x = 1
  [[test.more]]
  y = """a "quoted\\" text"""""

[[test]]
a."b c".d = 1.5

[rank]
last = true'''
LINES = {
    "devices": 2, "devices[0]": 3, "devices[1]": 4, "constants": 6, "constants.n": 7,
    "constants.day": 8, "constants.text": 9, "constants.raw": 12, "test": 15, "test[0]": 15,
    "test[0].name": 16, "test[0].launch": 17, "test[0].launch.grid": 17,
    "test[0].launch.grid[0]": 17, "test[0].launch.grid[1]": 17, "test[0].launch.args": 17,
    "test[0].launch.args.n.m": 17, "test[0].launch.args.q": 17, "test[0].expect": 18,
    "test[0].expect.time": 18, "test[0].expect.limiter": 19, "test[0].more": 21,
    "test[0].more[0]": 21, "test[0].more[0].deep": 22, "test[0].more[0].deep.x": 23,
    "test[0].more[1]": 24, "test[0].more[1].y": 25, "test[1]": 27, "test[1].a": 28,
    "test[1].a.b c": 28, "test[1].a.b c.d": 28, "rank": 30, "rank.last": 31,
}  # fmt: skip


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["unix", "dos"])
def test_lines_by_hand(end):
    assert key_lines(TEXT.replace("\n", end)) == LINES


def paths(value, path=""):
    """Yield the keys of a parsed table."""
    if isinstance(value, dict):
        for key, inner in value.items():
            here = f"{path}.{key}" if path else key
            yield here
            yield from paths(inner, here)
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield f"{path}[{i}]"
            yield from paths(inner, f"{path}[{i}]")


def test_every_key_of_the_parser_has_a_line():
    assert set(paths(loads(TEXT))) == set(LINES)


KEYS = st.one_of(
    st.from_regex(r"[A-Za-z0-9_-]{1,4}", fullmatch=True),
    st.from_regex(r'"[ a.#=\[\]{}\']{0,4}"', fullmatch=True),
    st.from_regex(r"'[ a.#=\[\]{}\"\\]{0,4}'", fullmatch=True),
)
SCALARS = st.one_of(
    st.sampled_from(["1", "-1.5e3", "true", "1979-05-27 07:32:00", "nan", '""', "''", '""""""']),
    st.from_regex(r'"([ a#,=\[\]{}\']|\\["\\n]){0,6}"', fullmatch=True),
    st.from_regex(r"'[ a#,=\[\]{}\"\\]{0,6}'", fullmatch=True),
    st.from_regex(r"'''[ a\n#,=\[\]{}\"\\]{0,6}'''", fullmatch=True),
    st.from_regex(r'"""([ a\n#,=\[\]{}\']|\\["\\n]){0,6}"""', fullmatch=True),
)
SPACES = st.sampled_from(["", " ", "\t"])
BLANKS = st.sampled_from(["", " ", "\n", " # ],}\n", "\n\n"])


@st.composite
def arrays(draw, values):
    items = draw(st.lists(values, max_size=3))
    parts = [draw(BLANKS) + item + draw(BLANKS) for item in items]
    trailing = draw(st.sampled_from(["", ","])) if items else ""
    return f"[{','.join(parts)}{trailing}{draw(BLANKS)}]"


@st.composite
def tables(draw, values):
    keys = draw(st.lists(KEYS, max_size=3, unique_by=lambda k: k.strip("\"'")))
    inner = ", ".join(f"{k}{draw(SPACES)}={draw(SPACES)}{draw(values)}" for k in keys)
    return f"{{ {inner} }}"


VALUES = st.recursive(SCALARS, lambda v: arrays(v) | tables(v), max_leaves=6)


@st.composite
def files(draw):
    """A text, and on which line each of its top-level keys was put."""
    text, lines = draw(BLANKS.map(lambda b: b if not b.strip() or b.endswith("\n") else "")), {}
    for i in range(draw(st.integers(0, 4))):
        text += draw(SPACES)
        lines[f"k{i}"] = text.count("\n") + 1
        text += f"k{i}{draw(SPACES)}={draw(SPACES)}{draw(VALUES)} # c\n"
    return text, lines


@given(files())
def test_keys_and_lines_of_any_file(given):
    text, lines = given
    found = key_lines(text)
    assert set(paths(loads(text))) == set(found)
    assert lines.items() <= found.items()
