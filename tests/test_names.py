"""Functions are verbs, or nouns for what they return; variables say what they hold.

A bare participle such as ``_found`` or ``_moved`` does neither; ``_find_kernel`` and
``_changed_rows`` do. Older names are counted by package. A count may only shrink, and is lowered
here when it does.
"""

import ast
import re
from pathlib import Path

import pytest

import perfassert

ROOT = Path(perfassert.__file__).parent
IRREGULAR = (
    "bound|built|done|drawn|found|held|kept|known|left|lost|made|meant|met|said|sent|shown|told"
)
PARTICIPLE = re.compile(rf"_*(?:[a-z]+(?:ed|en)|{IRREGULAR})")
NO_PARTICIPLES = {
    "between", "embed", "exceed", "feed", "flatten", "need", "open", "proceed", "seed", "shorten",
    "speed", "then", "tighten", "token", "when", "widen",
}  # fmt: skip
UNTELLING = {"found", "held", "said", "told"}
FUNCTIONS = {
    "kernel": 2,
}  # fmt: skip
"""Functions called by a bare participle, by package; 0 in packages that are not listed."""
VARIABLES = {
    "frontends": 2,
}  # fmt: skip
"""Variables and parameters called by one of ``UNTELLING``, by package."""


def is_participle(name):
    """A single word: ``moved`` and ``_moved``, neither ``moved_rows`` nor ``open``."""
    return bool(PARTICIPLE.fullmatch(name)) and name.strip("_") not in NO_PARTICIPLES


def is_property(function):
    decorators = [ast.unparse(decorator) for decorator in function.decorator_list]
    return any("property" in name or name.endswith(".setter") for name in decorators)


def participles(tree):
    """Functions called by a bare participle. Properties and fields are values, which may be."""
    functions = (
        n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))
    )
    for function in functions:
        if is_participle(function.name) and not is_property(function):
            yield function.name, function.lineno


def untelling_variables(tree):
    """Yield the places where a variable or a parameter has a name that does not say what it
    holds."""
    classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    fields = {id(i.target) for c in classes for i in c.body if isinstance(i, ast.AnnAssign)}
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            name = node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = "" if id(node) in fields else node.id
        else:
            continue
        if name in UNTELLING:
            yield name, node.lineno


def places_by_package(find):
    """Package, or module beside the packages → ``file:line: name`` of what ``find`` yields."""
    places = {}
    for path in sorted(ROOT.rglob("*.py")):
        file = path.relative_to(ROOT)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = [f"{file.as_posix()}:{line}: {name}" for name, line in find(tree)]
        places.setdefault(file.with_suffix("").parts[0], []).extend(names)
    return places


@pytest.mark.parametrize(
    ("find", "allowed"),
    [(participles, FUNCTIONS), (untelling_variables, VARIABLES)],
    ids=["functions", "variables"],
)
def test_names_say_what_things_are(find, allowed):
    places = places_by_package(find)
    more = {p: names for p, names in places.items() if len(names) > allowed.get(p, 0)}
    assert not more, "more names than this file allows: call the new ones by what they return"
    fewer = {p: len(places.get(p, ())) for p, n in allowed.items() if len(places.get(p, ())) < n}
    assert not fewer, "fewer names than this file allows: lower its counts to these"


def test_what_counts_as_a_participle():
    source = """
class Table:
    held: int
    @property
    def moved(self): ...
    @cached_property
    def drawn(self): ...
    def _told(self): ...
def read(): ...
def open(): ...
def moved_rows(said):
    found = said
    for told, _ in rows: ...
    def joined(): ...
"""
    tree = ast.parse(source)
    assert {name for name, _ in participles(tree)} == {"_told", "joined"}
    assert sorted(name for name, _ in untelling_variables(tree)) == ["found", "said", "told"]
