"""Whatever comes from outside: a result or one of our own errors, in 5 s and 1 GB.

``make fuzz`` tries ``PERFASSERT_FUZZ`` inputs of each parser, other ones each time.
"""

import os
import re
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1]))
from targets import TARGETS

from perfassert.errors import PerfAssertError

TRIED = int(os.environ.get("PERFASSERT_FUZZ", "0"))
PATIENCE, MEMORY = 5.0, 1 << 19  # seconds; kB, of inputs one after the other
SEEDED = [name for name, target in TARGETS.items() if target.seeds]
KEPT = Path(__file__).parent / "corpus"
CORPUS = {
    name: [file.read_bytes() for file in sorted((KEPT / name.replace(" ", "-")).glob("*"))]
    for name in SEEDED
}


@st.composite
def damaged(draw, target):
    """A seed with up to four edits: words put in, parts left out, doubled, moved, other bytes."""
    content = bytearray(draw(st.sampled_from((*target.seeds, *target.whole))))
    for _ in range(draw(st.integers(0, 4))):
        at, length = draw(st.integers(0, len(content))), draw(st.integers(1, 40))
        way = draw(st.integers(0, 5))
        if way == 0:
            content[at:at] = draw(st.sampled_from(target.words)).encode("utf-8", "surrogatepass")
        elif way == 1:
            del content[at : at + length]
        elif way == 2:
            content[at:at] = content[at : at + length] * draw(st.sampled_from([1, 2, 50]))
        elif way == 3:
            content[at : at + length] = draw(st.binary(max_size=8))
        elif way == 4:
            del content[at:]
        else:
            other = draw(st.integers(0, len(content)))
            content[other:other] = content[at : at + length]
    return bytes(content)


@pytest.mark.parametrize("name", SEEDED)
def test_seeds_are_read(name, tmp_path):
    """Else nothing behind their beginning would be tried."""
    for seed in (*TARGETS[name].seeds, *TARGETS[name].whole):
        TARGETS[name].read(seed, tmp_path)


@pytest.mark.parametrize("name", SEEDED)
def test_what_guided_fuzzing_kept(name, tmp_path):
    """Inputs that together run most of the parser."""
    for content in CORPUS[name]:
        begin = time.monotonic()
        try:
            TARGETS[name].read(content, tmp_path)
        except PerfAssertError as error:
            assert str(error)
        assert time.monotonic() - begin < PATIENCE


@pytest.mark.parametrize("name", SEEDED)
@pytest.mark.exhaustive(one_in=24)
def test_damage_is_told_or_harmless(name):
    target = TARGETS[name]
    count = TRIED or 800

    @settings(
        max_examples=count, derandomize=not TRIED, database=None, deadline=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(damaged(target))
    def tried(content):
        begin = time.monotonic()
        try:
            target.read(content, folder)
        except PerfAssertError as error:
            assert str(error)
        assert time.monotonic() - begin < PATIENCE

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if sys.platform == "linux":
            Path("/proc/self/clear_refs").write_text("5")  # the peak so far is not ours
        before = peak()
        tried()
        assert peak() - before < MEMORY


def peak() -> int:
    """Resident memory of this process in kB, where it was largest; 0 where nobody knows."""
    if sys.platform != "linux":
        return 0
    (words,) = re.findall(r"^VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.M)
    return int(words)
