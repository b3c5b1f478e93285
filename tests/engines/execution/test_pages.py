"""Tests of buffers of which only some pages are known: other pages are as not given.

The oracle is the same launch with the whole content.
"""

import dataclasses

import numpy as np
import pytest
from machine import compiled, launched

import perfassert as pa
from perfassert.engines.execution.memory import Region
from perfassert.engines.execution.reads import Reads
from perfassert.errors import LaunchError

CODE = """
extern "C" __global__ void chase(const int* next, long long* out, int hops)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    for (int hop = 0; hop < hops; ++hop) at = next[at];
    out[blockIdx.x * blockDim.x + threadIdx.x] = at;
}
"""
PAGE, SIZE, BLOCKS = 256, 1 << 16, 8


@pytest.fixture(scope="module")
def code(tmp_path_factory):
    path = tmp_path_factory.mktemp("pages") / "chase.cu"
    path.write_text(CODE)
    return compiled(path, "chase", "sm_80")


def chased(code, region, compiled_core, reads=None, hops=3):
    out = np.zeros(BLOCKS * 32, np.int64)
    given = [region, out, hops]
    return launched(code, (BLOCKS,), (32,), given, compiled=compiled_core, reads=reads)


def given(content, offset, pages=None):
    """``content`` in bytes ``offset`` behind the start of a page; of some pages, if those say."""
    if pages is None:
        return Region("arg0", content, len(content), offset)
    padded = np.zeros(-(-(len(content) + offset) // PAGE) * PAGE, np.uint8)
    padded[offset : offset + len(content)] = content
    kept = padded.reshape(-1, PAGE)[pages].reshape(-1)
    return Region("arg0", kept, len(content), offset, np.array(pages, np.int64))


@pytest.mark.parametrize("compiled_core", [True, False])
@pytest.mark.parametrize("offset", [0, 24, 252])
def test_pages_that_were_read_are_enough(code, compiled_core, offset):
    content = np.random.default_rng(offset).permutation(SIZE).astype(np.int32).view(np.uint8)
    reads = Reads()
    whole = chased(code, given(content, offset), compiled_core, reads)
    pages = reads.pages["arg0"]
    assert 0 < len(pages) < SIZE * 4 // PAGE
    again = chased(code, given(content, offset, pages), compiled_core)
    assert np.array_equal(again.contents["arg1"], whole.contents["arg1"])
    assert not again.guesses
    assert not any(again.unknown.values())


@pytest.mark.parametrize("compiled_core", [True, False])
def test_other_pages_are_unknown(code, compiled_core):
    content = np.random.default_rng(1).permutation(SIZE).astype(np.int32).view(np.uint8)
    reads = Reads()
    chased(code, given(content, 0), compiled_core, reads)
    fewer = reads.pages["arg0"][1:]
    missing = chased(code, given(content, 0, fewer), compiled_core)
    assert missing.guesses or missing.unknown["arg1"]
    nothing = chased(code, given(content, 0, fewer[:0]), compiled_core)
    blank = chased(code, dataclasses.replace(given(content, 0), content=None), compiled_core)
    assert nothing.guesses == blank.guesses
    assert np.array_equal(nothing.executed, blank.executed)


def test_only_wanted_values_are_kept(code):
    reads = Reads()
    launched(code, (BLOCKS,), (32,), [np.zeros(SIZE, np.int32), np.zeros(256, np.int64), 1],
             needed=frozenset(), reads=reads)  # fmt: skip
    assert not reads.pages
    assert reads.instructions


def test_what_does_not_fit_is_said():
    rows = np.zeros((2, PAGE), np.uint8)
    made = pa.Buffer(SIZE, "int32", data=rows, pages=np.array([0, 9]))
    assert (made.shape, made.dtype, made.described) == ((SIZE,), "int32", True)
    assert made != pa.Buffer(SIZE, "int32", data=rows, pages=np.array([0, 8]))
    for pages, shape, message in (
        ([0], SIZE, "holds 512 bytes, its pages are 1 of 256"),
        ([3, 2], SIZE, "ascend from 0 to 1024 at most"),
        ([0, 2000], SIZE, "ascend from 0 to 1024 at most"),
        ([0, 1], None, "needs shape, dtype and data"),
    ):
        with pytest.raises(LaunchError, match=message):
            pa.Buffer(shape, "int32", data=rows, pages=np.array(pages))


def test_addresses_beyond_every_buffer_are_no_reads(tmp_path):
    path = tmp_path / "through.cu"
    path.write_text("""
extern "C" __global__ void through(const int* const* pointers, int* out)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    out[at] = *pointers[at];
}
""")
    code = compiled(path, "through", "sm_80")
    wild = np.full(32, 0x7F0000000000, np.uint64)
    reads = Reads()
    launched(code, (1,), (32,), [wild, np.zeros(32, np.int32)], reads=reads)
    assert list(reads.pages) == ["arg0"]
