"""Atomics change data in the L2: it comes from DRAM first and goes back as a store's does."""

import numpy as np
import pytest

import perfassert as pa

N = 1 << 24
SOURCE = r"""
#define KERNEL extern "C" __global__ void
#define I int i = blockIdx.x * blockDim.x + threadIdx.x
KERNEL add(const float* a, float* b) { I; b[i] += a[i]; }
KERNEL red(const float* a, float* b) { I; atomicAdd(b + i, a[i]); }
KERNEL largest(const int* a, int* b) { I; atomicMax(b + i, a[i]); }
KERNEL fetch(const float* a, float* b, float* c) { I; c[i] = atomicAdd(b + i, a[i]); }
KERNEL every_eighth(const float* a, float* b) { I; atomicAdd(b + 8 * i, a[i]); }
KERNEL after_load(const float* a, float* b) { I; if (b[i] < a[i]) atomicAdd(b + i, a[i]); }
KERNEL by_index(const int* a, float* b) { I; atomicAdd(b + a[i], 1.f); }
"""


@pytest.fixture(scope="module")
def predict(tmp_path_factory):
    path = tmp_path_factory.mktemp("atomics") / "atomics.cu"
    path.write_text(SOURCE)

    def ask(name, device="a100", a=None, size=N):
        names = "abc" if name == "fetch" else "ab"
        buffers = {key: pa.Buffer((size,), "float32") for key in names}
        dtype = "int32" if name in ("by_index", "largest") else "float32"
        buffers["a"] = a or pa.Buffer((size,), dtype)
        try:
            return pa.predict(
                pa.from_cuda(path, name), pa.Launch.cover(size, 256, args=buffers), device
            )
        except pa.ToolchainMissing as missing:
            pytest.skip(str(missing))

    return ask


def bytes_of(p):
    v = p.volumes
    parts = (v.dram_load, v.dram_store, v.l2_load, v.l2_store)
    return [float(part.total) / p.threads for part in parts]


@pytest.mark.parametrize("device", ["a100", "h200", "l40", "t4"])
@pytest.mark.parametrize(
    ("name", "per_thread"),
    [
        ("add", [8, 4, 8, 4]),
        ("red", [8, 4, 4, 4]),
        ("largest", [8, 4, 4, 4]),
        ("fetch", [8, 8, 8, 8]),
        ("every_eighth", [36, 32, 4, 32]),
    ],
)
@pytest.mark.exhaustive(one_in=3)
def test_what_is_changed_is_loaded_and_stored(predict, name, per_thread, device):
    size = N if name != "every_eighth" else N // 8
    p = predict(name, device, size=size)
    assert bytes_of(p) == pytest.approx(per_thread, rel=0.02)


def test_it_takes_as_long_as_a_load_and_a_store(predict):
    add, red = predict("add"), predict("red")
    assert float(red.time) == pytest.approx(float(add.time), rel=0.02)
    assert float(red.speed_of_light) == pytest.approx(float(add.speed_of_light), rel=0.01)


def test_what_was_loaded_before_is_not_loaded_again(predict):
    assert bytes_of(predict("after_load"))[:2] == pytest.approx([8, 4], rel=0.02)


def test_of_executed_addresses_too(predict):
    """A permutation of so few that all blocks are executed: each sector comes and goes once."""
    size = 1 << 16
    a = pa.Buffer(data=np.random.default_rng(1).permutation(size).astype(np.int32))
    loaded, stored, *_ = bytes_of(predict("by_index", a=a, size=size))
    assert 8 <= loaded <= 8.8  # a few come again
    assert stored == pytest.approx(loaded - 4)
