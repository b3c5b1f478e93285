"""Random functions of the language that is compiled from files: what Triton calls for them.

The oracle knows nothing of the grammar: it watches which Python functions Triton calls while it
evaluates a function, and which attributes it takes.
"""

from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType

import pytest
from generated_programs import FORBIDDEN, Program, damaged

from perfassert.errors import KernelSourceError

pytestmark = pytest.mark.exhaustive(one_in=3)

triton = pytest.importorskip("triton")

TRIED = 150
HOMES = ("triton.", "perfassert.frontends.generators.triton_helpers", "generated")
PYTHON = {"float", "len", "max", "min", "range", "builtin_max", "builtin_min"}
BITS = 4096


class Reached(Exception):
    """Triton has called, or taken, what no text may reach."""


@pytest.fixture
def watched(monkeypatch):
    """Triton's code generator, with an eye on what it calls, takes and computes."""
    from triton.compiler.code_generator import CodeGenerator
    from triton.language.core import constexpr

    def forbidden(*args, **kwargs):
        raise Reached("a builtin")

    for name in ("getattr", "hasattr", "isinstance", "list", "print", "int"):
        monkeypatch.setitem(CodeGenerator.builtin_namespace, name, forbidden)
    called, made = CodeGenerator.call_Function, constexpr.__init__

    def call(self, node, fn, args, kws):
        target = getattr(fn, "__func__", fn)
        home = str(getattr(target, "__module__", ""))
        name = getattr(target, "__name__", "")
        if not home.startswith(HOMES) and not (home == "builtins" and name in PYTHON):
            owner = getattr(fn, "__self__", None)
            if not str(type(owner).__module__).startswith("triton."):
                raise Reached(f"{home}.{name}")
        return called(self, node, fn, args, kws)

    def make(self, value):
        made(self, value)
        if isinstance(self.value, int) and abs(self.value).bit_length() > BITS:
            raise Reached("a number of many digits")
        if isinstance(self.value, (dict, ModuleType, FunctionType, BuiltinFunctionType)):
            raise Reached(f"the object {self.value!r}")

    monkeypatch.setattr(CodeGenerator, "call_Function", call)
    monkeypatch.setattr(constexpr, "__init__", make)
    return CodeGenerator


def lower(function):
    """Triton's intermediate code: all that it evaluates of the text, without LLVM."""
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, make_backend

    types = {"ptr": "*i32", "n": "i32", "m": "i32", "BLOCK": "constexpr"}
    source = ASTSource(function, types, {"BLOCK": 16}, {})
    target = GPUTarget("cuda", 80, 32)
    backend = make_backend(target)
    options = backend.parse_options({"num_warps": 4, "enable_fp_fusion": True})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    codegen = backend.get_codegen_implementation(options)
    return source.make_ir(target, options, codegen, backend.get_module_map(), context)


def jit(text):
    from perfassert.frontends.generators.triton_text import TritonText

    return TritonText.read(Path("some.py"), text).jit("kernel", {"BLOCK": 16})


def reached(error):
    """Return the oracle's exception in the chain of Triton's errors, or None."""
    while error is not None and not isinstance(error, Reached):
        error = error.__cause__ or error.__context__
    return error


def evaluate(text):
    """Return True if Triton accepts the function; fail if it reaches a forbidden operation."""
    from triton.compiler.errors import CompilationError

    try:
        lower(jit(text))
    except (CompilationError, RuntimeError) as error:  # the latter of what cannot be verified
        assert reached(error) is None, text
        return False
    return True


def test_functions_of_the_grammar(watched):
    """Functions of the grammar are accepted, and Triton compiles most of them."""
    compiled = sum(evaluate(Program(seed).text()) for seed in range(TRIED))
    assert compiled > TRIED // 2


def test_damaged_functions(watched):
    """They are refused with their line, or reach nothing."""
    refused = 0
    for seed in range(4 * TRIED):
        text = damaged(Program(seed).text(), seed)
        try:
            evaluate(text)
        except KernelSourceError as error:
            assert str(error).startswith("some.py:"), text
            refused += 1
    assert refused > TRIED


def test_the_oracle_sees_what_is_reached(watched, monkeypatch):
    """Without the grammar, the damage does reach Python."""
    from perfassert.frontends.generators import triton_text

    def unchecked(functions, name, **kwargs):
        return list(functions)

    monkeypatch.setattr(triton_text, "check_functions", unchecked)
    seen = 0
    for seed in range(TRIED):
        try:
            evaluate(damaged(Program(seed).text(), seed, FORBIDDEN))
        except AssertionError:
            seen += 1
        except Exception:
            continue
    assert seen > TRIED // 20
