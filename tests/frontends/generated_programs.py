"""Random functions in the language of generated Triton kernels, and damaged ones."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Sequence
from copy import deepcopy

HEADER = """\
@triton.jit
def combine(a, b):
    return a + b

@triton.jit
def two(a, b, WIDE: tl.constexpr=2):
    if WIDE > 1:
        return a + WIDE, b
    return a, b - a

"""
_SCALARS = ("n", "m", "pid", "3", "BLOCK", "C0", "-1", "0")
_OPERATORS = ("+", "-", "*", "//", "%", "&", "|", "^", "<", "<=", "==", "!=")
_DTYPES = ("tl.int32", "tl.int64", "tl.int8")
FORBIDDEN = (
    "getattr", "hasattr", "isinstance", "list", "print", "exec", "eval", "open", "__import__",
    "__builtins__", "globals", "type", "vars", "os", "triton", "tl", "tl.core", "tl.constexpr",
    "tl.static_print", "tl_math.wraps", "tl.load.__globals__", "value.__class__", "value.handle",
    "combine", "kernel", "'exec'", "'__class__'", "f'{value}'", "(lambda: value)",
    "[i for i in at]", "(at := 1)",
)  # fmt: skip
"""Expressions that no text may have: first names, then others."""
_NAMES = 12
ENDLESS = ("2 ** 10 ** 9", "1 << 10 ** 9", "(0,) * 10 ** 9")
"""Expressions that take time and memory without end."""


class Program:
    """A function with random statements, each of which Triton takes where types allow it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.tensors = ["at", "value"]
        self.loops = 0

    def text(self) -> str:
        """The file."""
        lines = [
            "@triton.jit",
            "def kernel(ptr, n, m, BLOCK: tl.constexpr):",
            "    C0: tl.constexpr = BLOCK // 2",
            "    pid = tl.program_id(0)",
            "    at = pid * BLOCK + tl.arange(0, BLOCK)",
            "    value = tl.load(ptr + at, at < n, other=0)",
            *self.statements(self.random.randint(1, 6), "    "),
            "    tl.store(ptr + at, value, at < n)",
        ]
        return HEADER + "\n".join(lines) + "\n"

    def statements(self, count: int, indent: str) -> list[str]:
        return [line for _ in range(count) for line in self.statement(indent)]

    def statement(self, indent: str) -> list[str]:
        kinds: Sequence[Callable[[str], list[str]]] = (
            self.assignment, self.assignment, self.assignment, self.augmented, self.conditional,
            self.loop, self.unrolled, self.pair, self.call,
        )  # fmt: skip
        return self.random.choice(kinds)(indent)

    def assignment(self, indent: str) -> list[str]:
        name = f"x{len(self.tensors)}" if indent == "    " else "value"
        line = f"{indent}{name} = {self.tensor(2)}"
        if name != "value":
            self.tensors.append(name)
        return [line if name != "value" else f"{line} + value * 0"]

    def augmented(self, indent: str) -> list[str]:
        return [f"{indent}value {self.random.choice('+-*')}= {self.tensor(1)}"]

    def conditional(self, indent: str) -> list[str]:
        inside = indent + "    "
        test = self.random.choice(("n > 1", "BLOCK > 2", "not (m < n and n < 3)", "C0 is None"))
        lines = [f"{indent}if {test}:", *self.statements(1, inside)]
        return [*lines, f"{indent}else:", f"{inside}value = value - 1"]

    def loop(self, indent: str) -> list[str]:
        self.loops += 1
        end = self.random.choice(("n", "4", "m + 1"))
        over = self.random.choice((f"range({end})", f"tl.range(0, {end}, 2, num_stages=2)"))
        body = self.statements(1, indent + "    ") if self.loops < 3 else []
        return [f"{indent}for i in {over}:", *body, f"{indent}    value += i"]

    def unrolled(self, indent: str) -> list[str]:
        end = self.random.choice(("2", "3", "C0 // C0"))
        return [f"{indent}for u in tl.static_range({end}):", f"{indent}    value += u"]

    def pair(self, indent: str) -> list[str]:
        first, second = self.tensor(1), self.tensor(1)
        return [f"{indent}p, q = two({first}, {second})", f"{indent}value += p - q"]

    def call(self, indent: str) -> list[str]:
        calls = ("tl.debug_barrier()", "tl.static_assert(BLOCK > 1, 'a message')", "pass",
                 "tl.device_assert(at < n, 'index out of bounds')")  # fmt: skip
        return [indent + self.random.choice(calls)]

    def tensor(self, depth: int) -> str:
        """An expression of BLOCK integers."""
        choose = self.random.choice
        if not depth:
            return choose(self.tensors)
        a, b = self.tensor(depth - 1), self.tensor(depth - 1)
        forms = (
            f"({a} {choose(_OPERATORS)} {b})",
            f"({a} {choose('+-*')} {choose(_SCALARS)})",
            f"({a} << 2) + ({b} >> 1)",
            f"tl.where({a} < {b}, {a}, {choose(_SCALARS)})",
            f"tl.maximum({a}, {b})",
            f"triton_helpers.minimum({a}, {b})",
            f"({a}).to({choose(_DTYPES)})",
            f"tl.broadcast_to(tl.sum({a}, 0), [BLOCK])",
            f"tl.associative_scan({a}, 0, combine)",
            f"tl.reduce({a}, 0, combine) + {b}",
            f"tl.reduce(({a}, {b}), 0, triton_helpers.maximum_with_index)[0] + at",
            f"tl.reshape(tl.reshape({a}, [2, C0]), (BLOCK,))",
            f"({a} if BLOCK > C0 else {b})",
            f"tl.full([BLOCK], {choose(_SCALARS)}, {choose(_DTYPES)})",
            f"tl.load(ptr + {a} % n, eviction_policy='evict_last')",
            f"tl.zeros_like({a}) + two({a}, {b}, WIDE=1)[0]",
            f"-{a} + ~{b}",
            f"({a})[:, None][:, 0:1]" if depth > 5 else f"tl.sum(({a})[None, :], 0)",
        )
        return choose(forms)


class _Replace(ast.NodeTransformer):
    """Puts an expression in the place of the one with a number."""

    def __init__(self, place: int, replacement: ast.expr) -> None:
        self.place, self.replacement = place, replacement
        self.seen = -1

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            self.seen += 1
            if self.seen == self.place:
                return ast.copy_location(self.replacement, node)
        return super().generic_visit(node)


def damaged(text: str, seed: int, forbidden: Sequence[str] = FORBIDDEN + ENDLESS) -> str:
    """The text with a forbidden expression, a name bound anew, or two parts exchanged."""
    chance = random.Random(seed)
    tree = ast.parse(text)
    function = tree.body[-1]
    assert isinstance(function, ast.FunctionDef)
    decorators, function.decorator_list = function.decorator_list, []
    nodes = [
        n for n in ast.walk(function)
        if isinstance(n, ast.expr) and isinstance(getattr(n, "ctx", ast.Load()), ast.Load)
    ]  # fmt: skip
    kind = chance.randrange(4)
    if kind == 0:
        new: ast.expr = ast.parse(chance.choice(forbidden), mode="eval").body
    elif kind == 1:
        name = chance.choice(forbidden[:_NAMES])
        at = chance.randrange(len(function.body) + 1)
        lines = ast.parse(f"if n < 0:\n    {name} = 0\nvalue = {name}(value, 'dtype')")
        if name.isidentifier():
            function.body[at:at] = lines.body
        new = chance.choice(nodes)
    elif kind == 2:
        inner = chance.choice(forbidden[:_NAMES])
        new = ast.parse(f"{inner}({inner}(value, '__class__'), 'mro')", mode="eval").body
    else:
        new = chance.choice(nodes)
    _Replace(chance.randrange(len(nodes)), deepcopy(new)).visit(function)
    function.decorator_list = decorators
    return ast.unparse(ast.fix_missing_locations(tree))
