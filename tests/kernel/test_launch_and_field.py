import pickle

import pytest

import perfassert as pa


def test_padding_and_cover():
    assert pa.Launch(5, 64) == pa.Launch((5, 1, 1), (64, 1, 1))
    launch = pa.Launch.cover(domain=(100, 7), block=(32, 4))
    assert launch.grid == (4, 2, 1)
    assert launch.threads == 700
    assert launch.blocks == 8


@pytest.mark.parametrize("wrong", [0, (8, 0), -1, 1.5, "8", True, (1, 2, 3, 4), (), None])
def test_impossible_extents(wrong):
    with pytest.raises(pa.LaunchError):
        pa.Launch.cover(domain=wrong, block=32)
    with pytest.raises(pa.LaunchError):
        pa.Launch(1, wrong)


def test_arguments_and_identity():
    launch = pa.Launch(1, 32, args={"n": 3, "p": pa.Buffer((4,)), "f": 1.5, "b": True})
    assert dict(launch.scalar_args()) == {"n": 3}
    assert pickle.loads(pickle.dumps(launch)) == launch
    assert hash(launch) == hash(pa.Launch(1, 32))
    assert launch != pa.Launch(1, 32)
    assert list(pa.Launch(1, 32, args=(1, 2)).scalar_args()) == []
    for wrong in ({"shared_bytes": -1}, {"args": 5}, {"args": "n"}):
        with pytest.raises(pa.LaunchError):
            pa.Launch(1, 32, **wrong)


def test_field_layout():
    field = pa.Field("f", "float32", (4, 6, 10), halo=(0, 1, 2))
    assert field.strides == (8 * 14 * 4, 14 * 4, 4)
    assert pa.Field("f", "float32", (6, 10), pitch=32).strides == (128, 4)


@pytest.mark.parametrize(
    "wrong",
    [
        {"shape": ()},
        {"shape": (0,)},
        {"shape": (8,), "halo": -1},
        {"shape": (8, 8), "halo": (1, 1, 1)},
        {"shape": (8,), "pitch": 4},
        {"shape": (8,), "offset": 4},
        {"shape": (8,), "alignment": 12},
        {"shape": (8,), "dtype": "double"},
        {"shape": (1.5,)},
    ],
)
def test_impossible_fields(wrong):
    with pytest.raises(pa.KernelError):
        pa.Field("f", **wrong)
