"""Kernels of two sides are paired once each: by name, by code, by what they are made of."""

from hypothesis import given
from hypothesis import strategies as st

from perfassert.comparison.kernel_pairs import By, likeness, pairs
from perfassert.frontends.cuda.inventory import KernelInfo


def info(name, digest="", mix=None, arch="sm_80", mangled=""):
    return KernelInfo(
        name=name, mangled=mangled or f"_Z{name}", arch=arch, registers=8, spill_bytes=0,
        stack_bytes=0, shared_bytes=0, barriers=0, code_bytes=64, mix=mix or {"move": 1},
        accesses={}, digest=digest or name, control_flow="",
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


def overload(parameters, digest, mix=None):
    """Return a kernel f with these parameters, in the mangled form."""
    return info("f", digest, mix, mangled=f"_Z1f{parameters}")


def digests(found):
    return [(p.base and p.base.digest, p.head and p.head.digest) for p in found]


def test_overloads_that_gain_a_parameter_keep_what_distinguishes_them():
    """All four gain a float; their tags are what they had, and they are listed in another order."""
    tags = {f"LES{a}MRT{b}": f"3LESILi{a}EE3MRTILi{b}EE" for a in "01" for b in "01"}
    base = [overload(f"iPfS_{tag}", name) for name, tag in tags.items()]
    head = [overload(f"iPfS_f{tag}", f"{name}+") for name, tag in reversed(tags.items())]
    assert digests(pairs(base, head)) == [(name, f"{name}+") for name in tags]


def test_overloads_whose_types_all_change_are_distinguished_by_code():
    base = [overload("Pii", "1"), overload("Pfi", "2")]
    assert digests(pairs(base, [overload("Pdi", "2"), overload("Psi", "1")])) == [
        ("1", "1"),
        ("2", "2"),
    ]
    mixes = [{"move": 9, "fp32": 2}, {"move": 30}]
    base = [overload("Pii", "1", mixes[0]), overload("Pfi", "2", mixes[1])]
    head = [overload("Pdi", "3", mixes[1]), overload("Psi", "4", {"move": 10})]
    assert digests(pairs(base, head)) == [("1", "4"), ("2", "3")]


def test_overloads_that_nothing_distinguishes_are_gone_and_new():
    base, head = [overload("Pi", "1"), overload("Pf", "2")], [overload("Pd", "3")]
    assert digests(pairs(base, head)) == [("1", None), ("2", None), (None, "3")]
    assert digests(pairs(base[:1], head)) == [("1", "3")]


def test_a_kernel_of_internal_linkage_keeps_its_signature():
    """The symbol has the digest of the file in it; the overload with a float stays that."""

    def static(digest, file, kind):
        name = "(anonymous namespace)::f"
        return info(name, digest, mangled=f"_ZN34_GLOBAL__N__{file}_4_k_cu_f_12341fE{kind}")

    base = [static("1", "0000000a", "Pf"), static("2", "0000000a", "Pi")]
    head = [static("3", "0000000b", "Pi"), static("4", "0000000b", "Pf")]
    assert digests(pairs(base, head)) == [("1", "4"), ("2", "3")]


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
