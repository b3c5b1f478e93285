"""Names and signatures, without any tool."""

import os
import subprocess
import sys

import pytest

from perfassert.errors import KernelSourceError
from perfassert.frontends.toolchain import names, signature

SEVERAL = ["_ZN1a1kIfLi2EEEvPT_", "_ZN1b1kIfLi2EEEvPT_", "_Z4saxyif", "_Z4saxyff"]


@pytest.fixture(autouse=True, params=["abi", "parser"])
def demangler(request, monkeypatch):
    """Select a demangler: by the C++ ABI, or the parser without the extension."""
    if request.param == "parser":
        pytest.importorskip("itanium_demangler")
        monkeypatch.setattr(names, "_by_abi", lambda mangled: None)
    else:
        pytest.importorskip("perfassert.frontends.toolchain._abi")
    names.demangle.cache_clear()
    yield request.param
    names.demangle.cache_clear()


@pytest.mark.parametrize(
    ("mangled", "plain"),
    [
        ("_ZN2ns4starIdLi4EEEvPKT_PS1_i", "ns::star<double, 4>(double const*, double*, int)"),
        ("_ZN33_GLOBAL__N__00000000_6_big_cu_big4anonEPi", "(anonymous namespace)::anon(int*)"),
        ("_Z1kILb1EEvv", "k<true>()"),
        ("_Z1kILj4ELl5ELc97EEvv", "k<4, 5, 97>()"),
        (
            "_Z4condISt17integral_constantIbLb0EEEvPf",
            "cond<std::integral_constant<bool, false>>(float*)",
        ),
        ("_ZN1a3addB3twoB3oneEi", "a::add[abi:two][abi:one](int)"),
        ("axpy", "axpy"),
        ("_Zrubbish", "_Zrubbish"),
    ],
)
def test_demangle(mangled, plain):
    assert names.demangle(mangled) == plain


HARD = {
    "_Z5applyIfXadL_Z5twicefEEEvPT_": "apply<float, &(twice(float))>(float*)",
    "_Z3lamIZ4hostPfEUlfE_EvT_S0_": "lam<host(float*)::{lambda(float)#1}>"
    "(host(float*)::{lambda(float)#1}, float*)",
    "_Z3lamI17__nv_dl_wrapper_tI11__nv_dl_tagIPFvPfEXadL_Z4hostS2_EELj1EEJEEEvT_S2_": "lam<"
    "__nv_dl_wrapper_t<__nv_dl_tag<void (*)(float*), &(host(float*)), 1>>>("
    "__nv_dl_wrapper_t<__nv_dl_tag<void (*)(float*), &(host(float*)), 1>>, float*)",
    "_Z3varIJifdEEvDpT_": "var<int, float, double>(int, float, double)",
}


@pytest.mark.parametrize("mangled", HARD)
def test_lambdas_and_addresses_of_functions(demangler, mangled):
    known = demangler == "abi"
    assert names.demangle(mangled) == (HARD[mangled] if known else mangled)


def test_tags_do_not_swap_with_the_hash_seed():
    """The order of Numba's tags is stable, though the parser keeps tags in a set."""
    script = (
        "from perfassert.frontends.toolchain import names; names._by_abi = lambda m: None;"
        "print(names.demangle('_ZN8__main__3addB2v1B4cw51B3xyzEi'))"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in range(4)
    }
    assert seen == {"__main__::add[abi:v1][abi:cw51][abi:xyz](int)\n"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("apply<float, &(twice(float))>", "apply<float, twice>"),
        ("apply<float, &(ns::f(void (*)(int)))>(float*)", "apply<float, &ns::f>(float *)"),
        ("k<std::integral_constant<bool, true>>", "k<std::bool_constant<true>>"),
        ("k<std::integral_constant<bool, 0> >", "k<std::false_type>"),
        ("cub::CUB_300_SM_80_NS::k<cuda::std::__4::plus<int>>", "cub::k<cuda::std::plus<int>>"),
        ("k<4u, (char)97, const T*>", "k<4, 97, T const *>"),
    ],
)
def test_spellings_of_one_name(one, other):
    assert names._normalise_name(one) == names._normalise_name(other)
    assert names._normalise_name(one) != names._normalise_name(one.replace("<", "<int, ", 1))


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
        ("a::k", 0),
        ("float, float", 3),
        ("(int, ", 2),
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
        ("float, 2", r"ambiguous in x\.cu: a::k<float, 2>\(float\*\), b::k<float, 2>"),
        ("sax", "ambiguous"),
        ("", "no kernel ''"),
        ("saxpy", "mean 'saxy'"),
        (None, "name the kernel"),
    ],
)
def test_no_choice(wanted, why):
    with pytest.raises(KernelSourceError, match=why):
        names.choose(wanted, SEVERAL, "x.cu")


TEXT = """
// __global__ void commented(int a);
#ifdef PLAIN
#define KERNEL(name) __global__ \\
    void name(int a)
#define GLOBAL __global__
#endif
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
        ("one::two::first", "class T, int N = 3"),
        ("one::two::second", ""),
        ("third", ""),
    ]


@pytest.mark.parametrize(
    ("template", "given", "instance"),
    [
        ("", [], "k"),
        ("typename T, int N", [], "k<float, 4>"),
        ("typename T, int N", ["ns::half"], "k<ns::half, 4>"),
        ("bool B, unsigned long long N, std::size_t, uint32_t M", [], "k<true, 4, 4, 4>"),
        ("class T, int N = 3", [], "k<float>"),
        ("class T, class... Ts", ["int", "char"], "k<int, char>"),
        ("typename T, Mode M", [], ""),  # only the author knows what a Mode is
        ("typename T, Mode M", ["int", "Mode::FAST"], "k<int, Mode::FAST>"),
        ("template <class> class C", [], ""),
    ],
)
def test_an_instance_of_a_template(template, given, instance):
    assert signature.GlobalFunction("k", template).instance(given) == instance


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


@pytest.mark.parametrize("name", ["_ZN1aE3addB3", "_Z1k\0v", "_Z1k\udc80v", "_Z" + "N" * 5000])
def test_names_that_no_compiler_gives(name):
    """Found by tests/fuzz: the parser fails while it writes what it has read."""
    assert isinstance(names.demangle(name), str)


class TestShortName:
    NAME = (
        "cub::NS_1::Reduce<cub::NS_1::Policy<float, int>::P6, thrust::it<thrust::ptr<float> >, op>"
    )

    @pytest.mark.parametrize(
        ("width", "short"),
        [
            (200, NAME),
            (70, "Reduce<Policy<float, int>::P6, it<ptr<float> >, op>"),
            (50, "Reduce<Policy<float, int>::P6, it<ptr<…> >, op>"),
            (40, "Reduce<Policy<…>::P6, it<…>, op>"),
            (20, "Reduce<…>"),
            (8, "Reduce<…"),
        ],
    )
    def test_inner_arguments_go_first(self, width, short):
        assert names.short_name(self.NAME, width) == short

    @pytest.mark.parametrize("name", ["k", "a::b<(anonymous namespace)::c>", "f<{lambda(int)#1}>"])
    def test_what_fits_stays(self, name):
        assert names.short_name(name) == name
