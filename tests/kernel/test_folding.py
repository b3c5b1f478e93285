"""Folding: the same kernel as one that is written folded."""

import pytest
from star3d25pt import star3d25pt, threads

import perfassert as pa
from perfassert.kernel.folding import fold_kernel

DOMAIN = (64, 32, 32)


def moved(kernel, fold):
    p = pa.predict(kernel, pa.Launch.cover(threads(DOMAIN, fold), (16, 2, 4)), "a100")
    return {**p.volumes.to_dict(), "time": p.time, "updates": p.updates}


@pytest.mark.parametrize("fold", [(1, 1), (2, 1), (1, 2), (4, 2)])
def test_it_is_what_an_author_writes(fold):
    by_hand, made = star3d25pt(DOMAIN, fold), fold_kernel(star3d25pt(DOMAIN), (1, *fold))
    assert len(made.loads) == len(by_hand.loads)
    assert (made.flops, made.updates_per_thread) == (by_hand.flops, by_hand.updates_per_thread)
    assert moved(made, fold) == moved(by_hand, fold)


def test_what_two_updates_load_is_loaded_once_however_it_is_written():
    field = pa.Field("a", shape=(64, 64), halo=2)
    texts = ["a[y, x]", "a[1 + y, x]", "a[y - -1, x + 0 * y]"]
    kernel = pa.Kernel.from_accesses("k", [field], loads=texts)
    assert len(fold_kernel(kernel, (1, 2, 1)).loads) == 3  # rows 0, 1 and 2


@pytest.mark.parametrize(
    ("load", "fold", "message"),
    [
        ("a[threadIdx.x]", (2, 1, 1), r"loads\[0\]: folding needs x, y and z instead of thr"),
        ("a[x]", (0, 1, 1), "folding must be three integers"),
        ("a[x + n]", (2, 1, 1), r"loads\[0\]: unknown name 'n'"),
    ],
)  # fmt: skip
def test_what_cannot_be_folded(load, fold, message):
    kernel = pa.Kernel.from_accesses("k", [pa.Field("a", shape=(64,))], loads=[load])
    with pytest.raises(pa.KernelError, match=message):
        fold_kernel(kernel, fold)


def test_arguments_are_names():
    kernel = pa.Kernel.from_accesses(
        "k", [pa.Field("a", shape=(64,))], loads=["a[x + n]", "a[x + 1]"]
    )
    assert len(fold_kernel(kernel, (2, 1, 1), {"n": 1}).loads) == 2
