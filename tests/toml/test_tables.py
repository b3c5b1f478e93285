"""TOML of strangers: what is refused before it is parsed, and that nothing else is."""

import random

import pytest

from perfassert.toml import tables
from perfassert.toml.tables import TOMLDecodeError, loads

MANY = "a." * 16 + "a"


@pytest.mark.parametrize(
    "text",
    [
        f"{MANY} = 1",
        f"[{MANY}]",
        f"[[{MANY}]]",
        f"x = {{ {MANY} = 1 }}",
        "\n" + '"\\"#" . ' * 16 + "a = 1",
        "'#' \t.\t" * 16 + "a = 1",
        MANY,
        f'x = """a""""\n{MANY} = 1',
        f'x = """\\"""" # "\n{MANY} = 1',
        f"x = '''''a''''' # '\n{MANY} = 1",
        f'x = "\\\\"\n{MANY} = 1',
        f'x = """a\\\r\n"""\r\n{MANY} = 1',
    ],
)
def test_a_key_of_many_parts_is_not_parsed(monkeypatch, text):
    monkeypatch.setattr(tables, "_loads", lambda _: pytest.fail("it was parsed"))
    with pytest.raises(TOMLDecodeError, match=r"a key has over 16 parts \(at line [1-3]\)"):
        loads(text)


@pytest.mark.parametrize(
    "text",
    [
        "a." * 15 + "a = 1",
        f'x = "{MANY}"',
        f"x = '{MANY}'",
        f'x = """\n{MANY} = 1 ""{MANY}"""',
        f"x = '''\n{MANY} = 1 ''{MANY}'''",
        f"# {MANY}",
        f'x = "\\"" # {MANY}',
    ],
)
def test_dots_elsewhere_are_no_parts(text):
    assert loads(text) == tables._loads(text)


@pytest.mark.parametrize("start", ["0x", "0o", "0b"])
def test_an_integer_that_cannot_be_printed(start):
    """Messages print values; tables of TOML need 64 bits."""
    with pytest.raises(TOMLDecodeError, match=r"too many digits \(at line 2\)"):
        loads(f"a = 1\nb = [{start}{'1' * 20_000}]")
    assert loads(f"a = {start}{'0' * 900}1") == {"a": 1}


PIECES = (
    '"', "'", '"""', "'''", "\\", "#", "\n", "\r\n", " ", ".", "a", "=", "1.5", "[", "]", "{", "}",
    ",", "x = ", '"a"', "'b'", "\\\\", '\\"', '""', "''", "1979-05-27T07:32:00.5",
)  # fmt: skip
LINES = (
    'k = """{}"""', "k = '''{}'''", 'k = "{}"', "k = '{}'", "# {}", "k = [{}]", "{}", '"{}" = 1',
)  # fmt: skip


def depth(value):
    return 1 + max(map(depth, value.values()), default=0) if isinstance(value, dict) else 0


def test_random_texts_are_read_as_by_the_parser():
    """A long key at their end is found exactly where the parser finds it."""
    generator = random.Random(1)
    deep = flat = 0
    for _ in range(20_000):
        pieces = "".join(generator.choices(PIECES, k=generator.randint(0, 6)))
        text = f"{generator.choice(LINES).format(pieces)}\n{MANY} = 1\n{generator.choice(PIECES)}"
        try:
            table = tables._loads(text)
        except (TOMLDecodeError, ValueError):
            continue
        if depth(table) > 16:
            deep += 1
            with pytest.raises(TOMLDecodeError, match="over 16 parts"):
                loads(text)
        else:
            flat += 1
            assert loads(text) == table
    assert deep > 500
    assert flat > 5
