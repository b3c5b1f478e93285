"""Arrays from files."""

import numpy as np
import pytest

import perfassert as pa
from perfassert.errors import LaunchError
from perfassert.kernel.array_files import read_array
from perfassert.system.confined import FOLDER


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


def test_what_is_in_use_is_not_read_from_outside(tmp_path, monkeypatch):
    """Where files are confined to a folder, every question is confined."""
    np.save(tmp_path / "x.npy", np.arange(4))
    inside = tmp_path / "inside"
    inside.mkdir()
    held = read_array(str(tmp_path / "x.npy"))
    monkeypatch.setenv(FOLDER, str(inside))
    with pytest.raises(LaunchError, match="lies outside of"):
        read_array(str(tmp_path / "x.npy"))
    assert len(held) == 4
