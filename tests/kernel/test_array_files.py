"""Arrays from files."""

import numpy as np
import pytest

import perfassert as pa
from perfassert.kernel.array_files import read_array


def test_a_file_in_use_is_read_once(tmp_path):
    """Hundreds of launches of a recording may have the same contents."""
    path = tmp_path / "x.npz"
    np.savez(path, part=np.arange(10))
    first = read_array(f"{path}:part")
    assert read_array(f"{path}:part") is first
    assert pa.Buffer(data=f"{path}:part").data is first
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 1
    np.savez(path, part=np.arange(12))
    assert len(read_array(f"{path}:part")) == 12


def test_an_array_of_the_user_is_copied():
    given = np.arange(4)
    buffer = pa.Buffer(data=given)
    given[0] = 7
    assert buffer.data[0] == 0
