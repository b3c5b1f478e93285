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


@pytest.mark.parametrize("name", ["none.npy", "none.npz", "none.npz:x", "none.mtx:rows"])
def test_a_missing_file(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LaunchError, match=f"cannot be read: there is no such file in {tmp_path}$"):
        pa.Buffer(data=name)
    with pytest.raises(LaunchError, match="cannot be read: there is no such file$"):
        pa.Buffer(data=tmp_path / name)


@pytest.mark.parametrize(
    ("name", "step"), [("x.npy", "an array of numbers with numpy.save$"), ("x.npz", "numpy.savez$")]
)
@pytest.mark.parametrize("content", [b"", b"1 2 3", b"\x80\x04N."])
def test_a_file_that_numpy_has_not_written(tmp_path, name, step, content):
    """numpy takes it for a pickle, and says that it is one."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(LaunchError, match=f"cannot be read: it is no ar.*written; write.*{step}"):
        pa.Buffer(data=tmp_path / name)


def test_a_file_of_python_objects(tmp_path):
    np.save(tmp_path / "x.npy", np.array([{}]), allow_pickle=True)
    with pytest.raises(LaunchError, match="Object arrays.*; write an array of numbers with numpy"):
        pa.Buffer(data=tmp_path / "x.npy")


def test_a_folder_in_place_of_a_file(tmp_path):
    (tmp_path / "x.npy").mkdir()
    with pytest.raises(LaunchError, match="cannot be read: Is a directory; name a file to read"):
        pa.Buffer(data=tmp_path / "x.npy")


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
