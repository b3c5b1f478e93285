"""Symbolic values as text for kernel authors: ``src[n*blockIdx.y + threadIdx.x + 1]``."""

from __future__ import annotations

from collections.abc import Mapping

from perfassert.kernel.expression_pool import Atom, Expression, ExpressionPool
from perfassert.kernel.names import Argument, Name
from perfassert.kernel.program import MemoryAccess, Program

_INFIX = {"//": "//", "&": "&", "|": "|", "^": "^", "<<": "<<", "<": "<", "==": "=="}
_NEGATED = {"<": ">=", "==": "!="}
_DEEPEST = 6  # parentheses in parentheses that are written out


def access_text(program: Program, access: MemoryAccess) -> str:
    """Return ``field[index]``, in elements of the access's width, or the address in bytes."""
    names = parameter_names(program)
    divisible = all(c % access.bytes == 0 for _, c in access.address.terms)
    if access.unresolved:
        return f"{access.field}[…]"
    if divisible:
        index = program.symbols.div(access.address, program.symbols.number(access.bytes))
        return f"{access.field}[{value_text(program.symbols, index, names)}]"
    return f"{access.field} + {value_text(program.symbols, access.address, names)} B"


def parameter_names(program: Program) -> dict[Name, str]:
    """Map argument names of expressions to names of parameters; other names are shown unchanged."""
    return {Argument(i): p.name for i, p in enumerate(program.parameters)}


def value_text(
    symbols: ExpressionPool, value: Expression, names: Mapping[Name, str], depth: int = 0
) -> str:
    """Return a value as a sum of products; parts that are nested too deeply are shown as ``…``."""
    if depth > _DEEPEST:
        return "…"
    parts = []
    for factors, coefficient in sorted(_terms(symbols, value, names, depth), key=_order):
        size = abs(coefficient)
        if size != 1 or not factors:
            factors = [str(size), *factors]
        sign = "-" if coefficient < 0 else "+"
        parts.append((sign, "*".join(factors)))
    if not parts:
        return "0"
    text = ("-" if parts[0][0] == "-" else "") + parts[0][1]
    return text + "".join(f" {sign} {body}" for sign, body in parts[1:])


_Term = tuple[list[str], int]


def _order(term: _Term) -> tuple[bool, int]:
    """Sort key of a term: products first, the constant last."""
    return (not term[0], -len(term[0]))


def _terms(
    symbols: ExpressionPool, value: Expression, names: Mapping[Name, str], depth: int
) -> list[_Term]:
    """Factors and coefficients; ``threadIdx.a + blockDim.a · blockIdx.a`` is written as ``a``."""
    terms = {
        tuple(sorted(_atom_text(symbols, symbols.atoms[a], names, depth) for a in monomial)): c
        for monomial, c in value.terms
    }
    taken = {axis for axis in "xyz" if axis in names.values()}
    for factors, coefficient in list(terms.items()):
        for axis in set("xyz") - taken:
            thread = f"threadIdx.{axis}"
            if thread not in factors:
                continue
            rest = list(factors)
            rest.remove(thread)
            block = tuple(sorted((*rest, f"blockIdx.{axis}", f"blockDim.{axis}")))
            if terms.get(block) == coefficient:
                del terms[factors], terms[block]
                terms[tuple(sorted((*rest, axis)))] = coefficient
                break
    return [(list(factors), c) for factors, c in terms.items()]


def _atom_text(symbols: ExpressionPool, atom: Atom, names: Mapping[Name, str], depth: int) -> str:
    if not atom.function:
        return names.get(atom.name, str(atom.name))
    if atom.function == "data":
        return f"<{atom.name}>"
    if atom.function == "not" and (text := _inverse(symbols, atom, names, depth)):
        return text
    inner = [value_text(symbols, a, names, depth + 1) for a in atom.arguments]
    if atom.function in _INFIX and len(inner) == 2:
        sides = (f"({s})" if " " in s else s for s in inner)
        return f"({f' {_INFIX[atom.function]} '.join(sides)})"
    if atom.function in ("and", "or"):
        return f"({f' {atom.function} '.join(inner)})"
    return f"{atom.function}({', '.join(inner)})"


def _inverse(symbols: ExpressionPool, atom: Atom, names: Mapping[Name, str], depth: int) -> str:
    """Return the inverse of a comparison, such as ``a >= b`` for ``not(a < b)``."""
    (argument,) = atom.arguments
    if len(argument.terms) != 1 or len(argument.terms[0][0]) != 1:
        return ""
    inner = symbols.atoms[argument.terms[0][0][0]]
    if inner.function not in _NEGATED:
        return ""
    left, right = (value_text(symbols, a, names, depth + 1) for a in inner.arguments)
    return f"({left} {_NEGATED[inner.function]} {right})"
