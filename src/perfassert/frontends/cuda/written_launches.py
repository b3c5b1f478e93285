"""Launches in the text of a source, ``kernel<<<grid, block>>>(…)``, with a constant block size.

The text is not preprocessed. A name stands for its last definition above the launch: a ``#define``,
an initialised variable or an assignment. Without such a definition it stands for the only one in
the other sources. A kernel may be launched through a variable that is initialised with its address.
A size that does not become a whole number stays as it is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from perfassert.errors import LaunchError
from perfassert.frontends.toolchain.names import split_commas
from perfassert.kernel.integers import evaluate_integer, integer_names
from perfassert.system.confined import outside, read_bytes

SUFFIXES = (".cu", ".cuh", ".cpp", ".cc", ".cxx", ".h", ".hpp")
_MOST_FILES, _MOST_BYTES = 200, 1 << 20  # files of a folder, bytes of a file
_MOST_LAUNCHES = 2000  # launches of a file
_NEAR = 2000  # characters before and after "<<<" that may belong to a launch
_DEPTH = 8  # levels of nested definitions
_SILENT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_DEFINITION = re.compile(
    r"^[ \t]*\#[ \t]*define[ \t]+(?P<macro>\w+)[ \t]+(?P<text>[^\n]+)"
    r"|(?:\bdim3\s+(?P<dim3>\w+)\s*(?:=\s*dim3\s*)?|\b(?P<set>\w+)\s*=\s*dim3\s*)"
    r"[({](?P<extents>[^;{}]{1,200})[)}]\s*;"
    r"|(?:\b(?:int|unsigned|size_t|u?int\d+_t|long|auto|constexpr|const)\s+"
    r"|^[ \t]*(?:[\w:]+[ \t]+){0,3})(?P<name>\w+)"
    r"\s*=(?!=)\s*(?P<value>[^;,{}]{1,200});",
    re.MULTILINE,
)
_CAST = re.compile(
    r"\bstatic_cast\s*<[^<>;]*>\s*(?=\()|\(\s*(?:unsigned\s+)?(?:int|long|size_t|u?int\d+_t)\s*\)"
)
_POINTER = re.compile(
    r"(?:\bauto\s*[*&]?\s*(?:const\s+)?(?P<name>\w+)|\(\s*\*\s*(?P<declared>\w+)\s*\)\s*\([^;{}=]*\))"
    r"\s*=\s*&?\s*(?P<kernel>(?:\w+::)*\w+(?:<[^;{}]*>)?)\s*;"
)
"""Pattern of a variable that is initialised with a kernel's address."""
_WORD = re.compile(r"(?<![\w.>:])[A-Za-z_]\w*(?![\w(:])")
_MOST_DEFINITIONS = 4  # definitions of one name, e.g. in the branches of an #if
_LONGEST = 200  # characters of a size whose names are replaced
_NAME = re.compile(r"(?:\w+::)*(\w+)\s*$")
_NUMBER = re.compile(r"\d+")
NOTHING: Mapping[str, str] = MappingProxyType({})
_TYPES = {"float", "double", "int", "unsigned", "half", "__half", "__nv_bfloat16", "bool", "char"}


@dataclass(frozen=True, slots=True)
class WrittenLaunch:
    """A launch in a source.

    ``template`` has the template arguments as written. ``block`` starts with x and is empty if it
    is not constant. ``grid`` and ``shape`` are as written, with definitions in place of names.
    """

    kernel: str
    template: tuple[str, ...]
    grid: str
    block: tuple[int, ...]
    place: str
    shape: str = ""

    def __str__(self) -> str:
        size = ", ".join(map(str, self.block))
        return f"{self.place}: {self.kernel}<<<{self.grid}, block of {size or 'unknown size'}>>>"

    @property
    def expression(self) -> str:
        """Text of the launch without its place; constant sizes are numbers.

        Names in other sizes are replaced by their definitions, so a changed definition changes the
        text.
        """
        template = f"<{', '.join(self.template)}>" if self.template else ""
        size = ", ".join(map(str, self.block)) or self.shape
        return f"{self.kernel}{template}<<<{self.grid}, {size}>>>"

    def fits(self, base: str, template: Sequence[str]) -> bool:
        """Return True if it may launch this instance: numbers and plain types must agree."""
        if self.kernel != base or len(self.template) > len(template):
            return False
        return all(
            written == known or not (_NUMBER.fullmatch(written) or written in _TYPES)
            for written, known in zip(self.template, template, strict=False)
        )


def written_launches(source: Path, included: Iterable[Path] = ()) -> tuple[WrittenLaunch, ...]:
    """Return the launches in a source and in the sources of its folder; none for other files.

    ``included`` has further files with its kernels, whose folders are read, too.

    >>> written_launches(Path("library.so"))
    ()
    """
    if source.suffix not in SUFFIXES:
        return ()
    own = [source, *(path for path in included if path.suffix in SUFFIXES and path.is_file())]
    around: list[Path] = []
    for folder in dict.fromkeys(path.parent for path in own):
        around += sorted(p for p in folder.iterdir() if p.suffix in SUFFIXES)[:_MOST_FILES]
    files = []
    for path in dict.fromkeys([*own, *around]):
        if path.is_file() and path.stat().st_size <= _MOST_BYTES and not outside(path):
            files.append((path.name, read_bytes(path).decode("utf-8", "replace")))
    return _launches_in(tuple(files))


@lru_cache(maxsize=8)
def _launches_in(files: tuple[tuple[str, str], ...]) -> tuple[WrittenLaunch, ...]:
    """Find the launches of files by their names and texts."""
    values: dict[str, set[str]] = {}
    for _, text in files:
        for match in _DEFINITION.finditer(_without_comments(text)):
            values.setdefault(_defined_name(match), set()).add(_defined_value(match))
    known = {
        name: " | ".join(sorted(texts))  # no number, but any change to a definition shows
        for name, texts in values.items()
        if len(texts) <= _MOST_DEFINITIONS
    }
    return tuple(launch for name, text in files for launch in find_launches(text, name, known))


def launches_of_kernel(name: str, launches: Iterable[WrittenLaunch]) -> tuple[WrittenLaunch, ...]:
    """Return the launches that name a kernel, with any template arguments.

    Args:
        name: name of the kernel: ``"ns::scale<float, 4>"``.
        launches: launches of a source.
    """
    base = _template(name)[0].rpartition("::")[2]
    return tuple(launch for launch in launches if launch.kernel == base)


def find_missing_instance(name: str, launches: Iterable[WrittenLaunch]) -> str:
    """Return a message if only other instances of a template are launched.

    Args:
        name: name of the instance.
        launches: launches of its source.

    Example:
        >>> find_missing_instance("scale<8>", find_launches("scale<4><<<n, 64>>>(x);", "k.cu"))
        'nothing in the source launches scale<8>; it has scale<4><<<n, 64>>> (k.cu:1)'
    """
    head, template = _template(name)
    own = launches_of_kernel(name, launches)
    if not template or not own:
        return ""
    base = head.rpartition("::")[2]
    if any(not launch.template or launch.fits(base, template) for launch in own):
        return ""
    return f"nothing in the source launches {name}; it has {own[0].expression} ({own[0].place})"


def _without_comments(text: str) -> str:
    return _SILENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def _defined_name(match: re.Match[str]) -> str:
    return match["macro"] or match["dim3"] or match["set"] or match["name"]


def _defined_value(match: re.Match[str]) -> str:
    return _CAST.sub("", match["text"] or match["extents"] or match["value"])


def find_launches(
    text: str, name: str, elsewhere: Mapping[str, str] = NOTHING
) -> Iterator[WrittenLaunch]:
    """Yield the launches in the order of the text.

    >>> text = "#define SIDE 16\\n dim3 b(SIDE, SIDE / 2); k<float><<<(n + 7) / 8, b>>>(n);"
    >>> list(find_launches(text, "f.cu"))  # doctest: +NORMALIZE_WHITESPACE
    [WrittenLaunch(kernel='k', template=('float',), grid='(n + 7) / 8', block=(16, 8),
    place='f.cu:2', shape='16, 16 / 2')]
    """
    text = _without_comments(text)
    definitions = list(_DEFINITION.finditer(text))
    starts = [match.start() for match in re.finditer("<<<", text)][:_MOST_LAUNCHES]
    known = dict(elsewhere)
    for at in starts:
        while definitions and definitions[0].start() < at:
            match = definitions.pop(0)
            known[_defined_name(match)] = _defined_value(match)
        head, template = _template(_kernel_at(text, at))
        called = _NAME.search(head)
        end = text.find(">>>", at, at + _NEAR)
        words = split_commas(_CAST.sub("", text[at + 3 : max(at + 3, end)]))
        if called is None or len(words) < 2:
            continue
        place = f"{name}:{text.count(chr(10), 0, at) + 1}"
        grid, shape = (_expand(" ".join(word.split()), known, _DEPTH) for word in words[:2])
        block = _extents(words[1], known)
        yield WrittenLaunch(called[1], template, grid, block, place, shape)


def _kernel_at(text: str, at: int) -> str:
    """Return the text of the launched kernel, or what its variable is initialised with."""
    start = max(0, at - _NEAR)
    written = text[start:at].rstrip()
    name = _NAME.search(written)
    for match in reversed([*_POINTER.finditer(text, start, at)]):
        if name is not None and name[1] in (match["name"], match["declared"]):
            return match["kernel"]
    return written


def _expand(text: str, known: Mapping[str, str], depth: int) -> str:
    """Return a size with the definitions of its names, bracketed where needed."""

    def definition(match: re.Match[str]) -> str:
        value = " ".join(known.get(match[0], match[0]).split())
        if value == match[0] or re.search(rf"\b{match[0]}\b", value):
            return match[0]
        inner = _expand(value, known, depth - 1)
        return inner if re.fullmatch(r"[\w.]+", inner) or match[0] == text else f"({inner})"

    longer = _WORD.sub(definition, text) if depth else text
    return longer if len(longer) <= _LONGEST else text


def launch_of(kernel: str, launches: Iterable[WrittenLaunch]) -> WrittenLaunch | None:
    """Return the launch of a kernel, as ``"scale<float, 4>"``, if all that fit have one block."""
    head, template = _template(kernel)
    fitting = [w for w in launches if w.fits(head.rpartition("::")[2], template) and w.block]
    return fitting[0] if len({w.block for w in fitting}) == 1 else None


def _template(text: str) -> tuple[str, tuple[str, ...]]:
    """Split a text before ``<…>`` at its end; return the head and the template arguments."""
    if not text.endswith(">"):
        return text, ()
    depth = 0
    for at in range(len(text) - 1, -1, -1):
        depth += (text[at] == ">") - (text[at] == "<")
        if not depth:
            return text[:at], tuple(split_commas(text[at + 1 : -1]))
    return "", ()


def _extents(text: str, known: dict[str, str]) -> tuple[int, ...]:
    """Return the extents in ``"dim3(32, ROWS)"`` as numbers; empty if one is unknown."""
    text = known.get(text.strip(), text)
    inner = re.fullmatch(r"\s*dim3\s*[({](.*)[)}]\s*", text, re.DOTALL)
    sizes = [_number(part, known, _DEPTH) for part in split_commas(inner[1] if inner else text)]
    whole = tuple(size for size in sizes if size is not None and size > 0)
    return whole if len(whole) == len(sizes) <= 3 else ()


def _number(text: str, known: dict[str, str], depth: int) -> int | None:
    plain = re.sub(r"\b(\d+)[uUlL]+\b", r"\1", text).replace("/", "//").strip()
    try:
        names = integer_names(plain, LaunchError)
        if names and not depth:
            return None
        values = {n: _number(known[n], known, depth - 1) for n in names if n in known}
        numbers = {n: v for n, v in values.items() if v is not None}
        return evaluate_integer(plain, numbers, LaunchError)
    except LaunchError:
        return None
