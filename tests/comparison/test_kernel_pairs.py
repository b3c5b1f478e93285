"""Kernels of two sides are paired once each: by name, by code, by what they are made of."""

from hypothesis import given
from hypothesis import strategies as st

from perfassert.comparison.kernel_pairs import By, likeness, pairs
from perfassert.frontends.cuda.inventory import KernelInfo


def info(name, digest="", mix=None, arch="sm_80"):
    return KernelInfo(
        name=name, mangled=f"_Z{name}", arch=arch, registers=8, spill_bytes=0, stack_bytes=0,
        shared_bytes=0, barriers=0, code_bytes=64, mix=mix or {"move": 1}, accesses={},
        digest=digest or name, control_flow="",
    )  # fmt: skip


def named(found):
    return [(p.base and p.base.name, p.head and p.head.name, p.by) for p in found]


def test_a_name_goes_before_the_code():
    found = pairs([info("a", "1"), info("b", "2")], [info("a", "2"), info("b", "1")])
    assert named(found) == [("a", "a", By.NAME), ("b", "b", By.NAME)]


def test_a_kernel_of_one_name_stays_in_its_file():
    """Kernels of one name are paired by file, though both changed and the order differs."""
    base = [info("k", "1"), info("k", "2")]
    head = [info("k", "3"), info("k", "4")]
    files = {id(base[0]): "a.cu", id(base[1]): "b.cu", id(head[0]): "b.cu", id(head[1]): "a.cu"}
    result = pairs(base, head, lambda kernel: files[id(kernel)])
    assert [(p.base.digest, p.head.digest) for p in result] == [("1", "4"), ("2", "3")]
    assert [(p.base.digest, p.head.digest) for p in pairs(base, head)] == [("1", "3"), ("2", "4")]


def test_the_same_code_under_another_name():
    found = pairs([info("a", "1"), info("b", "2")], [info("b", "2"), info("c", "1")])
    assert named(found) == [("a", "c", By.CODE), ("b", "b", By.NAME)]


def test_another_architecture_is_another_kernel():
    found = pairs([info("a", "1")], [info("a", "1", arch="sm_90")])
    assert named(found) == [("a", None, By.NAME), (None, "a", By.NAME)]


def test_renamed_and_changed():
    before, after = {"move": 10, "global_load": 4}, {"move": 10, "global_load": 3}
    others = [info("x", mix={"fp32": 50})]
    found = pairs([info("a", mix=before), *others], [info("b", mix=after), *others])
    assert named(found) == [("a", "b", By.LIKENESS), ("x", "x", By.NAME)]
    assert found[0].likeness == 13 / 14


def test_two_that_are_equally_alike_are_not_guessed():
    mix = {"move": 10}
    found = pairs([info("a", mix=mix)], [info("b", mix=mix), info("c", mix=mix)])
    assert [p.base is None or p.head is None for p in found] == [True] * 3


def test_a_kernel_that_is_only_somewhat_alike_is_gone():
    found = pairs([info("a", mix={"move": 10})], [info("b", mix={"move": 10, "fp32": 3})])
    assert named(found) == [("a", None, By.NAME), (None, "b", By.NAME)]


def test_one_name_in_two_files_stays_two():
    found = pairs([info("a", "1"), info("a", "2")], [info("a", "2"), info("a", "3")])
    assert [(p.base.digest, p.head.digest) for p in found] == [("1", "3"), ("2", "2")]


KERNELS = st.lists(
    st.builds(
        info, st.sampled_from("abc"), st.sampled_from("123"),
        st.dictionaries(st.sampled_from(["x", "y"]), st.integers(1, 9)),
        st.sampled_from(["sm_80", "sm_90"]),
    ),
    max_size=7,
)  # fmt: skip


@given(KERNELS, KERNELS)
def test_every_kernel_is_there_once(base, head):
    found = pairs(base, head)
    assert sorted(id(p.base) for p in found if p.base) == sorted(map(id, base))
    assert sorted(id(p.head) for p in found if p.head) == sorted(map(id, head))
    assert all(p.base.arch == p.head.arch for p in found if p.base and p.head)


@given(KERNELS)
def test_nothing_changes_between_equals(kernels):
    assert all(p.base.digest == p.head.digest for p in pairs(kernels, kernels) if p.base)
    assert all(likeness(k, k) == 1 for k in kernels)
