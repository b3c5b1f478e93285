"""Grammar of the Triton functions that are compiled from a file.

The grammar is the part of Python that generators print.

Triton evaluates the syntax tree of a function in this process, so that a function which could name
any Python object could run any Python code. :func:`check_functions` reads a function node by node
and refuses each node that it has no rule for. Three rules keep Python's objects out of reach:

- A name is a parameter, a local variable that is assigned on every path to its use, or a constant
  of the file. No function can bind a name that Triton, Python or the file gives a meaning.
- Only functions of the file and of the closed tables of
  :mod:`~perfassert.frontends.generators.triton_language` are called.
- Attributes, and texts as arguments, are those of the closed tables. Only a message is any text.

Triton also computes at compile time, with integers of any size, and unrolls loops. The grammar
bounds the size of these integers and the number of unrolled iterations.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias

from perfassert.frontends.generators.triton_language import (
    BUILTINS,
    COMBINING,
    FIELDS,
    KEYWORDS,
    MESSAGES,
    METHODS,
    POSITIONAL_WORDS,
    SMALL_KEYWORDS,
    TUPLES,
    VALUES,
    WORDS,
    Language,
)

Refuse = Callable[[ast.AST, str], NoReturn]
Number: TypeAlias = "bool | int | float | None"
"""Type of a constant that a launch or a file passes to a function."""
_ARITHMETIC = (
    ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.LShift, ast.RShift,
    ast.BitAnd, ast.BitOr, ast.BitXor,
)  # fmt: skip
_COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Is, ast.IsNot)
_DEEPEST = 100  # levels of a syntax tree, far below what exhausts a stack
LARGEST = 1 << 64
"""Exclusive upper bound of the integers in a source text."""
_LARGEST_COMPUTED = 1 << 4096  # exclusive bound of compile-time integers; larger ones take long
_LARGEST_SHIFT = 64  # bits
_SMALLEST_LARGE = 64  # exclusive bound of num_stages and loop_unroll_factor
_COMBINING_PLACE = 2  # position of the argument combine_fn
_MOST_NODES = 250_000  # nodes that Triton visits, including those of calls and unrolled iterations
_EXTENT = 1 << 20  # largest number of elements of a tensor


def check_size(tree: ast.AST, refuse: Refuse) -> None:
    """Refuse a text that is nested too deeply for recursion, or has integers above 64 bits."""
    level: list[ast.AST] = [tree]
    for _ in range(_DEEPEST):
        for node in level:
            value = node.value if isinstance(node, ast.Constant) else None
            if type(value) is int and value >= LARGEST:
                refuse(node, "an integer has more than 64 bits")
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return
    refuse(level[0], f"the text is nested more than {_DEEPEST} levels deep")


def check_functions(
    functions: Mapping[str, ast.FunctionDef],
    name: str,
    *,
    constants: Mapping[str, Number],
    given: Mapping[str, Number],
    refuse: Refuse,
) -> list[str]:
    """Check a function and those that it calls; return their names.

    Args:
        functions: JIT functions of the text, by name.
        name: name of the launched function.
        constants: constants of the text, by name.
        given: parameters of the launched function that are constants, by name.
        refuse: function that raises the error for a node and a reason.
    """
    for constant, value in {**constants, **given}.items():
        if not _is_number(value):
            refuse(functions[name], f"the constant {constant!r} is no number of at most 64 bits")
    program = _Program(functions, constants, refuse)
    parameters = [a.arg for a in functions[name].args.args]
    try:
        program.check(name, tuple(_bound_of(given.get(p)) for p in parameters))
    except RecursionError:
        refuse(functions[name], f"the calls of {name!r} are nested too deeply")
    return [other for other in functions if other in program.reached]


@dataclass(frozen=True, slots=True)
class _Value:
    """Abstract result of an expression.

    ``bound`` is at least as large as each compile-time integer in the result; 0 if it has none.
    No operator takes a tuple: ``(0,) * n`` would have n elements.
    """

    bound: int = 0
    is_tuple: bool = False


Scope = dict[str, _Value]
_NONE = _Value(1)  # None is a compile-time constant, and constants have bounds of at least 1


@dataclass(frozen=True, slots=True)
class _Checked:
    """Result of checking a function; ``nodes``: syntax nodes that Triton visits in a call."""

    result: _Value
    nodes: int


@dataclass
class _Program:
    """Functions of a source text; each is checked once per combination of argument bounds."""

    functions: Mapping[str, ast.FunctionDef]
    constants: Mapping[str, Number]
    refuse: Refuse
    checked: dict[tuple[str, tuple[int, ...]], _Checked] = field(default_factory=dict)
    callers: list[str] = field(default_factory=list)
    language: Language = field(default_factory=Language)

    def __post_init__(self) -> None:
        for name in self.constants:
            if self.language.is_reserved(name) or name in self.functions:
                self.refuse(next(iter(self.functions.values())), _conflict(name))

    @property
    def reached(self) -> set[str]:
        """Return the names of the checked functions."""
        return {name for name, _ in self.checked}

    def check(self, name: str, bounds: tuple[int, ...]) -> _Checked:
        """Check a function for arguments within these bounds, unless that was done before."""
        key = (name, bounds)
        if key not in self.checked:
            function = self.functions[name]
            if name in self.callers:
                self.refuse(function, f"{name!r} calls itself")
            self.callers.append(name)
            self.checked[key] = _FunctionCheck(self, function).run(bounds)
            self.callers.pop()
        return self.checked[key]


class _FunctionCheck(ast.NodeVisitor):
    """Checker of one function for one set of bounds of its arguments.

    ``scope`` has the names that are assigned on every path to the current statement, with the
    bounds of their values. It is None if no path leads there.
    """

    def __init__(self, program: _Program, function: ast.FunctionDef) -> None:
        self.program = program
        self.function = function
        self.scope: Scope | None = {}
        self.nodes = 0
        self.returned: list[_Value] = []

    def run(self, bounds: tuple[int, ...]) -> _Checked:
        """Check signature and body for arguments within these bounds."""
        names = self._signature()
        if self.program.language.is_reserved(self.function.name):
            self._refuse(self.function, _conflict(self.function.name))
        parameters = dict(zip(names, map(_Value, bounds), strict=True))
        if self._block(self.function.body, parameters) is not None:
            self.returned.append(_NONE)
        return _Checked(_union(self.returned), self.nodes)

    def _signature(self) -> list[str]:
        """Check the signature, and return the parameters' names.

        Python evaluates annotations and defaults: only ``tl.constexpr`` and numbers are accepted.
        """
        parameters = self.function.args
        generic = getattr(self.function, "type_params", ())  # from Python 3.12
        starred = parameters.vararg or parameters.kwarg
        if generic or starred or parameters.kwonlyargs or parameters.posonlyargs:
            self._refuse(self.function, "its parameters are not plain")
        for argument in parameters.args:
            self._check_unbound(argument.arg, argument)
            if argument.annotation and ast.unparse(argument.annotation) != "tl.constexpr":
                self._refuse(argument, f"the type of {argument.arg!r} is not tl.constexpr")
        for default in parameters.defaults:
            if not isinstance(default, ast.Constant) or not _is_number(default.value):
                self._refuse(default, f"the default {ast.unparse(default)!r} is no number")
        if self.function.returns is not None:
            self._refuse(self.function.returns, "it says what it returns")
        return [argument.arg for argument in parameters.args]

    # statements

    def visit(self, node: ast.AST) -> Any:
        self._count(1)
        return super().visit(node)

    def generic_visit(self, node: ast.AST) -> NoReturn:
        self._refuse(node, f"{type(node).__name__} is no part of Triton's language here")

    def _block(self, statements: Sequence[ast.stmt], scope: Scope) -> Scope | None:
        self.scope = scope
        for statement in statements:
            if self.scope is None:
                self._refuse(statement, "no path leads here")
            self.visit(statement)
        return self.scope

    def visit_Assign(self, node: ast.Assign) -> None:
        if len(node.targets) != 1:
            self._refuse(node, "it assigns to several targets at once")
        (target,) = node.targets
        value: _Value = self.visit(node.value)
        if not isinstance(target, ast.Tuple):
            self._bind(target, _Value(0, value.is_tuple))  # Triton turns a number into a tensor
            return
        if not value.is_tuple:
            self._refuse(node, f"{_short(node.value)} is no tuple")
        for name in target.elts:
            self._bind(name, _Value())

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if ast.unparse(node.annotation) != "tl.constexpr" or node.value is None:
            self._refuse(node, "a variable with a type must be a tl.constexpr with a value")
        self._bind(node.target, self._visit_non_tuple(node.value))

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if not isinstance(node.target, ast.Name):
            self._refuse(node.target, "only a name can be assigned to")
        old = self._visit_non_tuple(
            ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
        )
        self._operation(node, node.op, old, node.value)
        self._bind(node.target, _Value())

    def visit_Expr(self, node: ast.Expr) -> None:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        if not is_text:  # a text alone, such as a docstring, has no effect
            self.visit(node.value)

    def visit_If(self, node: ast.If) -> None:
        self._visit_non_tuple(node.test)
        before = self._reachable_scope(node)
        scopes = [self._block(body, dict(before)) for body in (node.body, node.orelse)]
        after = [scope for scope in scopes if scope is not None]
        self.scope = _merge_scopes(after) if after else None

    def visit_For(self, node: ast.For) -> None:
        self._check_no_else(node.orelse)
        variable, trips = self._iterations(node.iter)
        begun = self.nodes
        before = self._reachable_scope(node)
        self.scope = dict(before)
        self._bind(node.target, variable)
        self._loop(node, before, self.scope)
        self._count((self.nodes - begun) * (trips - 1))

    def visit_While(self, node: ast.While) -> None:
        self._check_no_else(node.orelse)
        self._visit_non_tuple(node.test)
        before = self._reachable_scope(node)
        self._loop(node, before, dict(before))

    def _loop(self, node: ast.For | ast.While, before: Scope, inside: Scope) -> None:
        """Check a loop's body for no, one or several iterations.

        Triton keeps the variable of an unrolled loop, and what its body assigns, after the loop.
        """
        begun = dict(inside)
        end = self._block(node.body, inside)
        if end is None:
            self.scope = before
            return
        for name, value in before.items():
            if end[name].is_tuple != value.is_tuple:
                self._refuse(node, f"{name!r} is a tuple in some iterations only")
            if end[name].bound > begun[name].bound:
                self._refuse(node, f"{name!r} is another compile-time number in later iterations")
        self.scope = _merge_scopes([before, end])

    def visit_Return(self, node: ast.Return) -> None:
        self.returned.append(_NONE if node.value is None else self.visit(node.value))
        self.scope = None

    def visit_Pass(self, node: ast.Pass) -> None:
        """Accept ``pass``, which has nothing to check."""

    def _check_no_else(self, statements: Sequence[ast.stmt]) -> None:
        if statements:
            self._refuse(statements[0], "a loop has no else in Triton")

    def _reachable_scope(self, node: ast.AST) -> Scope:
        if self.scope is None:
            self._refuse(node, "no path leads here")
        return self.scope

    def _iterations(self, node: ast.expr) -> tuple[_Value, int]:
        """Return the loop variable's value, and how often Triton visits the loop's body."""
        if not isinstance(node, ast.Call):
            self._refuse(node, "a loop is over range, tl.range or tl.static_range")
        kind = ast.unparse(node.func)
        bound = _product(self._arguments(node))
        if kind in ("range", "tl.range"):
            return _Value(), 1
        if kind != "tl.static_range":
            self._refuse(node, "a loop is over range, tl.range or tl.static_range")
        ends = sum(self._visit_non_tuple(argument).bound for argument in node.args[:2])
        if ends > _MOST_NODES:
            self._refuse(node, "a loop that is unrolled has too many iterations")
        return _Value(max(bound, 1)), max(ends, 1)

    def _bind(self, target: ast.expr, value: _Value) -> None:
        if not isinstance(target, ast.Name):
            self._refuse(target, "only a name can be assigned to")
        self._check_unbound(target.id, target)
        self._reachable_scope(target)[target.id] = value

    def _check_unbound(self, name: str, node: ast.AST) -> None:
        """Refuse a local name that is also global: while it is unset, Triton reads the global."""
        program = self.program
        taken = name in program.functions or name in program.constants
        if taken or program.language.is_reserved(name):
            self._refuse(node, _conflict(name))

    # expressions

    def _visit_non_tuple(self, node: ast.expr) -> _Value:
        """Check an expression, which must not be a tuple."""
        value: _Value = self.visit(node)
        if value.is_tuple:
            self._refuse(node, f"{_short(node)} is a tuple, which has no place here")
        return value

    def visit_Constant(self, node: ast.Constant) -> _Value:
        if not _is_number(node.value):
            self._refuse(node, f"{_short(node)} has no place here")
        return _Value(_bound_of(node.value))

    def visit_Name(self, node: ast.Name) -> _Value:
        name, program = node.id, self.program
        if self.scope is not None and name in self.scope:
            return self.scope[name]
        if name in program.constants:
            return _Value(_bound_of(program.constants[name]))
        if name in program.functions:
            self._refuse(node, f"the function {name!r} can only be called here")
        names = (n for n in ast.walk(self.function) if isinstance(n, ast.Name))
        if any(n.id == name and isinstance(n.ctx, ast.Store) for n in names):
            self._refuse(node, f"{name!r} is not assigned on every path to here")
        self._refuse(node, f"it names {name!r}, which is none of its own")

    def visit_Tuple(self, node: ast.Tuple) -> _Value:
        return self._elements(node.elts)

    def visit_List(self, node: ast.List) -> _Value:
        return self._elements(node.elts)

    def _elements(self, nodes: Sequence[ast.expr]) -> _Value:
        return _Value(_product(map(self._visit_non_tuple, nodes)), is_tuple=True)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> _Value:
        return _Value(self._limit(node, [self._visit_non_tuple(node.operand), _Value(1)]))

    def visit_BinOp(self, node: ast.BinOp) -> _Value:
        return self._operation(node, node.op, self._visit_non_tuple(node.left), node.right)

    def _operation(
        self, node: ast.AST, operator: ast.operator, left: _Value, right: ast.expr
    ) -> _Value:
        if not isinstance(operator, _ARITHMETIC):
            self._refuse(node, f"the operator {type(operator).__name__} is no part of the language")
        second = self._visit_non_tuple(right)
        if isinstance(operator, ast.LShift) and second.bound:
            literal = right.value if isinstance(right, ast.Constant) else None
            if not isinstance(literal, int) or not 0 <= literal <= _LARGEST_SHIFT:
                self._refuse(right, f"a constant shift is a number from 0 to {_LARGEST_SHIFT}")
            second = _Value(1 << literal)
        return _Value(self._limit(node, [left, second]))

    def visit_BoolOp(self, node: ast.BoolOp) -> _Value:
        return _Value(self._limit(node, map(self._visit_non_tuple, node.values)))

    def visit_Compare(self, node: ast.Compare) -> _Value:
        for operator in node.ops:
            if not isinstance(operator, _COMPARISONS):
                self._refuse(node, f"{type(operator).__name__} is no part of the language")
        for operand in (node.left, *node.comparators):
            self.visit(operand)
        return _Value(1)

    def visit_IfExp(self, node: ast.IfExp) -> _Value:
        self._visit_non_tuple(node.test)
        return _union(map(self.visit, (node.body, node.orelse)))

    def visit_Subscript(self, node: ast.Subscript) -> _Value:
        base: _Value = self.visit(node.value)
        index = node.slice
        for part in index.elts if isinstance(index, ast.Tuple) else [index]:
            if not isinstance(part, ast.Slice):
                self._visit_non_tuple(part)
            elif part.lower or part.upper or part.step:
                self._refuse(part, "a slice has no bounds in Triton")
        return _Value(base.bound)

    def visit_Attribute(self, node: ast.Attribute) -> _Value:
        if (dotted := self.program.language.dotted_name(node)) is not None:
            if dotted not in VALUES:
                self._refuse_member(node)
            return _Value(1)
        if node.attr not in FIELDS:
            self._refuse_member(node)
        self._visit_non_tuple(node.value)
        return _Value(_EXTENT, is_tuple=node.attr == "shape")

    def visit_Call(self, node: ast.Call) -> _Value:
        function = node.func
        if isinstance(function, ast.Attribute):
            if (dotted := self.program.language.dotted_name(function)) is not None:
                return self._call_language(node, function, dotted)
            return self._call_method(node, function)
        if not isinstance(function, ast.Name):
            self.visit(function)
            self._refuse(node, f"{_short(function)} is no name of a function")
        if function.id in self.program.functions:
            return self._call(node, function.id)
        if function.id not in BUILTINS:
            self._refuse(function, f"it names {function.id!r}, which is none of its own")
        values = self._arguments(node, function.id)
        return _Value(_EXTENT if function.id == "len" else self._limit(node, values))

    def _call_method(self, node: ast.Call, function: ast.Attribute) -> _Value:
        """Check a method call, which returns a tensor or a property of a type."""
        if function.attr not in METHODS:
            self._refuse_member(function)
        self._check_count(node, METHODS[function.attr])
        self._visit_non_tuple(function.value)
        self._arguments(node)
        return _Value(int(function.attr == "is_floating"), function.attr in TUPLES)

    def _call(self, node: ast.Call, name: str) -> _Value:
        """Check a call of a function of the text, and that function for these arguments."""
        parameters = self.program.functions[name].args
        names = [a.arg for a in parameters.args]
        first = len(names) - len(parameters.defaults)
        defaults = zip(names[first:], parameters.defaults, strict=True)
        bounds = {n: _bound_of(d.value) for n, d in defaults if isinstance(d, ast.Constant)}
        keywords = [(k.arg, k.value) for k in node.keywords]
        for key, argument in [*zip(names, node.args, strict=False), *keywords]:
            if key not in names:
                self._refuse(argument, f"{name!r} has no parameter {key!r}")
            bounds[key] = self._visit_non_tuple(argument).bound
        if len(node.args) > len(names) or any(n not in bounds for n in names):
            self._refuse(node, f"{name!r} has the parameters {', '.join(names)}")
        return self._enter(name, tuple(bounds[n] for n in names))

    def _enter(self, name: str, bounds: tuple[int, ...]) -> _Value:
        checked = self.program.check(name, bounds)
        self._count(checked.nodes)
        return checked.result

    def _call_language(self, node: ast.Call, function: ast.Attribute, dotted: str) -> _Value:
        language, name = self.program.language, function.attr
        if not language.is_function(dotted):
            self._refuse_member(function)
        self._check_count(node, language.most_arguments(name))
        values = self._arguments(node, name)
        of_tuple = name in COMBINING and any(value.is_tuple for value in values[:1])
        return _Value(self._limit(node, values), of_tuple or name in TUPLES)

    def _check_count(self, node: ast.Call, most: int) -> None:
        if len(node.args) > most:
            self._refuse(node, f"{_short(node.func)} has more than {most} arguments by position")

    def _arguments(self, node: ast.Call, function: str = "") -> list[_Value]:
        """Return the values of all arguments, without the texts that ``function`` may take."""
        words = POSITIONAL_WORDS.get(function, frozenset())
        values = []
        for place, argument in enumerate(node.args):
            is_message = function in MESSAGES and place == 1
            if function in COMBINING and place == _COMBINING_PLACE:
                values.append(self._combining(argument))
            elif _is_text(argument, words) or (is_message and _is_text(argument)):
                continue
            else:
                values.append(self.visit(argument))
        for keyword in node.keywords:
            values.append(self._keyword(keyword, keyword.arg or "**"))
        return values

    def _keyword(self, keyword: ast.keyword, name: str) -> _Value:
        if name not in KEYWORDS and name not in SMALL_KEYWORDS and name not in WORDS:
            self._refuse(keyword, f"the argument {name!r} is no part of Triton's language here")
        if _is_text(keyword.value, WORDS.get(name, frozenset())):
            return _Value()
        if name == "combine_fn":
            return self._combining(keyword.value)
        value: _Value = self.visit(keyword.value)
        if name in SMALL_KEYWORDS and value.bound >= _SMALLEST_LARGE:
            self._refuse(keyword, f"{name} must be below {_SMALLEST_LARGE}")
        return value

    def _combining(self, node: ast.expr) -> _Value:
        """Check an argument ``combine_fn``, a function that Triton calls with tensors."""
        program = self.program
        if isinstance(node, ast.Name) and node.id in program.functions:
            parameters = program.functions[node.id].args.args
            self._enter(node.id, (0,) * len(parameters))
            return _Value()
        dotted = program.language.dotted_name(node) if isinstance(node, ast.Attribute) else None
        if not program.language.is_function(dotted or ""):
            self._refuse(node, f"{_short(node)} is no function of the text or the language")
        return _Value()

    def _limit(self, node: ast.AST, values: Iterable[_Value]) -> int:
        """Return a bound of an operation's result: twice the product of the operands' bounds.

        A bound of :data:`_LARGEST_COMPUTED` or more is refused.
        """
        bound = 2 * _product(values)
        if bound >= _LARGEST_COMPUTED:
            self._refuse(node, "a number that is computed at compile time may be too large")
        return bound

    def _count(self, nodes: int) -> None:
        self.nodes += nodes
        if self.nodes > _MOST_NODES:
            self._refuse(
                self.function,
                f"with its calls and unrolled loops it has more than {_MOST_NODES} expressions",
            )

    def _refuse_member(self, node: ast.Attribute) -> NoReturn:
        self._refuse(node, f"{_short(node)} is no part of what is known of its language")

    def _refuse(self, node: ast.AST, why: str) -> NoReturn:
        self.program.refuse(node, f"{self.function.name!r} is not compiled: {why}")


def _product(values: Iterable[_Value]) -> int:
    """Return the product of the values' bounds that are not 0; 0 if all are 0."""
    product = 0
    for value in values:
        if value.bound:
            product = max(product, 1) * value.bound
    return product


def _merge_scopes(scopes: Sequence[Scope]) -> Scope:
    """Return the names that all scopes have, with the largest of their bounds."""
    names = set(scopes[0]).intersection(*scopes)
    return {name: _union(scope[name] for scope in scopes) for name in names}


def _union(values: Iterable[_Value]) -> _Value:
    """Return the union of values: the largest bound, and a tuple if any of them is one."""
    every = list(values)
    return _Value(max(v.bound for v in every), any(v.is_tuple for v in every))


def _is_number(value: object) -> bool:
    if type(value) is int:
        return abs(value) < LARGEST
    return value is None or type(value) in (bool, float)


def _bound_of(value: object) -> int:
    """Return the bound of a constant, at least 1."""
    return max(abs(value), 1) if type(value) is int else 1


def _is_text(node: ast.expr, allowed: frozenset[str] | None = None) -> bool:
    """Return True for a literal text that is allowed; ``None`` allows any printable text."""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return False
    return node.value.isprintable() if allowed is None else node.value in allowed


def _conflict(name: str) -> str:
    return f"the name {name!r} has a meaning already, in Python, in Triton or in the file"


def _short(node: ast.AST) -> str:
    text = ast.unparse(node)
    return repr(text if len(text) <= 60 else f"{text[:60]}…")
