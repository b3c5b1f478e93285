"""Parsing of address expressions, and what it refuses."""

import brute_force
import pytest
from hypothesis import given
from hypothesis import strategies as st

import perfassert as pa
from perfassert.kernel.affine import bind, interval
from perfassert.kernel.expression import to_text

SRC = pa.Field("src", shape=(64, 64), halo=4)


def kernel(*loads, fields=(SRC,), **more):
    return pa.Kernel.from_accesses("k", fields, loads=loads, **more)


@pytest.mark.parametrize(
    ("text", "reason", "column"),
    [
        ("src[y, x +]", "not an expression", 11),
        ("scr[y, x]", "unknown field 'scr'; did you mean 'src'?", 1),
        ("src[y, x, 1]", "has 2 axes, not 3", 5),
        ("src[y, x * y]", "a product of two coordinates", 12),
        ("src[y, x // 0]", "division by zero", 13),
        ("src[y, x % 0]", "division by zero", 12),
        ("src[y, 8 // x]", "divisor must be the same", 13),
        ("src[y, x / 2]", "only + - * // %", 8),
        ("src[y, x ** 2]", "only + - * // %", 8),
        ("src[y, x + 0.5]", "only integers", 12),
        ("src[y, x + True]", "only integers", 12),
        ("src[y, f(x)]", "only + - * // %", 8),
        ("src[y, threadIdx.w]", "unknown name threadIdx.w", 8),
        ("src[y, threadIdx]", "needs .x, .y or .z", 8),
        ("src[y, src]", "its value depends on data", 8),
        ("src[y, src[x, y]]", "depends on data; give an assumed value", 8),
        ("src[y, x + (lambda: 1)()]", "only + - * // %", 12),
        ("src", "an access is a field with subscripts", 1),
        ("__import__('os').system('true')", "an access is a field with subscripts", 1),
        ("", "not an expression", 0),
    ],
)
def test_refused_when_read(text, reason, column):
    with pytest.raises(pa.AddressExpressionError) as caught:
        kernel(text)
    first, shown, caret = str(caught.value).splitlines()
    assert reason in first
    assert first.startswith("loads[0]: ")
    assert shown == f"  {text}".rstrip() or shown.strip() == text
    if column:
        assert caret.index("^") == column + 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("src[y, x + m]", "unknown name 'm'; give it in Launch.args"),
        ("src[y, width * x]", "unknown name 'width'"),
        ("src[y, x + 5]", "subscript 1 of 'src' runs from 5 to 68"),
        ("src[y - 5, x]", "subscript 0 of 'src' runs from -5 to 58"),
        ("src[y, x // (n - 4)]", "division by zero"),
        ("src[y, 4611686018427387904 * x]", "subscript 1"),
    ],
)
def test_refused_for_a_launch(text, reason):
    launch = pa.Launch.cover((64, 64), (16, 16), args={"n": 4})
    with pytest.raises(pa.AddressExpressionError, match="^loads") as caught:
        pa.predict(kernel(text), launch, "a100")
    assert reason in str(caught.value)
    assert "^" in str(caught.value).splitlines()[2]


ARGUMENTS = [
    ({"n": 0.0}, "argument 'n' of kernel 'k' must be an integer, not 0.0"),
    ({"n": "0"}, "argument 'n' .* must be an integer, not '0'"),
    ({"n": False}, "argument 'n' .* must be an integer, not False"),
    ({"n": [0]}, "argument 'n' .* must be an integer, not .0."),
]


@pytest.mark.parametrize(("args", "message"), ARGUMENTS)
def test_arguments_that_the_kernel_uses_are_integers(args, message):
    with pytest.raises(pa.LaunchError, match=message):
        pa.predict(kernel("src[y, x + n]"), pa.Launch.cover((8, 8), (8, 8), args=args), "a100")


def test_halo_and_masks_are_honoured():
    launch = pa.Launch.cover((60, 64), (32, 8))
    pa.predict(kernel("src[y, x + 8]"), launch, "a100")  # 59 + 8 = 67 lies in the halo
    with pytest.raises(pa.AddressExpressionError):
        pa.predict(kernel("src[y, x + 9]"), launch, "a100")


def test_ranges_of_quotients_are_exact():
    """Interval arithmetic alone would see 0 to 63 + 15 here."""
    launch = pa.Launch.cover((64, 64), (16, 16))
    pa.predict(kernel("src[y, x // 16 * 16 + x % 16]"), launch, "a100")
    pa.predict(kernel("src[y, 4 * (x // 4) + (x + 2) % 4]"), launch, "a100")


def test_assumed_values_become_assumptions():
    index = pa.Field("idx", "int32", (4096,))
    made = pa.Kernel.from_accesses(
        "gather",
        [pa.Field("src", shape=(4096,)), index],
        loads=["idx[x]", "src[idx[x]]"],
        assume={"idx[ x ]": "x * 7 % n"},
    )
    launch = pa.Launch.cover(4096, 128, args={"n": 4096})
    prediction = pa.predict(made, launch, "a100")
    assert "idx[x] is taken to be x * 7 % n (loads[1])" in map(str, prediction.assumptions)
    assert prediction.volumes.l2_load.fields["src"].total > 4096 * 8


def test_errors_in_an_assumed_value_show_its_text():
    fields = [pa.Field("src", shape=(64,)), pa.Field("i", "int32", (64,))]
    made = kernel("src[i[x] + 1]", fields=fields, assume={"i[x]": "x * 7 % n"})
    with pytest.raises(pa.AddressExpressionError) as caught:
        pa.predict(made, pa.Launch.cover(32, 32), "a100")
    _, shown, caret = str(caught.value).splitlines()
    assert shown.strip() == "x * 7 % n"
    assert shown[caret.index("^")] == "n"


def test_unused_and_circular_assumed_values():
    with pytest.raises(pa.KernelError, match="no access contains"):
        kernel("src[y, x]", assume={"idx[x]": "x"})
    fields = [SRC, pa.Field("i", "int32", (64,))]
    with pytest.raises(pa.AddressExpressionError, match="depends on data"):
        kernel("src[y, i[x]]", fields=fields, assume={"i[x]": "i[x] + 1"})


@pytest.mark.parametrize("name", [None, 5])
def test_names_are_texts(name):
    with pytest.raises(pa.KernelError, match=f"a kernel's name must be a text, not {name}"):
        pa.Kernel.from_accesses(name, [SRC], loads=["src[y, x]"])
    with pytest.raises(pa.KernelError, match=f"a field's name must be a text, not {name}"):
        pa.Field(name, shape=4)


def test_descriptions_that_contradict_themselves():
    with pytest.raises(pa.KernelError, match="same name"):
        kernel("src[y, x]", fields=(SRC, SRC))
    with pytest.raises(pa.KernelError, match="at least one load or store"):
        kernel()
    with pytest.raises(pa.KernelError, match="a list of expressions"):
        pa.Kernel.from_accesses("k", [SRC], loads="src[y, x]")
    for wrong in ({"registers": 0}, {"updates_per_thread": 0}, {"ilp": 0}, {"registers": 1.5},
                  {"shared_bytes": -1}, {"dtype": "float33"}, {"flops": -1}):  # fmt: skip
        with pytest.raises(pa.KernelError):
            kernel("src[y, x]", **wrong)


numbers = st.integers(-50, 50)
names = st.sampled_from(["x", "y", "z", "threadIdx.x", "blockIdx.y", "blockDim.x", "n"])
leaves = st.one_of(numbers.map(str), names)


def combine(children):
    pairs = st.tuples(children, st.sampled_from("+-"), children)
    scaled = st.tuples(numbers.map(str), st.just("*"), children)
    divided = st.tuples(
        children, st.sampled_from(["//", "%"]), st.integers(-9, 9).filter(bool).map(str)
    )
    return st.one_of(pairs, scaled, divided).map(lambda p: f"({p[0]}) {p[1]} ({p[2]})")


@given(text=st.recursive(leaves, combine, max_leaves=12))
def test_bound_forms_equal_python(text):
    """Binding and bounds agree with Python's own arithmetic for every thread of a small grid."""
    launch = pa.Launch((2, 2, 1), (3, 2, 2), args={"n": 5})
    (access,) = kernel(f"a[{text}]", fields=[pa.Field("a", shape=(8,))]).accesses
    known = dict(launch.scalar_args()) | {
        f"{w}.{a}": v
        for w, dims in (("blockDim", launch.block), ("gridDim", launch.grid))
        for a, v in zip("xyz", dims, strict=True)
    }
    form = bind(access.subscripts[0], known, pytest.fail)
    from perfassert.engines.volume.groups import coordinate_ranges
    from perfassert.kernel.affine import evaluate

    low, high = interval(form, coordinate_ranges(launch))
    for block in brute_force.block_order(launch.grid):
        for _, scope in brute_force.threads_of(launch, block):
            expected = eval(text, {}, scope)
            assert eval(to_text(access.subscripts[0]), {}, scope) == expected
            place = {
                **{a: scope[a] for a in "xyz"},
                **{f"threadIdx.{a}": getattr(scope["threadIdx"], a) for a in "xyz"},
                **{f"blockIdx.{a}": getattr(scope["blockIdx"], a) for a in "xyz"},
            }
            assert evaluate(dict(form.terms), place) + form.constant == expected
            assert low <= expected <= high


@given(text=st.text(max_size=40))
def test_any_text_is_read_or_refused(text):
    try:
        kernel(text)
    except pa.AddressExpressionError as error:
        assert str(error).startswith("loads[0]: ")
