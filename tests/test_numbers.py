"""Numbers in modules: each is an encoding, a limit, a threshold or a size of the output, by choice.

Hardware values and fits stand in ``devices/``, with source and grade. A number that is assigned to
a name of a module and is not in ``numbers.toml`` fails here, as does one without a reason.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import pytest

from perfassert.hardware.entries import Grade
from perfassert.shipped import read_fit
from perfassert.toml.tables import loads

SOURCES = Path(__file__).parents[1] / "src/perfassert"
REGISTER = Path(__file__).with_name("numbers.toml")


def is_number(node):
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (int, float)) and not isinstance(node.value, bool)
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    return isinstance(node, ast.BinOp) and is_number(node.left) and is_number(node.right)


def assigned_numbers(tree):
    """Index in the module's body, and name, of each assignment of numbers alone."""
    for index, statement in enumerate(tree.body):
        if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is None:
            continue
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            if not isinstance(target, ast.Tuple):
                pairs = [(target, statement.value)]
            elif isinstance(statement.value, ast.Tuple):
                pairs = zip(target.elts, statement.value.elts, strict=True)
            else:
                continue
            yield from ((index, ast.unparse(name)) for name, value in pairs if is_number(value))


def comment_lines(text):
    """Numbers of the lines with a comment."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {token.start[0] for token in tokens if token.type == tokenize.COMMENT}


def has_reason(comments, body, index):
    """A comment on the line or above it, or a text below it or below the lines that follow it."""
    if not comments.isdisjoint(range(body[index].lineno - 1, body[index].end_lineno + 1)):
        return True
    for before, after in pairwise(body[index:]):
        if after.lineno != before.end_lineno + 1:
            return False
        if isinstance(after, ast.Expr):
            return True
    return False


@lru_cache(maxsize=1)
def numbers():
    """``module NAME`` → whether a reason stands beside it."""
    found = {}
    for path in sorted(SOURCES.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        module = path.relative_to(SOURCES).as_posix()
        assigned = list(assigned_numbers(tree))
        comments = comment_lines(text) if assigned else set()
        for index, name in assigned:
            found[f"{module} {name}"] = has_reason(comments, tree.body, index)
    return found


def register():
    """``module NAME`` → kind."""
    kinds = loads(REGISTER.read_text(encoding="utf-8"))
    entries = [
        (f"{module} {name}", kind)
        for kind, modules in kinds.items()
        for module, names in modules.items()
        for name in names
    ]
    twice = [entry for entry, count in Counter(entry for entry, _ in entries).items() if count > 1]
    assert not twice
    return dict(entries)


def test_every_number_is_known():
    found, known = numbers(), register()
    new = sorted(found.keys() - known.keys())
    assert not new, (
        "a hardware value or a fit belongs into devices/ (devices/fits/model.toml, read by "
        f"perfassert.shipped.model_integer); any other into tests/numbers.toml: {new}"
    )
    assert not known.keys() - found.keys()


def test_every_number_has_a_reason():
    assert [name for name, reason in numbers().items() if not reason] == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("_A = 3", ["_A"]),
        ("_A: int = -(2**8)", ["_A"]),
        ("_A, _B = 1, 2.5", ["_A", "_B"]),
        ("_A = 1 << 20\n_B = f(3)\n_C = True\n_D = _A * 2", ["_A"]),
    ],
)
def test_numbers_are_found(text, names):
    assert [name for _, name in assigned_numbers(ast.parse(text))] == names


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("_A = 3\n", False),
        ("_A = 3  # rows\n", True),
        ("# rows\n_A = 3\n", True),
        ('_A = 3\n_B = 4\n"""Rows and columns."""\n', True),
        ('_A = 3\n\n"""Rows."""\n', False),
        ("_A = 3\ndef f(): ...\n", False),
    ],
)
def test_reasons_are_found(text, expected):
    assert has_reason(comment_lines(text), ast.parse(text).body, 0) is expected


class TestModelValues:
    table = read_fit("model")
    values = table["values"]

    @pytest.mark.parametrize("name", values)
    def test_source_and_grade(self, name):
        entry = self.values[name]
        assert entry["source"] in self.table["sources"]
        grade = Grade(entry["grade"])
        assert ("seen" in entry) is (grade is not Grade.DOCUMENTED)

    def test_all_are_read(self):
        text = "\n".join(p.read_text(encoding="utf-8") for p in SOURCES.rglob("*.py"))
        read = set(re.findall(r'model_(?:integer|number|extents)\(\s*"(\w+)"', text))
        assert read == set(self.values)

    def test_sources_are_cited(self):
        assert {entry["source"] for entry in self.values.values()} == set(self.table["sources"])
