"""Addresses from a hash: closed forms leave 64 bits, executed blocks say where they go."""

import numpy as np
import pytest
from described import missing

import perfassert as pa

SOURCE = """
extern "C" __global__ void gather(const int* __restrict__ table, int* out, unsigned in_warp,
                                  unsigned pages, unsigned words)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned page = (i / 32 * in_warp + i % in_warp) * 0x9e3779b1u & (pages - 1);
    const unsigned word = i * 0x85ebca6bu >> 8 & (words - 1) & ~7u;
    out[i] = table[(size_t)page * words + word];
}
"""
N, IN_WARP, PAGES, WORDS = 1 << 21, 8, 256, 1 << 19


@pytest.fixture(scope="module")
def gathered(tmp_path_factory):
    if missing() is not None:
        pytest.skip(f"{missing()} is not installed")
    (file := tmp_path_factory.mktemp("hash") / "gather.cu").write_text(SOURCE)
    launch = pa.Launch(N // 256, 256, {"in_warp": IN_WARP, "pages": PAGES, "words": WORDS})
    return pa.predict(pa.from_cuda(file, "gather"), launch, "h100")


def test_sectors_are_those_that_the_hash_names(gathered):
    i = np.arange(N, dtype=np.uint64)
    low = np.uint64(0xFFFFFFFF)
    number = i // np.uint64(32) * np.uint64(IN_WARP) + i % np.uint64(IN_WARP)
    page = (number * np.uint64(0x9E3779B1) & low) & np.uint64(PAGES - 1)
    word = ((i * np.uint64(0x85EBCA6B) & low) >> np.uint64(8)) & np.uint64(WORDS - 1)
    sectors = (page * np.uint64(WORDS) + word).reshape(-1, 32) // np.uint64(8)
    asked = sum(len(np.unique(warp)) for warp in sectors[:: 1 << 4]) << 4
    assert float(gathered.volumes.l2_load.total) / 32 == pytest.approx(asked, rel=0.02)


def test_nothing_about_them_is_a_guess(gathered):
    assert gathered.confidence != "guessed"
    assert any("beyond 64 bits" in a.text and "executed" in a.text for a in gathered.assumptions)
