"""Test of whether NVRTC and nvcc can make different code of one source.

nvcc reads a source behind the host's preprocessor and headers; NVRTC has neither. For example,
``pow(x, 2)`` with a ``float`` is a loop of products by NVRTC. By nvcc it is a power of doubles,
which ``<cmath>`` declares. ``INT_MAX`` is a macro by nvcc alone. Differences are found in four
steps:

1. The host's preprocessor lists what nvcc has read before the first line of a source
   (:func:`read_preamble`): macros with their expansions, and names that are declared.
2. The words of the source and of all its headers are looked up in that list. nvcc compiles the
   source if a directive or a word may mean something else to NVRTC, or if a header is included
   that is none of the user's (:func:`read_words`, :func:`find_difference`).
3. nvcc's front end reads GNU's dialect, NVRTC's does not: GNU allows arithmetic on ``void*``, and
   ``enum`` has another type. Mostly such a source fails in one of them. It compiles to other code
   only where the language chooses by types or by what is well-formed: among overloads and
   specialisations, and by operators such as ``noexcept``. nvcc compiles every source with such a
   choice (:func:`_check_no_choice`).
4. NVRTC itself checks the macros among the words: it first reads a header that fails to compile if
   a macro expands to something else (:func:`write_check`).

Example: of ``__global__ void k(float* x) { x[threadIdx.x] = rsqrtf(2.f); }`` the word
``__global__`` is a macro, whose expansion NVRTC confirms; ``threadIdx`` and ``rsqrtf`` are declared
by CUDA's headers alone; ``k`` and ``x`` are the source's own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfassert.system.confined import splice_lines

CHECK = "perfassert_check.h"
"""Name of the header that NVRTC reads first; an error in it means that the codes differ."""

_KEYWORDS = frozenset(
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t "
    "char8_t class co_await co_return co_yield compl concept const const_cast consteval constexpr "
    "constinit continue decltype default delete do double dynamic_cast else enum explicit export "
    "extern false float for friend goto if inline int long mutable namespace new noexcept not "
    "not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires "
    "return short signed sizeof static static_assert static_cast struct switch template this "
    "thread_local throw true try typedef typeid typename union unsigned using virtual void "
    "volatile wchar_t while xor xor_eq final override "
    "__restrict__ __restrict __inline__ __volatile__ __asm__ __noinline__ __forceinline__ "
    "__inline_hint__ __grid_constant__ size_t".split()
)
"""Keywords of C++ (ISO C++20, [lex.key]) and of CUDA, and the type of ``sizeof``.

Source: CUDA C++ Programming Guide, *C++ Language Extensions*.
"""
_CHOOSING = frozenset(
    "__attribute__ alignof concept decltype enum noexcept operator requires typeid".split()
)
"""Words that test types or well-formedness, or that add overloads to choose from."""
_SPECIALISATION = re.compile(rb"\btemplate\s*<\s*>|\b(?:struct|class|union)\s+\w+\s*<")
_ATTRIBUTE = re.compile(rb"\[\s*\[|<:\s*<:")
_OF_CHARACTER_SET = re.compile(
    rb"^[uUL]|[^\x09-\x0d\x20-\x7e]|(?<!\\)(?:\\\\)*\\[^'\"?\\abfnrtvx0-7\n]"
)
"""Encoding prefixes, non-ASCII characters, and escapes that ISO C++ does not have."""
_REFERENCE = re.compile(
    rb"(?:\b[A-Za-z_]\w*|[>*\])])\s*&&?\s*(?:[A-Za-z_]\w*\s*[,)=:;{[(]|[,)>\[(.])"
)
"""Possible references; the two dialects differ in binding values of similar types to them."""
_CHOICES = {
    "a specialisation": _SPECIALISATION,
    "attributes": _ATTRIBUTE,
    "a reference": _REFERENCE,
}
_SCOPES = frozenset((b"namespace", b"struct", b"class", b"union"))
_CODE = re.compile(rb"[A-Za-z_]\w*|[(){};:=]|\S")
_TOKEN = re.compile(
    rb"(?P<comment>//[^\n]*|/\*.*?\*/)"
    rb'|(?P<text>(?:u8|[uUL])?(?:R"(?P<end>[^()\\\s]{0,16})\(.*?\)(?P=end)"'
    rb'|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)+\'))'
    rb"|\.?[0-9](?:[eEpP][+-]|'?\w|\.)*"
    rb"|(?P<word>[A-Za-z_]\w*)"
    rb"|(?P<strange>[^\x09-\x0d\x20-\x7e]|[$@`\\])",
    re.DOTALL,
)
_DIRECTIVE = re.compile(rb"^[ \t\f\v]*(?:#|%:)[ \t\f\v]*(\w*)([^\n]*)$", re.MULTILINE)
_INCLUDED = re.compile(rb'\s*(?:"([^"]+)"|<([^>]+)>)\s*')
_HARMLESS_DIRECTIVES = frozenset((b"", b"define", b"undef", b"ifdef", b"ifndef", b"else", b"endif"))
_CONDITIONS = frozenset((b"if", b"elif"))
_HARMLESS_PRAGMAS = frozenset((b"once", b"unroll", b"nounroll"))
_TRIGRAPH = re.compile(rb"\?\?[=/'()!<>-]")
_LONE_RETURN = re.compile(rb"\r(?!\n)")
_RESERVED = re.compile(r"__|_[A-Z]")
_OF_ARCHITECTURE = frozenset(("__CUDA_ARCH__",))
"""Macros that both compilers define from the requested architecture."""
_OPEN = re.compile(r"\benum\b|\bextern\s*\"\"\s*$")
"""Text before a brace whose names belong to the enclosing scope."""
_OPERATOR = re.compile(r"_Pragma$|__has_")
"""Preprocessor operators; a macro that expands to one has no plain text as its expansion."""
_MARKER = re.compile(r'# \d+ "((?:[^"\\]|\\.)*)"')
_MACRO = re.compile(r"#define (\w+)(?:\(([^)]*)\))?(.*)")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_WORD = re.compile(r"\b[A-Za-z_]\w*")
_DECLARATION = re.compile(r"([\w>*&])[ \t\n]*(?<!\w)([A-Za-z_]\w*)\s*\(([^()]*)\)")
_NO_TYPE = re.compile(r"\b(?:return|else|new|delete|throw|case|goto|co_return|co_yield)\s*$")
_QUALIFIER = re.compile(r"\b(?:const|volatile|register|_*restrict_*)\b")
_TYPE_WORDS = frozenset("int char float double void long short unsigned signed bool".split())


_HOST_COMPILERS = (
    ("clang", "__clang_major__", "__clang_minor__"),
    ("gcc", "__GNUC__", "__GNUC_MINOR__"),
)
"""Host compiler → macros with its version; Clang defines GCC's macros, too."""


@dataclass(frozen=True, slots=True)
class Preamble:
    """Macros and names that nvcc has read before the first line of a source.

    Attributes:
        macros: Name → number of parameters (``None``: it is no function) and expansion.
        cuda: Reserved words (``__…``, ``_X…``) in the text of CUDA's own headers, and functions
            that they declare.
        host: Names that the host's headers have at global scope, and ``std``, less functions that
            CUDA's headers declare alike.
        overloaded: Functions that both declare, with several lists of parameters in all.
    """

    macros: Mapping[str, tuple[int | None, str]]
    cuda: Set[str]
    host: Set[str]
    overloaded: Set[str]


@dataclass(frozen=True, slots=True)
class Words:
    """Words of a source and its headers.

    ``defined`` has the words that ``#define`` makes macros. ``declared`` has the words that may be
    functions declared outside of other functions.
    """

    all: Set[str]
    defined: Set[str]
    declared: Set[str]


class MayDiffer(Exception):
    """NVRTC and nvcc may make different code of a source; the message has the reason."""


def host_compiler_name(definitions: str) -> str:
    """Return the name and version that a host's compiler states in its macros.

    >>> host_compiler_name("#define __GNUC__ 12\\n#define __GNUC_MINOR__ 2")
    'gcc 12.2'
    """
    macros = {macro[1]: macro[3].strip() for macro in _MACRO.finditer(definitions)}
    for name, *numbers in _HOST_COMPILERS:
        if all(number in macros for number in numbers):
            return f"{name} {'.'.join(macros[number] for number in numbers)}"
    return "another compiler"


def read_preamble(text: str, own: Sequence[str]) -> tuple[Preamble, dict[str, int | None]]:
    """Return the preamble without expansions, and the macros whose expansions are wanted.

    Args:
        text: preprocessor's output for an empty source, with definitions (``-E -dD``).
        own: folders of CUDA's own headers, with links resolved.
    """
    parts: dict[bool, list[str]] = {False: [], True: []}
    macros: dict[str, int | None] = {}
    bodies: dict[str, set[str]] = {}
    places: dict[str, bool] = {}
    of_cuda = False
    for line in text.splitlines():
        if marker := _MARKER.match(line):
            name = marker[1]
            if name not in places:
                real = str(Path(name).resolve())
                places[name] = any(real.startswith(f"{folder}/") for folder in own)
            of_cuda = places[name]
        elif macro := _MACRO.match(line):
            listed = None if macro[2] is None else [p for p in macro[2].split(",") if p.strip()]
            macros[macro[1]] = None if listed is None else len(listed)
            bodies[macro[1]] = set(_WORD.findall(macro[3]))
        elif line.startswith("#undef "):
            macros.pop(line.split()[1], None)
        elif not line.startswith("#"):
            parts[of_cuda].append(line)
    host, cuda = (_STRING.sub('""', "\n".join(parts[whose])) for whose in (False, True))
    by_host, by_cuda = _functions(host), _functions(cuda)
    named = {word for word in _WORD.findall(_at_global_scope(host)) if not _RESERVED.match(word)}
    both = (by_host.keys() & by_cuda.keys() & named) - _KEYWORDS
    overloaded = {name for name in both if len(by_host[name] | by_cuda[name]) > 1}
    words = {word for body in bodies.values() for word in body}
    acting = {word for word in words if _OPERATOR.match(word)}
    while more := {name for name, body in bodies.items() if body & acting} - acting:
        acting |= more
    texts = {name: count for name, count in macros.items() if name not in acting}
    others = (named | {"std"} | (macros.keys() & acting)) - (both - overloaded) - _KEYWORDS
    reserved = {word for word in _WORD.findall(cuda) if _RESERVED.match(word)}
    return Preamble({}, reserved | by_cuda.keys(), others, overloaded), texts


def _at_global_scope(text: str) -> str:
    """Return a text without the contents of braces, except for enumerators and linkage blocks.

    Example:
        >>> _at_global_scope("int a; namespace std { int b; } struct S { int c; } d; enum { e };")
        'int a; namespace std  struct S  d; enum { e };'
    """
    parts, depth, since, statement = [], 0, 0, 0
    for token in re.finditer(r"[{};]", text):
        if token[0] == "{" and not depth and _OPEN.search(text, statement, token.start()):
            statement = token.end()
        elif token[0] == "{":
            if not depth:
                parts.append(text[since : token.start()])
            depth += 1
        elif token[0] == "}" and depth:
            depth -= 1
            since = statement = token.end()
        elif not depth:
            statement = token.end()
    return "".join((*parts, text[since:] if not depth else ""))


def _functions(text: str) -> dict[str, set[tuple[str, ...]]]:
    """Return function → lists of parameter types, from all declarations in a text.

    Example:
        >>> _functions("extern float powf(float x, float y); double d = pow(a, b);")
        {'powf': {('float', 'float')}}
    """
    functions: dict[str, set[tuple[str, ...]]] = {}
    for match in _DECLARATION.finditer(text):
        if _NO_TYPE.search(text, max(0, match.start() - 16), match.end(1)) is None:
            types = tuple(_type(part) for part in match[3].split(","))
            functions.setdefault(match[2], set()).add(types)
    return functions


def _type(parameter: str) -> str:
    """Return a parameter without its name and qualifiers: ``"char*"`` for ``"const char *s"``."""
    words = _QUALIFIER.sub(" ", parameter).replace("*", " * ").replace("&", " & ").split()
    if len(words) > 1 and _WORD.fullmatch(words[-1]) and words[-1] not in _TYPE_WORDS:
        words.pop()
    return " ".join(words)


def preamble_to_json(preamble: Preamble) -> dict[str, Any]:
    return {
        "macros": {name: list(macro) for name, macro in preamble.macros.items()},
        "cuda": sorted(preamble.cuda),
        "host": sorted(preamble.host),
        "overloaded": sorted(preamble.overloaded),
    }


def preamble_from_json(data: Any) -> Preamble:
    macros = {str(name): (count, str(text)) for name, (count, text) in data["macros"].items()}
    names = (set(data[key]) for key in ("cuda", "host", "overloaded"))
    return Preamble(macros, *names)


def write_expansions(macros: Mapping[str, int | None]) -> str:
    """Return a text whose preprocessed lines are the expansions of macros, behind a marker each.

    :func:`read_expansions` reads these lines.
    """
    calls = (f"perfassert_macro {name} = {_use(name, n)}" for name, n in macros.items())
    return "\n".join(calls) + "\n"


def read_expansions(
    preprocessed: str, macros: Mapping[str, int | None]
) -> dict[str, tuple[int | None, str]]:
    """Return macro → parameter count and expansion; an expansion over several lines is joined."""
    expansions: dict[str, tuple[int | None, str]] = {}
    after = preprocessed.partition("perfassert_macro ")[2]
    lines = (line for line in after.splitlines() if not line.startswith("# "))
    entries = "\n".join(lines).split("perfassert_macro ")
    for (name, count), entry in zip(macros.items(), entries, strict=True):
        expansion = entry.partition("=")[2].strip()
        expansions[name] = (count, " ".join(expansion.split()))
    return expansions


def _use(name: str, parameters: int | None) -> str:
    if parameters is None:
        return name
    return f"{name}({', '.join(f'perfassert_{i}' for i in range(parameters))})"


def read_words(
    files: Mapping[Path, bytes], folders: Sequence[Path], macros: Iterable[str]
) -> Words:
    """Return the words of files, after a check that both compilers read every directive alike.

    Args:
        files: the source and all headers behind it.
        folders: folders searched for headers, besides that of the including file.
        macros: definitions from the command line, ``"-DN=4"``.

    Raises:
        MayDiffer: a directive or a spelling that the compilers may take otherwise.
    """
    words: set[str] = set()
    defined: set[str] = set()
    factors: set[str] = set()
    declared: Counter[str] = Counter()
    real = {str(path) for path in files}
    for path, content in files.items():
        texts = splice_lines(content)
        if len(texts) > 1 or _TRIGRAPH.search(content) or _LONE_RETURN.search(content):
            raise MayDiffer(f"{path.name} has a trigraph, or blanks at a joined line's end")
        text = _TOKEN.sub(lambda m: b" " if m["comment"] else m[0], texts[0])
        for directive in _DIRECTIVE.finditer(text):
            defined.update(_read_directive(directive, path, folders, real))
            if directive[1] == b"pragma":
                factors.update(_WORD.findall(directive[2].decode(errors="replace"))[1:])
        kept = _DIRECTIVE.sub(_words_of_directive, text)
        words.update(_words(kept, path))
        for name, pattern in _CHOICES.items():
            if choice := pattern.search(kept):
                raise MayDiffer(f"{path.name} may have {name}: {choice[0].decode()!r}")
        declared.update(_functions_of_scopes(_DIRECTIVE.sub(b"", text)))
    for macro in macros:
        name, _, value = macro[2:].partition("=")
        words.update(_words(f"{name} {value}".encode(), Path("a definition")))
        defined.update(_WORD.findall(name)[:1])
    _check_no_choice(words, declared)
    if factors & defined:  # NVRTC alone expands these
        raise MayDiffer(f"a loop is unrolled by the macro {min(factors & defined)}")
    if len(set(files.values())) < len(files):  # equal files confuse "#pragma once"
        raise MayDiffer("two files have the same text")
    return Words(words, defined, declared.keys())


def _check_no_choice(words: Set[str], declared: Mapping[str, int]) -> None:
    """Raise :class:`MayDiffer` if the code can choose by a type or by what is well-formed."""
    if asking := sorted(words & _CHOOSING):
        raise MayDiffer(f"{asking[0]} can choose by the dialect")
    if several := sorted(name for name, count in declared.items() if count > 1):
        raise MayDiffer(f"{several[0]} is declared {declared[several[0]]} times")


def _functions_of_scopes(code: bytes) -> list[str]:
    """Return the names before parentheses outside of functions, one for each occurrence.

    Example:
        >>> _functions_of_scopes(b"struct S { S(int); }; void f(int a) { g(a); } void f();")
        ['S', 'f', 'f']
    """
    names: list[str] = []
    words: set[bytes] = set()  # words of the statement
    inside, parentheses, named, last = 0, 0, True, b""
    for token in _CODE.findall(code):
        if inside:  # a function's body, or values in braces
            inside += (token == b"{") - (token == b"}")
        elif token == b"{" and not parentheses and b"(" in words and not words & _SCOPES:
            inside = 1
        elif token == b"(":
            name = last.decode(errors="replace")
            if not parentheses and named and _WORD.fullmatch(name):
                names.append(name)
            parentheses += 1
        elif token == b")":
            parentheses = max(0, parentheses - 1)
        elif token in (b":", b"="):
            named = False
        if token in (b";", b"{", b"}") and not parentheses and inside < 2:
            words, named = set(), True
        words.add(token)
        last = token
    return [name for name in names if not _RESERVED.match(name) and name not in _KEYWORDS]


def _words(text: bytes, path: Path) -> Iterator[str]:
    for token in _TOKEN.finditer(text):
        strange = token["strange"] or (token["text"] and _OF_CHARACTER_SET.search(token["text"]))
        if strange:
            raise MayDiffer(f"{path.name} has {token[0].decode(errors='replace')[:20]!r}")
        if token["word"]:
            yield token["word"].decode()


def _read_directive(
    directive: re.Match[bytes], path: Path, folders: Sequence[Path], files: Set[str]
) -> list[str]:
    """Return the macro that a directive defines, if any; raise if the compilers may differ."""
    name, rest = directive[1], directive[2]
    stated = f"#{name.decode()}{rest.decode(errors='replace').rstrip()[:60]}"
    if name == b"define" and re.search(rb"#|%:", rest):
        raise MayDiffer(f"{path.name} makes words or texts of words: {stated}")
    if name in _HARMLESS_DIRECTIVES:
        return re.findall(r"[A-Za-z_]\w*", rest.decode(errors="replace"))[: name == b"define"]
    if name in _CONDITIONS and not re.search(rb"[\"'#]", rest):
        return []
    if name == b"pragma" and rest.split()[:1] and rest.split()[0] in _HARMLESS_PRAGMAS:
        return []
    if name == b"error":
        return []
    included = _INCLUDED.fullmatch(rest) if name == b"include" else None
    if included is not None:
        wanted = (included[1] or included[2]).decode("utf-8", "surrogateescape")
        places = (folder / wanted for folder in (path.parent, *folders))
        if any(str(place.parent.resolve() / place.name) in files for place in places):
            return []
    raise MayDiffer(f"{path.name} has {stated}")


def _words_of_directive(directive: re.Match[bytes]) -> bytes:
    """Return the part of a directive that can name macros."""
    if directive[1] == b"pragma":  # its first word is no word of the source
        return b" ".join(directive[2].split()[1:])
    return b"" if directive[1] in (b"include", b"error") else directive[2]


def find_difference(words: Words, preamble: Preamble) -> None:
    """Raise :class:`MayDiffer` for a word that the compilers may take otherwise."""
    if both := sorted(words.declared & preamble.cuda):
        raise MayDiffer(f"{both[0]} is a name of CUDA's headers, too, which nvcc reads first")
    for word in sorted(words.all):
        if word in preamble.macros:
            if word in words.defined:
                raise MayDiffer(f"{word} is a macro of a header that nvcc reads first")
        elif word in preamble.host:
            raise MayDiffer(f"{word} is a name of the host's headers, which nvcc reads first")
        elif word in preamble.overloaded:
            raise MayDiffer(f"{word} has overloads in the host's headers, which nvcc reads first")
        elif _RESERVED.match(word) and not any(
            word in known for known in (_KEYWORDS, preamble.cuda, words.defined)
        ):
            raise MayDiffer(f"{word} is a word of the compilers")


def write_check(words: Words, preamble: Preamble, given: Set[str]) -> str:
    """Return a header that NVRTC compiles only if macros expand in it as they do in nvcc.

    Args:
        words: words of the source.
        preamble: preamble of nvcc.
        given: macros from the command line, which both compilers get.
    """
    lines = [
        "#define PERFASSERT_TEXT_OF(...) #__VA_ARGS__",
        "#define PERFASSERT_TEXT(...) PERFASSERT_TEXT_OF(__VA_ARGS__)",
        "__device__ constexpr bool perfassert_same(const char* a, const char* b) {",
        "  while (true) {",
        "    while (*a == ' ') ++a;",
        "    while (*b == ' ') ++b;",
        "    if (*a != *b) return false;",
        "    if (!*a) return true;",
        "    ++a; ++b;",
        "  }",
        "}",
    ]
    expected = (words.all & preamble.macros.keys() | {"__cplusplus"}) - _OF_ARCHITECTURE
    for word in sorted(expected):
        count, expansion = preamble.macros[word]
        quoted = expansion.replace("\\", "\\\\").replace('"', '\\"')
        lines += [
            f"#ifndef {word}",
            f'#error "{word}"',
            "#else",
            f'static_assert(perfassert_same(PERFASSERT_TEXT({_use(word, count)}), "{quoted}"), '
            f'"{word}");',
            "#endif",
        ]
    for word in sorted(words.all - preamble.macros.keys() - given - _KEYWORDS):
        lines += [f"#ifdef {word}", f'#error "{word}"', "#endif"]
    lines += ["#undef PERFASSERT_TEXT", "#undef PERFASSERT_TEXT_OF", ""]
    return "\n".join(lines)
