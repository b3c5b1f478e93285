"""Short names of kernels differ where kernels differ."""

import pytest

from perfassert.frontends.toolchain.labels import kernel_labels
from perfassert.frontends.toolchain.names import demangle


def labels(*mangled):
    return kernel_labels([("k.cu", name) for name in mangled])


@pytest.mark.parametrize(
    ("mangled", "expected"),
    [
        (["_Z1kPf"], ["k"]),
        (["_Z1kPf", "_Z1lPf"], ["k", "l"]),
        (["_Z1kPf", "_Z1kPf"], ["k", "k"]),  # for two architectures
        (["_Z1kIfEvPT_", "_Z1kIdEvPT_"], ["k<float>", "k<double>"]),
        (["_Z1kv", "_Z1ki"], ["k()", "k(int)"]),
        (["_Z1kii", "_Z1ki", "_Z1kiii"], ["k(…, int)", "k(…)", "k(…, int, int)"]),
        (["_Z1kiPfi", "_Z1kiPdi"], ["k(…, float*, …)", "k(…, double*, …)"]),
        (["_Z1kPfi1TILi0EE", "_Z1kPfi1TILi1EE"], ["k(…, T<0>)", "k(…, T<1>)"]),
        (["_Z1kIfEvPT_", "_Z1kIfEvPT_i"], ["k<float>(…)", "k<float>(…, int)"]),
    ],
)
def test_labels(mangled, expected):
    assert labels(*mangled) == expected


def test_long_template_arguments_are_shortened_to_what_differs():
    policy = f"60{'p' * 60}"
    names = [f"_Z1kI{policy}{kind}EvPf" for kind in "fd"]
    assert labels(*names) == ["k<…, float>", "k<…, double>"]
    nested = [f"_Z1kI1AI{policy}{kind}EEvPf" for kind in "fd"]
    assert labels(*nested) == [demangle(name) for name in nested]


def test_namespaces_that_a_table_leaves_out_come_back():
    inner = f"60{'n' * 60}"
    names = [f"_ZN{one}{inner}1kEPf" for one in ("1a", "1b")]
    assert labels(*names) == [f"{one}::{'n' * 60}::k(float*)" for one in "ab"]


def test_another_file_is_no_ambiguity():
    assert kernel_labels([("a.cu", "_Z1kPf"), ("b.cu", "_Z1kPd")]) == ["k", "k"]
