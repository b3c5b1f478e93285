"""Tests that only front ends know opcodes: engines and predictor see roles."""

import ast
import re
from pathlib import Path

import perfassert
from perfassert.frontends.machine.inlining import LIBRARY
from perfassert.frontends.machine.opcodes import opcode_table

PACKAGE = Path(perfassert.__file__).parent
LAYERS = ("engines", "predictor", "kernel", "prediction")
FAMILIES = ("volta", "ampere", "hopper", "blackwell")


def opcodes():
    """Without modifiers, and the modifiers that decide."""
    words = set()
    for family in FAMILIES:
        table = opcode_table(family)
        words |= {opcode.partition(".")[0] for opcode in table.classes} | set(table.roles)
        words |= {m for entries in table.roles.values() for needed, _ in entries for m in needed}
    return words - {"*"}


def documentation(tree):
    """The strings that are statements of their own."""
    return {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}


def opcodes_in(source, known):
    """Strings that hold an opcode or the name of a library routine, as (line, what)."""
    tree = ast.parse(source)
    shown = documentation(tree)
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if id(node) not in shown:
            words = set(re.findall(r"[A-Z][A-Z0-9_]+", node.value)) & known
            words |= {mark for mark in LIBRARY if mark in node.value}
            found += [(node.lineno, word) for word in sorted(words)]
    return found


def sources():
    return [path for layer in LAYERS for path in sorted((PACKAGE / layer).rglob("*.py"))]


def test_the_search_finds_what_it_is_for():
    known = opcodes()
    assert {"MUFU", "DEPBAR", "BAR", "RP", "LDGSTS", "UTMALDG"} <= known
    source = '"""MUFU."""\nx = i.base == "DEPBAR"\ny = ".RP" in i.opcode\nz = "__nv_" in name\n'
    assert opcodes_in(source, known) == [(2, "DEPBAR"), (3, "RP"), (4, "__nv_")]


def test_no_opcode_below_or_above_the_front_ends():
    known = opcodes()
    found = {
        str(path.relative_to(PACKAGE)): hits
        for path in sources()
        if (hits := opcodes_in(path.read_text("utf-8"), known))
    }
    assert not found


def test_only_the_view_of_the_code_takes_an_opcode_to_show_it():
    readers = [
        path.name
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and node.attr == "opcode"
    ]
    assert readers == ["code.py"]
