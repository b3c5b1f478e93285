"""Integer expressions that print as CUDA C++ and are evaluated for all threads at once.

Values follow C: 32-bit operands are converted to the type of the other one, unsigned arithmetic
wraps around. What C leaves undefined (signed overflow, a division by zero, a shift by too much)
raises :class:`Rejected`, where a thread that takes part would come to it.
"""

from dataclasses import dataclass

import numpy as np


class Rejected(Exception):
    """The drawn kernel cannot be predicted: undefined behaviour, or accesses beyond a buffer."""


@dataclass(frozen=True)
class Type:
    """An integer type of C; ``name`` is one of its spellings."""

    name: str
    bits: int
    signed: bool

    @property
    def dtype(self):
        return np.dtype(f"{'i' if self.signed else 'u'}{self.bits // 8}")

    def same_values(self, other):
        return (self.bits, self.signed) == (other.bits, other.signed)


INT, UNSIGNED = Type("int", 32, True), Type("unsigned", 32, False)
LONG, SIZE = Type("int64_t", 64, True), Type("size_t", 64, False)
TYPES = (
    INT, UNSIGNED, LONG, SIZE, Type("long long", 64, True), Type("unsigned long long", 64, False),
    Type("int32_t", 32, True), Type("uint32_t", 32, False),
)  # fmt: skip
SUFFIX = {(32, True): "", (32, False): "u", (64, True): "ll", (64, False): "ull"}


def common(a, b):
    """The type of ``a + b``."""
    if a.bits != b.bits:
        return max(a, b, key=lambda t: t.bits)
    return a if not a.signed else b


def converted(values, type_):
    """Integers of any type as ``type_``, modulo 2 to its bits."""
    return np.asarray(values).astype(type_.dtype)


@dataclass
class State:
    """State of the threads of a launch at one place of the program.

    ``values``: of every variable, by name, an array over the threads or a single number;
    ``tables``: of arrays in arguments; ``active``: which threads take part.
    """

    values: dict
    tables: dict
    active: np.ndarray

    def narrowed(self, condition):
        return State(self.values, self.tables, self.active & condition)

    def check(self, wrong, text):
        if np.any(np.broadcast_to(wrong, self.active.shape) & self.active):
            raise Rejected(text)


class Expression:
    """``type`` is ``None`` for conditions."""

    type = None

    def __add__(self, other):
        return Binary("+", self, expression(other))

    def __sub__(self, other):
        return Binary("-", self, expression(other))

    def __mul__(self, other):
        return Binary("*", self, expression(other))

    def __floordiv__(self, other):
        return Binary("/", self, expression(other))

    def __mod__(self, other):
        return Binary("%", self, expression(other))

    def __lshift__(self, other):
        return Binary("<<", self, expression(other))

    def __rshift__(self, other):
        return Binary(">>", self, expression(other))

    def __and__(self, other):
        return Binary("&", self, expression(other))

    def __or__(self, other):
        return Binary("|", self, expression(other))

    def __xor__(self, other):
        return Binary("^", self, expression(other))

    def __lt__(self, other):
        return Comparison("<", self, expression(other))

    def __le__(self, other):
        return Comparison("<=", self, expression(other))

    def __gt__(self, other):
        return Comparison(">", self, expression(other))

    def __ge__(self, other):
        return Comparison(">=", self, expression(other))

    def equals(self, other):
        return Comparison("==", self, expression(other))


def expression(value):
    return value if isinstance(value, Expression) else Literal(value)


class Literal(Expression):
    def __init__(self, number, type_=INT):
        self.number, self.type = number, type_

    def __str__(self):
        text = f"{self.number}{SUFFIX[self.type.bits, self.type.signed]}"
        return f"({text})" if self.number < 0 else text

    def evaluate(self, state):
        return np.array(self.number, self.type.dtype)


class Variable(Expression):
    """A local variable, an argument, a member of one, a coordinate of the thread."""

    def __init__(self, name, type_):
        self.name, self.type = name, type_

    def __str__(self):
        return self.name

    def evaluate(self, state):
        if self.name not in state.values:
            raise Rejected(f"{self.name} is not declared")
        return state.values[self.name]


class Element(Expression):
    """``p.strides[d]``."""

    def __init__(self, name, index, type_):
        self.name, self.index, self.type = name, index, type_

    def __str__(self):
        return f"{self.name}[{self.index}]"

    def evaluate(self, state):
        table = state.tables[self.name]
        index = self.index.evaluate(state).astype(np.int64)
        state.check((index < 0) | (index >= len(table)), f"{self} is beyond the array")
        return table[np.clip(index, 0, len(table) - 1)]


class Binary(Expression):
    def __init__(self, operator, left, right):
        self.operator, self.left, self.right = operator, left, right

    @property
    def type(self):
        if self.operator in ("<<", ">>"):
            return self.left.type
        return common(self.left.type, self.right.type)

    def __str__(self):
        return f"({self.left} {self.operator} {self.right})"

    def evaluate(self, state):
        left = converted(self.left.evaluate(state), self.type)
        right = self.right.evaluate(state)
        if self.operator in ("<<", ">>"):
            return self._shifted(state, left, right.astype(np.int64))
        right = converted(right, self.type)
        with np.errstate(all="ignore"):
            if self.operator in ("/", "%"):
                return self._divided(state, left, right)
            if self.operator in "&|^":
                by = {"&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor}
                return by[self.operator](left, right)
            by = {"+": np.add, "-": np.subtract, "*": np.multiply}[self.operator]
            self._check_overflow(state, by(left.astype(np.float64), right.astype(np.float64)))
            return converted(by(left, right), self.type)

    def _check_overflow(self, state, about):
        if self.type.signed:  # within a factor of two: of doubles the last digits are lost
            state.check(np.abs(about) >= 2.0 ** (self.type.bits - 2), f"{self} overflows")

    def _shifted(self, state, left, count):
        state.check((count < 0) | (count >= self.type.bits), f"{self} shifts by too much")
        count = np.clip(count, 0, self.type.bits - 1)
        if self.operator == ">>":
            return converted(left >> count.astype(left.dtype), self.type)
        if self.type.signed:
            state.check(left < 0, f"{self} shifts a negative number")
            self._check_overflow(state, left.astype(np.float64) * 2.0**count)
        return converted(left << count.astype(left.dtype), self.type)

    def _divided(self, state, left, right):
        state.check(right == 0, f"{self} divides by zero")
        right = np.where(right == 0, np.ones_like(right), right)
        quotient = left // right
        if self.type.signed:  # C rounds to zero
            quotient = quotient + ((left % right != 0) & ((left < 0) != (right < 0)))
        result = quotient if self.operator == "/" else left - quotient * right
        return converted(result, self.type)


class MultiplyHigh(Expression):
    """``__umulhi``: the upper half of the product."""

    type = UNSIGNED

    def __init__(self, left, right):
        self.left, self.right = left, right

    def __str__(self):
        return f"__umulhi({self.left}, {self.right})"

    def evaluate(self, state):
        left = converted(self.left.evaluate(state), UNSIGNED).astype(np.uint64)
        right = converted(self.right.evaluate(state), UNSIGNED).astype(np.uint64)
        return converted((left * right) >> np.uint64(32), UNSIGNED)


class Cast(Expression):
    def __init__(self, type_, value):
        self.type, self.value = type_, value

    def __str__(self):
        return f"(({self.type.name}){self.value})"

    def evaluate(self, state):
        return converted(self.value.evaluate(state), self.type)


class Narrow(Expression):
    """A cast to a type of one or two bytes, which becomes an ``int`` at once."""

    type = INT

    def __init__(self, name, value):
        self.name, self.value = name, value

    def __str__(self):
        return f"(({self.name}){self.value})"

    def evaluate(self, state):
        narrow = {"unsigned char": "u1", "signed char": "i1", "short": "i2", "unsigned short": "u2"}
        return self.value.evaluate(state).astype(narrow[self.name]).astype(np.int32)


class Extremum(Expression):
    """``min`` or ``max``, of two values that are converted to one type."""

    def __init__(self, name, left, right):
        self.name, self.left, self.right = name, left, right

    @property
    def type(self):
        return common(self.left.type, self.right.type)

    def __str__(self):
        return f"{self.name}({self._text(self.left)}, {self._text(self.right)})"

    def _text(self, value):
        """Return the cast value, since a function takes long and long long only if both are one
        type."""
        if self.type.bits == 32 and value.type.same_values(self.type):
            return str(value)
        return str(Cast(self.type, value))

    def evaluate(self, state):
        by = np.minimum if self.name == "min" else np.maximum
        left, right = (v.evaluate(state) for v in (self.left, self.right))
        return by(converted(left, self.type), converted(right, self.type))


class Comparison(Expression):
    def __init__(self, operator, left, right):
        self.operator, self.left, self.right = operator, left, right

    def __str__(self):
        return f"({self.left} {self.operator} {self.right})"

    def evaluate(self, state):
        type_ = common(self.left.type, self.right.type)
        left = converted(self.left.evaluate(state), type_)
        right = converted(self.right.evaluate(state), type_)
        by = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
              "==": np.equal, "!=": np.not_equal}  # fmt: skip
        return by[self.operator](left, right)


class Logical(Expression):
    """``&&`` or ``||``, of which the right side is evaluated where the left one does not decide."""

    def __init__(self, operator, left, right):
        self.operator, self.left, self.right = operator, left, right

    def __str__(self):
        return f"({self.left} {self.operator} {self.right})"

    def evaluate(self, state):
        left = self.left.evaluate(state)
        if self.operator == "&&":
            return left & self.right.evaluate(state.narrowed(left))
        return left | self.right.evaluate(state.narrowed(~left))


def all_of(conditions):
    first, *others = conditions
    for other in others:
        first = Logical("&&", first, other)
    return first


class Choice(Expression):
    """``condition ? yes : no``."""

    def __init__(self, condition, yes, no):
        self.condition, self.yes, self.no = condition, yes, no

    @property
    def type(self):
        return common(self.yes.type, self.no.type)

    def __str__(self):
        return f"({self.condition} ? {self.yes} : {self.no})"

    def evaluate(self, state):
        holds = self.condition.evaluate(state)
        yes = converted(self.yes.evaluate(state.narrowed(holds)), self.type)
        no = converted(self.no.evaluate(state.narrowed(~holds)), self.type)
        return np.where(holds, yes, no)


@dataclass
class Function:
    """A function on the device: ``parameters`` are variables, ``given`` the text of what its
    argument list starts with (a structure), and what is called as ``first`` there."""

    name: str
    parameters: tuple
    result: Type
    body: Expression
    given: str = ""
    first: str = ""

    def __str__(self):
        listed = [f"{p.type.name} {p.name}" for p in self.parameters]
        listed = [self.given, *listed] if self.given else listed
        head = f"static __device__ __forceinline__ {self.result.name} {self.name}"
        return f"{head}({', '.join(listed)}) {{ return {self.body}; }}\n"


class Call(Expression):
    def __init__(self, function, arguments):
        self.function, self.arguments, self.type = function, arguments, function.result

    def __str__(self):
        listed = [self.function.first, *self.arguments] if self.function.first else self.arguments
        return f"{self.function.name}({', '.join(map(str, listed))})"

    def evaluate(self, state):
        values = dict(state.values)
        for parameter, argument in zip(self.function.parameters, self.arguments, strict=True):
            values[parameter.name] = converted(argument.evaluate(state), parameter.type)
        inner = State(values, state.tables, state.active)
        return converted(self.function.body.evaluate(inner), self.type)
