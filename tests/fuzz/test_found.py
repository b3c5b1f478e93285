"""Tests with inputs that once failed, found by fuzzing or while fixing."""

import sys
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from targets import TARGETS
from texts import BARE, COMMANDS, LAUNCHES, MATRIX, PERF, PROFILE, arrays, seed

from perfassert.errors import PerfAssertError

DIGITS = b"9" * 5000  # more than Python turns into a number
DEEP = b"[" * 100_000
LONG = "ü".encode() * 300  # a name of more bytes than any file has


MANY = ", ".join(f"{name} = {list(range(10))}" for name in "abcdefghij").encode()  # 10^10 of them


def device(old, new):
    return TARGETS["device files"].seeds[0].replace(old, new, 1)


def unpacked(size):
    """An archive whose array says that it has more numbers than it holds."""
    head = BytesIO()
    np.lib.format.write_array_header_1_0(
        head, {"descr": "<i4", "fortran_order": False, "shape": (size,)}
    )
    archive = BytesIO()
    with ZipFile(archive, "w") as file:
        file.writestr("a.npy", head.getvalue())
    return archive.getvalue()


PLAIN, ARCHIVE = arrays()
SIZES = TARGETS["databases"].seeds[0]
FOUND = [
    ("arrays", PLAIN.replace(b"(3,)", b"(" * 4)),
    ("arrays", ARCHIVE[:100]),
    ("arrays", ARCHIVE.replace(b"arr_0.npy", b"arr_1.npy", 1)),
    ("arrays", bytes(ARCHIVE[:70]) + b"\xff" * 9 + ARCHIVE[79:]),
    ("arrays", unpacked(10**13)),
    ("arrays", MATRIX.partition(b"% c")[0]),  # went on for ever
    ("arrays", MATRIX.replace(b"3 3 2", b"999999999999 3 2").replace(b"symmetric", b"general")),
    ("arrays", MATRIX.replace(b"1 1 1.5\n3 2 -2", b"1\n2")),
    ("headers of listings", BARE.encode().replace(b"=12", b"=" + DIGITS)),
    ("generators", b"arange % " + b"5" * 40),
    ("generators", b"constant " + b"5" * 40),
    ("generators", b"csr_rows(nnz_per_row=" + b"5" * 40 + b")"),
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
    ("databases", SIZES[:420] + b"\xff" * 7 + b"U" + SIZES[428:]),  # of a row
    ("databases", TARGETS["databases"].seeds[0].replace(b"blockX", b"block\xc9")),
]


@pytest.mark.parametrize(("name", "content"), FOUND, ids=[name for name, _ in FOUND])
def test_it_is_told(name, content, tmp_path):
    try:
        TARGETS[name].read(content, tmp_path)
    except PerfAssertError as error:
        assert len(str(error)) < 2000
