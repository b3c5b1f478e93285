"""Text of Inductor's and Helion's files: what of Python it cannot reach, and what is compiled.

Triton evaluates a function's syntax tree in this process, so that each test here would otherwise
run Python, or take time and memory without end.
"""

import ast
import textwrap
from pathlib import Path
from types import FunctionType

import pytest

import perfassert as pa

pytest.importorskip("triton")

GENERATED = Path(__file__).parents[2] / "examples/generated"
STATIC = (GENERATED / "inductor_rows.py").read_text()
HELION = (GENERATED / "helion_exponents.py").read_text()
TYPES = {"x": "*fp32", "y": "*fp32", "out": "*fp32"}
A100 = "A100-SXM4-40GB"
KERNEL = """\
@triton.jit
def kernel(ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(ptr + at, at < n)
{}
    tl.store(ptr + at, value, at < n)
"""
RUNS = (
    'getattr(getattr(getattr(getattr(getattr(getattr(ptr, "__class__"), "__init__"), '
    '"__globals__"), "get")("__builtins__"), "get")("exec"), "__call__")'
)
"""In Triton, with ``getattr`` among its builtins: Python's ``exec``."""


def jit(text, name="kernel", **constants):
    """The function of a text, checked; nothing is compiled."""
    from perfassert.frontends.generators.triton_text import TritonText

    return TritonText.read(Path("some.py"), text).jit(name, constants or {"BLOCK": 1024})


def within(statements):
    return KERNEL.format(textwrap.indent(textwrap.dedent(statements).strip("\n"), "    "))


@pytest.mark.parametrize(
    "statements",
    [
        "more = -value if n > 1 else value\nvalue += more * 2",
        "if n > 1:\n    more = 1.0\nelse:\n    more = 2.0\nvalue *= more",
        "if BLOCK > 1:\n    pass\nelse:\n    return\nvalue = value + 1",
        "for i in range(0, n, 2):\n    value += i",
        "for i in tl.range(n, num_stages=2):\n    value -= i",
        "for i in tl.static_range(4):\n    value += i",
        "k = 0\nwhile k < n and k < 8:\n    k += 1",
        "HALF: tl.constexpr = BLOCK // 2\nvalue = tl.reshape(value, [2, HALF]).sum(0)[None, :]",
        "a, b = tl.split(tl.reshape(value, (BLOCK // 2, 2)))\nvalue = tl.join(a, b).reshape(BLOCK)",
        "both = (value, at)\nvalue = tl.reduce(both, 0, triton_helpers.maximum_with_index)[0]",
        "value = tl.load(ptr, eviction_policy='evict_last', cache_modifier='.cg')",
        "tl.device_assert(at < 5, 'index out of bounds: 0 <= at < 5')\ntl.static_assert(BLOCK > 1)",
        "value = tl.where(value == float('-inf'), 0, value).to(tl.float32, bitcast=True)",
        "value = tl.math.exp2(tl_math.exp(libdevice.tanh(value)))",
        "value = value if value.dtype is tl.float32 else min(n, 4) + max(n, 1)",
        "tl.atomic_add(ptr + at, value, sem='relaxed')\ntl.debug_barrier()",
        "tl.static_assert(value.shape == [BLOCK])\ntl.static_assert(len(value.shape) == 1, 'one')",
        "value = tl.broadcast_to(value, [BLOCK] if n is None else [1, BLOCK])",
        "value = (value.to(tl.int32) << 3) & ~at ^ (at >> 1) | 1",
        "'a text that stands alone'\nvalue = tl.maximum(value, 0, tl.PropagateNan.ALL)",
    ],
)
def test_what_generators_print_is_compiled(statements):
    assert jit(within(statements)).__name__ == "kernel"


def test_functions_that_call_each_other():
    text = """
@triton.jit
def combine(a, b):
    return a + b

@triton.jit
def inner(value, SCALE, WIDE: tl.constexpr=False):
    if WIDE:
        return value * SCALE, value
    return value, value + 1

@triton.jit
def unused(value):
    return open(value)

@triton.jit
def kernel(ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a, b = inner(tl.load(ptr + at), 2, WIDE=True)
    tl.store(ptr + at, tl.associative_scan(a + b, 0, combine) + OFFSET)

OFFSET = tl.constexpr(3)
"""
    assert jit(text).__globals__.keys() >= {"combine", "inner", "kernel", "OFFSET"}
    with pytest.raises(pa.KernelSourceError, match=r"some.py:14: 'unused' .* it names 'open'"):
        jit(text, "unused")


SQUARES = "\n".join(["a0: tl.constexpr = 3"] + [
    f"a{i + 1}: tl.constexpr = a{i} * a{i}" for i in range(40)
])  # fmt: skip
BOUND = "the name '{}' has a meaning already"
NOT_KNOWN = "is no part of"


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        # names that Triton takes from its builtins, where the text does not set them
        (f"if False:\n    getattr = 0\n{RUNS}('1')", BOUND.format("getattr")),
        (f"if n > 1:\n    getattr: tl.constexpr = 0\n{RUNS}('1')", BOUND.format("getattr")),
        (f"for getattr in range(0):\n    pass\n{RUNS}('1')", BOUND.format("getattr")),
        ("getattr, more = tl.split(value)", BOUND.format("getattr")),
        ("hasattr += 1", "it names 'hasattr'|'hasattr' is not assigned"),
        (f"value = {RUNS}('1')", "it names 'getattr', which is none of its own"),
        ("isinstance = 0", BOUND.format("isinstance")),
        ("print = 0", BOUND.format("print")),
        ("exec = 0", BOUND.format("exec")),
        ("__builtins__ = 0", BOUND.format("__builtins__")),
        ("__import__ = 0", BOUND.format("__import__")),
        ("tl = value", BOUND.format("tl")),
        ("triton_helpers = value", BOUND.format("triton_helpers")),
        ("triton = value", BOUND.format("triton")),
        ("kernel = value", BOUND.format("kernel")),
        ("value = __name__", "it names '__name__'"),
        ("value = triton.jit", "'triton.jit' is no part"),
        ("value = tl", "it names 'tl'"),
        # names that are not assigned on every path
        ("if n > 1:\n    more = 1\nvalue = more", "'more' is not assigned on every path to here"),
        ("for i in range(n):\n    more = i\nvalue = more", "'more' is not assigned on every"),
        ("while n > 1:\n    more = 1\nvalue = more", "'more' is not assigned on every path"),
        ("value = more\nmore = 1", "'more' is not assigned on every path"),
        ("more += 1", "'more' is not assigned on every path"),
        ("return\nvalue = 1", "no path leads here"),
        # functions that are none of the language, or take Python's objects
        ("value = tl.core.extern_elementwise('', '/lib.bc', [value], {}, True)", NOT_KNOWN),
        ("value = tl.core.os", "'tl.core.os' is no part"),
        ("value = tl.constexpr(1)", "'tl.constexpr' is no part"),
        ("value = tl.static_print('x')", "'tl.static_print' is no part"),
        ("value = tl.device_print('x', value)", "'tl.device_print' is no part"),
        ("value = tl.inline_asm_elementwise('', '=r', [value], tl.int32, True, 1)", NOT_KNOWN),
        ("value = tl.map_elementwise(kernel, value)", "'tl.map_elementwise' is no part"),
        ("value = tl.str_to_ty('*i8', 0)", "'tl.str_to_ty' is no part"),
        ("value = tl.target_info.is_cuda()", "'tl.target_info.is_cuda' is no part"),
        ("value = tl.tensor(1, 2)", "'tl.tensor' is no part"),
        ("value = tl.philox(1, at, 0, 0, 0, 1000000000)", "'tl.philox' is no part"),
        ("value = tl_math.wraps(value)", "'tl_math.wraps' is no part"),
        ("value = tl_math.core.builtin", "'tl_math.core.builtin' is no part"),
        ("value = tl.math.List", "'tl_math.List' is no part|'tl.math.List' is no part"),
        ("value = triton_helpers.triton.jit(value)", NOT_KNOWN),
        ("value = triton_helpers._product(value, 1)", "'triton_helpers._product' is no part"),
        ("value = libdevice.core(value)", "'libdevice.core' is no part"),
        ("value = tl.load.__globals__", "'tl.load.__globals__' is no part"),
        ("value = tl.reduce(value, 0, print)", "'print' is no function of the text"),
        ("value = tl.reduce(value, 0, lambda a, b: a)", "is no function of the text"),
        # attributes of values
        ("value = value.handle", "'value.handle' is no part"),
        ("value = value.__class__", "'value.__class__' is no part"),
        ("value = value.type.to_ir", "'value.type.to_ir' is no part"),
        ("value = (1).numerator", "'(1).numerator' is no part|'1 .numerator' is no part"),
        ("value = value.__init__(1)", "'value.__init__' is no part"),
        ("value = value.reduce(0, kernel)", "'value.reduce' is no part"),
        # calls of what is no name of a function
        ("value = value(1)", "it names 'value'"),
        ("value = value[0](1)", "is no name of a function"),
        ("value = (lambda: 1)()", "Lambda is no part"),
        ("value = kernel[1](2)", "the function 'kernel' can only be called here"),
        ("value = kernel", "the function 'kernel' can only be called here"),
        ("value = kernel(ptr, n, BLOCK)", "'kernel' calls itself"),
        ("value = tl.load(*ptr)", "Starred is no part"),
        ("value = tl.load(**ptr)", r"the argument '\*\*' is no part"),
        ("value = tl.load(ptr, _semantic=value)", "the argument '_semantic' is no part"),
        ("value = list(value)", "it names 'list'"),
        ("value = int('9' * 9)", "it names 'int'"),
        # texts
        ("value = 'a'", "has no place here"),
        ("value = 'a' * 1000000000", "has no place here"),
        ("value = f'{value}'", "JoinedStr is no part"),
        ("value = float('1e999')", "has no place here"),
        ("value = tl.load(ptr, eviction_policy='sometimes')", "has no place here"),
        ("value = tl.load(ptr, mask='a')", "has no place here"),
        ("value = b'a'", "has no place here"),
        ("value = 1j", "has no place here"),
        ("value = ...", "has no place here"),
        # numbers that are computed at compile time
        ("value = 2 ** 10 ** 9", "the operator Pow is no part"),
        ("value **= 2", "the operator Pow is no part"),
        ("value = 1 << 10000000000", "a constant shift is a number from 0 to 64"),
        ("value = 1 << (1 << 40)", "a constant shift is a number"),
        ("value = 1 << -1", "a constant shift is a number"),
        ("value <<= BLOCK", "a constant shift is a number"),
        (SQUARES, "a number that is computed at compile time may be too large"),
        ("value = (0,) * 1000000000", "is a tuple, which has no place here"),
        ("value = [0] * BLOCK", "is a tuple, which has no place here"),
        ("both = (1, 2)\nvalue = both * 1000000000", "is a tuple, which has no place here"),
        ("both = tl.split(value)\nvalue = 1000000000 * both", "is a tuple"),
        ("both = 1\nfor i in range(n):\n    value = both\n    both = (1, 2)", "some iterations"),
        ("value = tl.max(value, 0, True) * 1000000000", "more than 2 arguments by position"),
        ("value = value.max(0, True) * 1000000000", "more than 1 arguments by position"),
        ("value = value.shape * 1000000000", "is a tuple"),
        ("for i in tl.static_range(1000000000):\n    value += i", "too many iterations"),
        ("for i in tl.static_range(90000):\n    value += i + i", "more than 250000 expressions"),
        (
            "small: tl.constexpr = 1\nfor small in tl.static_range(2000):\n    pass\n"
            "for i in tl.static_range(small):\n    for j in tl.static_range(small):\n"
            "        value += j",
            "more than 250000 expressions",
        ),
        (
            "small: tl.constexpr = 1\nfor i in range(2):\n    for j in tl.static_range(small):\n"
            "        value += j\n    small: tl.constexpr = 2000",
            "another compile-time number in later iterations",
        ),
        ("for i in tl.range(n, num_stages=1000000):\n    value += i", "must be below 64"),
        ("for i in tl.range(n, loop_unroll_factor=BLOCK):\n    value += i", "must be below 64"),
        ("value = tl.rand(0, at, 1000000000)", "more than 2 arguments by position"),
        ("value = tl.rand(0, at, n_rounds=1000000000)", "the argument 'n_rounds' is no part"),
        ("value = 0x" + "f" * 5000, "an integer has more than 64 bits"),
        ("value = " + "(" * 150 + "value" + " + 1)" * 150, "100 levels deep|is no Python"),
        ("value = " + "value + " * 5000 + "1", "more than 100 levels deep|is no Python"),
        # the rest of Python
        ("value = (more := 1)", "NamedExpr is no part"),
        ("value = [i for i in (1, 2)]", "ListComp is no part"),
        ("value = {}", "Dict is no part"),
        ("value = {1}", "Set is no part"),
        ("value = value @ value", "the operator MatMult is no part"),
        ("value = value in value", "In is no part"),
        ("value = at[1:]", "a slice has no bounds"),
        ("value[0] = 1", "only a name can be assigned to"),
        ("value.more = 1", "only a name can be assigned to"),
        ("value[0] += 1", "only a name can be assigned to"),
        ("(a, (b, c)) = (1, (2, 3))", "is a tuple|only a name"),
        ("a = b = 1", "several targets at once"),
        ("a, b = value", "is no tuple"),
        ("value: tl.constexpr", "must be a tl.constexpr with a value"),
        ("value: print(1) = 1", "must be a tl.constexpr with a value"),
        ("for i in value:\n    pass", "a loop is over range"),
        ("for i in kernel(1):\n    pass", "a loop is over range"),
        ("for i in range(n):\n    pass\nelse:\n    value = 1", "a loop has no else"),
        ("while n:\n    pass\nelse:\n    value = 1", "a loop has no else"),
        ("for i in range(n):\n    break", "Break is no part"),
        ("import os", "Import is no part of Triton's language"),
        ("from os import path", "ImportFrom is no part"),
        ("with value:\n    pass", "With is no part"),
        ("try:\n    pass\nfinally:\n    pass", "Try is no part"),
        ("def f():\n    pass", "FunctionDef is no part"),
        ("class A:\n    pass", "ClassDef is no part"),
        ("global value", "Global is no part|is no Python"),
        ("del value", "Delete is no part"),
        ("assert value", "Assert is no part"),
        ("raise value", "Raise is no part"),
        ("yield value", "Yield is no part"),
        ("match n:\n    case 1:\n        pass", "Match is no part"),
    ],
)  # fmt: skip
def test_refused(statements, message):
    text = within(statements)
    with pytest.raises(pa.KernelSourceError, match=message) as raised:
        jit(text)
    assert str(raised.value).startswith("some.py:")


@pytest.mark.parametrize(
    ("signature", "message"),
    [
        ("ptr, n, BLOCK: tl.constexpr, getattr=0", BOUND.format("getattr")),
        ("ptr, n, BLOCK: tl.constexpr, tl=0", BOUND.format("tl")),
        ("ptr, n, BLOCK: tl.constexpr, kernel=0", BOUND.format("kernel")),
        ("ptr, n, BLOCK: print(1)", "the type of 'BLOCK' is not tl.constexpr"),
        ("ptr, n, BLOCK=print(1)", "is no number"),
        ("ptr, n, BLOCK='a'", "is no number"),
        ("ptr, n, *BLOCK", "its parameters are not plain"),
        ("ptr, n, **BLOCK", "its parameters are not plain"),
        ("ptr, n, *, BLOCK", "its parameters are not plain"),
        ("ptr, n, /, BLOCK", "its parameters are not plain"),
        ("ptr, n, n, BLOCK=1", "Triton cannot read it|is no Python"),
    ],
)
def test_refused_signatures(signature, message):
    text = within("").replace("ptr, n, BLOCK: tl.constexpr", signature)
    with pytest.raises(pa.KernelSourceError, match=message):
        jit(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("getattr = tl.constexpr(1)\n" + within(""), BOUND.format("getattr")),
        ("kernel = tl.constexpr(1)\n" + within(""), BOUND.format("kernel")),
        ("TEXT = tl.constexpr('a')\n" + within("value = TEXT * 9"), "is no number of at most 64"),
        ("at = tl.constexpr(1)\n" + within(""), BOUND.format("at")),
        (within("").replace("):", ") -> print(1):"), "it says what it returns"),
        (within("").replace("def kernel", "def \\\n kernel"), "Triton cannot read it"),
    ],
)
def test_refused_texts(text, message):
    with pytest.raises(pa.KernelSourceError, match=message):
        jit(text)


def test_functions_are_checked_for_what_they_are_given():
    """Calls that double the digits are rejected before 40 of them exhaust the memory."""
    functions = [f"@triton.jit\ndef f{i}(a):\n    return f{i + 1}(a * a)\n" for i in range(40)]
    text = "\n".join([*functions, "@triton.jit\ndef f40(a):\n    return a\n"])
    with pytest.raises(pa.KernelSourceError, match="computed at compile time may be too large"):
        jit(text + within("value += f0(3)"))
    assert jit(text + within("value += f38(3)"))


def test_calls_that_multiply():
    """Two calls in each of 40 functions are 2 ** 40 functions for Triton."""
    functions = [
        f"@triton.jit\ndef f{i}(a):\n    return f{i + 1}(a) + f{i + 1}(a)\n" for i in range(40)
    ]
    text = "\n".join([*functions, "@triton.jit\ndef f40(a):\n    return a\n"])
    with pytest.raises(pa.KernelSourceError, match="more than 250000 expressions"):
        jit(text + within("value += f0(at)"))


def test_functions_that_call_each_other_in_a_circle():
    text = "@triton.jit\ndef f(a):\n    return g(a)\n@triton.jit\ndef g(a):\n    return f(a)\n"
    with pytest.raises(pa.KernelSourceError, match="'f' calls itself"):
        jit(text + within("value = f(value)"))


def test_calls_that_are_nested_deeply():
    functions = [f"@triton.jit\ndef f{i}(a):\n    return f{i + 1}(a)\n" for i in range(2000)]
    text = "\n".join([*functions, "@triton.jit\ndef f2000(a):\n    return a\n"])
    with pytest.raises(pa.KernelSourceError, match="the calls of 'kernel' are nested too deeply"):
        jit(text + within("value = f0(value)"))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("a" * 9, "'BLOCK' is no number"),
        (1 << 70, "no number of at most 64"),
        ((1, 2), "no number"),
    ],
)
def test_constants_of_a_launch(value, message):
    with pytest.raises(pa.KernelSourceError, match=message):
        jit(within(""), BLOCK=value)
    assert jit(within("for i in tl.static_range(BLOCK):\n    value += i"), BLOCK=8)


# what is compiled is what was checked


def written(folder, text, name="cprogram"):
    path = folder / name[1:3] / f"{name}.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def mark(tmp_path):
    """A file that a text makes where it runs."""
    path = tmp_path / "ran"
    yield path
    assert not path.exists()


def test_escapes_hide_no_statement(tmp_path, mark, toolchain):
    """A string with escapes is a comment for Python, and lines of code for who reads the file."""
    run = RUNS.replace("ptr", "in_ptr0") + f"""("open(\\'{mark}\\', \\'w\\')")"""
    hidden = f"'\\x27 #'; ran = {run}"
    text = STATIC.replace("    x2 = xindex\n", f"    x2 = xindex\n    {hidden}\n", 1)
    relu, _ = pa.from_inductor(written(tmp_path, text))
    prediction = pa.predict(relu.kernel, relu.launch, A100)
    plain, _ = pa.from_inductor(written(tmp_path, STATIC, "cplain"))
    assert prediction.time == pa.predict(plain.kernel, plain.launch, A100).time


def test_an_encoding_hides_no_statement(tmp_path, mark, toolchain):
    """A comment that goes on in another line in the file's encoding does not become code."""
    run = RUNS.replace("ptr", "x") + f"""("open('{mark}', 'w')")"""
    text = "# coding: raw_unicode_escape\n" + HELION.replace(
        "    num_blocks_0 =", f"    # \\u000a    ran = {run}\n    num_blocks_0 =", 1
    )
    path = written(tmp_path, text)
    assert f"    ran = {run}" in path.read_text("raw_unicode_escape").splitlines()
    kernel, launch = pa.from_helion(path, TYPES)
    assert pa.predict(kernel, launch, A100).time


def test_a_file_that_changes_after_it_was_read(tmp_path, mark):
    from perfassert.frontends.generators.triton_text import TritonText

    text = TritonText.of_file(written(tmp_path, within("value = value + 1")))
    text.path.write_text(within(f"value = {RUNS}(\"open('{mark}', 'w')\")"))
    assert "value + 1" in text.jit("kernel", {"BLOCK": 64}).src


def test_a_decorator_is_not_taken_for_the_function(tmp_path):
    """Triton looks for the first line that begins with ``def``."""
    evil = "def evil(ptr, n, BLOCK):\n    open(1)\n    '''"
    text = within("").replace("@triton.jit\n", f'@triton.jit\n@other("""\n{evil}""")\n')
    assert jit(text).src.startswith("def kernel(")


def test_lines_are_those_of_the_file(tmp_path):
    from perfassert.frontends.generators.triton_text import TritonText

    path = written(tmp_path, "\n" * 40 + within("value = value + 1"))
    function = TritonText.of_file(path).jit("kernel", {"BLOCK": 64})
    assert (function.file_name, function.def_file_line_number) == (str(path), 42)


def test_functions_see_no_builtins():
    assert jit(within("")).__globals__["__builtins__"] == {}


# the tables


def test_modules_have_functions_of_tensors_only():
    """No member that a text may call is a class, a module, or another module's."""
    import triton

    from perfassert.frontends.generators.triton_language import MODULES, Language

    language = Language()
    for name, module in language.modules.items():
        for member in dir(module):
            if language.is_function(f"{name}.{member}"):
                value = getattr(module, member)
                home = getattr(value, "__module__", "")
                assert home.startswith("triton.language") or home == MODULES["triton_helpers"]
                is_type = value is triton.language.pointer_type
                assert is_type or isinstance(value, (FunctionType, triton.JITFunction))


def test_functions_of_the_table_are_in_triton():
    import triton

    from perfassert.frontends.generators import triton_language

    language = triton_language.Language()
    missing = [f for f in triton_language._FUNCTIONS if not language.is_function(f"tl.{f}")]
    assert missing == []
    for value in triton_language.VALUES:
        assert eval(value, {"tl": triton.language}) is not None


def test_helpers_that_return_tuples_are_in_the_table():
    from perfassert.frontends.generators import triton_helpers, triton_language

    tree = ast.parse(Path(triton_helpers.__file__).read_text())
    functions = {f.name: f for f in tree.body if isinstance(f, ast.FunctionDef)}

    def makes_tuple(name):
        values = [n.value for n in ast.walk(functions[name]) if isinstance(n, ast.Return)]
        calls = [v for v in values if isinstance(v, ast.Call)]
        reduced = any(v.args and isinstance(v.args[0], ast.Tuple) for v in calls)
        called = [v.func.id for v in calls if isinstance(v.func, ast.Name)]
        is_tuple = any(isinstance(v, ast.Tuple) for v in values)
        return is_tuple or reduced or any(makes_tuple(f) for f in called if f in functions)

    found = {name for name in functions if makes_tuple(name) and not name.startswith("_")}
    assert found == {name for name in functions if name in triton_language.TUPLES}


def test_builtins_of_triton_are_reserved():
    from triton.compiler.code_generator import CodeGenerator

    from perfassert.frontends.generators.triton_language import Language

    assert Language().reserved >= {*CodeGenerator.builtin_namespace, "exec", "open", "tl"}
