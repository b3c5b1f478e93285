import gc
import weakref

import pytest

import perfassert as pa
from perfassert.kernel.memo import Memo


def test_once_for_a_key():
    memo, made = Memo(), []
    assert [memo.once(k, lambda k=k: made.append(k) or k) for k in "aba"] == ["a", "b", "a"]
    assert made == ["a", "b"]


def test_nothing_is_kept_of_what_failed():
    memo = Memo()
    with pytest.raises(ZeroDivisionError):
        memo.once("a", lambda: 1 // 0)
    assert memo.once("a", lambda: 2) == 2


def test_the_oldest_of_many_is_made_again():
    memo = Memo()
    for key in range(2000):
        assert memo.once(key, lambda key=key: key) == key
    assert memo.once(1999, lambda: "again") == 1999
    assert memo.once(0, lambda: "again") == "again"


def test_what_is_known_of_a_kernel_dies_with_it():
    from perfassert.engines.volume.binding import bind_groups

    kernel = pa.Kernel.from_accesses("k", [pa.Field("a", shape=(64,))], loads=["a[x]"])
    launch = pa.Launch(2, 32)
    groups = bind_groups(kernel, launch)
    assert bind_groups(kernel, launch) is groups
    (group,) = groups
    seen = weakref.ref(group)
    del kernel, groups, group
    gc.collect()
    assert seen() is None
