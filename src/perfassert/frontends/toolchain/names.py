"""Demangling of kernel names, and the choice of the kernel that the user names."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import import_module

from perfassert.errors import KernelSourceError, close_matches

_CAST = re.compile(
    r"\((?:unsigned |signed )?(?:bool|char|short|int|long long|long|unsigned)\)"
    r"(?=\s*(?:-?\d|true|false))"
)
_SUFFIX = re.compile(r"(?<![\w.])(\d+)[uUlL]+\b")
_SPACE = re.compile(r"\s*(\W)\s*")
_TRUTH = {"true": "1", "false": "0"}
_TAGS = re.compile(r"(?:\[abi:\w+\])+")
_VERSION = re.compile(r"::__\w*\d+(?=::)|\b[A-Z]+_\w+_NS::")  # inline namespaces of libraries
_CONSTANT = re.compile(r"\bbool_constant<([^<>,]*)>|\b(true|false)_type\b")


@lru_cache(maxsize=1024)
def demangle(mangled: str) -> str:
    """Return the demangled name with parameters; a name that is no mangled C++ as it is."""
    if not mangled.startswith("_Z"):
        return mangled
    text = _by_abi(mangled) or _by_parser(mangled)
    if text is None:
        return mangled
    text = re.sub(r"\b_GLOBAL__N_\w+", "(anonymous namespace)", text).removeprefix("void ")
    text = _SUFFIX.sub(r"\1", _CAST.sub("", text))
    return re.sub(r">\s+(?=>)", ">", text)


def _by_abi(mangled: str) -> str | None:
    """Demangle with the C++ ABI's function; None if the extension is missing or it fails."""
    try:
        abi = import_module("perfassert.frontends.toolchain._abi")
        name: str | None = abi.demangle(mangled)
    except (ImportError, ValueError):  # characters without an encoding, or a NUL
        return None
    return name


def _by_parser(mangled: str) -> str | None:
    """Demangle with a Python parser, which knows neither lambdas nor addresses of functions."""
    try:
        from itanium_demangler import parse  # type: ignore[import-untyped,unused-ignore]

        tree = parse(mangled)
        text = "" if tree is None else str(tree)
    except Exception:  # the parser raises errors of any kind
        return None
    if not text or "<Node " in text:
        return None
    text = _TAGS.sub(lambda tags: _in_order(tags[0], mangled), text)
    return re.sub(r"\(bool\)([01])", lambda m: ("false", "true")[int(m[1])], text)


def _in_order(tags: str, mangled: str) -> str:
    """Return ABI tags in the symbol's order, which the parser's set loses."""
    names = re.findall(r"\[abi:(\w+)\]", tags)
    names.sort(key=lambda name: mangled.find(f"B{len(name)}{name}"))
    return "".join(f"[abi:{name}]" for name in names)


_PART = re.compile(
    r"[A-Za-z_]\w*|\d[\w.]*(?:(?<=[eEpP])[+-]\d\w*)?|'(?:[^'\\\n]|\\\w+)'|::|\.\.\."
    r"|[<>(),*&+\-%!~?:|^=\[\]. ]|/(?![/*])",
    re.ASCII,
)
_NO_NAME = frozenset(
    "__has_include __has_include_next __has_embed _Pragma asm __asm __asm__".split()
)
_CLOSING = {")": "(", "]": "["}


def check_template_name(name: str) -> None:
    """Raise :class:`KernelSourceError` for a name that C++ names and arguments cannot form.

    The name becomes part of a program. A line break, a directive, a statement, a block, a string, a
    comment or unmatched brackets are refused.

    Example:
        >>> check_template_name("ns::star<double, 4, &twice<int>, (Mode)1>")
        >>> check_template_name("star<float>; int y")
        Traceback (most recent call last):
        ...
        perfassert.KernelSourceError: kernel name 'star<float>; int y': ';' is in no name
    """
    at, opened = 0, []
    while at < len(name):
        part = _PART.match(name, at)
        if part is None or part[0] in _NO_NAME:
            shown = name[at] if part is None else part[0]
            raise KernelSourceError(f"kernel name {name!r}: {shown!r} is in no name")
        if part[0] in _CLOSING.values():
            opened.append(part[0])
        elif part[0] in _CLOSING and (not opened or opened.pop() != _CLOSING[part[0]]):
            raise KernelSourceError(f"kernel name {name!r}: {part[0]!r} closes nothing")
        at = part.end()
    if opened:
        raise KernelSourceError(f"kernel name {name!r}: {opened[-1]!r} is not closed")


_NAMESPACES = re.compile(r"(?:(?:\b\w+|\(anonymous namespace\))::)+(?=[\w{(])")


def without_parameters(name: str) -> str:
    """Return a demangled name without its parameter list: ``"ns::star<double, 4>"``."""
    name = name.strip().removeprefix("void ")
    if not name.endswith(")"):
        return name
    depth = 0
    for at in range(len(name) - 1, -1, -1):
        depth += (name[at] == ")") - (name[at] == "(")
        if depth == 0:
            return name[:at].rstrip() or name
    return name


def parameter_types(name: str) -> tuple[str, ...]:
    """Return the types in a demangled name's parameter list; ``()`` without a list."""
    base = without_parameters(name)
    inside = name.strip().removeprefix("void ")[len(base) :].strip()[1:-1].strip()
    return () if inside in ("", "void") else tuple(split_commas(inside))


def split_commas(text: str) -> list[str]:
    """Split a text at the commas outside of all brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "(<[{") - (letter in ")>]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def base_name(name: str) -> str:
    """Return ``"star"``: the name without namespaces, template arguments and parameters."""
    return _without_template_arguments(_without_namespaces(without_parameters(name)))


def short_name(name: str, width: int = 60) -> str:
    """Return a name that fits a table; one that fits already stays as it is.

    Namespaces go first, then template arguments from the innermost outwards.

    Args:
        name: demangled, without its parameter list.
        width: characters, at least 8.

    Example:
        >>> short_name("cub::detail::DeviceReduceKernel<cub::Policy<float, 4>, float *>", 48)
        'DeviceReduceKernel<Policy<float, 4>, float *>'
        >>> short_name("cub::detail::DeviceReduceKernel<cub::Policy<float, 4>, float *>", 40)
        'DeviceReduceKernel<Policy<…>, float *>'
    """
    plain = _NAMESPACES.sub("", _without_namespaces(name))
    inner = [_without_inner_arguments(plain, depth) for depth in (3, 2, 1, 0)]
    shorter = next((text for text in (name, plain, *inner) if len(text) <= width), inner[-1])
    return shorter if len(shorter) <= width else f"{shorter[: width - 1]}…"


def short_label(label: str) -> str:
    """Return :func:`short_name` of a label, with the number that it may end with.

    Example:
        >>> short_label("ns::" + "Kernel<int, " * 6 + "float" + ">" * 6 + "#2")
        'Kernel<int, Kernel<int, Kernel<int, Kernel<…>>>>#2'
    """
    name, mark, number = label.rpartition("#")
    if not number.isdigit() or not name:
        return short_name(label)
    return f"{short_name(name)}{mark}{number}"


def _without_inner_arguments(name: str, depth: int) -> str:
    """Replace the text nested in more than ``depth`` brackets by an ellipsis."""
    kept, level = "", 0
    for letter in name:
        level -= letter in ")>]}"
        if level <= depth:
            kept += letter
        elif not kept.endswith("…"):
            kept += "…"
        level += letter in "(<[{"
    return kept


def choose(wanted: str | None, mangled: Sequence[str], where: str, hint: str = "") -> str:
    """Return the mangled name of the kernel meant; :class:`KernelSourceError` lists the choices.

    A mangled name must match exactly. Otherwise namespaces, template arguments and the parameter
    list may each be left out, if one kernel fits best. Without a name the file must have one
    kernel.
    """
    shown = sorted(without_parameters(demangle(name)) for name in mangled)
    listed = f"{where} has: {', '.join(shown)}" if shown else f"{where} has no compiled kernel"
    if wanted is None:
        if len(mangled) == 1:
            return mangled[0]
        what = "name the kernel" if mangled else "no kernel"
        raise KernelSourceError(f"{what}: {listed}{hint}")
    matching = fits(wanted, mangled)
    if len(matching) == 1:
        return matching[0]
    if matching:
        full = ", ".join(sorted(demangle(name) for name in matching))
        raise KernelSourceError(f"kernel {wanted!r} is ambiguous in {where}: {full}")
    near = close_matches(wanted, {*shown, *map(base_name, shown)})
    raise KernelSourceError(f"no kernel {wanted!r}: {listed}{near}{hint}")


def fits(wanted: str, mangled: Sequence[str]) -> list[str]:
    """Return the kernels that fit by the strictest rule that any kernel passes."""
    if wanted in mangled:
        return [wanted]
    if wanted.startswith("_Z") and (plain := demangle(wanted)) != wanted:
        wanted = plain
    rules: tuple[Callable[[str], str], ...] = (
        str,
        without_parameters,
        _without_namespaces,
        lambda name: _without_namespaces(without_parameters(name)),
        lambda name: _without_template_arguments(without_parameters(name)),
        lambda name: _without_template_arguments(_without_namespaces(without_parameters(name))),
    )
    key = _normalise_name(wanted)
    names = [(name, demangle(name)) for name in mangled]
    for rule in rules:
        if matching := [name for name, plain in names if _normalise_name(rule(plain)) == key]:
            return matching
    return _with_part(key, [(name, _normalise_name(plain)) for name, plain in names])


def _with_part(part: str, names: Sequence[tuple[str, str]]) -> list[str]:
    """Return the kernels whose name contains ``part``, preferably as whole words."""
    if not part:
        return []
    word = re.compile(rf"(?<!\w){re.escape(part)}(?!\w)")
    matching = [name for name, plain in names if word.search(plain)]
    return matching or [name for name, plain in names if part in plain]


def _without_namespaces(name: str) -> str:
    depth, start = 0, 0
    for at, letter in enumerate(name):
        depth += (letter in "(<") - (letter in ")>")
        if letter == "(" and depth == 1 and not name[at:].startswith("(anonymous namespace)"):
            break
        if name.startswith("::", at) and depth == 0:
            start = at + 2
    return name[start:]


def _without_template_arguments(name: str) -> str:
    """Return the name up to its template arguments."""
    return name.split("<", 1)[0]


def _normalise_name(name: str) -> str:
    """Return one spelling for all names with the same meaning."""
    text = re.sub(r"\b(true|false)\b", lambda m: _TRUTH[m[1]], name.strip())
    text = _SUFFIX.sub(r"\1", _CAST.sub("", text.removeprefix("void ")))
    text = re.sub(r"\bunsigned int\b", "unsigned", text)
    text = re.sub(r"\bconst\s+([\w:]+)", r"\1 const", text)
    text = _VERSION.sub("", _SPACE.sub(r"\1", without_addresses(text)))
    return _CONSTANT.sub(lambda m: f"integral_constant<bool,{m[1] or int(m[2] == 'true')}>", text)


def without_addresses(name: str) -> str:
    """Return a name with C++'s form of functions as arguments: ``twice`` for ``&twice``."""
    parts, at = [], 0
    for match in re.finditer(r"(?<=[<,])(\s*)&(\(?)", name):
        if match.start() < at:
            continue
        parts += [name[at : match.start()], match[1]]
        at = match.end()
        if match[2]:
            end = _closing(name, at - 1)
            parts.append(without_parameters(name[at:end]))
            at = end + 1
    return "".join(parts) + name[at:]


def _closing(text: str, start: int) -> int:
    """Return the position of the parenthesis that closes the one at ``start``."""
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] == "(") - (text[at] == ")")
        if depth == 0:
            return at
    return len(text)
