import pickle

import numpy as np
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


def test_numbers_of_numpy_are_numbers():
    launch = pa.Launch(np.array([4, 2]), (np.int64(32), np.uint8(4)), shared_bytes=np.int32(16))
    assert launch == pa.Launch((4, 2), (32, 4), shared_bytes=16)
    assert type(launch.shared_bytes) is int
    plain = pa.Field("f", shape=(64, 64), halo=1, pitch=128, alignment=512, offset=8)
    made = pa.Field("f", shape=np.array([64, 64]), halo=np.int8(1), pitch=np.int64(128),
                    alignment=np.int32(512), offset=np.uint16(8))  # fmt: skip
    assert made == plain
    assert pa.Buffer(np.int32(64)).shape == (64,)
    assert pa.TensorMap(np.array([64, 64]), np.array([8, 8]), swizzle=np.int64(32)).box == (8, 8)
    field = pa.Field("a", shape=(4096,))
    numbers = {"flops": 3, "registers": 100, "shared_bytes": 256, "updates_per_thread": 64}
    kinds = {"flops": np.float32, "registers": np.int32, "shared_bytes": np.int16,
             "updates_per_thread": np.int8}  # fmt: skip
    of_numpy = {name: kinds[name](value) for name, value in numbers.items()}
    predictions = [
        pa.predict(pa.Kernel.from_accesses("k", [field], ["a[x]"], **values),
                   pa.Launch.cover(4096, 64), "a100")
        for values in (numbers, of_numpy)
    ]  # fmt: skip
    assert predictions[0].to_dict() == predictions[1].to_dict()


@pytest.mark.parametrize(
    ("grid", "said"),
    [
        ((1, 70_000), "70000 blocks in y; CUDA launches at most 65535"),
        ((1, 1, 65_536), "65536 blocks in z"),
        (2**31, "2147483648 blocks in x; CUDA launches at most 2147483647"),
    ],
)
def test_grids_that_cuda_does_not_launch(grid, said):
    with pytest.raises(pa.LaunchError, match=f"the grid has {said}"):
        pa.Launch(grid, 32)
    block = (1, 1, 1)
    kernel = pa.Kernel.from_accesses("k", [pa.Field("a", shape=(64,))], ["a[x]"])
    with pytest.raises(
        pa.LaunchError, match=rf"a domain of .* threads in blocks of .* needs {said}"
    ):
        pa.Launch.cover(grid, block)
    with pytest.raises(pa.LaunchError, match=said):
        pa.rank([(1, 1, 1)], "a100", kernel=kernel, domain=grid)
    assert pa.Launch((2**31 - 1, 65_535, 65_535), 32).blocks == (2**31 - 1) * 65_535**2


@pytest.mark.parametrize(
    ("block", "said"),
    [
        (2**26, "67108864 threads in x; CUDA launches at most 1024"),
        ((1, 1025), "1025 threads in y; CUDA launches at most 1024"),
        ((1, 1, 65), "65 threads in z; CUDA launches at most 64"),
        ((32, 33), r"1056 threads \(32×33×1\); CUDA launches at most 1024"),
        (np.int64(2**40), "1099511627776 threads in x"),
    ],
)
def test_blocks_that_cuda_does_not_launch(block, said):
    with pytest.raises(pa.LaunchError, match=f"the block has {said}"):
        pa.Launch(1, block)
    with pytest.raises(pa.LaunchError, match=f"the block has {said}"):
        pa.Launch.cover((64, 64, 64), block)
    kernel = pa.Kernel.from_accesses("k", [pa.Field("a", shape=(64,))], ["a[threadIdx.x % 64]"])
    prediction = pa.predict(kernel, pa.Launch(1, 64), "a100")
    with pytest.raises(pa.LaunchError, match=f"the block has {said}"):
        pa.whatif(prediction, block=block)
    with pytest.raises(pa.LaunchError, match=f"the block has {said}"):
        pa.rank([block], "a100", kernel=kernel, domain=64)
    for largest in (1024, (1, 1024), (4, 4, 64)):
        assert pa.Launch(1, largest).threads == 1024


def test_clusters_that_cuda_does_not_launch():
    assert pa.Launch(16, 32, cluster=16).clustered
    for wrong in (32, (4, 8), 2**31 - 1):
        with pytest.raises(pa.LaunchError, match=r"the cluster has .*; CUDA launches at most 16"):
            pa.Launch((2**31 - 1, 8), 32, cluster=wrong)
