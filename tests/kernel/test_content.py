"""The canonical encoding: distinct for distinct values, the same everywhere, nothing else."""

import enum
import math
import subprocess
import sys
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfassert.kernel.content import array_digest, content_digest
from perfassert.source import SourceSpan


class Letter(enum.Enum):
    A = 1
    B = 1.0 + 1


@dataclass(frozen=True)
class Pair:
    left: object
    right: object


@dataclass(frozen=True)
class OtherPair:
    left: object
    right: object


DISTINCT = [
    None, True, False, 0, 1, -1, 1.0, 0.0, -0.0, math.inf, math.nan, 2**70, "", "1", "n", b"", b"1",
    (), (1,), ((1,),), (1, 2), (2, 1), ("ab", "c"), ("a", "bc"), {}, {1: 2}, {2: 1}, {1: 2, 3: 4},
    frozenset(), frozenset((1, 2)), Pair(1, 2), Pair(2, 1), OtherPair(1, 2), Letter.A, Letter.B,
    np.zeros(2), np.zeros(2, np.float32), np.zeros((2, 1)), np.zeros(2, np.int64), np.ones(2),
    SourceSpan("a.cu", 1), SourceSpan("a.cu", 2), SourceSpan("b.cu", 1), ("a.cu", 1),
]  # fmt: skip


def test_distinct_values_have_distinct_digests():
    for one, other in combinations(DISTINCT, 2):
        assert content_digest(one) != content_digest(other), (one, other)
    assert content_digest(1, 2) != content_digest((1, 2))


def test_equal_content_has_an_equal_digest():
    assert content_digest({1: 2, 3: 4}) == content_digest(MappingProxyType({3: 4, 1: 2}))
    assert content_digest([1, 2]) == content_digest((1, 2))
    assert content_digest(frozenset("abc")) == content_digest({"c", "b", "a"})
    backwards = np.arange(6)[::-1]
    assert content_digest(backwards) == content_digest(backwards.copy())
    assert array_digest(backwards) == array_digest(np.array([5, 4, 3, 2, 1, 0]))


def test_folders_count_only_on_request():
    here, there = SourceSpan("/here/a.cu", 3), SourceSpan("/there/a.cu", 3)
    assert content_digest(here) == content_digest(there)
    assert content_digest(here, folders=True) != content_digest(there, folders=True)


@pytest.mark.parametrize(
    "value", [len, Path("a"), object(), lambda: 0, Pair, np.array([object()]), (1, [Path("a")])]
)
def test_what_has_no_encoding_is_an_error(value):
    with pytest.raises(TypeError, match="no canonical encoding"):
        content_digest(value)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4).map(tuple) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(VALUES, VALUES)
def test_digests_are_equal_where_encodings_must_be(one, other):
    same = content_digest(one) == content_digest(other)
    if same:
        assert repr(one) == repr(other) or one == other
    assert content_digest(one) == content_digest(one)


def test_the_digest_is_that_of_other_processes():
    """With another hash seed: these are the digests of the first version, too."""
    text = "(None, True, 1, 2.5, 'a', b'b', (1, (2,)), {'x': 1, 'y': frozenset(('p', 'q'))})"
    code = f"from perfassert.kernel.content import content_digest; print(content_digest({text}))"
    digests = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2", "3")
    }  # fmt: skip
    assert len(digests) == 1
