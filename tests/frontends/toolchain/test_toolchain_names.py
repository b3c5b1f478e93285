"""Names and signatures, without any tool."""

import pytest

from perfassert.errors import KernelSourceError
from perfassert.frontends.toolchain import names, signature

SEVERAL = ["_ZN1a1kIfLi2EEEvPT_", "_ZN1b1kIfLi2EEEvPT_", "_Z4saxyif", "_Z4saxyff"]


@pytest.fixture(autouse=True)
def demangler():
    pytest.importorskip("itanium_demangler")


@pytest.mark.parametrize(
    ("mangled", "plain"),
    [
        ("_ZN2ns4starIdLi4EEEvPKT_PS1_i", "ns::star<double, 4>(double const*, double*, int)"),
        ("_ZN33_GLOBAL__N__00000000_6_big_cu_big4anonEPi", "(anonymous namespace)::anon(int*)"),
        ("_Z1kILb1EEvv", "k<1>()"),
        ("axpy", "axpy"),
        ("_Zrubbish", "_Zrubbish"),
    ],
)
def test_demangle(mangled, plain):
    assert names._normal(names.demangle(mangled)) == names._normal(plain)


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("f", "f"),
        ("f(int)", "f"),
        ("void ns::f<g<(int)2>, 3>(float (*) [4], int)", "ns::f<g<(int)2>, 3>"),
        ("(anonymous namespace)::f(int)", "(anonymous namespace)::f"),
    ],
)
def test_without_parameters(name, base):
    assert names.without_parameters(name) == base


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("a::k<float, 2>", 0),
        ("b::k", 1),
        ("b::k<float,2u>(float *)", 1),
        ("saxy(float, float)", 3),
        ("_Z4saxyif", 2),
    ],
)
def test_choose(wanted, found):
    assert names.choose(wanted, SEVERAL, "x.cu") == SEVERAL[found]


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ("k", "ambiguous"),
        ("saxy", r"ambiguous in x\.cu: saxy\(float, float\), saxy\(int, float\)"),
        ("saxpy", "mean 'saxy'"),
        (None, "name the kernel"),
    ],
)
def test_no_choice(wanted, why):
    with pytest.raises(KernelSourceError, match=why):
        names.choose(wanted, SEVERAL, "x.cu")


TEXT = """
// __global__ void commented(int a);
namespace one::two { namespace {
template <class T, int N = 3>
__global__ void __launch_bounds__(N * (2), 1) first(const T* __restrict__ a, T (&b)) {}
} __global__ static void second(unsigned long long n, float q[]); }
extern "C" __global__ __launch_bounds__(128)
void third(const float *const a, /* no */ struct S s, double* RESTRICT b, int) { if (1) { ; } }
template __global__ void fourth<int>(int*);
"""


def test_global_functions():
    assert signature.global_functions(TEXT) == [
        ("one::two::first", True),
        ("one::two::second", False),
        ("third", False),
    ]


def test_parameters_from_source():
    layout = [(0, 8), (8, 4), (16, 8), (24, 4)]
    found = signature.parameters("third", layout, [TEXT], None)
    assert [(p.name, p.pointer, p.dtype) for p in found] == [
        ("a", True, "float"),
        ("s", False, "struct S"),
        ("b", True, "double"),
        ("arg3", False, "int"),
    ]
    second = signature.parameters("_ZN3one3two6secondEyPf", [(0, 8), (8, 8)], [TEXT], None)
    assert [(p.name, p.dtype) for p in second] == [("n", "unsigned long long"), ("q", "float")]


def test_parameters_without_a_source():
    ptx = ".visible .entry k(\n .param .u64 .ptr .global .align 4 k_param_0,\n .param .b8 s[16]\n)"
    found = signature.parameters("k", [(0, 8), (8, 16)], [], ptx)
    assert [(p.name, p.pointer, p.dtype) for p in found] == [
        ("arg0", True, None),
        ("s", False, None),
    ]
    assert [p.name for p in signature.parameters("k", [(0, 4)], [TEXT], ptx)] == ["arg0"]
