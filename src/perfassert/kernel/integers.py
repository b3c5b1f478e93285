"""Evaluation of integer expressions that users write: trip counts, sizes, launches."""

from __future__ import annotations

from collections.abc import Mapping

from perfassert.errors import PerfAssertError, close_matches
from perfassert.kernel.expression import ExpressionTree, evaluate, variables
from perfassert.kernel.expression_text import NotAnExpression, NumberReader


def evaluate_integer(
    text: str, names: Mapping[str, int], error: type[PerfAssertError], step: str = ""
) -> int:
    """Compute an expression such as ``"n // 16"``; ``names`` gives the values of its names.

    Operators are ``+ - * // %`` and ``ceil_div(a, b)``, a quotient rounded up. Raises ``error``
    with the text and the reason. ``step``: what to do about an unknown name.
    """
    try:
        return evaluate(_read_expression(text, error), names)
    except KeyError as missing:
        name = str(missing.args[0])
        hint = close_matches(name, names) or (step and f"; {step}")
        raise error(f"{text!r}: unknown name {name!r}{hint}") from None
    except RecursionError:
        raise error(f"{text!r}: not an expression") from None
    except ZeroDivisionError:
        raise error(f"{text!r}: division by zero") from None


def integer_names(text: str, error: type[PerfAssertError]) -> frozenset[str]:
    """Return the names that occur in an expression; raise ``error`` if it is not an expression."""
    return frozenset(v.name for v in variables(_read_expression(text, error)))


def _read_expression(text: str, error: type[PerfAssertError]) -> ExpressionTree:
    try:
        return NumberReader(text).read()
    except NotAnExpression as reason:
        problem = "not an expression" if str(reason).startswith("not an") else reason
        raise error(f"{text!r}: {problem}") from None
