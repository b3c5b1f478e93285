"""Addresses from a hash: closed forms leave 64 bits on the way, executed blocks say where they go."""

import numpy as np
import pytest
from described import missing

import perfassert as pa

SOURCE = """
extern "C" __global__ void gather(const int* __restrict__ table, int* out, unsigned factor,
                                  unsigned pages, unsigned words)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned page = i / 32 * factor & (pages - 1);
    const unsigned word = i * 0x85ebca6bu >> 8 & (words - 1) & ~7u;
    out[i] = table[(size_t)page * words + word];
}
"""
N, PAGES, WORDS, FACTOR = 1 << 21, 256, 1 << 19, 0x9E3779B1


@pytest.fixture(scope="module")
def gathered(tmp_path_factory):
    if missing() is not None:
        pytest.skip(f"{missing()} is not installed")
    (file := tmp_path_factory.mktemp("hash") / "gather.cu").write_text(SOURCE)
    launch = pa.Launch(N // 256, 256, {"factor": FACTOR, "pages": PAGES, "words": WORDS})
    return pa.predict(pa.from_cuda(file, "gather"), launch, "h100")


def test_sectors_are_those_that_the_hash_names(gathered):
    i = np.arange(N, dtype=np.uint64)
    low = np.uint64(0xFFFFFFFF)
    page = (i // np.uint64(32) * np.uint64(FACTOR) & low) & np.uint64(PAGES - 1)
    word = ((i * np.uint64(0x85EBCA6B) & low) >> np.uint64(8)) & np.uint64(WORDS - 1)
    sectors = (page * np.uint64(WORDS) + word).reshape(-1, 32) // np.uint64(8)
    asked = sum(len(np.unique(warp)) for warp in sectors[:: 1 << 4]) << 4
    assert float(gathered.volumes.l2_load.total) / 32 == pytest.approx(asked, rel=0.02)


def test_nothing_about_them_is_a_guess(gathered):
    assert gathered.confidence != "guessed"
    assert any("beyond 64 bits" in a.text and "executed" in a.text for a in gathered.assumptions)
