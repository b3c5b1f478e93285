"""Baselines as text: one form, read back exactly, anything else refused with its place."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import perfassert as pa
from perfassert.baseline.compare import foreign
from perfassert.baseline.entry import CHECKSUM, BaselineKey, entry_of
from perfassert.baseline.text import format_file, parse_file

N = 1 << 20


def predicted(domain=N, block=256, **more):
    fields = [pa.Field("a", shape=(2 * N,), halo=1), pa.Field("b", shape=(2 * N,))]
    kernel = pa.Kernel.from_accesses("copy", fields, ["a[x]", "a[x+1]"], ["b[x]"], **more)
    return pa.predict(kernel, pa.Launch.cover(domain, block, {"n": N}), "a100")


ENTRY = entry_of(predicted())
KEY = BaselineKey("test_copy", "default", "A100-SXM4-40GB")
TEXT = format_file({KEY: ENTRY})


def test_one_value_to_a_line_exact_and_readable():
    lines = TEXT.splitlines()
    assert lines[2:6] == [
        "format = 1",
        "",
        "[test_copy.default.A100-SXM4-40GB]",
        'kernel = "copy"',
    ]
    assert "grid = [4096, 1, 1]" in lines
    assert f'arguments = "n={N}"' in lines
    assert "dram_store = 8388608  # 8.389 MB, 8 B/update" in lines
    assert "occupancy = 1  # 100.0 %" in lines
    assert "fields.b.dram_store.compulsory = 8388608  # 8.389 MB, 8 B/update" in lines
    (time,) = (line for line in lines if line.startswith("time = "))
    assert float(time.split()[2]) == float(predicted().time)
    assert lines[-4].startswith("model_version")
    assert lines[-1].startswith("checksum")


def test_the_same_text_in_whatever_order():
    keys = [BaselineKey(f"test_{i}", "default", device) for i in range(3) for device in ("A", "B")]
    forward = format_file(dict.fromkeys(keys, ENTRY))
    assert format_file(dict.fromkeys(reversed(keys), ENTRY)) == forward
    assert format_file(parse_file(forward.encode(), "f")) == forward


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
numbers = st.one_of(st.integers(0, 10**15), st.floats(0, 1e300))


@given(names, names, names, names, numbers, numbers)
def test_whatever_is_written_is_read_back(test, name, field, kernel, amount, time):
    key = BaselineKey(test, name, "A100-SXM4-40GB")
    entry = {**ENTRY, "kernel": kernel, "time": time,
             "fields": {field: {"dram_load": {"capacity": amount}}}}  # fmt: skip
    text = format_file({key: entry})
    assert parse_file(text.encode(), "f") == {key: entry}
    assert parse_file(text.replace("\n", "\r\n").encode("utf-8-sig"), "f") == {key: entry}


LINE = {line.partition(" = ")[0]: n for n, line in enumerate(TEXT.splitlines(), 1)}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("time = ", "tmie = ", "f.toml:5: test_copy.default.A100-SXM4-40GB has no time"),
        (
            "cycles = ",
            "cycels = ",
            f"f.toml:{LINE['cycles']}: cycels is not a key of a baseline; did",
        ),
        ("registers = 32", "registers = -1", f"f.toml:{LINE['registers']}: registers must be a"),
        ("registers = 32", "registers = true", "registers must be a number"),
        ("registers = 32", 'registers = "32"', "registers must be a number"),
        ("registers = 32", "registers = nan", "registers must be a number"),
        ('limiter = "dram"', 'limiter = "drum"', f"f.toml:{LINE['limiter']}: limiter must be one"),
        ("block = [256, 1, 1]", "block = [256]", "block must be three integers"),
        ("bounds.l2", "bounds.l3", f"f.toml:{LINE['bounds.l2']}: bounds.l3 is not a key"),
        ('kernel = "copy"', "kernel = 3", f"f.toml:{LINE['kernel']}: kernel must be a string"),
        ("model_version", "model", "has no model_version: it is truncated or was edited"),
        ("format = 1", "format = 1\nx = 3", "f.toml:4: x stands outside of a table"),
        ("format = 1", "", "f.toml:1: the file has no 'format'"),
        ("format = 1", "format = true", "f.toml:3: format True is not 1"),
        (
            "registers = 32",
            "registers = 32\nregisters = 33",
            f"f.toml:{LINE['registers'] + 1}: a key or table is there twice",
        ),
        ("registers = 32", "registers = ", f"f.toml:{LINE['registers']}: invalid value"),
        ("registers = 32", "<<<<<<< HEAD", f"f.toml:{LINE['registers']}: a merge left a conflict"),
        ("registers = 32", "=======", "a merge left a conflict"),
    ],
)
def test_what_was_edited_is_refused_with_its_place(old, new, message):
    assert old in TEXT
    with pytest.raises(pa.BaselineError) as caught:
        parse_file(TEXT.replace(old, new, 1).encode(), "f.toml")
    assert message in str(caught.value)
    assert "--perf-update" in str(caught.value)


def test_no_truncated_table_is_taken_for_a_whole_one():
    start = TEXT.index("[test_copy")
    for end in range(start + 1, TEXT.index("\nchecksum")):
        with pytest.raises(pa.BaselineError, match="f.toml:"):
            parse_file(TEXT[:end].encode(), "f.toml")


def test_no_flipped_bit_is_another_figure():
    """An error, an entry that is marked, a test that has no baseline; else what it was."""
    content, chance = TEXT.encode(), random.Random(1)
    marked = 0
    for place in range(TEXT.index("[test_copy"), len(content)):
        flipped = bytearray(content)
        flipped[place] ^= 1 << chance.randrange(8)
        try:
            entries = parse_file(bytes(flipped), "f.toml")
        except pa.BaselineError:
            continue
        entry = entries.get(KEY)
        marked += entry is not None and CHECKSUM in entry
        assert entry is None or CHECKSUM in entry or entry == ENTRY, bytes(flipped)
    assert marked > 100


def test_what_was_edited_is_accepted_on_request():
    edited = TEXT.replace("registers = 32", "registers = 33")
    entry = parse_file(edited.encode(), "f.toml")[KEY]
    why = foreign(KEY, entry, ENTRY)
    assert "was edited by hand" in why
    assert entry[CHECKSUM] in why
    assert format_file({KEY: entry}) == edited  # another test's update leaves it as it is
    accepted = parse_file("".join(
        line for line in edited.splitlines(keepends=True) if not line.startswith("checksum")
    ).encode(), "f.toml")  # fmt: skip
    assert accepted == {KEY: {**ENTRY, "registers": 33}}
    assert foreign(KEY, accepted[KEY], ENTRY) == ""
    assert parse_file(format_file(accepted).encode(), "f.toml") == accepted


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xff\xfe", b"format = 1\n\xff"])
def test_no_text_at_all(content):
    with pytest.raises(pa.BaselineError, match=r"f.toml:\d+: "):
        parse_file(content, "f.toml")


def test_entries_of_another_model_are_not_looked_into():
    other = TEXT.replace('model_version = "', 'model_version = "0.').replace("cycles", "ticks")
    assert parse_file(other.encode(), "f.toml")[KEY]["ticks"] == ENTRY["cycles"]
