"""Values on the command line: numbers, arithmetic, null, lists, members of structures."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from perfassert.errors import LaunchError
from perfassert.kernel.buffer import Buffer
from perfassert.kernel.expression import BinaryOperation, Constant, Variable, evaluate
from perfassert.kernel.expression_text import Literal, NotAnExpression, read_call
from perfassert.kernel.integers import evaluate_integer
from perfassert.kernel.launch import member_key

_BUFFER = "Buffer("
_NULL = ("null", "None", "nullptr")


def pair(text: str, option: str) -> tuple[str, str]:
    """Return name and value of a text such as ``"n=100"``."""
    name, equals, value = text.partition("=")
    if not name.strip() or not equals:
        raise LaunchError(f"{option}: {text!r} is not of the form NAME=VALUE")
    return name.strip(), value.strip()


def values(texts: Iterable[str], option: str) -> dict[str, Any]:
    """``["n=1e6", "cfg.n=5"]`` → ``{"n": 1000000, "cfg": {"n": 5}}``; byte offsets are numbers."""
    arguments: dict[str, Any] = {}
    for text in texts:
        path, written = pair(text, option)
        name, dot, member = path.partition(".")
        if not dot:
            arguments[name] = value(written, f"{option} {name}")
            continue
        structure = arguments.setdefault(name, {})
        if not isinstance(structure, dict):
            raise LaunchError(f"{option} {path}: {name!r} has a value of its own")
        structure[member_key(member)] = value(written, f"{option} {path}")
    return arguments


def value(text: str, where: str) -> Any:
    """``"1e6"``, ``"0x10"``, ``"4096 * 256"``, ``"1.5"``, ``"null"``, ``"1, 2, 3"``; a buffer by
    what it holds, ``"@rows.npy"``, or as in Python, ``"Buffer(65, fill='arange')"``."""
    if text in _NULL:
        return None
    if text.startswith("@"):
        return _buffer(where, data=text[1:])
    if text.startswith(_BUFFER):
        return _parse_buffer(text, where)
    if "," in text and "(" not in text:
        return [value(part.strip(), where) for part in text.split(",") if part.strip()]
    try:
        number = float(text)
    except ValueError:
        return _evaluate_integer(text, where)
    if text.lstrip("+-").isdigit():
        return _digits(text, where)
    return int(number) if number.is_integer() and "." not in text else number


def _digits(text: str, where: str) -> int:
    try:
        return int(text)
    except ValueError:  # thousands of them
        raise LaunchError(f"{where}: a number of {len(text)} digits is none") from None


def _parse_buffer(text: str, where: str) -> Buffer:
    """Read a call of ``Buffer`` with numbers, texts and tuples; nothing is evaluated."""
    try:
        call = read_call(text)
        given = [_plain(one) for one in call.given]
        named = {name: _plain(one) for name, one in call.named.items()}
    except (NotAnExpression, RecursionError, KeyError, ArithmeticError):
        raise LaunchError(
            f"{where}: {text!r} cannot be read; write Buffer(65, fill='arange', seed=1)"
        ) from None
    return _buffer(where, *given, **named)


def _plain(one: Literal) -> Any:
    if isinstance(one, tuple):
        return tuple(map(_plain, one))
    return evaluate(one, {}) if isinstance(one, (Constant, Variable, BinaryOperation)) else one


def _buffer(where: str, *given: Any, **named: Any) -> Buffer:
    try:
        return Buffer(*given, **named)
    except LaunchError as error:
        raise LaunchError(f"{where}: {error}") from None
    except TypeError as error:
        raise LaunchError(f"{where}: a Buffer does not take this: {error}") from None


def _evaluate_integer(text: str, where: str) -> int:
    try:
        return evaluate_integer(text, {}, LaunchError, "give a number, or arithmetic as 4096*256")
    except LaunchError as error:
        raise LaunchError(f"{where}: {error}") from None
