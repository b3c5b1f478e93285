"""What was found by fuzzing, or by thinking of it while mending: each input failed once."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from targets import TARGETS
from texts import COMMANDS, LAUNCHES, PERF, PROFILE, seed

from perfassert.errors import PerfAssertError

DIGITS = b"9" * 5000  # more than Python turns into a number
DEEP = b"[" * 100_000
LONG = "ü".encode() * 300  # a name of more bytes than any file has


MANY = ", ".join(f"{name} = {list(range(10))}" for name in "abcdefghij").encode()  # 10^10 of them


def device(old, new):
    return TARGETS["device files"].seeds[0].replace(old, new, 1)


FOUND = [
    ("names", b"_ZN1aE3addB3"),
    ("device files", device(b"= 1", b"= " + DIGITS)),
    ("device files", b"a = " + DEEP),
    ("baselines", b"format = " + DIGITS),
    ("baselines", b"a = " + DEEP),
    ("perf.toml", PERF.replace(b"4096", DIGITS)),
    ("perf.toml", PERF.replace(b"shape = 8", b"data = '%s.npy'" % LONG)),
    ("perf.toml", PERF.replace(b"B = [64]", MANY)),
    ("suites", seed("suite.toml").replace(b"x = [1, 2]", MANY)),
    (
        "suites",
        seed("suite.toml")
        .replace(b"i = [-1, 1]", MANY)
        .replace(b"x + i", b"+".join(bytes([name]) for name in b"abcdefghij")),
    ),
    ("launches", LAUNCHES.replace(b"8", DIGITS)),
    ("launches", LAUNCHES.replace(b"n = 3", b"n = { data = '%s.npy' }" % LONG)),
    ("reports", DEEP),
    ("reports", b'{"time": ' + DIGITS + b"}"),
    ("compilation databases", DEEP),
    ("compilation databases", COMMANDS.replace(b"-I inc", b"-I " + LONG)),
    ("arguments", DIGITS),
    ("arguments", b"@" + LONG),
    ("arguments", b"@a\0b.npy"),
    ("profiles", PROFILE.replace(b'"Metric Value"', b'"Value"')),
    ("databases", TARGETS["databases"].seeds[0].replace(b"blockX", b"block\xc9")),
]


@pytest.mark.parametrize(("name", "content"), FOUND, ids=[name for name, _ in FOUND])
def test_it_is_told(name, content, tmp_path):
    try:
        TARGETS[name].read(content, tmp_path)
    except PerfAssertError as error:
        assert len(str(error)) < 2000
