"""Arrays from files."""

import numpy as np
import pytest

import perfassert as pa
from perfassert.errors import LaunchError
from perfassert.kernel.array_files import read_array
from perfassert.system.confined import FOLDER


def test_a_buffer_holds_what_its_file_holds_now(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, part=np.arange(10))
    buffer = pa.Buffer(data=f"{path}:part")
    first = buffer.digest
    np.savez(path, part=np.arange(10) + 1)
    assert buffer.data[0] == 1
    assert buffer.digest != first
    np.savez(path, part=np.arange(12))
    assert buffer.freeze(lambda key, data: data).shape == (12,)


def test_a_file_of_one_array_has_no_parts(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(4))
    with pytest.raises(LaunchError, match="holds one array.*leave out ':rows'"):
        pa.Buffer(data=f"{tmp_path}/x.npy:rows")


def test_what_is_in_use_is_not_read_from_outside(tmp_path, monkeypatch):
    """If files are confined to a folder, every read is confined."""
    np.save(tmp_path / "x.npy", np.arange(4))
    inside = tmp_path / "inside"
    inside.mkdir()
    held = read_array(str(tmp_path / "x.npy"))
    monkeypatch.setenv(FOLDER, str(inside))
    with pytest.raises(LaunchError, match="lies outside of"):
        read_array(str(tmp_path / "x.npy"))
    assert len(held) == 4
