from pathlib import Path

import pytest

import perfassert as pa

PAIRS = Path(__file__).parents[1] / "advisor_kernels" / "pairs.cu"


@pytest.fixture
def toolchain():
    """Skips where CUDA cannot be compiled."""
    try:
        pa.kernels(PAIRS, arch="sm_80")
    except pa.ToolchainMissing as missing:
        pytest.skip(str(missing))
