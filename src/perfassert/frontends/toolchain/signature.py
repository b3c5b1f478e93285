"""Names and C types of a kernel's parameters, from the most informative text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from perfassert.kernel.program import Member

from .binary import Parameter
from .names import base_name, demangle, parameter_types, split_commas

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.)*", re.MULTILINE | re.DOTALL)
_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
_TOKEN = re.compile(
    r"\bnamespace\b\s*(?P<namespace>[\w:]*)\s*\{|[{};]|\btemplate\s*<|\b__global__\b"
)
_TYPE_PARAMETER = re.compile(r"(?:typename|class)\b")
_INTEGER_PARAMETER = re.compile(
    r"(?:const\s+)?(?:(?P<truth>bool)|(?:(?:std::)?(?:u?int\d*_t|size_t)|unsigned|signed|int|short"
    r"|long|char|\s)+)(?:\s+\w+)?$"
)
_QUALIFIER = re.compile(
    r"\b(?:const|volatile|__restrict__|__restrict|restrict|__grid_constant__)\b"
)
_END_OF_HEAD = re.compile(r"[{;]")
_PTX_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?(\.\w+)(.*?)([\w$]+)(?:\s*\[\d+\])?$")


@dataclass(frozen=True, slots=True)
class Declared:
    """Declaration of a parameter; ``None`` stands for unknown. See :class:`Parameter`."""

    name: str | None
    dtype: str | None
    pointer: bool
    members: tuple[Member, ...] = ()


def parameters(
    mangled: str, layout: Sequence[tuple[int, int]], sources: Iterable[str], ptx: str | None
) -> tuple[Parameter, ...]:
    """Return the parameters of ``layout`` (offset and size in bytes) with names and types.

    Types come from the mangled name, in which templates and typedefs are resolved, else from the
    source text. Names come from the source text, else from the PTX. A text with another number of
    parameters is not this kernel's.
    """
    count = len(layout)
    written = _of_length(count, _from_sources(base_name(demangle(mangled)), sources, count))
    typed = _of_length(count, [_parse_type(t, None) for t in parameter_types(demangle(mangled))])
    coded = _of_length(count, _from_ptx(mangled, ptx or ""))
    result = []
    for i, (offset, size) in enumerate(layout):
        name = next((d[i].name for d in (written, coded) if d and d[i].name), None)
        kind = next(
            (d[i] for d in (typed, written, coded) if d and (d[i].dtype or d[i].pointer)), None
        )
        pointer = kind is not None and kind.pointer and size == 8
        result.append(
            Parameter(name or f"arg{i}", offset, size, pointer, kind.dtype if kind else None)
        )
    return tuple(result)


def number_packs(known: Sequence[Parameter]) -> tuple[Parameter, ...]:
    """Number the elements of a parameter pack, which all have the pack's name.

    Example:
        >>> pack = (Parameter("args", 0, 8, True), Parameter("args", 8, 4))
        >>> [parameter.name for parameter in number_packs(pack)]
        ['args[0]', 'args[1]']
    """
    total = Counter(parameter.name for parameter in known)
    seen: Counter[str] = Counter()
    numbered = []
    for parameter in known:
        name = parameter.name
        if total[name] > 1:
            parameter = replace(parameter, name=f"{name}[{seen[name]}]")
            seen[name] += 1
        numbered.append(parameter)
    return tuple(numbered)


class GlobalFunction(NamedTuple):
    """A ``__global__`` function of a text: its qualified name, and its template parameters.

    ``template`` has the parameters as they are written, and is empty for a plain function.
    """

    name: str
    template: str

    def __str__(self) -> str:
        return f"{self.name}<{self.template}>" if self.template else self.name

    def instance(self, arguments: Sequence[str] = ()) -> str:
        """Return a name that a compiler accepts, or "" if only the author knows one.

        ``arguments`` are the first template arguments; others are examples.

        >>> GlobalFunction("scale", "typename T, int N, bool fast = false").instance(["half"])
        'scale<half, 4>'
        """
        parameters = split_commas(self.template) if self.template else []
        needed = [p for p in parameters if "=" not in p and "..." not in p]
        examples = [_example_argument(p) for p in needed[len(arguments) :]]
        if not parameters:
            return self.name
        chosen = [*arguments, *examples]
        return f"{self.name}<{', '.join(chosen)}>" if all(chosen) else ""


def _example_argument(parameter: str) -> str:
    """Return an argument for a template parameter that is a type, an integer or a truth value."""
    if _TYPE_PARAMETER.match(parameter):
        return "float"
    kind = _INTEGER_PARAMETER.match(parameter)
    return "" if kind is None else ("true" if kind["truth"] else "4")


def global_functions(text: str) -> list[GlobalFunction]:
    """Return the ``__global__`` functions in a text.

    The text is not preprocessed, so the result is good for messages and for a qualified guess.
    """
    plain = _STRING.sub('""', _DIRECTIVE.sub("", _COMMENT.sub(" ", text)))
    functions: dict[GlobalFunction, None] = {}
    scopes: list[str] = []
    template = ""
    for token in _TOKEN.finditer(plain):
        word = token[0]
        if word == "__global__":
            head = _declaration_head(plain, token.end()).split("(", 1)[0]
            if named := re.search(r"(?<![<>:\w])([A-Za-z_]\w*)\s*$", head):
                name = "::".join([*filter(None, scopes), named[1]])
                functions[GlobalFunction(name, template)] = None
            continue
        template = _template_parameters(plain, token.end()) if word[-1] == "<" else ""
        if word.endswith("{"):
            scopes.append(token["namespace"] or "")
        elif word == "}" and scopes:
            scopes.pop()
    return list(functions)


def _template_parameters(text: str, start: int) -> str:
    """Return the text from a position to the ``>`` that closes a template's parameters."""
    depth = 1
    for at in range(start, len(text)):
        depth += (text[at] in "<(") - (text[at] in ">)")
        if not depth:
            return " ".join(text[start:at].split())
    return ""


def _from_sources(name: str, sources: Iterable[str], count: int) -> list[Declared]:
    for text in sources:
        if name not in text or "__global__" not in text:  # true for most headers
            continue
        plain = _COMMENT.sub(" ", text)
        for start in re.finditer(r"\b__global__\b", plain):
            head = _declaration_head(plain, start.end())
            called = re.match(rf".*?\b{re.escape(name)}\s*\(", head, re.DOTALL)
            if called is None:
                continue
            inside = _in_parentheses(head[called.end() - 1 :])
            written = [
                _parse_parameter(part) for part in split_commas(inside) if part not in ("", "void")
            ]
            if len(written) == count:
                return written
    return []


def _declaration_head(text: str, start: int) -> str:
    """Return the declaration from a position to its body, without launch bounds."""
    end = _END_OF_HEAD.search(text, start)
    head = text[start : end.start() if end else None]
    bounds = re.search(r"\b__(?:launch_bounds|cluster_dims)__\s*\(", head)
    if bounds:
        skipped = _in_parentheses(head[bounds.end() - 1 :])
        head = head[: bounds.start()] + head[bounds.end() + len(skipped) + 1 :]
    return head


def _in_parentheses(text: str) -> str:
    """Return the text in the parentheses that ``text`` starts with."""
    depth = 0
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[1:at]
    return text[1:]


def _parse_parameter(text: str) -> Declared:
    """Parse one parameter as written: ``const float* __restrict__ src``."""
    text = _QUALIFIER.sub(" ", text.split("=", 1)[0]).strip()
    array = re.search(r"(\s*\[[^\]]*\])+$", text)
    inner = re.search(r"\(\s*\*\s*(\w+)\s*\)", text)  # pointer to array or function
    if inner:
        return Declared(inner[1], " ".join(text.replace(inner[0], " ").split()), True)
    text = text[: array.start()] if array else text
    named = re.search(r"(?<=[\s*&>])([A-Za-z_]\w*)$", text)
    kind = _parse_type(text[: named.start()] if named else text, named[1] if named else None)
    return Declared(kind.name, kind.dtype, True) if array else kind


def _parse_type(text: str, name: str | None) -> Declared:
    """Parse a type; of a pointer, return the type that it points to."""
    text = " ".join(_QUALIFIER.sub(" ", text).split())
    if "(*)" in text:
        return Declared(name, " ".join(text.replace("(*)", " ").split()), True)
    before, star, after = text.rpartition("*")
    pointee = f"{before} {after}" if star else text  # a macro such as RESTRICT may follow
    return Declared(name, " ".join(before.split() if star else pointee.split()) or None, bool(star))


def _from_ptx(mangled: str, ptx: str) -> list[Declared]:
    """Return the names in the PTX, except those that the compiler numbered."""
    start = re.search(rf"\.entry\s+{re.escape(mangled)}\s*\(", ptx)
    if start is None:
        return []
    declared = []
    for part in split_commas(_COMMENT.sub("", _in_parentheses(ptx[start.end() - 1 :]))):
        if match := _PTX_PARAMETER.match(" ".join(part.split())):
            generated = match[3].startswith(f"{mangled}_param_")
            declared.append(Declared(None if generated else match[3], None, ".ptr" in match[2]))
    return declared


def _of_length(count: int, declared: list[Declared]) -> list[Declared]:
    return declared if len(declared) == count else []
